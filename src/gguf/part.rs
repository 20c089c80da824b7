//! Reads one file: header, keys, tensor table. Nothing of the tensors' data is touched.

use std::collections::HashSet;

use super::blob::Blob;
use super::cursor::Cursor;
use super::error::{Fault, GgufError, Place, quoted};
use super::file::Tensor;
use super::value::Value;
use crate::quant::GgmlType;

/// Where data starts, and every tensor in it, unless `general.alignment` says otherwise.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;
/// The format's limit on a tensor's name, with its terminator.
pub(super) const NAME_BYTES: usize = 64;
/// The format's limit on a key.
const KEY_BYTES: usize = 65535;
/// Fewest bytes a key can take: empty name, type, one byte of value.
const LEAST_KEY: usize = 8 + 4 + 1;
/// Fewest bytes an entry of the tensor table can take: empty name, one dimension.
const LEAST_TENSOR: usize = 8 + 4 + 8 + 4 + 8;

/// What one file holds.
pub(super) struct Part {
    pub(super) version: u32,
    pub(super) keys: Vec<(String, Value)>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) bytes: u64,
}

/// A row of the tensor table, checked as far as it can be without its neighbours.
struct Entry {
    name: String,
    ne: Vec<u64>,
    ty: GgmlType,
    offset: u64,
    bytes: u64,
}

impl Part {
    /// Reads the whole header of `blob`, the `part`-th file of its model.
    pub(super) fn read(file: &str, part: usize, blob: &Blob) -> Result<Self, GgufError> {
        let mut from = Cursor::new(blob);
        let in_header = |fault: Fault| fault.at(file, Place::Header);
        let version = read_version(&mut from).map_err(in_header)?;
        let n_tensors = from.u64("tensor count").map_err(in_header)?;
        let n_keys = from.u64("key count").map_err(in_header)?;
        let n_keys = from.count(n_keys, LEAST_KEY, "keys").map_err(in_header)?;
        let n_tensors = from.count(n_tensors, LEAST_TENSOR, "tensors").map_err(in_header)?;

        let keys = read_keys(file, &mut from, n_keys)?;
        let alignment = alignment(&keys).map_err(|f| f.at(file, Place::Key(ALIGNMENT.into())))?;
        let entries = read_entries(file, &mut from, n_tensors)?;
        let data_start = (from.position() as u64).next_multiple_of(alignment);
        check_layout(file, &entries, alignment, (blob.len() as u64).checked_sub(data_start))?;

        let view = |e: Entry| {
            let start = data_start + e.offset;
            let data = blob.slice(start as usize..(start + e.bytes) as usize);
            let data = data.ok_or_else(|| {
                beyond_end(e.offset, e.bytes, 0).at(file, Place::Tensor(e.name.clone()))
            })?;
            Ok(Tensor { name: e.name, ne: e.ne, ty: e.ty, data, part, offset: start })
        };
        let tensors = entries.into_iter().map(view).collect::<Result<_, _>>()?;
        Ok(Self { version, keys, tensors, bytes: blob.len() as u64 })
    }
}

/// Magic and version; each common mistake has its own text.
fn read_version(from: &mut Cursor<'_>) -> Result<u32, Fault> {
    const MAGIC: &str = "the magic \"GGUF\"";
    let magic: [u8; 4] = from.array(MAGIC)?;
    let other = |found: &str, remedy: &str| Err(Fault::new(MAGIC, found, remedy));
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return other("it in reverse: a big-endian file", BIG_ENDIAN),
        b"ggml" | b"lmgg" | b"ggjt" | b"tjgg" | b"ggla" | b"algg" | b"ggmf" | b"fmgg" => {
            return other("a file format older than GGUF", "convert the model again");
        }
        b"vers" => {
            return other("text, perhaps a Git LFS pointer", "fetch the file itself: git lfs pull");
        }
        b"<!DO" | b"<htm" => return other("a web page", "download the file itself"),
        b"PK\x03\x04" => return other("a zip archive", "convert the model to GGUF"),
        _ => {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(Fault::new(MAGIC, found, "give a GGUF file"));
        }
    }
    let version = from.u32("version")?;
    let (expected, found) = ("version 2 or 3", format!("version {version}"));
    match version {
        2 | 3 => Ok(version),
        1 => {
            Err(Fault::new(expected, found, "convert the model again; version 1 is long obsolete"))
        }
        v if (1..=3).contains(&v.swap_bytes()) => {
            let found = format!("version {} in reverse: a big-endian file", v.swap_bytes());
            Err(Fault::new(expected, found, BIG_ENDIAN))
        }
        _ => Err(Fault::new(expected, found, "the file is damaged, or newer than this program")),
    }
}

const BIG_ENDIAN: &str = "convert it to little-endian";
const ALIGNMENT: &str = "general.alignment";

