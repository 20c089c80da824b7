//! Instruction sets: what a kernel may ask of the processor, once per set.
//!
//! Kernels are written once, generic over [`Simd`], and instantiated per instruction set inside a
//! function that has the set's target features ([`Simd::enter`]). The f32 operations are the same
//! IEEE operations on every set (always 16 lanes, multiply-adds always fused), and integer sums are
//! exact, so a kernel gives the same bits everywhere.
//!
//! All `unsafe` code of the kernels lives in this module. It rests on one rule: a value of a
//! [`Simd`] type exists only inside `enter`, and `enter` panics where the processor lacks the set.

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

pub use aligned::{AlignedBytes, signed};
#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use scalar::Scalar;

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set the kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust; every machine has it.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 (F, BW, DQ, VL) and AVX-512 VNNI.
    Avx512Vnni,
}

impl Isa {
    /// Every set known to this program, slowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512Vnni];

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
            Self::Avx512Vnni => "avx512+vnni",
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
        if std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512vnni")
        {
            sets |= Isa::Avx512Vnni.bit();
        }
    }
    sets
}

/// A tile of activations for [`Simd::tile_group`]: `blocks` consecutive column blocks of one unit.
///
/// `x` holds, per column block, `[step][lane][4]` quantised activations: a step is four consecutive
/// inputs, a lane one column.
#[derive(Clone, Copy)]
pub struct TileX<'a> {
    /// From the first step of the first column block on.
    pub x: &'a [i8],
    /// Distance between column blocks, in bytes.
    pub stride: usize,
}

/// How the unpacked weights of a type multiply: what bounds hold for its integer sums.
pub trait Packing {
    /// Weights are i8 (any value); else u8 below 128.
    const WIDE: bool;
    /// Steps (of four inputs) that share a scale: 4 or 8.
    const STEPS: usize;
    /// So many steps of a lane's sum of two products fit i16: 1, 2, 4 or 8. With activations in
    /// -127..=127 this asks `SAFE * 2 * max|w| * 127 <= 32767`; see [`safe_steps`].
    const SAFE: usize;
}

/// [`Packing::SAFE`] for weights of at most `max` in magnitude. 128 itself is safe once:
/// `2 * 128 * 127 = 32512`.
pub const fn safe_steps(max: i32) -> usize {
    let mut steps = 8;
    while steps > 1 && steps * 2 * max * 127 > i16::MAX as i32 {
        steps /= 2;
    }
    assert!(steps * 2 * max * 127 <= i16::MAX as i32, "a pair of products exceeds i16");
    steps as usize
}

