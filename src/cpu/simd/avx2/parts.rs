//! The pieces of the AVX2 operations.

use std::arch::x86_64::*;

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

/// Transposes eight rows of eight 4-byte units.
#[inline(always)]
pub(in crate::cpu::simd) fn transpose8(r: [__m256i; 8]) -> [__m256i; 8] {
    let mut words = [avx2! { _mm256_setzero_si256() }; 8];
    let low = transpose_lanes([r[0], r[1], r[2], r[3]]);
    let high = transpose_lanes([r[4], r[5], r[6], r[7]]);
    for i in 0..4 {
        avx2! {
            words[i] = _mm256_permute2x128_si256::<0x20>(low[i], high[i]);
            words[i + 4] = _mm256_permute2x128_si256::<0x31>(low[i], high[i]);
        }
    }
    words
}

/// Transposes four rows of four words in each 128-bit lane.
#[inline(always)]
pub(in crate::cpu::simd) fn transpose_lanes([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    avx2! {
        let (ab0, ab1) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd0, cd1) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab0, cd0),
            _mm256_unpackhi_epi64(ab0, cd0),
            _mm256_unpacklo_epi64(ab1, cd1),
            _mm256_unpackhi_epi64(ab1, cd1),
        ]
    }
}
