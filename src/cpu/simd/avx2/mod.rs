//! AVX2 with FMA and F16C.

mod parts;
mod tile;

pub(in crate::cpu::simd) use parts::*;

use std::arch::x86_64::*;

use super::{
    BlockPacking, BlockX, Isa, Packing, Rows, Simd, SuperPacking, SuperX, WeightTile, Words as _,
    word,
};

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
    const LANES: usize = tile::ROWS;
    const ROWS: usize = tile::ROWS;
    const WIDE: bool = false;
    type F = F32x16;
    type V = __m256i;

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
        avx2! { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }

    #[inline(always)]
    fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [__m256i; 8] {
        rows.ahead_of_read(self, 32 * Self::LANES);
        tile::rows(rows, lane, at)
    }
    #[inline(always)]
    fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [__m256i; 4] {
        rows.ahead_of_read(self, 16 * Self::LANES);
        tile::short_rows(rows, lane, at)
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], a: __m256i) -> __m256i {
        avx2! {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), a)
        }
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: __m256i) -> __m256i {
        assert!(table.len().is_power_of_two(), "a table of {} words", table.len());
        let index = a.and32(table.len() as u32 - 1);
        avx2! { _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), index) }
    }
    #[inline(always)]
    fn halves(self, a: __m256i, factor: f32) -> __m256i {
        tile::halves(a, factor)
    }
    #[inline(always)]
    fn scales<P: SuperPacking>(self, a: __m256i) -> __m256i {
        // Both factors of a pair's products.
        avx2! { _mm256_or_si256(a.and32(0xffff), a.shl32(16)) }
    }
    #[inline(always)]
    fn put(self, tile: &mut WeightTile, index: usize, lane: usize, v: __m256i) {
        assert!(index < word::COUNT && lane == 0, "outside of the tile");
        let to = &mut tile.0[index * Self::ROWS + lane..];
        avx2! { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    fn put_q<P: Packing>(self, tile: &mut WeightTile, index: usize, lane: usize, v: __m256i) {
        self.put(tile, index, lane, v);
    }
    #[inline(always)]
    fn super_unit<P: SuperPacking, const C: usize>(
        self,
        tile: &WeightTile,
        x: [SuperX<'_>; C],
        acc: &mut [f32],
    ) {
        assert!(acc.len() >= C * Self::ROWS, "sums of {C} columns");
        // SAFETY: the length was just checked, the token says that the features are there.
        unsafe { tile::super_unit::<P, C>(tile, x, acc.as_mut_ptr()) }
    }
    #[inline(always)]
    fn block_unit<P: BlockPacking, const C: usize>(
        self,
        tile: &WeightTile,
        count: usize,
        x: [BlockX<'_>; C],
        acc: &mut [f32],
    ) {
        assert!(acc.len() >= C * 8 * Self::ROWS, "sums of {C} columns");
        assert!(count <= 8 && x.iter().all(|x| x.has(count)), "{count} blocks of a column");
        // SAFETY: the lengths were just checked, the token says that the features are there.
        unsafe { tile::block_unit::<P, C>(tile, count, x, acc.as_mut_ptr()) }
    }
}
