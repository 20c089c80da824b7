//! Heap memory on cache-line boundaries.

/// A line of memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A zeroed byte buffer whose start is a multiple of 64.
#[derive(Clone)]
pub struct AlignedBytes {
    lines: Vec<Line>,
}

impl AlignedBytes {
    /// A buffer of at least `bytes` bytes (rounded up to whole lines).
    pub fn new(bytes: usize) -> Self {
        Self { lines: vec![Line([0; 64]); bytes.div_ceil(64)] }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.lines.len() * 64
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The bytes, signed.
    pub fn as_i8(&self) -> &[i8] {
        // SAFETY: lines are 64 plain bytes each without padding, and every byte is a valid i8.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len()) }
    }

    /// The bytes, signed, to write.
    pub fn as_i8_mut(&mut self) -> &mut [i8] {
        // SAFETY: as in `as_i8`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len()) }
    }

    /// The bytes.
    pub fn as_u8(&self) -> &[u8] {
        // SAFETY: as in `as_i8`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len()) }
    }

    /// The bytes to write.
    pub fn as_u8_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_i8_mut`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len()) }
    }
}

/// Quantised activations as the signed bytes they are.
pub fn signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: i8 and u8 have the same size and alignment, and every byte is a valid i8.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}
