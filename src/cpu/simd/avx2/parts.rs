//! The pieces of the AVX2 operations.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::cpu::simd::Packing;

/// Sixteen f32: lanes 0-7, lanes 8-15.
#[derive(Clone, Copy)]
pub struct F32x16(pub(in crate::cpu::simd) __m256, pub(in crate::cpu::simd) __m256);

/// Evaluates intrinsics; every use sits in a method of the token or below one.
macro_rules! avx2 {
    ($($body:tt)*) => {
        // SAFETY: an `Avx2` is made only by `enter`, after it has found AVX2, FMA and F16C. Memory
        // is reached through references to arrays as long as the access, or behind a length check.
        unsafe { $($body)* }
    };
}

pub(in crate::cpu::simd) use avx2;

#[inline(always)]
pub(in crate::cpu::simd) fn map1(a: F32x16, f: impl Fn(__m256) -> __m256) -> F32x16 {
    F32x16(f(a.0), f(a.1))
}

#[inline(always)]
pub(in crate::cpu::simd) fn map2(
    a: F32x16,
    b: F32x16,
    f: impl Fn(__m256, __m256) -> __m256,
) -> F32x16 {
    F32x16(f(a.0, b.0), f(a.1, b.1))
}

/// `p * 2^n`, one half.
#[inline(always)]
pub(in crate::cpu::simd) fn scale2(p: __m256, n: __m256) -> __m256 {
    avx2! {
        let n = _mm256_cvtps_epi32(n);
        let half = _mm256_srai_epi32::<1>(n);
        let rest = _mm256_sub_epi32(n, half);
        let bias = _mm256_set1_epi32(127);
        let a = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
        let b = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
        _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b))
    }
}

/// Exponent and mantissa, one half.
#[inline(always)]
pub(in crate::cpu::simd) fn split2(w: __m256) -> (__m256, __m256) {
    avx2! {
        let offset = _mm256_set1_epi32(0x3f80_0000 - 0x3f35_04f3);
        let bits = _mm256_add_epi32(_mm256_castps_si256(w), offset);
        let k = _mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(127));
        let mantissa = _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff));
        let m = _mm256_add_epi32(mantissa, _mm256_set1_epi32(0x3f35_04f3));
        (_mm256_cvtepi32_ps(k), _mm256_castsi256_ps(m))
    }
}

/// The first two steps of the canonical fold.
#[inline(always)]
pub(in crate::cpu::simd) fn fold_to_four(v: F32x16) -> __m128 {
    avx2! {
        let eight = _mm256_add_ps(v.0, v.1);
        _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
    }
}

/// `[8][4]` to `[4][8]`: 4x4 transposes of rows 0-3 in the low lanes, of rows 4-7 in the high ones.
#[inline(always)]
pub(in crate::cpu::simd) fn transpose4(from: &[f32; 32]) -> [__m256; 4] {
    let p = from.as_ptr();
    avx2! {
        let a = _mm256_loadu2_m128(p.add(16), p);
        let b = _mm256_loadu2_m128(p.add(20), p.add(4));
        let c = _mm256_loadu2_m128(p.add(24), p.add(8));
        let d = _mm256_loadu2_m128(p.add(28), p.add(12));
        let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab0, cd0),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab0, cd0),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab1, cd1),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab1, cd1),
        ]
    }
}

/// Sums of adjacent pairs of products, i16. `w` is u8 and the sums fit, or `wide`: `w` is i8.
///
/// For wide weights `|w| <= 128` as u8 and `x` takes its sign: `2 * 128 * 127 = 32512` fits, and
/// negating `x` (at least -127) cannot overflow.
#[inline(always)]
pub(in crate::cpu::simd) fn pair_products(wide: bool, w: __m256i, x: __m256i) -> __m256i {
    avx2! {
        if wide {
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
        } else {
            _mm256_maddubs_epi16(w, x)
        }
    }
}

#[inline(always)]
pub(in crate::cpu::simd) fn load_i(from: &[u8; 32]) -> __m256i {
    avx2! { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline(always)]
pub(in crate::cpu::simd) fn part32<T>(from: &[T; 256], index: usize) -> &[T; 32] {
    from[index * 32..].first_chunk().expect("32 of 256 values")
}

/// Keeps a value in its register at this place in the code.
///
/// Without it the compiler, free to reorder exact sums, takes one accumulator of a tile after the
/// other and spills the activations and weights that they share.
#[target_feature(enable = "avx2")]
#[inline]
fn pin(v: &mut __m256i) {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(ymm_reg) * v, options(nomem, nostack, preserves_flags)) }
}

