//! AVX-512 with VNNI.
//!
//! One-column dots and byte operations are those of AVX2: they wait for memory, not for arithmetic.

mod tile;

use std::arch::x86_64::*;

use super::avx2::{self, Avx2};
use super::dot4::{self, Dot4 as _};
use super::{
    BlockPacking, BlockX, Isa, Packing, Rows, Simd, SuperPacking, SuperX, WeightTile, Words as _,
    forward,
};

/// Token of the set: exists only where the processor has AVX-512 (F, BW, DQ, VL), AVX-512 VNNI and
/// all of [`Avx2`]'s features.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(Avx2);

/// Evaluates intrinsics; every use sits in a method of the token or below one.
macro_rules! avx512 {
    ($($body:tt)*) => {
        // SAFETY: an `Avx512` is made only by `enter`, after it has found the features. Memory is
        // reached through references to arrays as long as the access, or behind a length check.
        unsafe { $($body)* }
    };
}

use avx512;

impl Simd for Avx512 {
    const ISA: Isa = Isa::Avx512Vnni;
    const LANES: usize = 16;
    const ROWS: usize = 32;
    const WIDE: bool = true;
    type F = __m512;
    type V = __m512i;

    #[inline]
    fn enter<R>(f: impl FnOnce(Self) -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
        fn inner<R>(f: impl FnOnce(Avx512) -> R) -> R {
            // SAFETY: this function's features include those of AVX2.
            f(Avx512(unsafe { Avx2::assume() }))
        }
        assert!(Isa::Avx512Vnni.is_available(), "this processor has no AVX-512 with VNNI");
        // SAFETY: the features of `inner` were just found.
        unsafe { inner(f) }
    }

    #[inline(always)]
    fn splat(self, v: f32) -> __m512 {
        avx512! { _mm512_set1_ps(v) }
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> __m512 {
        avx512! { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32; 16]) {
        avx512! { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        avx512! { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        avx512! { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn select_gt(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
        avx512! { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), no, yes) }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        avx512! { _mm512_roundscale_ps::<NEAREST>(a) }
    }
    #[inline(always)]
    fn scale2(self, p: __m512, n: __m512) -> __m512 {
        avx512! {
            let n = _mm512_cvtps_epi32(n);
            let half = _mm512_srai_epi32::<1>(n);
            let rest = _mm512_sub_epi32(n, half);
            let bias = _mm512_set1_epi32(127);
            let a = _mm512_slli_epi32::<23>(_mm512_add_epi32(half, bias));
            let b = _mm512_slli_epi32::<23>(_mm512_add_epi32(rest, bias));
            _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b))
        }
    }
    #[inline(always)]
    fn split2(self, w: __m512) -> (__m512, __m512) {
        avx512! {
            let offset = _mm512_set1_epi32(0x3f80_0000 - 0x3f35_04f3);
            let bits = _mm512_add_epi32(_mm512_castps_si512(w), offset);
            let k = _mm512_sub_epi32(_mm512_srli_epi32::<23>(bits), _mm512_set1_epi32(127));
            let mantissa = _mm512_and_si512(bits, _mm512_set1_epi32(0x007f_ffff));
            let m = _mm512_add_epi32(mantissa, _mm512_set1_epi32(0x3f35_04f3));
            (_mm512_cvtepi32_ps(k), _mm512_castsi512_ps(m))
        }
    }
    #[inline(always)]
    fn fold(self, v: __m512) -> f32 {
        self.0.fold(halves(v))
    }
    #[inline(always)]
    fn fold4(self, v: [__m512; 4]) -> [f32; 4] {
        self.0.fold4([halves(v[0]), halves(v[1]), halves(v[2]), halves(v[3])])
    }
    #[inline(always)]
    fn fold_max(self, v: __m512) -> f32 {
        self.0.fold_max(halves(v))
    }
    #[inline(always)]
    fn to_i8(self, v: __m512, to: &mut [u8; 16]) -> i32 {
        self.0.to_i8(halves(v), to)
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> __m512 {
        avx512! { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store_f16(self, v: __m512, to: &mut [u16; 16]) {
        avx512! {
            let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), halves);
        }
    }
    #[inline(always)]
    fn transpose4(self, from: &[f32; 64]) -> [__m512; 4] {
        let [a, b, c, d] = self.0.transpose4(from);
        [whole(a), whole(b), whole(c), whole(d)]
    }

    #[inline(always)]
    fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [__m512i; 8] {
        rows.ahead_of_read(self, 32 * Self::LANES);
        tile::rows(rows, lane, at)
    }
    #[inline(always)]
    fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [__m512i; 4] {
        rows.ahead_of_read(self, 16 * Self::LANES);
        tile::short_rows(rows, lane, at)
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], a: __m512i) -> __m512i {
        avx512! {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), a)
        }
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: __m512i) -> __m512i {
        assert!(table.len().is_power_of_two(), "a table of {} words", table.len());
        let index = a.and32(table.len() as u32 - 1);
        avx512! { _mm512_i32gather_epi32::<4>(index, table.as_ptr().cast()) }
    }
    #[inline(always)]
    fn halves(self, a: __m512i, factor: f32) -> __m512i {
        tile::halves(a, factor)
    }

    dot4::units!(Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c", 2);
    forward::methods! {
        fn f16(self, bits: u16) -> f32;
        fn prefetch(self, from: &[u8], at: usize);
    }
}

/// The two halves of a vector, for an operation of AVX2.
#[inline(always)]
fn halves(v: __m512) -> avx2::F32x16 {
    avx512! { avx2::F32x16(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v)) }
}

/// A vector of its two halves.
#[inline(always)]
fn whole(v: avx2::F32x16) -> __m512 {
    avx512! { _mm512_insertf32x8::<1>(_mm512_castps256_ps512(v.0), v.1) }
}