fn read_keys(
    file: &str,
    from: &mut Cursor<'_>,
    count: usize,
) -> Result<Vec<(String, Value)>, GgufError> {
    let mut keys: Vec<(String, Value)> = Vec::new();
    let mut seen = HashSet::new();
    for i in 0..count {
        let name =
            from.str(&format!("name of key {} of {count}", i + 1)).and_then(|name| {
                match name.len() {
                    1..=KEY_BYTES => Ok(name),
                    n => Err(Fault::damaged(
                        format!("a name of 1 to {KEY_BYTES} bytes for key {} of {count}", i + 1),
                        format!("{n} bytes"),
                    )),
                }
            });
        let name = name.map_err(|f| f.at(file, Place::Header))?;
        let in_key = |fault: Fault| fault.at(file, Place::Key(name.to_owned()));
        let id = from.u32("value type").map_err(in_key)?;
        let value = Value::read(id, from).map_err(in_key)?;
        if !seen.insert(name) {
            return Err(in_key(Fault::damaged("each key once", "it a second time")));
        }
        keys.push((name.to_owned(), value));
    }
    Ok(keys)
}

fn alignment(keys: &[(String, Value)]) -> Result<u64, Fault> {
    let Some((_, value)) = keys.iter().find(|(key, _)| key == ALIGNMENT) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let found = || format!("{value} ({})", value.type_name());
    value
        .as_u64()
        .filter(|a| a.is_power_of_two() && *a <= u64::from(u32::MAX))
        .ok_or_else(|| Fault::damaged("a power of two below 2^32", found()))
}

fn read_entries(file: &str, from: &mut Cursor<'_>, count: usize) -> Result<Vec<Entry>, GgufError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = HashSet::new();
    for i in 0..count {
        let name = from.str(&format!("name of tensor {} of {count}", i + 1)).and_then(|name| {
            match name.len() {
                1..NAME_BYTES => Ok(name),
                n => Err(Fault::damaged(
                    format!("a name of 1 to 63 bytes for tensor {} of {count}", i + 1),
                    format!("{n} bytes"),
                )),
            }
        });
        let name = name.map_err(|f| f.at(file, Place::Header))?;
        let in_tensor = |fault: Fault| fault.at(file, Place::Tensor(name.to_owned()));
        if !seen.insert(name) {
            return Err(in_tensor(Fault::damaged("each tensor once", "it a second time")));
        }
        entries.push(read_entry(name, from).map_err(in_tensor)?);
    }
    Ok(entries)
}

fn read_entry(name: &str, from: &mut Cursor<'_>) -> Result<Entry, Fault> {
    let n_dims = from.u32("number of dimensions")?;
    if !(1..=4).contains(&n_dims) {
        return Err(Fault::damaged("1 to 4 dimensions", n_dims.to_string()));
    }
    let ne = (0..n_dims).map(|_| from.u64("dimension")).collect::<Result<Vec<_>, _>>()?;
    let id = from.u32("tensor type")?;
    let offset = from.u64("offset")?;
    let ty = GgmlType::from_id(id).map_err(|e| {
        Fault::new("a known tensor type", format!("type id {id}"), format!("it {}", e.reason))
    })?;
    let bytes = tensor_bytes(ty, &ne)?;
    Ok(Entry { name: name.to_owned(), ne, ty, offset, bytes })
}

/// Bytes of a tensor, or why its shape makes none.
pub(super) fn tensor_bytes(ty: GgmlType, ne: &[u64]) -> Result<u64, Fault> {
    let found = || format!("shape {ne:?}");
    if ne.contains(&0) {
        return Err(Fault::damaged("dimensions of at least 1", found()));
    }
    let fits = || Fault::damaged("a shape whose size in bytes fits 63 bits", found());
    let elements = ne.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(fits)?;
    if !ne[0].is_multiple_of(ty.block_len() as u64) {
        return Err(Fault::damaged(
            format!("rows of a multiple of {} values for type {ty}", ty.block_len()),
            format!("rows of {}", ne[0]),
        ));
    }
    (elements / ty.block_len() as u64)
        .checked_mul(ty.block_bytes() as u64)
        .filter(|&n| n <= i64::MAX as u64)
        .ok_or_else(fits)
}

/// Every tensor aligned, inside the file, and apart from the others. `room` is the length of the
/// data section, `None` where the file ends before it. Holes between tensors are fine.
fn check_layout(
    file: &str,
    entries: &[Entry],
    alignment: u64,
    room: Option<u64>,
) -> Result<(), GgufError> {
    let room = room.unwrap_or(0);
    for e in entries {
        let in_tensor = |fault: Fault| fault.at(file, Place::Tensor(e.name.clone()));
        if !e.offset.is_multiple_of(alignment) {
            let expected = format!("an offset that is a multiple of the alignment {alignment}");
            return Err(in_tensor(Fault::damaged(expected, e.offset.to_string())));
        }
        if e.bytes > room || e.offset > room - e.bytes {
            return Err(in_tensor(beyond_end(e.offset, e.bytes, room)));
        }
    }
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|e| e.offset);
    for pair in order.windows(2) {
        let end = pair[0].offset + pair[0].bytes;
        if end > pair[1].offset {
            let expected =
                format!("an offset of at least {end}, where {} ends", quoted(&pair[0].name));
            let fault = Fault::damaged(expected, format!("overlapping data at {}", pair[1].offset));
            return Err(fault.at(file, Place::Tensor(pair[1].name.clone())));
        }
    }
    Ok(())
}

fn beyond_end(offset: u64, bytes: u64, room: u64) -> Fault {
    Fault::new(
        format!("offset + size within the {room} bytes of data in the file"),
        format!("offset {offset} + size {bytes}, beyond the file"),
        "the file is cut short or damaged; download it again",
    )
}
