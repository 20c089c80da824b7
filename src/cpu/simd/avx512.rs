//! AVX-512 with VNNI: sixteen columns a vector, four products a step in one instruction.
//!
//! One-column dots and byte operations are those of AVX2: they wait for memory, not for arithmetic.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx2::{self, Avx2};
use super::{Isa, Packing, Simd, TileX};

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

/// Keeps a value in its register at this place in the code; see the one of AVX2.
#[target_feature(enable = "avx512f")]
#[inline]
fn pin(v: &mut __m512i) {
    // SAFETY: no instructions.
    unsafe { asm!("/* {0} */", inout(zmm_reg) * v, options(nomem, nostack, preserves_flags)) }
}

/// [`Simd::tile_group`].
///
/// Wide weights are taken with an offset of 128, as the instruction wants one factor unsigned; what
/// that adds is summed once for all rows and taken off.
///
/// # Safety
/// `x` holds `P::STEPS * 64` bytes at each of `NB` multiples of `stride`, each of `w` `P::STEPS *
/// 4`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
#[inline]
unsafe fn tile_group<P: Packing, const R: usize, const NB: usize>(
    acc: &mut [[__m512i; NB]; R],
    x: *const i8,
    stride: usize,
    w: [*const u8; R],
    scale: [i16; R],
) {
    let mut part = [[_mm512_setzero_si512(); NB]; R];
    let mut excess = [_mm512_setzero_si512(); NB];
    let sign = _mm512_set1_epi8(-128);
    for step in 0..P::STEPS {
        let mut columns = [_mm512_setzero_si512(); NB];
        for (b, column) in columns.iter_mut().enumerate() {
            // SAFETY: step < P::STEPS, b < NB.
            *column = unsafe { _mm512_loadu_si512(x.add(b * stride + step * 64).cast()) };
            if P::WIDE {
                excess[b] = _mm512_dpbusd_epi32(excess[b], sign, *column);
            }
        }
        for r in 0..R {
            // SAFETY: step < P::STEPS.
            let four = unsafe { w[r].add(step * 4).cast::<i32>().read_unaligned() };
            let mut four = _mm512_set1_epi32(four);
            if P::WIDE {
                four = _mm512_xor_si512(four, sign);
            }
            for b in 0..NB {
                part[r][b] = _mm512_dpbusd_epi32(part[r][b], four, columns[b]);
                pin(&mut part[r][b]);
            }
        }
    }
    for r in 0..R {
        let scale = _mm512_set1_epi32(i32::from(scale[r]));
        for b in 0..NB {
            let sum = _mm512_sub_epi32(part[r][b], excess[b]);
            acc[r][b] = _mm512_add_epi32(acc[r][b], _mm512_mullo_epi32(sum, scale));
        }
    }
}

impl Simd for Avx512 {
    const ISA: Isa = Isa::Avx512Vnni;
    const LANES: usize = 16;
    type Narrow = Avx2;
    type F = __m512;
    type B = __m256i;
    type I = __m512i;
    type C = __m512;

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
    fn f16(self, bits: u16) -> f32 {
        self.0.f16(bits)
    }
    #[inline(always)]
    fn transpose4(self, from: &[f32; 64]) -> [__m512; 4] {
        let [a, b, c, d] = self.0.transpose4(from);
        [whole(a), whole(b), whole(c), whole(d)]
    }
    #[inline(always)]
    fn prefetch(self, from: &[u8], at: usize) {
        self.0.prefetch(from, at);
    }