/// What kernels ask of an instruction set.
///
/// Two kinds of vectors: [`Simd::F`], 16 f32 lanes, for all float work; and column vectors
/// ([`Simd::I`], [`Simd::C`]), [`Simd::LANES`] wide, whose lanes are the columns of a tile.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Which set this is.
    const ISA: Isa;
    /// Columns in a column vector: 8 or 16.
    const LANES: usize;
    /// The set for tiles that would leave most of [`Simd::LANES`] empty; the set itself if it is narrow.
    type Narrow: Simd;
    /// Sixteen f32.
    type F: Copy;
    /// Thirty-two u8.
    type B: Copy;
    /// [`Simd::LANES`] i32.
    type I: Copy;
    /// [`Simd::LANES`] f32.
    type C: Copy;

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

    // ---- columns of a tile ----

    /// All zero.
    fn izero(self) -> Self::I;
    /// `a - b`.
    fn isub(self, a: Self::I, b: Self::I) -> Self::I;
    /// `acc + even * pair[0] + odd * pair[1]`, where `sums` holds `[lane][2]` = (even, odd).
    fn ipairs(self, acc: Self::I, sums: &[i16], pair: [i16; 2]) -> Self::I;
    /// To f32, rounded to nearest.
    fn itof(self, v: Self::I) -> Self::C;
    /// Columns from memory, `LANES` of them.
    fn cload(self, from: &[f32]) -> Self::C;
    /// Columns to memory, `LANES` of them.
    fn cstore(self, v: Self::C, to: &mut [f32]);
    /// `v` times every column.
    fn cscale(self, a: Self::C, v: f32) -> Self::C;
    /// `a * b + c`, rounded once.
    fn cfma(self, a: Self::C, b: Self::C, c: Self::C) -> Self::C;

    /// Adds `scale[r] * sum(w[r] * x)` over a group of `P::STEPS * 4` inputs, for `R` rows and `NB`
    /// column blocks.
    ///
    /// # Panics
    /// Where a slice is too short.
    fn tile_group<P: Packing, const R: usize, const NB: usize>(
        self,
        acc: &mut [[Self::I; NB]; R],
        x: TileX<'_>,
        w: [&[u8]; R],
        scale: [i16; R],
    );

    // ---- one column ----

    /// `(sum_g scale[g] * sum(q * x), sum_g coef[g] * sums[g])` over the 16 groups of 16.
    ///
    /// `|x| <= 127`.
    fn dot_super<P: Packing>(
        self,
        q: &[u8; 256],
        x: &[i8; 256],
        scale: &[i16; 16],
        sums: &[i16; 16],
        coef: &[i16; 16],
    ) -> (i32, i32);

    /// `sum(q * x)` for each of the 8 blocks of 32. As [`Simd::dot_super`] otherwise.
    fn dot_blocks<P: Packing>(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 8];

    /// `sum(q * x)` for each of the 16 groups of 16, `q` as i8.
    fn dot_halves(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 16];

    /// `acc[i] = fma(a[i] * b[i], dots[i] as f32, acc[i])` for the first `count` of eight lanes.
    fn add_lanes(
        self,
        acc: &mut [f32; 8],
        a: &[f32; 8],
        b: &[f32; 8],
        dots: &[i32; 8],
        count: usize,
    );

    // ---- 32 bytes, for unpacking ----

    /// Bytes from memory.
    fn bload(self, from: &[u8; 32]) -> Self::B;
    /// Bytes to memory.
    fn bstore(self, v: Self::B, to: &mut [u8; 32]);
    /// `a & mask` in every byte.
    fn band(self, a: Self::B, mask: u8) -> Self::B;
    /// `a | b`.
    fn bor(self, a: Self::B, b: Self::B) -> Self::B;
    /// `a >> N & mask` in every byte, where `mask` has at most `8 - N` bits.
    fn bshr<const N: i32>(self, a: Self::B, mask: u8) -> Self::B;
    /// `a << N` in every byte, where nothing is shifted out.
    fn bshl<const N: i32>(self, a: Self::B) -> Self::B;
    /// `value` where a bit is set, bit `j` for byte `j`.
    fn bits(self, bits: u32, value: u8) -> Self::B;

    /// `to[i] = byte i - minus`, bytes of `low` then of `high`.
    fn widen(self, low: u64, high: u64, minus: i16, to: &mut [i16; 16]);
    /// As [`Simd::widen`], each of the eight bytes twice.
    fn widen_twice(self, bytes: u64, minus: i16, to: &mut [i16; 16]);
    /// `to[j] = offset + g[j]`, or `offset - g[j]` where bit `j` of `signs` is set; `g` are the
    /// bytes of `words`, at most `offset` each.
    fn signed_grid(self, words: [u64; 4], signs: u32, offset: u8, to: &mut [u8; 32]);
    /// `out[j] = table[low nibble of from[j]]`, `out[j + 16] = table[high nibble of from[j]]`.
    fn lookup_nibbles(self, table: &[i8; 16], from: &[u8; 16], out: &mut [u8; 32]);

    /// Transposes 4-byte units: `to[step][lane] = from[lane][step]` for 64 steps of `LANES`
    /// columns.
    ///
    /// # Panics
    /// Where `to` is not `256 * LANES` long or `from` has another number of columns.
    fn interleave(self, from: &[&[i8; 256]], to: &mut [i8]);
}
