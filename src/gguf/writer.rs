//! Writes GGUF files as a stream: the header from a description, then each tensor's bytes from a
//! callback, so that a file of any size is made without being held.

use std::io::{self, Write};

use super::error::{Fault, GgufError, Place};
use super::part::{DEFAULT_ALIGNMENT, NAME_BYTES, tensor_bytes};
use super::value::{Value, write_str};
use crate::quant::GgmlType;

/// A tensor to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name in the file.
    pub name: String,
    /// Shape; `ne[0]` is contiguous.
    pub ne: Vec<u64>,
    /// Type of the values.
    pub ty: GgmlType,
    /// Bytes of the data.
    pub bytes: u64,
}

/// The description of a file to write.
///
/// Keys and tensors appear in the order in which they were added; it does not check that a key is
/// used once.
#[derive(Debug, Clone)]
pub struct Writer {
    version: u32,
    alignment: u64,
    keys: Vec<(String, Value)>,
    tensors: Vec<TensorInfo>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty file of version 3.
    pub fn new() -> Self {
        Self { version: 3, alignment: DEFAULT_ALIGNMENT, keys: Vec::new(), tensors: Vec::new() }
    }

    /// Sets the version of the container; 2 and 3 have the same layout.
    pub fn version(&mut self, version: u32) -> &mut Self {
        self.version = version;
        self
    }

    /// Sets the alignment of the data, in bytes, and writes it as a key. At least 1.
    pub fn alignment(&mut self, alignment: u32) -> &mut Self {
        self.alignment = u64::from(alignment.max(1));
        self.key("general.alignment", alignment)
    }

    /// Adds a key.
    pub fn key(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// If the shape is not 1 to 4 dimensions of at least 1, with rows of whole blocks, or the name
    /// is not 1 to 63 bytes.
    pub fn tensor(&mut self, name: &str, ne: &[u64], ty: GgmlType) -> Result<&mut Self, GgufError> {
        let at = |fault: Fault| fault.at("file to write", Place::Tensor(name.to_owned()));
        if !(1..NAME_BYTES).contains(&name.len()) {
            let found = format!("{} bytes", name.len());
            return Err(at(Fault::new("a name of 1 to 63 bytes", found, "shorten it")));
        }
        if !(1..=4).contains(&ne.len()) {
            let found = ne.len().to_string();
            return Err(at(Fault::new("1 to 4 dimensions", found, "change the shape")));
        }
        let bytes = tensor_bytes(ty, ne).map_err(at)?;
        self.tensors.push(TensorInfo { name: name.to_owned(), ne: ne.to_vec(), ty, bytes });
        Ok(self)
    }

    /// The tensors added so far.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Writes the file. `fill` is called once per tensor, in order, and writes exactly its bytes.
    /// Returns the number of bytes written.
    ///
    /// # Errors
    /// If `out` or `fill` fails, or `fill` writes another number of bytes.
    pub fn write(
        &self,
        out: &mut dyn Write,
        mut fill: impl FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut out = Counted { out, written: 0 };
        self.write_header(&mut out)?;
        for tensor in &self.tensors {
            out.pad(self.alignment)?;
            let start = out.written;
            fill(tensor, &mut out)?;
            let found = out.written - start;
            if found != tensor.bytes {
                return Err(io::Error::other(format!(
                    "tensor {}: expected {} bytes, the callback wrote {found}",
                    tensor.name, tensor.bytes
                )));
            }
        }
        out.pad(self.alignment)?;
        Ok(out.written)
    }

    fn write_header(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"GGUF")?;
        out.write_all(&self.version.to_le_bytes())?;
        out.write_all(&(self.tensors.len() as u64).to_le_bytes())?;
        out.write_all(&(self.keys.len() as u64).to_le_bytes())?;
        for (key, value) in &self.keys {
            write_str(out, key)?;
            value.write(out)?;
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            write_str(out, &tensor.name)?;
            out.write_all(&(tensor.ne.len() as u32).to_le_bytes())?;
            tensor.ne.iter().try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
            out.write_all(&tensor.ty.id().to_le_bytes())?;
            out.write_all(&offset.to_le_bytes())?;
            offset = (offset + tensor.bytes).next_multiple_of(self.alignment);
        }
        Ok(())
    }
}

/// Counts what goes through, for padding and for the check of each tensor's size.
struct Counted<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Counted<'_> {
    fn pad(&mut self, alignment: u64) -> io::Result<()> {
        let gap = self.written.next_multiple_of(alignment) - self.written;
        io::copy(&mut io::Read::take(io::repeat(0), gap), self).map(|_| ())
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.out.write(buf)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
