//! A tile of weights: a unit of 256 inputs of several rows, laid out so that a lane is a row.
//!
//! Rows are stored one after another, so a vector of a row's weights would have to be summed across its
//! lanes. Instead the packed bytes of [`Simd::ROWS`] rows are transposed in words of four bytes
//! ([`Rows`], [`Simd::rows`]), unpacked with the same operations for all rows at once, and multiplied with
//! activations that are broadcast, straight from where they were quantised.

use std::cell::Cell;

use super::Simd;

/// Most rows of a tile, over all instruction sets.
pub const MAX_ROWS: usize = 32;

/// How the unpacked weights of a type multiply: what bounds hold for its integer sums.
pub trait Packing {
    /// Weights are i8 (any value); else u8 below 128.
    const WIDE: bool;
    /// Steps (of four inputs) that share a scale: 4 or 8.
    const STEPS: usize;
    /// Largest magnitude of a weight.
    const MAX: i32;
    /// So many steps of a lane's sum of two products fit i16: 1, 2, 4 or 8.
    const SAFE: usize = safe_steps(Self::MAX);
}

/// What is added to the scaled product of a super-block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: weights are `d * scale * q`.
    None,
    /// Weights are `d * scale * q - dmin * min`; `coef` holds the mins.
    Mins,
    /// Weights are `d * scale * (q - offset)`; `coef` holds `offset * scale`.
    Offset,
}

/// A type of 256-blocks.
pub trait SuperPacking: Packing {
    /// Bytes of a block.
    const BYTES: usize;
    /// Largest magnitude of a scale.
    const SCALE: i32;
    /// What follows the product.
    const TAIL: Tail;
    /// So many scaled groups have a sum that is exact in f32.
    const EXACT: usize = ((1 << 24)
        / (Self::MAX as u64 * 127 * 4 * Self::STEPS as u64 * Self::SCALE as u64))
        as usize;
}

/// A type of 32-blocks.
pub trait BlockPacking: Packing {
    /// Weights of a stored block: 32, 64 or 128.
    const LEN: usize;
    /// Bytes of a stored block.
    const BYTES: usize;
    /// Subtracted from every weight.
    const OFFSET: i16;
    /// Whether blocks have a minimum.
    const MINS: bool;
    /// Whether each half of 32 has its own scale.
    const HALVES: bool;
}

/// Steps whose sums of two products fit i16, activations being in -127..=127:
/// `steps * 2 * max * 127 <= 32767`. 128 itself is safe once: `2 * 128 * 127 = 32512`.
pub(super) const fn safe_steps(max: i32) -> usize {
    let mut steps = 8;
    while steps > 1 && steps * 2 * max * 127 > i16::MAX as i32 {
        steps /= 2;
    }
    assert!(steps * 2 * max * 127 <= i16::MAX as i32, "a pair of products exceeds i16");
    steps as usize
}

/// A super-block of activations.
#[derive(Clone, Copy)]
pub struct SuperX<'a> {
    /// Values.
    pub x: &'a [i8; 256],
    /// Sums of the groups of 16, i16.
    pub sums: &'a [u8; 32],
    /// Scale.
    pub d: f32,
}

/// Up to eight blocks of 32 activations.
#[derive(Clone, Copy)]
pub struct BlockX<'a> {
    /// Values, 32 per block.
    pub x: &'a [i8],
    /// A scale per block, f32.
    pub scales: &'a [[u8; 4]],
    /// Sums of the halves of each block, i16.
    pub sums: &'a [[u8; 4]],
}

impl BlockX<'_> {
    /// Whether there are `count` blocks.
    #[inline(always)]
    pub fn has(&self, count: usize) -> bool {
        self.x.len() >= 32 * count && self.scales.len() >= count && self.sums.len() >= count
    }

    /// Scale of block `b`.
    #[inline(always)]
    pub fn scale(&self, b: usize) -> f32 {
        f32::from_le_bytes(self.scales[b])
    }

    /// Sums of the halves of block `b`.
    #[inline(always)]
    pub fn halves(&self, b: usize) -> [i32; 2] {
        let [a, b, c, d] = self.sums[b];
        [i16::from_le_bytes([a, b]).into(), i16::from_le_bytes([c, d]).into()]
    }
}

/// Where in a tile a word of every row lies: `[word][row]`.
pub mod word {
    /// Weights, four per word.
    pub const Q: usize = 0;
    /// Scales: of a super-block's groups, as [`super::Simd::scales`] makes them; or f32 of blocks.
    pub const SCALE: usize = 64;
    /// Pairs of a super-block's i16 coefficients; or the f32 minimums of blocks.
    pub const COEF: usize = 80;
    /// f32 scales of super-blocks.
    pub const D: usize = 88;
    /// f32 scales of mins.
    pub const DMIN: usize = 89;
    /// Words of a row.
    pub const COUNT: usize = 90;
}

