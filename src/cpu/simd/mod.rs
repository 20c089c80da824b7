//! Instruction sets: what a kernel may ask of the processor, once per set.
//!
//! Kernels are written once, generic over [`Simd`], and instantiated per instruction set inside a
//! function that has the set's target features ([`Simd::enter`]). The f32 operations are the same
//! IEEE operations on every set (always 16 lanes, multiply-adds always fused), and integer sums are
//! exact, so a kernel gives the same bits everywhere.
//!
//! All `unsafe` code of the kernels lives in this module. It rests on one rule: a value of a
//! [`Simd`] type exists only inside `enter`, and `enter` panics where the processor lacks the set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avxvnni;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod dot4;
#[cfg(target_arch = "x86_64")]
mod forward;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod tile;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub use avxvnni::AvxVnni;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::Scalar;
pub use tile::{
    BlockPacking, BlockX, Bytes, MAX_ROWS, Packing, Rows, SuperPacking, SuperX, Tail, WeightTile,
    Words, signed, word,
};

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set the kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust; every machine has it.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX2, FMA, F16C and AVX-VNNI.
    AvxVnni,
    /// x86-64 with AVX-512 (F, BW, DQ, VL) and AVX-512 VNNI.
    Avx512Vnni,
    /// aarch64 with NEON and its dot product instructions.
    Neon,
}

impl Isa {
    /// Every set known to this program, slowest first.
    pub const ALL: [Self; 5] =
        [Self::Scalar, Self::Avx2, Self::AvxVnni, Self::Avx512Vnni, Self::Neon];

    /// The fastest set this processor has.
    pub fn detect() -> Self {
        Self::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Self::Scalar)
    }

    /// All sets this processor has, slowest first.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Whether this processor has the set. Asks the processor once; afterwards one load.
    #[inline]
    pub fn is_available(self) -> bool {
        static SETS: AtomicU8 = AtomicU8::new(0);
        let mut sets = SETS.load(Ordering::Relaxed);
        if sets == 0 {
            sets = probe();
            SETS.store(sets, Ordering::Relaxed);
        }
        sets & self.bit() != 0
    }

    /// A short name, as `doctor` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avxvnni",
            Self::Avx512Vnni => "avx512+vnni",
            Self::Neon => "neon+dotprod",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cold]
