//! AVX2 with FMA and F16C.

mod parts;

pub(in crate::cpu::simd) use parts::*;

use std::arch::x86_64::*;
use std::hint::black_box;

use super::{Isa, Packing, Simd, TileX};

/// Token of the AVX2 set: exists only where the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, for a set that includes this one.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    pub(super) const unsafe fn assume() -> Self {
        Self(())
    }
}

impl Simd for Avx2 {
    const ISA: Isa = Isa::Avx2;
    const LANES: usize = 8;
    type Narrow = Self;
    type F = F32x16;
    type B = __m256i;
    type I = __m256i;
    type C = __m256;

    #[inline]
    fn enter<R>(f: impl FnOnce(Self) -> R) -> R {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inner<R>(f: impl FnOnce(Avx2) -> R) -> R {
            f(Avx2(()))
        }
        assert!(Isa::Avx2.is_available(), "this processor has no AVX2 with FMA and F16C");
        // SAFETY: the features of `inner` were just found.
        unsafe { inner(f) }
    }

    #[inline(always)]
    fn splat(self, v: f32) -> F32x16 {
        let v = avx2! { _mm256_set1_ps(v) };
        F32x16(v, v)
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> F32x16 {
        let p = from.as_ptr();
        avx2! { F32x16(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    fn store(self, v: F32x16, to: &mut [f32; 16]) {
        let p = to.as_mut_ptr();
        avx2! {
            _mm256_storeu_ps(p, v.0);
            _mm256_storeu_ps(p.add(8), v.1);
        }
    }
    #[inline(always)]
    fn add(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_add_ps(a, b) })
    }
    #[inline(always)]
    fn sub(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_sub_ps(a, b) })
    }
    #[inline(always)]
    fn mul(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_mul_ps(a, b) })
    }
    #[inline(always)]
    fn div(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_div_ps(a, b) })
    }
    #[inline(always)]
    fn fma(self, a: F32x16, b: F32x16, c: F32x16) -> F32x16 {
        avx2! { F32x16(_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn max(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_max_ps(a, b) })
    }
    #[inline(always)]
    fn min(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| avx2! { _mm256_min_ps(a, b) })
    }
    #[inline(always)]
    fn select_gt(self, a: F32x16, b: F32x16, yes: F32x16, no: F32x16) -> F32x16 {
        let mask = map2(a, b, |a, b| avx2! { _mm256_cmp_ps::<_CMP_GT_OQ>(a, b) });
        avx2! {
            F32x16(
                _mm256_blendv_ps(no.0, yes.0, mask.0),
                _mm256_blendv_ps(no.1, yes.1, mask.1),
            )
        }
    }
    #[inline(always)]
    fn round(self, a: F32x16) -> F32x16 {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        map1(a, |a| avx2! { _mm256_round_ps::<NEAREST>(a) })
    }
    #[inline(always)]
    fn scale2(self, p: F32x16, n: F32x16) -> F32x16 {
        F32x16(scale2(p.0, n.0), scale2(p.1, n.1))
    }
    #[inline(always)]
    fn split2(self, w: F32x16) -> (F32x16, F32x16) {
        let (low, high) = (split2(w.0), split2(w.1));
        (F32x16(low.0, high.0), F32x16(low.1, high.1))
    }
    #[inline(always)]
    fn fold(self, v: F32x16) -> f32 {
        avx2! {
            let four = fold_to_four(v);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn fold4(self, v: [F32x16; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        let [a, b, c, d] = v;
        let (a, b, c, d) = (fold_to_four(a), fold_to_four(b), fold_to_four(c), fold_to_four(d));
        avx2! {
            let (ab0, ab1) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
            // Lanes i and i + 2 of every vector, then the two sums.
            let even = _mm_add_ps(_mm_movelh_ps(ab0, cd0), _mm_movelh_ps(ab1, cd1));
            let odd = _mm_add_ps(_mm_movehl_ps(cd0, ab0), _mm_movehl_ps(cd1, ab1));
            _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(even, odd));
        }
        out
    }
    #[inline(always)]
    fn fold_max(self, v: F32x16) -> f32 {
        avx2! {
            let eight = _mm256_max_ps(v.0, v.1);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn to_i8(self, v: F32x16, to: &mut [u8; 16]) -> i32 {
        avx2! {
            let (a, b) = (_mm256_cvtps_epi32(v.0), _mm256_cvtps_epi32(v.1));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
            let low = _mm256_castsi256_si128(words);
            let bytes = _mm_packs_epi16(low, _mm256_extracti128_si256::<1>(words));
            let bytes = _mm_max_epi8(bytes, _mm_set1_epi8(-127));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes);
            // Offset by 128 the bytes are unsigned and add up in halves.
            let offset = _mm_xor_si128(bytes, _mm_set1_epi8(-128));
            let halves = _mm_sad_epu8(offset, _mm_setzero_si128());
            _mm_cvtsi128_si32(_mm_add_epi32(halves, _mm_unpackhi_epi64(halves, halves))) - 16 * 128
        }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> F32x16 {
        let p = from.as_ptr().cast::<__m128i>();
        avx2! {
            F32x16(
                _mm256_cvtph_ps(_mm_loadu_si128(p)),
                _mm256_cvtph_ps(_mm_loadu_si128(p.add(1))),
            )
        }
    }
    #[inline(always)]
    fn store_f16(self, v: F32x16, to: &mut [u16; 16]) {
        let p = to.as_mut_ptr().cast::<__m128i>();
        avx2! {
            _mm_storeu_si128(p, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0));
            _mm_storeu_si128(p.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.1));
        }
    }
    #[inline(always)]
    fn f16(self, bits: u16) -> f32 {
        avx2! { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }
    #[inline(always)]
    fn transpose4(self, from: &[f32; 64]) -> [F32x16; 4] {
        let low = transpose4(from.first_chunk().expect("half"));
        let high = transpose4(from[32..].first_chunk().expect("half"));
        [
            F32x16(low[0], high[0]),
            F32x16(low[1], high[1]),
            F32x16(low[2], high[2]),
            F32x16(low[3], high[3]),
        ]
    }

    #[inline(always)]
    fn prefetch(self, from: &[u8], at: usize) {
        let line = from.as_ptr().wrapping_add(at);
        avx2! { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }

    #[inline(always)]
    fn izero(self) -> __m256i {
        avx2! { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn isub(self, a: __m256i, b: __m256i) -> __m256i {
        avx2! { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn ipairs(self, acc: __m256i, sums: &[i16], pair: [i16; 2]) -> __m256i {
        let sums: &[i16; 16] = sums.first_chunk().expect("eight columns of two sums");
        avx2! {
            let sums = _mm256_loadu_si256(sums.as_ptr().cast());
            _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi32(pair_bits(pair))))
        }
    }
    #[inline(always)]
    fn itof(self, v: __m256i) -> __m256 {
        avx2! { _mm256_cvtepi32_ps(v) }
    }
    #[inline(always)]
    fn cload(self, from: &[f32]) -> __m256 {
        let from: &[f32; 8] = from.first_chunk().expect("eight columns");
        avx2! { _mm256_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn cstore(self, v: __m256, to: &mut [f32]) {
        let to: &mut [f32; 8] = to.first_chunk_mut().expect("eight columns");
        avx2! { _mm256_storeu_ps(to.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn cscale(self, a: __m256, v: f32) -> __m256 {
        avx2! { _mm256_mul_ps(a, _mm256_set1_ps(v)) }
    }
    #[inline(always)]
    fn cfma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        avx2! { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn tile_group<P: Packing, const R: usize, const NB: usize>(
        self,
        acc: &mut [[__m256i; NB]; R],
        x: TileX<'_>,
        w: [&[u8]; R],
        scale: [i16; R],
    ) {
        assert!(x.x.len() >= (NB - 1) * x.stride + P::STEPS * 32, "tile of activations too short");
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
        avx2! {
            let scales = scale.as_ptr().cast::<__m128i>();
            let halves = [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(scales)),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(scales.add(1))),
            ];
            // Known masks would be replaced by three shuffles each.
            let masks = black_box(&SCALE_SHUFFLE);
            let mut acc = _mm256_setzero_si256();
            for j in 0..8 {
                let x = _mm256_loadu_si256(part32(x, j).as_ptr().cast());
                let products = pair_products(P::WIDE, load_i(part32(q, j)), x);
                let scale = _mm256_shuffle_epi8(halves[j / 4], load_i(&masks[j % 4]));
                acc = _mm256_add_epi32(acc, _mm256_madd_epi16(products, scale));
            }
            let sums = _mm256_loadu_si256(sums.as_ptr().cast());
            let coef = _mm256_loadu_si256(coef.as_ptr().cast());
            sum_both(acc, _mm256_madd_epi16(sums, coef))
        }
    }

    #[inline(always)]
    fn dot_blocks<P: Packing>(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 8] {
        let mut out = [0; 8];
        avx2! {
            let ones = _mm256_set1_epi16(1);
            let s: [__m256i; 8] = std::array::from_fn(|j| {
                let x = _mm256_loadu_si256(part32(x, j).as_ptr().cast());
                let products = pair_products(P::WIDE, load_i(part32(q, j)), x);
                _mm256_madd_epi16(products, ones)
            });
            let (s01, s23) = (_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
            let (s45, s67) = (_mm256_hadd_epi32(s[4], s[5]), _mm256_hadd_epi32(s[6], s[7]));
            let (low, high) = (_mm256_hadd_epi32(s01, s23), _mm256_hadd_epi32(s45, s67));
            let sums = _mm256_add_epi32(
                _mm256_permute2x128_si256::<0x20>(low, high),
                _mm256_permute2x128_si256::<0x31>(low, high),
            );
            _mm256_storeu_si256(out.as_mut_ptr().cast(), sums);
        }
        out
    }

    #[inline(always)]
    fn dot_halves(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 16] {
        let mut out = [0; 16];
        avx2! {
            let ones = _mm256_set1_epi16(1);
            let s: [__m256i; 8] = std::array::from_fn(|j| {
                let x = _mm256_loadu_si256(part32(x, j).as_ptr().cast());
                let products = pair_products(true, load_i(part32(q, j)), x);
                _mm256_madd_epi16(products, ones)
            });
            for half in 0..2 {
                let s = &s[4 * half..];
                // Low lanes hold the even halves of blocks 0..4, high lanes the odd ones.
                let sums =
                    _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
                let (even, odd) =
                    (_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                let to = out.as_mut_ptr().add(8 * half).cast::<__m128i>();
                _mm_storeu_si128(to, _mm_unpacklo_epi32(even, odd));
                _mm_storeu_si128(to.add(1), _mm_unpackhi_epi32(even, odd));
            }
        }
        out
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
        avx2! {
            let old = _mm256_loadu_ps(acc.as_ptr());
            let dots = _mm256_cvtepi32_ps(_mm256_loadu_si256(dots.as_ptr().cast()));
            let scale = _mm256_mul_ps(_mm256_loadu_ps(a.as_ptr()), _mm256_loadu_ps(b.as_ptr()));
            let mut new = _mm256_fmadd_ps(scale, dots, old);
            if count < 8 {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let known = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
                new = _mm256_blendv_ps(old, new, _mm256_castsi256_ps(known));
            }
            _mm256_storeu_ps(acc.as_mut_ptr(), new);
        }
    }

    #[inline(always)]
    fn bload(self, from: &[u8; 32]) -> __m256i {
        load_i(from)
    }
    #[inline(always)]
    fn bstore(self, v: __m256i, to: &mut [u8; 32]) {
        avx2! { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    fn band(self, a: __m256i, mask: u8) -> __m256i {
        avx2! { _mm256_and_si256(a, _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn bor(self, a: __m256i, b: __m256i) -> __m256i {
        avx2! { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn bshr<const N: i32>(self, a: __m256i, mask: u8) -> __m256i {
        // Bits that come from the next byte are masked out.
        avx2! { _mm256_and_si256(_mm256_srli_epi16::<N>(a), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn bshl<const N: i32>(self, a: __m256i) -> __m256i {
        avx2! { _mm256_slli_epi16::<N>(a) }
    }
    #[inline(always)]
    fn bits(self, bits: u32, value: u8) -> __m256i {
        avx2! {
            // Byte j takes the byte of bit j, and keeps that bit.
            let spread = _mm256_set_epi64x(
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
            let mask = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);
            _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
        }
    }

    #[inline(always)]
    fn widen(self, low: u64, high: u64, minus: i16, to: &mut [i16; 16]) {
        avx2! {
            let wide = _mm256_cvtepu8_epi16(_mm_set_epi64x(high as i64, low as i64));
            let wide = _mm256_sub_epi16(wide, _mm256_set1_epi16(minus));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), wide);
        }
    }
    #[inline(always)]
    fn widen_twice(self, bytes: u64, minus: i16, to: &mut [i16; 16]) {
        avx2! {
            let bytes = _mm_cvtsi64_si128(bytes as i64);
            let wide = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(bytes, bytes));
            let wide = _mm256_sub_epi16(wide, _mm256_set1_epi16(minus));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), wide);
        }
    }
    #[inline(always)]
    fn signed_grid(self, words: [u64; 4], signs: u32, offset: u8, to: &mut [u8; 32]) {
        let minus = self.bits(signs, 0xff);
        let [a, b, c, d] = words;
        let (a, b, c, d) = (a as i64, b as i64, c as i64, d as i64);
        avx2! {
            let negated = _mm256_xor_si256(_mm256_setr_epi64x(a, b, c, d), minus);
            let offset = _mm256_sub_epi8(_mm256_set1_epi8(offset as i8), minus);
            self.bstore(_mm256_add_epi8(negated, offset), to);
        }
    }
    #[inline(always)]
    fn lookup_nibbles(self, table: &[i8; 16], from: &[u8; 16], out: &mut [u8; 32]) {
        avx2! {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            let (bytes, mask) = (_mm_loadu_si128(from.as_ptr().cast()), _mm_set1_epi8(15));
            let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), mask);
            let to = out.as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(to, _mm_shuffle_epi8(table, _mm_and_si128(bytes, mask)));
            _mm_storeu_si128(to.add(1), _mm_shuffle_epi8(table, high));
        }
    }

    #[inline(always)]
    fn interleave(self, from: &[&[i8; 256]], to: &mut [i8]) {
        assert!(from.len() == 8 && to.len() == 2048, "one unit of 8 columns");
        let from = from.first_chunk().expect("eight columns");
        for block in 0..8 {
            for (step, v) in columns8(from, block).into_iter().enumerate() {
                let to: &mut [i8; 32] =
                    to[(block * 8 + step) * 32..].first_chunk_mut().expect("in the unit");
                avx2! { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
            }
        }
    }
}
