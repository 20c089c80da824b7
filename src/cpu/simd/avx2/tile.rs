//! Tiles of weights on AVX2: eight rows, a pair of products per i16.

use std::arch::asm;
use std::arch::x86_64::*;

use super::parts::{avx2, pair_products, transpose_lanes, transpose8};
use crate::cpu::simd::{
    BlockPacking, BlockX, Bytes, Packing, Rows, SuperPacking, SuperX, Tail, WeightTile, Words, word,
};

/// Rows of a tile.
pub(super) const ROWS: usize = 8;

impl Bytes for __m256i {
    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        avx2! { _mm256_and_si256(self, _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        avx2! { _mm256_or_si256(self, other) }
    }
    #[inline(always)]
    fn shr<const N: i32>(self, mask: u8) -> Self {
        // Bits that come from the next byte are masked out.
        avx2! { _mm256_and_si256(_mm256_srli_epi16::<N>(self), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        avx2! { _mm256_slli_epi16::<N>(self) }
    }
}

impl Words for __m256i {
    #[inline(always)]
    fn and32(self, mask: u32) -> Self {
        avx2! { _mm256_and_si256(self, _mm256_set1_epi32(mask.cast_signed())) }
    }
    #[inline(always)]
    fn shr32(self, n: u32) -> Self {
        avx2! { _mm256_srlv_epi32(self, _mm256_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn sar32(self, n: u32) -> Self {
        avx2! { _mm256_srav_epi32(self, _mm256_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn shl32(self, n: u32) -> Self {
        avx2! { _mm256_sllv_epi32(self, _mm256_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn add32(self, n: i32) -> Self {
        avx2! { _mm256_add_epi32(self, _mm256_set1_epi32(n)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        avx2! { _mm256_xor_si256(self, other) }
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        avx2! { _mm256_sub_epi32(self, other) }
    }
    #[inline(always)]
    fn mul32(self, n: u32) -> Self {
        avx2! { _mm256_mullo_epi32(self, _mm256_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn equals(self, n: u32) -> Self {
        avx2! { _mm256_cmpeq_epi32(self, _mm256_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn pick(self, yes: Self, no: Self) -> Self {
        avx2! { _mm256_blendv_epi8(no, yes, self) }
    }
}

/// [`super::Simd::rows`].
#[inline(always)]
pub(super) fn rows(rows: &Rows<'_>, lane: usize, at: usize) -> [__m256i; 8] {
    rows.check(at, 32);
    let mut all = [avx2! { _mm256_setzero_si256() }; 8];
    for (i, row) in all.iter_mut().enumerate() {
        *row = avx2! { _mm256_loadu_si256(rows.bytes.as_ptr().add(rows.starts[lane + i] + at).cast()) };
    }
    transpose8(all)
}

/// [`super::Simd::short_rows`].
#[inline(always)]
pub(super) fn short_rows(rows: &Rows<'_>, lane: usize, at: usize) -> [__m256i; 4] {
    rows.check(at, 16);
    let mut pairs = [avx2! { _mm256_setzero_si256() }; 4];
    for (i, pair) in pairs.iter_mut().enumerate() {
        let [low, high] = [rows.starts[lane + i], rows.starts[lane + i + 4]];
        avx2! {
            let low = rows.bytes.as_ptr().add(low + at).cast();
            let high = rows.bytes.as_ptr().add(high + at).cast();
            *pair = _mm256_loadu2_m128i(high, low);
        }
    }
    transpose_lanes(pairs)
}

/// [`super::Simd::halves`].
#[inline(always)]
pub(super) fn halves(a: __m256i, factor: f32) -> __m256i {
    avx2! {
        let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
        let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(low, low));
        let wide = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
        _mm256_castps_si256(_mm256_mul_ps(wide, _mm256_set1_ps(factor)))
    }
}

/// Keeps a value in its register at this place in the code.
///
/// Without it the compiler, free to reorder exact sums, takes one accumulator of a tile after the
/// other and spills the weights that they share.
#[target_feature(enable = "avx2")]
#[inline]
fn pin(v: &mut __m256i) {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(ymm_reg) * v, options(nomem, nostack, preserves_flags)) }
}

/// A word of every row.
///
/// # Safety
/// `tile` is a whole tile, `index` below [`word::COUNT`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn word_at(tile: *const u32, index: usize) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_loadu_si256(tile.add(index * ROWS).cast()) }
}

/// Adds `factor` (i16 pairs) times the products of steps `first..first + P::STEPS` to `sum`.
///
/// # Safety
/// `tile` is a whole tile; each of `x` holds `4 * P::STEPS` values.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn add_steps<P: Packing, const C: usize>(
    tile: *const u32,
    first: usize,
    x: [*const i8; C],
    factor: __m256i,
    sum: &mut [__m256i; C],
) {
    let run = P::STEPS.min(P::SAFE);
    for start in (0..P::STEPS).step_by(run) {
        let mut part = [_mm256_setzero_si256(); C];
        for step in start..start + run {
            // SAFETY: steps of the tile and of `x`.
            let w = unsafe { word_at(tile, word::Q + first + step) };
            for c in 0..C {
                // SAFETY: as above.
                let four = unsafe { x[c].add(4 * step).cast::<i32>().read_unaligned() };
                let products = pair_products(P::WIDE, w, _mm256_set1_epi32(four));
                part[c] =
                    if step == start { products } else { _mm256_add_epi16(part[c], products) };
                pin(&mut part[c]);
            }
        }
        for c in 0..C {
            sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(part[c], factor));
        }
    }
}

/// [`super::Simd::super_unit`].
///
/// # Safety
/// `acc` holds `C * ROWS` values.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) unsafe fn super_unit<P: SuperPacking, const C: usize>(
    tile: &WeightTile,
    x: [SuperX<'_>; C],
    acc: *mut f32,
) {
    let tile = tile.0.as_ptr();
    let mut dot = [_mm256_setzero_si256(); C];
    for g in 0..64 / P::STEPS {
        // SAFETY: a whole tile, whole super-blocks.
        unsafe {
            let scale = word_at(tile, word::SCALE + g);
            let x = x.map(|x| x.x.as_ptr().add(4 * P::STEPS * g));
            add_steps::<P, C>(tile, g * P::STEPS, x, scale, &mut dot);
        }
    }
    let mut bias = [_mm256_setzero_si256(); C];
    if P::TAIL != Tail::None {
        for pair in 0..8 {
            // SAFETY: a whole tile.
            let coef = unsafe { word_at(tile, word::COEF + pair) };
            for c in 0..C {
                let sums = i32::from_le_bytes(x[c].sums.as_chunks().0[pair]);
                let products = _mm256_madd_epi16(coef, _mm256_set1_epi32(sums));
                bias[c] = _mm256_add_epi32(bias[c], products);
            }
        }
    }
    // SAFETY: a whole tile.
    let (d, dmin) = unsafe {
        let (d, dmin) = (word_at(tile, word::D), word_at(tile, word::DMIN));
        (_mm256_castsi256_ps(d), _mm256_castsi256_ps(dmin))
    };
    for c in 0..C {
        let d_x = _mm256_set1_ps(x[c].d);
        // SAFETY: the caller's.
        let to = unsafe { acc.add(c * ROWS) };
        let sum = if P::TAIL == Tail::Offset { _mm256_sub_epi32(dot[c], bias[c]) } else { dot[c] };
        // SAFETY: the caller's.
        let old = unsafe { _mm256_loadu_ps(to) };
        let mut new = _mm256_fmadd_ps(_mm256_mul_ps(d, d_x), _mm256_cvtepi32_ps(sum), old);
        if P::TAIL == Tail::Mins {
            new = _mm256_fnmadd_ps(_mm256_mul_ps(dmin, d_x), _mm256_cvtepi32_ps(bias[c]), new);
        }
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_ps(to, new) };
    }
}

/// [`super::Simd::block_unit`].
///
/// # Safety
/// `acc` holds `C * 8 * ROWS` values, each of `x` has `count` blocks, at most 8.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) unsafe fn block_unit<P: BlockPacking, const C: usize>(
    tile: &WeightTile,
    count: usize,
    x: [BlockX<'_>; C],
    acc: *mut f32,
) {
    let tile = tile.0.as_ptr();
    let ones = _mm256_set1_epi16(1);
    for b in 0..count {
        let sums = x.map(|x| x.halves(b));
        // SAFETY: the caller's.
        let to: [*mut f32; C] = std::array::from_fn(|c| unsafe { acc.add((8 * c + b) * ROWS) });
        let mut new = [_mm256_setzero_ps(); C];
        for c in 0..C {
            // SAFETY: the caller's.
            new[c] = unsafe { _mm256_loadu_ps(to[c]) };
        }
        for part in 0..8 / P::STEPS {
            let mut dot = [_mm256_setzero_si256(); C];
            let scale = word::SCALE + if P::HALVES { 2 * b + part } else { b };
            // SAFETY: a whole tile, `count` blocks.
            let d = unsafe {
                let x = x.map(|x| x.x.as_ptr().add(32 * b + 4 * P::STEPS * part));
                add_steps::<P, C>(tile, 8 * b + P::STEPS * part, x, ones, &mut dot);
                _mm256_castsi256_ps(word_at(tile, scale))
            };
            for c in 0..C {
                if P::OFFSET != 0 {
                    let offset = i32::from(P::OFFSET) * (sums[c][0] + sums[c][1]);
                    dot[c] = _mm256_sub_epi32(dot[c], _mm256_set1_epi32(offset));
                }
                let scale = _mm256_mul_ps(d, _mm256_set1_ps(x[c].scale(b)));
                new[c] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dot[c]), new[c]);
            }
        }
        for c in 0..C {
            if P::MINS {
                // SAFETY: a whole tile.
                let m = _mm256_castsi256_ps(unsafe { word_at(tile, word::COEF + b) });
                let sum = _mm256_set1_ps((sums[c][0] + sums[c][1]) as f32);
                new[c] =
                    _mm256_fmadd_ps(_mm256_mul_ps(m, _mm256_set1_ps(x[c].scale(b))), sum, new[c]);
            }
            // SAFETY: the caller's.
            unsafe { _mm256_storeu_ps(to[c], new[c]) };
        }
    }
}