fn probe() -> u8 {
    let mut sets = Isa::Scalar.bit();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c")
    {
        sets |= Isa::Avx2.bit();
        if std::arch::is_x86_feature_detected!("avxvnni") {
            sets |= Isa::AvxVnni.bit();
        }
        if std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512vnni")
        {
            sets |= Isa::Avx512Vnni.bit();
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon")
        && std::arch::is_aarch64_feature_detected!("dotprod")
    {
        sets |= Isa::Neon.bit();
    }
    sets
}

/// What kernels ask of an instruction set.
///
/// Two kinds of vectors: [`Simd::F`], 16 f32 lanes, for all float work; and [`Simd::V`], a word of each of
/// [`Simd::LANES`] rows of weights.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Which set this is.
    const ISA: Isa;
    /// Rows of a [`Simd::V`]: 8 or 16.
    const LANES: usize;
    /// Rows of a tile: a multiple of the lanes, at most [`tile::MAX_ROWS`].
    const ROWS: usize;
    /// Whether a [`Simd::F`] is one register, so that some two dozen are at hand.
    const WIDE: bool;
    /// Sixteen f32.
    type F: Copy;
    /// Four bytes of each of [`Simd::LANES`] rows.
    type V: Words;

    /// Runs `f` compiled for this instruction set.
    ///
    /// `f` must be a closure marked `#[inline(always)]` that calls only such functions.
    ///
    /// # Panics
    /// Where the processor lacks the set.
    fn enter<R>(f: impl FnOnce(Self) -> R) -> R;

    // ---- 16 lanes of f32 ----

    /// All lanes `v`.
    fn splat(self, v: f32) -> Self::F;
    /// Lanes from memory.
    fn load(self, from: &[f32; 16]) -> Self::F;
    /// Lanes to memory.
    fn store(self, v: Self::F, to: &mut [f32; 16]);
    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a > b ? a : b` (so `b` where either is NaN).
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a < b ? a : b` (so `b` where either is NaN).
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a > b ? yes : no`.
    fn select_gt(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// To the nearest whole number, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `p * 2^n` for whole `n` in -252..=254, rounded at most once more than exactly when
    /// subnormal.
    fn scale2(self, p: Self::F, n: Self::F) -> Self::F;
    /// Splits positive normal `w` into `(k, m)`: `w = 2^k * m`, `m` in `[sqrt(1/2), sqrt(2))`.
    fn split2(self, w: Self::F) -> (Self::F, Self::F);
    /// Sum of the lanes in the canonical order: fold 16 to 8 (`i` and `i + 8`), to 4, to 2, to 1.
    fn fold(self, v: Self::F) -> f32;
    /// [`Simd::fold`] of four vectors at once.
    fn fold4(self, v: [Self::F; 4]) -> [f32; 4];
    /// Largest lane (no NaN).
    fn fold_max(self, v: Self::F) -> f32;
    /// To the nearest integer, ties to even, clamped to -127..=127; what is not a number or beyond
    /// i32 becomes -127. Returns the sum.
    fn to_i8(self, v: Self::F, to: &mut [u8; 16]) -> i32;
    /// Sixteen f16.
    fn load_f16(self, from: &[u16; 16]) -> Self::F;
    /// To f16, ties to even.
    fn store_f16(self, v: Self::F, to: &mut [u16; 16]);
    /// One f16.
    fn f16(self, bits: u16) -> f32;
    /// `[16][4]` to `[4][16]`.
    fn transpose4(self, from: &[f32; 64]) -> [Self::F; 4];

    /// Asks for the cache line `at` bytes after the start of `from`, which may lie past its end.
    fn prefetch(self, from: &[u8], at: usize);

    // ---- rows of a tile ----

    /// The eight words of bytes `at..at + 32` of rows `lane..lane + LANES`.
    ///
    /// # Panics
    /// Where a row has no such bytes.
    fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 8];
    /// The four words of bytes `at..at + 16` of rows `lane..lane + LANES`.
    ///
    /// # Panics
    /// Where a row has no such bytes.
    fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 4];
    /// `table[a]` for bytes below 16.
    fn lookup(self, table: &[i8; 16], a: Self::V) -> Self::V;
    /// `table[a]` for words below its length, which is a power of two.
    ///
    /// # Panics
    /// Where its length is not.
    fn gather(self, table: &[u32], a: Self::V) -> Self::V;
    /// The f16 in the low half of each word, as f32, times `factor`.
    fn halves(self, a: Self::V, factor: f32) -> Self::V;
    /// i32 scales as [`Simd::super_unit`] wants them.
    fn scales<P: SuperPacking>(self, a: Self::V) -> Self::V;
    /// Words `index` of rows `lane..lane + LANES` into a tile.
    fn put(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V);
    /// As [`Simd::put`], for weights.
    fn put_q<P: Packing>(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V);

    /// Adds a super-block of each row times `C` columns to `acc`, `[column][row]`:
    /// `acc = fma(d d_x, sum_g scale_g sum(q x) - sum_g offset_g sum(x), acc)`, or with mins
    /// `acc = fma(-(dmin d_x), sum_g min_g sum(x), fma(d d_x, sum_g scale_g sum(q x), acc))`.
    ///
    /// # Panics
    /// Where `acc` is too short.
    fn super_unit<P: SuperPacking, const C: usize>(
        self,
        tile: &WeightTile,
        x: [SuperX<'_>; C],
        acc: &mut [f32],
    );

    /// Adds the first `count` blocks of each row times `C` columns to `acc`, `[column][block][row]`:
    /// `acc = fma(d d_x, sum((q - offset) x), acc)`, of halves one after the other; with minimums then
    /// `acc = fma(m d_x, sum(x), acc)`.
    ///
    /// # Panics
    /// Where `acc` or a column is too short, or `count` exceeds 8.
    fn block_unit<P: BlockPacking, const C: usize>(
        self,
        tile: &WeightTile,
        count: usize,
        x: [BlockX<'_>; C],
        acc: &mut [f32],
    );
}