    #[inline(always)]
    fn izero(self) -> __m512i {
        avx512! { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn isub(self, a: __m512i, b: __m512i) -> __m512i {
        avx512! { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn ipairs(self, acc: __m512i, sums: &[i16], pair: [i16; 2]) -> __m512i {
        let sums: &[i16; 32] = sums.first_chunk().expect("sixteen columns of two sums");
        avx512! {
            let sums = _mm512_loadu_si512(sums.as_ptr().cast());
            let pair = _mm512_set1_epi32(avx2::pair_bits(pair));
            _mm512_add_epi32(acc, _mm512_madd_epi16(sums, pair))
        }
    }
    #[inline(always)]
    fn itof(self, v: __m512i) -> __m512 {
        avx512! { _mm512_cvtepi32_ps(v) }
    }
    #[inline(always)]
    fn cload(self, from: &[f32]) -> __m512 {
        self.load(from.first_chunk().expect("sixteen columns"))
    }
    #[inline(always)]
    fn cstore(self, v: __m512, to: &mut [f32]) {
        self.store(v, to.first_chunk_mut().expect("sixteen columns"));
    }
    #[inline(always)]
    fn cscale(self, a: __m512, v: f32) -> __m512 {
        self.mul(a, self.splat(v))
    }
    #[inline(always)]
    fn cfma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.fma(a, b, c)
    }

    #[inline(always)]
    fn tile_group<P: Packing, const R: usize, const NB: usize>(
        self,
        acc: &mut [[__m512i; NB]; R],
        x: TileX<'_>,
        w: [&[u8]; R],
        scale: [i16; R],
    ) {
        assert!(x.x.len() >= (NB - 1) * x.stride + P::STEPS * 64, "tile of activations too short");
        assert!(w.iter().all(|w| w.len() >= P::STEPS * 4), "group of weights too short");
        // SAFETY: the lengths were just checked, the token says that the features are there.
        unsafe { tile_group::<P, R, NB>(acc, x.x.as_ptr(), x.stride, w.map(<[u8]>::as_ptr), scale) }
    }

    #[inline(always)]
    fn dot_super<P: Packing>(
        self,
        q: &[u8; 256],
        x: &[i8; 256],
        scale: &[i16; 16],
        sums: &[i16; 16],
        coef: &[i16; 16],
    ) -> (i32, i32) {
        self.0.dot_super::<P>(q, x, scale, sums, coef)
    }
    #[inline(always)]
    fn dot_blocks<P: Packing>(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 8] {
        self.0.dot_blocks::<P>(q, x)
    }
    #[inline(always)]
    fn dot_halves(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 16] {
        self.0.dot_halves(q, x)
    }
    #[inline(always)]
    fn add_lanes(
        self,
        acc: &mut [f32; 8],
        a: &[f32; 8],
        b: &[f32; 8],
        dots: &[i32; 8],
        count: usize,
    ) {
        self.0.add_lanes(acc, a, b, dots, count);
    }

    #[inline(always)]
    fn bload(self, from: &[u8; 32]) -> __m256i {
        self.0.bload(from)
    }
    #[inline(always)]
    fn bstore(self, v: __m256i, to: &mut [u8; 32]) {
        self.0.bstore(v, to);
    }
    #[inline(always)]
    fn band(self, a: __m256i, mask: u8) -> __m256i {
        self.0.band(a, mask)
    }
    #[inline(always)]
    fn bor(self, a: __m256i, b: __m256i) -> __m256i {
        self.0.bor(a, b)
    }
    #[inline(always)]
    fn bshr<const N: i32>(self, a: __m256i, mask: u8) -> __m256i {
        self.0.bshr::<N>(a, mask)
    }
    #[inline(always)]
    fn bshl<const N: i32>(self, a: __m256i) -> __m256i {
        self.0.bshl::<N>(a)
    }
    #[inline(always)]
    fn bits(self, bits: u32, value: u8) -> __m256i {
        self.0.bits(bits, value)
    }
    #[inline(always)]
    fn widen(self, low: u64, high: u64, minus: i16, to: &mut [i16; 16]) {
        self.0.widen(low, high, minus, to);
    }
    #[inline(always)]
    fn widen_twice(self, bytes: u64, minus: i16, to: &mut [i16; 16]) {
        self.0.widen_twice(bytes, minus, to);
    }
    #[inline(always)]
    fn signed_grid(self, words: [u64; 4], signs: u32, offset: u8, to: &mut [u8; 32]) {
        self.0.signed_grid(words, signs, offset, to);
    }
    #[inline(always)]
    fn lookup_nibbles(self, table: &[i8; 16], from: &[u8; 16], out: &mut [u8; 32]) {
        self.0.lookup_nibbles(table, from, out);
    }

    #[inline(always)]
    fn interleave(self, from: &[&[i8; 256]], to: &mut [i8]) {
        assert!(from.len() == 16 && to.len() == 4096, "one unit of 16 columns");
        for (half, from) in from.as_chunks::<8>().0.iter().enumerate() {
            for block in 0..8 {
                for (step, v) in avx2::columns8(from, block).into_iter().enumerate() {
                    let to: &mut [i8; 32] = to[(block * 8 + step) * 64 + half * 32..]
                        .first_chunk_mut()
                        .expect("in the unit");
                    avx512! { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
                }
            }
        }
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
