//! GGUF bytes put together by hand, so that every field can be wrong.

use pantheon::gguf::{Blob, Gguf, GgufError};

/// The parts of a file, each free to contradict the others.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) n_tensors: Option<u64>,
    pub(crate) n_keys: Option<u64>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) infos: Vec<Vec<u8>>,
    pub(crate) alignment: usize,
    pub(crate) data: usize,
}

/// The smallest sound file: one key, one tensor `t` of 32 f32; 256 bytes.
pub(crate) fn base() -> Raw {
    Raw {
        magic: *b"GGUF",
        version: 3,
        n_tensors: None,
        n_keys: None,
        keys: vec![str_key("general.architecture", "qwen35moe")],
        infos: vec![info("t", &[32], 0, 0)],
        alignment: 32,
        data: 128,
    }
}

/// The base file with another tensor table.
pub(crate) fn with_infos(infos: Vec<Vec<u8>>) -> Raw {
    Raw { infos, ..base() }
}

/// The base file with another list of keys.
pub(crate) fn with_keys(keys: Vec<Vec<u8>>) -> Raw {
    Raw { keys, ..base() }
}

impl Raw {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.n_tensors.unwrap_or(self.infos.len() as u64).to_le_bytes());
        out.extend(self.n_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.infos.concat());
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend((0..self.data).map(|i| i as u8));
        out
    }

    pub(crate) fn open(&self) -> Result<Gguf, GgufError> {
        open(self.bytes())
    }

    /// The error of opening it, which must name the file.
    #[track_caller]
    pub(crate) fn refusal(&self) -> GgufError {
        let error = self.open().expect_err("the file must be refused");
        assert!(error.to_string().starts_with("test.gguf: "), "{error}");
        error
    }
}

pub(crate) fn open(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
    Gguf::from_blob("test.gguf", &Blob::from(bytes))
}

pub(crate) fn string(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat()
}

/// A key with its type and the bytes of its value.
pub(crate) fn key(name: &str, ty: u32, value: &[u8]) -> Vec<u8> {
    [&string(name)[..], &ty.to_le_bytes(), value].concat()
}

pub(crate) fn str_key(name: &str, value: &str) -> Vec<u8> {
    key(name, 8, &string(value))
}

/// An array key: element type, announced length, bytes of the elements.
pub(crate) fn array_key(name: &str, item: u32, count: u64, items: &[u8]) -> Vec<u8> {
    key(name, 9, &[&item.to_le_bytes()[..], &count.to_le_bytes(), items].concat())
}

/// A row of the tensor table with as many dimensions as `ne` has.
pub(crate) fn info(name: &str, ne: &[u64], ty: u32, offset: u64) -> Vec<u8> {
    info_with_rank(name, ne.len() as u32, ne, ty, offset)
}

pub(crate) fn info_with_rank(name: &str, rank: u32, ne: &[u64], ty: u32, offset: u64) -> Vec<u8> {
    let mut out = string(name);
    out.extend(rank.to_le_bytes());
    out.extend(ne.iter().flat_map(|n| n.to_le_bytes()));
    out.extend(ty.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}