/// [`Simd::tile_group`].
///
/// # Safety
/// `x` holds `P::STEPS * 32` bytes at each of `NB` multiples of `stride`, each of `w` `P::STEPS *
/// 4`.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) unsafe fn tile_group<P: Packing, const R: usize, const NB: usize>(
    acc: &mut [[__m256i; NB]; R],
    x: *const i8,
    stride: usize,
    w: [*const u8; R],
    scale: [i16; R],
) {
    const { assert!(P::SAFE >= 1 && (P::STEPS <= P::SAFE || P::STEPS.is_multiple_of(P::SAFE))) };
    let run = P::STEPS.min(P::SAFE);
    for first in (0..P::STEPS).step_by(run) {
        let mut part = [[_mm256_setzero_si256(); NB]; R];
        for step in first..first + run {
            let mut columns = [_mm256_setzero_si256(); NB];
            for (b, column) in columns.iter_mut().enumerate() {
                // SAFETY: step < P::STEPS, b < NB.
                *column = unsafe { _mm256_loadu_si256(x.add(b * stride + step * 32).cast()) };
            }
            for r in 0..R {
                // SAFETY: step < P::STEPS.
                let four = unsafe { w[r].add(step * 4).cast::<i32>().read_unaligned() };
                let four = _mm256_set1_epi32(four);
                for b in 0..NB {
                    let products = pair_products(P::WIDE, four, columns[b]);
                    part[r][b] = if step == first {
                        products
                    } else {
                        _mm256_add_epi16(part[r][b], products)
                    };
                    pin(&mut part[r][b]);
                }
            }
        }
        for r in 0..R {
            let scale = _mm256_set1_epi16(scale[r]);
            for b in 0..NB {
                let scaled = _mm256_madd_epi16(part[r][b], scale);
                acc[r][b] = _mm256_add_epi32(acc[r][b], scaled);
            }
        }
    }
}

/// Shuffles that repeat the words `2j` and `2j + 1` of a half: one in the low lane, one in the
/// high.
pub(super) static SCALE_SHUFFLE: [[u8; 32]; 4] = {
    let mut masks = [[0; 32]; 4];
    let mut j = 0;
    while j < 4 {
        let mut i = 0;
        while i < 32 {
            let word = 2 * j + i / 16;
            masks[j][i] = (2 * word + i % 2) as u8;
            i += 1;
        }
        j += 1;
    }
    masks
};

/// `[sum of a, sum of b]` of eight lanes each.
#[inline(always)]
pub(in crate::cpu::simd) fn sum_both(a: __m256i, b: __m256i) -> (i32, i32) {
    avx2! {
        let ab = _mm256_hadd_epi32(a, b);
        let half = _mm_add_epi32(_mm256_castsi256_si128(ab), _mm256_extracti128_si256::<1>(ab));
        let both = _mm_hadd_epi32(half, half);
        let pair = _mm_cvtsi128_si64(both);
        (pair as i32, (pair >> 32) as i32)
    }
}

/// Two i16 as the lanes of an i32.
#[inline(always)]
pub(in crate::cpu::simd) fn pair_bits([low, high]: [i16; 2]) -> i32 {
    i32::from(low) & 0xffff | i32::from(high) << 16
}

/// Eight steps of eight columns: block `block` of 32 values of each, transposed.
#[inline(always)]
pub(in crate::cpu::simd) fn columns8(from: &[&[i8; 256]; 8], block: usize) -> [__m256i; 8] {
    let mut rows = [avx2! { _mm256_setzero_si256() }; 8];
    for (row, from) in rows.iter_mut().zip(from) {
        let part = part32(from, block);
        *row = avx2! { _mm256_loadu_si256(part.as_ptr().cast()) };
    }
    transpose8(rows)
}

/// Transposes eight rows of eight 4-byte units.
#[inline(always)]
pub(in crate::cpu::simd) fn transpose8(r: [__m256i; 8]) -> [__m256i; 8] {
    avx2! {
        let pairs: [__m256i; 8] = std::array::from_fn(|i| {
            let (a, b) = (r[i / 2 * 2], r[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm256_unpacklo_epi32(a, b) } else { _mm256_unpackhi_epi32(a, b) }
        });
        // fours[4h + c]: column c (and c + 4 in the high lane) of rows 4h..4h + 4.
        let fours: [__m256i; 8] = std::array::from_fn(|i| {
            let (half, column) = (i / 4 * 4, i % 4);
            let (a, b) = (pairs[half + column / 2], pairs[half + column / 2 + 2]);
            if column % 2 == 0 { _mm256_unpacklo_epi64(a, b) } else { _mm256_unpackhi_epi64(a, b) }
        });
        std::array::from_fn(|i| {
            let (a, b) = (fours[i % 4], fours[4 + i % 4]);
            if i < 4 {
                _mm256_permute2x128_si256::<0x20>(a, b)
            } else {
                _mm256_permute2x128_si256::<0x31>(a, b)
            }
        })
    }
}
