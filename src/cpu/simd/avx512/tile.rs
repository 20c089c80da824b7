//! Words of sixteen rows on AVX-512 with VNNI.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Avx512, avx512};
use crate::cpu::simd::dot4::Dot4;
use crate::cpu::simd::{Bytes, Rows, Words};

impl Bytes for __m512i {
    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        avx512! { _mm512_and_si512(self, _mm512_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        avx512! { _mm512_or_si512(self, other) }
    }
    #[inline(always)]
    fn shr<const N: i32>(self, mask: u8) -> Self {
        // Bits that come from the next byte are masked out.
        avx512! {
            let wide = _mm512_srlv_epi32(self, _mm512_set1_epi32(N));
            _mm512_and_si512(wide, _mm512_set1_epi8(mask as i8))
        }
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        avx512! { _mm512_sllv_epi32(self, _mm512_set1_epi32(N)) }
    }
}

impl Words for __m512i {
    #[inline(always)]
    fn and32(self, mask: u32) -> Self {
        avx512! { _mm512_and_si512(self, _mm512_set1_epi32(mask.cast_signed())) }
    }
    #[inline(always)]
    fn shr32(self, n: u32) -> Self {
        avx512! { _mm512_srlv_epi32(self, _mm512_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn sar32(self, n: u32) -> Self {
        avx512! { _mm512_srav_epi32(self, _mm512_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn shl32(self, n: u32) -> Self {
        avx512! { _mm512_sllv_epi32(self, _mm512_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn add32(self, n: i32) -> Self {
        avx512! { _mm512_add_epi32(self, _mm512_set1_epi32(n)) }
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        avx512! { _mm512_xor_si512(self, other) }
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        avx512! { _mm512_sub_epi32(self, other) }
    }
    #[inline(always)]
    fn mul32(self, n: u32) -> Self {
        avx512! { _mm512_mullo_epi32(self, _mm512_set1_epi32(n.cast_signed())) }
    }
    #[inline(always)]
    fn equals(self, n: u32) -> Self {
        avx512! { _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(self, _mm512_set1_epi32(n.cast_signed()))) }
    }
    #[inline(always)]
    fn pick(self, yes: Self, no: Self) -> Self {
        // Bit by bit `mask ? yes : no`.
        avx512! { _mm512_ternarylogic_epi32::<0xca>(self, yes, no) }
    }
}

/// [`super::Simd::rows`].
///
/// Rows are paired so that the last shuffle leaves them in order: in each 128-bit lane four words of
/// one row, then four by four transposed, then even and odd lanes of both halves brought together.
#[inline(always)]
pub(super) fn rows(rows: &Rows<'_>, lane: usize, at: usize) -> [__m512i; 8] {
    rows.check(at, 32);
    let mut words = [avx512! { _mm512_setzero_si512() }; 8];
    let low = transpose4(pairs(rows, lane, at));
    let high = transpose4(pairs(rows, lane + 8, at));
    for i in 0..4 {
        avx512! {
            words[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(low[i], high[i]);
            words[i + 4] = _mm512_shuffle_i32x4::<0b11_01_11_01>(low[i], high[i]);
        }
    }
    words
}

/// [`super::Simd::short_rows`].
#[inline(always)]
pub(super) fn short_rows(rows: &Rows<'_>, lane: usize, at: usize) -> [__m512i; 4] {
    rows.check(at, 16);
    let mut fours = [avx512! { _mm512_setzero_si512() }; 4];
    for (i, four) in fours.iter_mut().enumerate() {
        let starts = [0, 4, 8, 12].map(|row| rows.starts[lane + i + row] + at);
        let from = starts.map(|start| rows.bytes[start..].as_ptr().cast::<__m128i>());
        avx512! {
            let first = _mm512_castsi128_si512(_mm_loadu_si128(from[0]));
            let two = _mm512_inserti32x4::<1>(first, _mm_loadu_si128(from[1]));
            let three = _mm512_inserti32x4::<2>(two, _mm_loadu_si128(from[2]));
            *four = _mm512_inserti32x4::<3>(three, _mm_loadu_si128(from[3]));
        }
    }
    transpose4(fours)
}

/// Rows `lane + i` and `lane + i + 4` for `i` below 4. The bytes have been checked.
#[inline(always)]
fn pairs(rows: &Rows<'_>, lane: usize, at: usize) -> [__m512i; 4] {
    let mut pairs = [avx512! { _mm512_setzero_si512() }; 4];
    for (i, pair) in pairs.iter_mut().enumerate() {
        let [low, high] = [rows.starts[lane + i], rows.starts[lane + i + 4]];
        avx512! {
            let low = rows.bytes.as_ptr().add(low + at).cast();
            let high = rows.bytes.as_ptr().add(high + at).cast();
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(low));
            *pair = _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(high));
        }
    }
    pairs
}

/// Transposes four rows of four words in every 128-bit lane.
#[inline(always)]
fn transpose4([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    avx512! {
        let (ab0, ab1) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd0, cd1) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab0, cd0),
            _mm512_unpackhi_epi64(ab0, cd0),
            _mm512_unpacklo_epi64(ab1, cd1),
            _mm512_unpackhi_epi64(ab1, cd1),
        ]
    }
}

/// [`super::Simd::halves`].
#[inline(always)]
pub(super) fn halves(a: __m512i, factor: f32) -> __m512i {
    avx512! {
        let wide = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
        _mm512_castps_si512(_mm512_mul_ps(wide, _mm512_set1_ps(factor)))
    }
}

/// Keeps a value in its register at this place in the code; see the one of AVX2.
#[target_feature(enable = "avx512f")]
#[inline]
fn pin(v: &mut __m512i) {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(zmm_reg) * v, options(nomem, nostack, preserves_flags)) }
}

impl Dot4 for Avx512 {
    const OFFSET: i32 = 128;
    const SCALES_IN_FLOAT: bool = true;

    #[inline(always)]
    fn all(self, v: i32) -> __m512i {
        avx512! { _mm512_set1_epi32(v) }
    }
    #[inline(always)]
    unsafe fn get(self, from: *const u32) -> __m512i {
        avx512! { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn set(self, v: __m512i, to: *mut u32) {
        avx512! { _mm512_storeu_si512(to.cast(), v) }
    }
    #[inline(always)]
    fn offset(self, q: __m512i) -> __m512i {
        avx512! { _mm512_xor_si512(q, _mm512_set1_epi8(-128)) }
    }
    #[inline(always)]
    fn dot4(self, sum: __m512i, w: __m512i, x: __m512i) -> __m512i {
        avx512! {
            let mut sum = _mm512_dpbusd_epi32(sum, w, x);
            pin(&mut sum);
            sum
        }
    }
    #[inline(always)]
    fn dot2(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        avx512! { _mm512_dpwssd_epi32(sum, a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        avx512! { _mm512_add_epi32(c, _mm512_mullo_epi32(a, b)) }
    }
    #[inline(always)]
    fn sum(self, a: __m512i, b: __m512i) -> __m512i {
        avx512! { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn less(self, a: __m512i, b: __m512i) -> __m512i {
        avx512! { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn to_float(self, a: __m512i) -> __m512i {
        avx512! { _mm512_castps_si512(_mm512_cvtepi32_ps(a)) }
    }
    #[inline(always)]
    fn to_int(self, a: __m512i) -> __m512i {
        avx512! { _mm512_cvtps_epi32(_mm512_castsi512_ps(a)) }
    }
    #[inline(always)]
    fn float_mul(self, a: __m512i, b: __m512i) -> __m512i {
        avx512! {
            let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
            _mm512_castps_si512(_mm512_mul_ps(a, b))
        }
    }
    #[inline(always)]
    fn float_fma(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        avx512! {
            let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
            _mm512_castps_si512(_mm512_fmadd_ps(a, b, _mm512_castsi512_ps(c)))
        }
    }
}