/// Unpacked units of [`Simd::ROWS`] rows; see [`word`].
#[repr(C, align(64))]
pub struct WeightTile(pub(super) [u32; word::COUNT * MAX_ROWS]);

impl WeightTile {
    /// All zero.
    pub const ZERO: Self = Self([0; word::COUNT * MAX_ROWS]);
}

/// Rows of bytes, at most [`MAX_ROWS`]; the last stands for those that are missing.
pub struct Rows<'a> {
    pub(super) bytes: &'a [u8],
    /// Where each row starts: ascending, so the last is the farthest.
    pub(super) starts: [usize; MAX_ROWS],
    /// What will be read after these rows, from where on it has not been asked for.
    next: Cell<&'a [u8]>,
    /// A read asks for one part in so many of as much as it reads.
    parts: usize,
}

impl<'a> Rows<'a> {
    /// The rows of `bytes`, `stride` apart.
    ///
    /// # Panics
    /// Where there is none.
    pub fn new(bytes: &'a [u8], stride: usize) -> Self {
        let count = bytes.len() / stride;
        assert!(count > 0, "no row of {stride} bytes in {}", bytes.len());
        let starts = std::array::from_fn(|row| row.min(count - 1) * stride);
        Self { bytes, starts, next: Cell::new(&[]), parts: 1 }
    }

    /// Reading these rows asks for `next` bit by bit: all at once would hold up what is waited for. The
    /// caller does `parts - 1` pieces of work per unit that is read, and asks for as much with each.
    pub fn followed_by(self, next: &'a [u8], parts: usize) -> Self {
        self.next.set(next);
        Self { parts, ..self }
    }

    /// As [`Rows::ahead`], for a read of so many bytes.
    #[inline(always)]
    pub(super) fn ahead_of_read<S: Simd>(&self, s: S, bytes: usize) {
        self.ahead(s, bytes / self.parts);
    }

    /// Asks for so many bytes of what follows, rounded up to cache lines.
    #[inline(always)]
    pub fn ahead<S: Simd>(&self, s: S, bytes: usize) {
        let next = self.next.get();
        let (now, later) = next.split_at(bytes.next_multiple_of(64).min(next.len()));
        for line in (0..now.len()).step_by(64) {
            s.prefetch(now, line);
        }
        self.next.set(later);
    }

    /// Bytes `at..at + len` lie inside every row's bytes or what follows them.
    #[inline(always)]
    pub(super) fn check(&self, at: usize, len: usize) {
        let end = self.starts[MAX_ROWS - 1] + at + len;
        assert!(end <= self.bytes.len(), "rows end at {}, read to {end}", self.bytes.len());
    }
}

/// Bytes of a vector, each by itself.
pub trait Bytes: Copy {
    /// `a & mask` in every byte.
    fn and(self, mask: u8) -> Self;
    /// `a | b`.
    fn or(self, other: Self) -> Self;
    /// `a >> N & mask` in every byte, where `mask` has at most `8 - N` bits.
    fn shr<const N: i32>(self, mask: u8) -> Self;
    /// `a << N` in every byte, where nothing is shifted out.
    fn shl<const N: i32>(self) -> Self;
}

/// A word of four bytes per row.
pub trait Words: Bytes {
    /// `a & mask`.
    fn and32(self, mask: u32) -> Self;
    /// `a >> n`, zeros shifted in.
    fn shr32(self, n: u32) -> Self;
    /// `a >> n` as i32.
    fn sar32(self, n: u32) -> Self;
    /// `a << n`.
    fn shl32(self, n: u32) -> Self;
    /// `a + n`, wrapping.
    fn add32(self, n: i32) -> Self;
    /// `a ^ b`.
    fn xor(self, other: Self) -> Self;
    /// `a - b`, wrapping.
    fn minus(self, other: Self) -> Self;
    /// `a * n`, wrapping.
    fn mul32(self, n: u32) -> Self;
    /// All bits where `a == n`, else none.
    fn equals(self, n: u32) -> Self;
    /// `yes` where all bits are set, `no` where none is.
    fn pick(self, yes: Self, no: Self) -> Self;

    /// Bits `4 i..4 i + 4`, one per byte.
    #[inline(always)]
    fn four_bits(self, i: usize) -> Self {
        let four = self.shr32(4 * i as u32).and32(15);
        four.or(four.shl32(7)).or(four.shl32(14).or(four.shl32(21))).and(1)
    }
    /// All bits of every byte that is 1, none of those that are 0.
    #[inline(always)]
    fn all_bits(self) -> Self {
        self.shl32(8).minus(self)
    }
}

/// Quantised activations as the signed bytes they are.
pub fn signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: i8 and u8 have the same size and alignment, and every byte is a valid i8.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}
