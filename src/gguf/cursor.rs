//! Reads little-endian fields from the front of a byte slice, never past its end.

use super::error::Fault;

/// A reading position. Every length is compared with what is left before it is used.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes. `what` names them in the error.
    pub(super) fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8], Fault> {
        match usize::try_from(n).ok().filter(|&n| n <= self.left()) {
            Some(n) => {
                let bytes = &self.bytes[self.at..self.at + n];
                self.at += n;
                Ok(bytes)
            }
            None => Err(Fault::damaged(
                format!("{what} of {n} bytes at byte {}", self.at),
                format!("{} bytes before the end of the file", self.left()),
            )),
        }
    }

    /// The next `N` bytes as an array, for `from_le_bytes`.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Checks a count of things that take at least `each` bytes apiece.
    pub(super) fn count(&self, count: u64, each: usize, what: &str) -> Result<usize, Fault> {
        let fits = (self.left() / each) as u64;
        match usize::try_from(count) {
            Ok(n) if count <= fits => Ok(n),
            _ => Err(Fault::damaged(
                format!("at most {fits} {what} in the {} bytes left", self.left()),
                count.to_string(),
            )),
        }
    }

    /// A string: u64 length, then UTF-8 bytes.
    pub(super) fn str(&mut self, what: &str) -> Result<&'a str, Fault> {
        let len = self.u64(what)?;
        let at = self.at;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|e| {
            Fault::damaged(
                format!("{what} in UTF-8"),
                format!("other bytes at byte {}", at + e.valid_up_to()),
            )
        })
    }
}
