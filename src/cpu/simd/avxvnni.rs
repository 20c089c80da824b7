//! AVX2 with AVX-VNNI: tiles of two vectors of eight rows; everything else is that of AVX2.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::dot4::{self, Dot4};
use super::{
    BlockPacking, BlockX, Isa, Packing, Rows, Simd, SuperPacking, SuperX, WeightTile, forward,
};

/// Token of the set: exists only where the processor has AVX-VNNI and all of [`Avx2`]'s features.
#[derive(Clone, Copy, Debug)]
pub struct AvxVnni(Avx2);

/// Evaluates intrinsics; every use sits in a method of the token or below one.
macro_rules! avxvnni {
    ($($body:tt)*) => {
        // SAFETY: an `AvxVnni` is made only by `enter`, after it has found the features. Memory is
        // reached as the caller's contract allows.
        unsafe { $($body)* }
    };
}

impl Simd for AvxVnni {
    const ISA: Isa = Isa::AvxVnni;
    const LANES: usize = 8;
    const ROWS: usize = 16;
    const WIDE: bool = false;
    type F = <Avx2 as Simd>::F;
    type V = <Avx2 as Simd>::V;

    #[inline]
    fn enter<R>(f: impl FnOnce(Self) -> R) -> R {
        #[target_feature(enable = "avxvnni,avx2,fma,f16c")]
        fn inner<R>(f: impl FnOnce(AvxVnni) -> R) -> R {
            // SAFETY: this function's features include those of AVX2.
            f(AvxVnni(unsafe { Avx2::assume() }))
        }
        assert!(Isa::AvxVnni.is_available(), "this processor has no AVX2 with AVX-VNNI");
        // SAFETY: the features of `inner` were just found.
        unsafe { inner(f) }
    }

    forward::methods! {
        fn splat(self, v: f32) -> Self::F;
        fn load(self, from: &[f32; 16]) -> Self::F;
        fn store(self, v: Self::F, to: &mut [f32; 16]);
        fn add(self, a: Self::F, b: Self::F) -> Self::F;
        fn sub(self, a: Self::F, b: Self::F) -> Self::F;
        fn mul(self, a: Self::F, b: Self::F) -> Self::F;
        fn div(self, a: Self::F, b: Self::F) -> Self::F;
        fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
        fn max(self, a: Self::F, b: Self::F) -> Self::F;
        fn min(self, a: Self::F, b: Self::F) -> Self::F;
        fn select_gt(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
        fn round(self, a: Self::F) -> Self::F;
        fn scale2(self, p: Self::F, n: Self::F) -> Self::F;
        fn split2(self, w: Self::F) -> (Self::F, Self::F);
        fn fold(self, v: Self::F) -> f32;
        fn fold4(self, v: [Self::F; 4]) -> [f32; 4];
        fn fold_max(self, v: Self::F) -> f32;
        fn to_i8(self, v: Self::F, to: &mut [u8; 16]) -> i32;
        fn load_f16(self, from: &[u16; 16]) -> Self::F;
        fn store_f16(self, v: Self::F, to: &mut [u16; 16]);
        fn transpose4(self, from: &[f32; 64]) -> [Self::F; 4];
        fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 8];
        fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 4];
        fn lookup(self, table: &[i8; 16], a: Self::V) -> Self::V;
        fn gather(self, table: &[u32], a: Self::V) -> Self::V;
        fn halves(self, a: Self::V, factor: f32) -> Self::V;
        fn f16(self, bits: u16) -> f32;
        fn prefetch(self, from: &[u8], at: usize);
    }
    dot4::units!(AvxVnni, "avxvnni,avx2,fma,f16c", 2);
}

/// Keeps a value in its register at this place in the code; see the one of AVX2.
#[target_feature(enable = "avx2")]
#[inline]
fn pin(v: &mut __m256i) {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(ymm_reg) * v, options(nomem, nostack, preserves_flags)) }
}

impl Dot4 for AvxVnni {
    const OFFSET: i32 = 128;
    const SCALES_IN_FLOAT: bool = true;

    #[inline(always)]
    fn all(self, v: i32) -> __m256i {
        avxvnni! { _mm256_set1_epi32(v) }
    }
    #[inline(always)]
    unsafe fn get(self, from: *const u32) -> __m256i {
        avxvnni! { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn set(self, v: __m256i, to: *mut u32) {
        avxvnni! { _mm256_storeu_si256(to.cast(), v) }
    }
    #[inline(always)]
    fn offset(self, q: __m256i) -> __m256i {
        avxvnni! { _mm256_xor_si256(q, _mm256_set1_epi8(-128)) }
    }
    #[inline(always)]
    fn dot4(self, sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
        avxvnni! {
            let mut sum = _mm256_dpbusd_avx_epi32(sum, w, x);
            pin(&mut sum);
            sum
        }
    }
    #[inline(always)]
    fn dot2(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        avxvnni! { _mm256_dpwssd_avx_epi32(sum, a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        avxvnni! { _mm256_add_epi32(c, _mm256_mullo_epi32(a, b)) }
    }
    #[inline(always)]
    fn sum(self, a: __m256i, b: __m256i) -> __m256i {
        avxvnni! { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn less(self, a: __m256i, b: __m256i) -> __m256i {
        avxvnni! { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn to_float(self, a: __m256i) -> __m256i {
        avxvnni! { _mm256_castps_si256(_mm256_cvtepi32_ps(a)) }
    }
    #[inline(always)]
    fn to_int(self, a: __m256i) -> __m256i {
        avxvnni! { _mm256_cvtps_epi32(_mm256_castsi256_ps(a)) }
    }
    #[inline(always)]
    fn float_mul(self, a: __m256i, b: __m256i) -> __m256i {
        avxvnni! {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_mul_ps(a, b))
        }
    }
    #[inline(always)]
    fn float_fma(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        avxvnni! {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_fmadd_ps(a, b, _mm256_castsi256_ps(c)))
        }
    }
}
