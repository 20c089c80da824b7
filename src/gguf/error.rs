//! What can be wrong with a file, in one form: where, what was expected, what was found, what to
//! do.

use std::fmt;

/// A place in a file that an error can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// The fixed fields at the start, or an entry whose name could not be read.
    Header,
    /// A metadata key.
    Key(String),
    /// A tensor.
    Tensor(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Header => f.write_str("header"),
            Self::Key(name) => write!(f, "key {}", quoted(name)),
            Self::Tensor(name) => write!(f, "tensor {}", quoted(name)),
        }
    }
}

/// A problem without its place: parsers make it, whoever knows the place adds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What a sound file has here.
    pub expected: String,
    /// What this file has.
    pub found: String,
    /// What the user can do about it.
    pub remedy: String,
}

/// The remedy for bytes that make no sense.
pub(crate) const DAMAGED: &str = "the file is damaged or not a GGUF; download or convert it again";

impl Fault {
    /// A fault with its remedy.
    pub fn new(
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { expected: expected.into(), found: found.into(), remedy: remedy.into() }
    }

    /// A fault that only damage explains.
    pub(crate) fn damaged(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(expected, found, DAMAGED)
    }

    /// Says where the fault is.
    pub(crate) fn at(self, file: &str, place: Place) -> GgufError {
        GgufError { file: file.to_owned(), place, fault: Box::new(self) }
    }
}

/// An error about a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: expected {}, found {}; {}", .fault.expected, .fault.found, .fault.remedy)]
pub struct GgufError {
    /// Path or name of the file.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong there.
    pub fault: Box<Fault>,
}

/// A name taken from a file, quoted, escaped and cut, so that no file can garble a terminal.
pub(crate) fn quoted(name: &str) -> String {
    const LONGEST: usize = 96;
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((end, _)) => format!("{:?}...", &name[..end]),
    }
}
