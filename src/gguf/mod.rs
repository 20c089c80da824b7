//! The GGUF container: mapped files, their metadata and their tensor tables.
//!
//! Everything a file claims (counts, lengths, shapes, offsets) is compared with the file's length
//! before anything is allocated or touched, so a damaged or hostile file costs no more than reading
//! its header and ends in a [`GgufError`] that says where, what was expected and what was found.
//! What the tensors mean is not known here; see [`crate::weights`].
//!
//! Reading order: [`Gguf`] (open, look up), `part` (one file's header), `split` (files in parts),
//! `value` (metadata), `blob` (bytes that stay where they are), `writer` (the other direction).

mod blob;
mod cursor;
mod error;
mod file;
mod getters;
mod part;
mod split;
mod value;
mod writer;

pub use blob::Blob;
pub use error::{Fault, GgufError, Place};
pub use file::{Gguf, Tensor};
pub use value::{Array, StrArray, Value};
pub use writer::{TensorInfo, Writer};
