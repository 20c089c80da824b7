//! Memory that a team shares: buffers whose disjoint parts different workers write in one region.
//!
//! The protocol, which the borrow checker cannot see across threads: inside a region of
//! [`super::Worker::parallel`] a worker writes only what belongs to the items it claimed, and nobody
//! reads what the same region writes, except its writer. Barriers end every region. Because this is a
//! promise of the caller, these types stay inside the crate, and only the CPU stages use them.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;

/// Plain old data: any bit pattern is a value, no padding.
pub(crate) trait Pod: Copy + Send + 'static {}
impl Pod for f32 {}
impl Pod for u8 {}
impl Pod for u16 {}
impl Pod for u32 {}

/// A cache line, the unit of allocation: every buffer starts aligned for the widest vector.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Zeroed memory of a fixed size, shared by a team.
pub(crate) struct SharedBuf {
    lines: Box<[UnsafeCell<Line>]>,
}

// SAFETY: access goes through `Plane`, whose protocol keeps writers disjoint from everybody else.
unsafe impl Sync for SharedBuf {}

/// Memory that could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory {
    /// What was asked for.
    pub(crate) bytes: usize,
}

impl SharedBuf {
    /// `bytes` zeroed bytes, rounded up to a line. Pages are touched only when used.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, OutOfMemory> {
        let lines = zeroed_lines(bytes.div_ceil(64)).ok_or(OutOfMemory { bytes })?;
        // SAFETY: `UnsafeCell<Line>` has the layout of `Line`.
        let lines = unsafe { Box::from_raw(Box::into_raw(lines) as *mut [UnsafeCell<Line>]) };
        Ok(Self { lines })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * 64
    }

    /// A view of `rows` rows of `stride` values each, from byte `offset` on.
    ///
    /// # Panics
    /// The view does not lie inside the buffer, or is misaligned for `T`.
    pub(crate) fn plane<T: Pod>(&self, offset: usize, stride: usize, rows: usize) -> Plane<'_, T> {
        let size = size_of::<T>();
        let end = stride.checked_mul(rows).and_then(|n| n.checked_mul(size)?.checked_add(offset));
        assert!(end.is_some_and(|end| end <= self.bytes()), "view past the end of a buffer");
        assert!(offset.is_multiple_of(align_of::<T>()), "misaligned view");
        let base = self.lines.as_ptr().cast::<u8>().cast_mut().wrapping_add(offset).cast::<T>();
        Plane { base, stride, len: stride, rows, owner: PhantomData }
    }

    /// Fills the buffer with `byte`: tests poison memory with it.
    pub(crate) fn fill(&mut self, byte: u8) {
        for line in &mut self.lines {
            *line.get_mut() = Line([byte; 64]);
        }
    }
}

/// Zeroed lines straight from the allocator, so that large buffers cost nothing until touched. `None`
/// if there is no such memory.
fn zeroed_lines(count: usize) -> Option<Box<[Line]>> {
    if count == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<Line>(count).ok()?;
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Line>();
    if start.is_null() {
        return None;
    }
    // SAFETY: the memory was allocated with the layout of `count` lines, and all-zero bytes are a
    // valid `Line`.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, count)) })
}

/// Rows of a [`SharedBuf`]; copies are views of the same memory.
pub(crate) struct Plane<'a, T> {
    base: *mut T,
    /// Values from one row to the next.
    stride: usize,
    /// Values of a row that this view may touch.
    len: usize,
    rows: usize,
    owner: PhantomData<&'a SharedBuf>,
}

impl<T> Clone for Plane<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Plane<'_, T> {}

// SAFETY: a `Plane` is a view of a `SharedBuf`, which is `Sync` under the protocol above.
unsafe impl<T: Pod> Send for Plane<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for Plane<'_, T> {}

impl<'a, T: Pod> Plane<'a, T> {
    /// Row `row`, for reading.
    pub(crate) fn read(&self, row: usize) -> &'a [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: inside the buffer (checked at construction and above); no writer in this region.
        unsafe { std::slice::from_raw_parts(self.base.add(row * self.stride), self.len) }
    }

    /// Values from one row to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// `count` consecutive rows from `row` on, for reading.
    pub(crate) fn read_rows(&self, row: usize, count: usize) -> &'a [T] {
        assert!(row + count <= self.rows && self.len == self.stride, "rows {row}+{count}");
        // SAFETY: inside the buffer (checked at construction and above); no writer in this region.
        unsafe {
            let start = self.base.add(row * self.stride);
            std::slice::from_raw_parts(start, count * self.stride)
        }
    }

    /// The same rows without their first `skip` values.
    pub(crate) fn skip(&self, skip: usize) -> Self {
        assert!(skip <= self.len);
        Self { base: self.base.wrapping_add(skip), len: self.len - skip, ..*self }
    }

    /// Row `row`, for writing: it belongs to an item that this worker claimed.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the region's protocol, see the module")]
    pub(crate) fn write(&self, row: usize) -> &'a mut [T] {
        self.write_range(row, 0..self.len)
    }

    /// Part of row `row`, for writing: it belongs to an item that this worker claimed.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the region's protocol, see the module")]
    pub(crate) fn write_range(&self, row: usize, range: Range<usize>) -> &'a mut [T] {
        assert!(row < self.rows && range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the buffer; no other reader or writer of this part in this region.
        unsafe {
            let start = self.base.add(row * self.stride + range.start);
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }
}
