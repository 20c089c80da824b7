//! A model file, whole: all parts opened, metadata of the first, tensors of all.

use std::collections::HashMap;
use std::path::Path;

use super::blob::Blob;
use super::error::{Fault, GgufError, Place};
use super::part::Part;
use super::split;
use super::value::Value;
use crate::quant::GgmlType;

/// A tensor: a name, a shape, a type, and its bytes where they lie in the file.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Name in the file.
    pub name: String,
    /// Shape, 1 to 4 dimensions as in the file; `ne[0]` is the contiguous one.
    pub ne: Vec<u64>,
    /// Type of the values.
    pub ty: GgmlType,
    /// The bytes: exactly as many as shape and type need.
    pub data: Blob,
    /// Which file of a model in several, from 0.
    pub part: usize,
    /// Where the bytes start in that file.
    pub offset: u64,
}

impl Tensor {
    /// Number of rows: the product of all dimensions but the first.
    pub fn rows(&self) -> u64 {
        self.ne[1..].iter().product()
    }

    /// Number of values.
    pub fn elements(&self) -> u64 {
        self.ne.iter().product()
    }

    /// Type and shape, for messages: `q4_K [2048, 512, 256]`.
    pub fn describe(&self) -> String {
        format!("{} {:?}", self.ty, self.ne)
    }
}

/// An opened GGUF: metadata and tensor table; the data stays in the mapped file.
#[derive(Debug)]
pub struct Gguf {
    name: String,
    version: u32,
    file_bytes: u64,
    parts: Vec<String>,
    keys: Vec<(String, Value)>,
    key_index: HashMap<String, usize>,
    tensors: Vec<Tensor>,
    tensor_index: HashMap<String, usize>,
}

impl Gguf {
    /// Opens a file; where it is the first of several parts, all of them.
    ///
    /// # Errors
    /// If a part cannot be read, is malformed, is missing, or is not the first.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let name = path.display().to_string();
        let first = map_part(path, 0)?;
        let Some(count) = split::count(&name, &first)? else {
            return Self::assemble(name.clone(), vec![(name, first)]);
        };
        let mut parts = vec![(name.clone(), first)];
        for part_path in split::further_parts(path, count)? {
            let part_name = part_path.display().to_string();
            let part = map_part(&part_path, parts.len())
                .map_err(|e| split::explain_missing(e, &part_path, count))?;
            split::check_part(&part_name, &part, parts.len(), count)?;
            parts.push((part_name, part));
        }
        split::check_total(&name, &parts)?;
        Self::assemble(name, parts)
    }

    /// Opens a file that is part of the program. `name` is for messages.
    ///
    /// # Errors
    /// As [`Gguf::open`]; also if it is one part of several.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Self, GgufError> {
        Self::from_blob(name, &Blob::from(bytes))
    }

    /// Opens a file that is already in memory. `name` is for messages.
    ///
    /// # Errors
    /// As [`Gguf::open`]; also if it is one part of several.
    pub fn from_blob(name: &str, blob: &Blob) -> Result<Self, GgufError> {
        let part = Part::read(name, 0, blob)?;
        if let Some(count) = split::count(name, &part)? {
            let fault = Fault::new(
                "a model in one file",
                format!("the first of {count} parts"),
                "open it by its path, with the other parts beside it",
            );
            return Err(fault.at(name, Place::Key(split::COUNT.to_owned())));
        }
        Self::assemble(name.to_owned(), vec![(name.to_owned(), part)])
    }

    fn assemble(name: String, parts: Vec<(String, Part)>) -> Result<Self, GgufError> {
        let file_bytes = parts.iter().map(|(_, p)| p.bytes).sum();
        let mut out = Self {
            name,
            version: 0,
            file_bytes,
            parts: Vec::new(),
            keys: Vec::new(),
            key_index: HashMap::new(),
            tensors: Vec::new(),
            tensor_index: HashMap::new(),
        };
        for (part_name, part) in parts {
            if out.parts.is_empty() {
                out.version = part.version;
                out.key_index =
                    part.keys.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)).collect();
                out.keys = part.keys;
            }
            for tensor in part.tensors {
                let index = out.tensors.len();
                if let Some(before) = out.tensor_index.insert(tensor.name.clone(), index) {
                    let fault = Fault::damaged(
                        "each tensor in one part only",
                        format!("it in {} as well", out.parts[out.tensors[before].part]),
                    );
                    return Err(fault.at(&part_name, Place::Tensor(tensor.name)));
                }
                out.tensors.push(tensor);
            }
            out.parts.push(part_name);
        }
        Ok(out)
    }

    /// Path or name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The files it was read from, in order.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Version of the container format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Bytes of all parts together.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Keys and values in file order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.keys.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.key_index.get(key).map(|&i| &self.keys[i].1)
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensor_index.get(name).map(|&i| &self.tensors[i])
    }
}

fn map_part(path: &Path, index: usize) -> Result<Part, GgufError> {
    let name = path.display().to_string();
    let blob = Blob::map(path).map_err(|e| {
        let fault = Fault::new("a readable file", e.to_string(), "check the path");
        fault.at(&name, Place::File)
    })?;
    if blob.is_empty() {
        let fault = Fault::new("a GGUF file", "an empty file", "download or convert it again");
        return Err(fault.at(&name, Place::File));
    }
    Part::read(&name, index, &blob)
}
