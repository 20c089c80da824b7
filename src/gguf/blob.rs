//! Bytes that stay where they are: views into a mapped file, into static data, or into memory.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

/// A range of bytes of a mapped file, of static data or of memory. Cheap to clone; keeps its source
/// alive. No alignment is promised: a file may choose its own.
#[derive(Clone)]
pub struct Blob {
    source: Source,
    range: Range<usize>,
}

#[derive(Clone)]
enum Source {
    Mapped(Arc<Mmap>),
    Static(&'static [u8]),
    Owned(Arc<Vec<u8>>),
}

impl Source {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Blob {
    /// Maps a whole file for reading. A file cut short by another program while it is mapped ends
    /// this one with a bus error; that is the price of not copying it.
    ///
    /// # Errors
    /// Whatever the system says; also if `path` is not a regular file (opening a pipe would hang).
    pub fn map(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is private and read-only, and nothing here keeps a claim on its
        // contents across reads: values are copied out once, and tensor bytes are plain data of
        // which every bit pattern is valid. A writer in another process can at worst change
        // numbers.
        let map = unsafe { Mmap::map(&file)? };
        let range = 0..map.len();
        Ok(Self { source: Source::Mapped(Arc::new(map)), range })
    }

    /// The part `range` of these bytes; `None` where it does not lie inside.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let inside = range.start <= range.end && range.end <= self.range.len();
        let start = self.range.start;
        inside.then(|| Self {
            source: self.source.clone(),
            range: start + range.start..start + range.end,
        })
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.source.bytes()[self.range.clone()]
    }
}

impl From<&'static [u8]> for Blob {
    fn from(bytes: &'static [u8]) -> Self {
        Self { source: Source::Static(bytes), range: 0..bytes.len() }
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { source: Source::Owned(Arc::new(bytes)), range }
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} bytes at {})", self.range.len(), self.range.start)
    }
}
