//! NEON with the dot product instructions.

mod tile;

use std::arch::aarch64::*;
use std::arch::asm;

use super::dot4::{self, Dot4 as _};
use super::{BlockPacking, BlockX, Isa, Packing, Rows, Simd, SuperPacking, SuperX, WeightTile};
use tile::U8x32;

/// Token of the set: exists only where the processor has NEON and its dot products.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

/// Sixteen f32, four by four.
#[derive(Clone, Copy)]
pub struct F32x16([float32x4_t; 4]);

/// Evaluates intrinsics; every use sits in a method of the token or below one.
macro_rules! neon {
    ($($body:tt)*) => {
        // SAFETY: a `Neon` is made only by `enter`, after it has found the features. Memory is
        // reached through references to arrays as long as the access, or behind a length check.
        unsafe { $($body)* }
    };
}

use neon;

#[inline(always)]
fn map1(a: F32x16, f: impl Fn(float32x4_t) -> float32x4_t) -> F32x16 {
    let [a0, a1, a2, a3] = a.0;
    F32x16([f(a0), f(a1), f(a2), f(a3)])
}

#[inline(always)]
fn map2(a: F32x16, b: F32x16, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> F32x16 {
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.0, b.0);
    F32x16([f(a0, b0), f(a1, b1), f(a2, b2), f(a3, b3)])
}

/// The first two steps of the canonical fold.
#[inline(always)]
fn fold_to_four(v: F32x16) -> float32x4_t {
    let [a, b, c, d] = v.0;
    neon! { vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d)) }
}

/// To integers, ties to even; what is not a number or beyond i32 becomes `i32::MIN`.
#[inline(always)]
fn to_i32(v: float32x4_t) -> int32x4_t {
    neon! {
        // The instruction takes these to zero and to `i32::MAX`.
        let fits = vcltq_f32(v, vdupq_n_f32(2_147_483_648.0));
        vbslq_s32(fits, vcvtnq_s32_f32(v), vdupq_n_s32(i32::MIN))
    }
}

/// Four f16 to f32.
#[inline(always)]
fn from_f16(v: uint16x4_t) -> float32x4_t {
    let out: float32x4_t;
    neon! {
        asm!(
            "fcvtl {0:v}.4s, {1:v}.4h",
            out(vreg) out, in(vreg) v, options(pure, nomem, nostack)
        );
    }
    out
}

/// To four f16, ties to even.
#[inline(always)]
fn to_f16(v: float32x4_t) -> uint16x4_t {
    let out: uint16x4_t;
    neon! {
        asm!(
            "fcvtn {0:v}.4h, {1:v}.4s",
            out(vreg) out, in(vreg) v, options(pure, nomem, nostack)
        );
    }
    out
}

/// Exponent and mantissa of four lanes.
#[inline(always)]
fn split2(w: float32x4_t) -> (float32x4_t, float32x4_t) {
    neon! {
        let offset = vdupq_n_u32(0x3f80_0000 - 0x3f35_04f3);
        let bits = vaddq_u32(vreinterpretq_u32_f32(w), offset);
        let k = vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32::<23>(bits)), vdupq_n_s32(127));
        let mantissa = vandq_u32(bits, vdupq_n_u32(0x007f_ffff));
        let m = vaddq_u32(mantissa, vdupq_n_u32(0x3f35_04f3));
        (vcvtq_f32_s32(k), vreinterpretq_f32_u32(m))
    }
}

/// `2^n`, for `n` of a normal number.
#[inline(always)]
fn power2(n: int32x4_t) -> float32x4_t {
    neon! { vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127)))) }
}

impl Simd for Neon {
    const ISA: Isa = Isa::Neon;
    const LANES: usize = 8;
    const ROWS: usize = 16;
    const WIDE: bool = false;
    type F = F32x16;
    type V = U8x32;

    #[inline]
    fn enter<R>(f: impl FnOnce(Self) -> R) -> R {
        #[target_feature(enable = "neon,dotprod")]
        fn inner<R>(f: impl FnOnce(Neon) -> R) -> R {
            f(Neon(()))
        }
        assert!(Isa::Neon.is_available(), "this processor has no NEON with dot products");
        // SAFETY: the features of `inner` were just found.
        unsafe { inner(f) }
    }

    #[inline(always)]
    fn splat(self, v: f32) -> F32x16 {
        F32x16([neon! { vdupq_n_f32(v) }; 4])
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> F32x16 {
        let p = from.as_ptr();
        let mut out = self.splat(0.0);
        for (i, out) in out.0.iter_mut().enumerate() {
            *out = neon! { vld1q_f32(p.add(4 * i)) };
        }
        out
    }
    #[inline(always)]
    fn store(self, v: F32x16, to: &mut [f32; 16]) {
        let p = to.as_mut_ptr();
        for (i, v) in v.0.into_iter().enumerate() {
            neon! { vst1q_f32(p.add(4 * i), v) }
        }
    }
    #[inline(always)]
    fn add(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| neon! { vaddq_f32(a, b) })
    }
    #[inline(always)]
    fn sub(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| neon! { vsubq_f32(a, b) })
    }
    #[inline(always)]
    fn mul(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| neon! { vmulq_f32(a, b) })
    }
    #[inline(always)]
    fn div(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| neon! { vdivq_f32(a, b) })
    }
    #[inline(always)]
    fn fma(self, a: F32x16, b: F32x16, c: F32x16) -> F32x16 {
        let mut out = c;
        for i in 0..4 {
            out.0[i] = neon! { vfmaq_f32(c.0[i], a.0[i], b.0[i]) };
        }
        out
    }
    #[inline(always)]
    fn max(self, a: F32x16, b: F32x16) -> F32x16 {
        // Not the instruction of that name: it prefers NaN to numbers and 0 to -0.
        map2(a, b, |a, b| neon! { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }
    #[inline(always)]
    fn min(self, a: F32x16, b: F32x16) -> F32x16 {
        map2(a, b, |a, b| neon! { vbslq_f32(vcltq_f32(a, b), a, b) })
    }
    #[inline(always)]
    fn select_gt(self, a: F32x16, b: F32x16, yes: F32x16, no: F32x16) -> F32x16 {
        let mut out = no;
        for i in 0..4 {
            out.0[i] = neon! { vbslq_f32(vcgtq_f32(a.0[i], b.0[i]), yes.0[i], no.0[i]) };
        }
        out
    }
    #[inline(always)]
    fn round(self, a: F32x16) -> F32x16 {
        map1(a, |a| neon! { vrndnq_f32(a) })
    }
    #[inline(always)]
    fn scale2(self, p: F32x16, n: F32x16) -> F32x16 {
        map2(p, n, |p, n| {
            let n = to_i32(n);
            neon! {
                let half = vshrq_n_s32::<1>(n);
                vmulq_f32(vmulq_f32(p, power2(half)), power2(vsubq_s32(n, half)))
            }
        })
    }
    #[inline(always)]
    fn split2(self, w: F32x16) -> (F32x16, F32x16) {
        let (mut k, mut m) = (w, w);
        for i in 0..4 {
            (k.0[i], m.0[i]) = split2(w.0[i]);
        }
        (k, m)
    }
    #[inline(always)]
    fn fold(self, v: F32x16) -> f32 {
        let four = fold_to_four(v);
        neon! { vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four))) }
    }
    #[inline(always)]
    fn fold4(self, v: [F32x16; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        let [a, b, c, d] = v;
        let (a, b, c, d) = (fold_to_four(a), fold_to_four(b), fold_to_four(c), fold_to_four(d));
        neon! {
            // Lanes i and i + 2 of every vector, then the two sums.
            let ab = vaddq_f32(first_halves(a, b), second_halves(a, b));
            let cd = vaddq_f32(first_halves(c, d), second_halves(c, d));
            vst1q_f32(out.as_mut_ptr(), vpaddq_f32(ab, cd));
        }
        out
    }
    #[inline(always)]
    fn fold_max(self, v: F32x16) -> f32 {
        let [a, b, c, d] = v.0;
        neon! { vmaxvq_f32(vmaxq_f32(vmaxq_f32(a, b), vmaxq_f32(c, d))) }
    }
    #[inline(always)]
    fn to_i8(self, v: F32x16, to: &mut [u8; 16]) -> i32 {
        let [a, b, c, d] = v.0;
        neon! {
            let low = vcombine_s16(vqmovn_s32(to_i32(a)), vqmovn_s32(to_i32(b)));
            let high = vcombine_s16(vqmovn_s32(to_i32(c)), vqmovn_s32(to_i32(d)));
            let bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
            let bytes = vmaxq_s8(bytes, vdupq_n_s8(-127));
            vst1q_s8(to.as_mut_ptr().cast(), bytes);
            i32::from(vaddlvq_s8(bytes))
        }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> F32x16 {
        let p = from.as_ptr();
        let mut out = self.splat(0.0);
        for (i, out) in out.0.iter_mut().enumerate() {
            *out = from_f16(neon! { vld1_u16(p.add(4 * i)) });
        }
        out
    }
    #[inline(always)]
    fn store_f16(self, v: F32x16, to: &mut [u16; 16]) {
        let p = to.as_mut_ptr();
        for (i, v) in v.0.into_iter().enumerate() {
            neon! { vst1_u16(p.add(4 * i), to_f16(v)) }
        }
    }
    #[inline(always)]
    fn f16(self, bits: u16) -> f32 {
        neon! { vgetq_lane_f32::<0>(from_f16(vdup_n_u16(bits))) }
    }
    #[inline(always)]
    fn transpose4(self, from: &[f32; 64]) -> [F32x16; 4] {
        let mut out = [self.splat(0.0); 4];
        for i in 0..4 {
            let four = neon! { vld4q_f32(from.as_ptr().add(16 * i)) };
            (out[0].0[i], out[1].0[i], out[2].0[i], out[3].0[i]) = (four.0, four.1, four.2, four.3);
        }
        out
    }

    #[inline(always)]
    fn prefetch(self, from: &[u8], at: usize) {
        let line = from.as_ptr().addr().wrapping_add(at);
        // SAFETY: a hint; it reads nothing and cannot fault.
        unsafe {
            asm!("prfm pldl2keep, [{}]", in(reg) line, options(nomem, nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [U8x32; 8] {
        rows.ahead_of_read(self, 32 * Self::LANES);
        tile::rows(rows, lane, at)
    }
    #[inline(always)]
    fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [U8x32; 4] {
        rows.ahead_of_read(self, 16 * Self::LANES);
        tile::short_rows(rows, lane, at)
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], a: U8x32) -> U8x32 {
        neon! {
            let table = vld1q_u8(table.as_ptr().cast());
            U8x32(vqtbl1q_u8(table, a.0), vqtbl1q_u8(table, a.1))
        }
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: U8x32) -> U8x32 {
        assert!(table.len().is_power_of_two(), "a table of {} words", table.len());
        let mut words = [0; 8];
        let [low, high] = a.words();
        neon! {
            vst1q_u32(words.as_mut_ptr(), low);
            vst1q_u32(words.as_mut_ptr().add(4), high);
        }
        let found = words.map(|word| table[word as usize & (table.len() - 1)]);
        neon! { U8x32::of_words([vld1q_u32(found.as_ptr()), vld1q_u32(found.as_ptr().add(4))]) }
    }
    #[inline(always)]
    fn halves(self, a: U8x32, factor: f32) -> U8x32 {
        let [low, high] = a.words();
        neon! {
            let (low, high) = (from_f16(vmovn_u32(low)), from_f16(vmovn_u32(high)));
            U8x32::of_floats([vmulq_n_f32(low, factor), vmulq_n_f32(high, factor)])
        }
    }

    dot4::units!(Neon, "neon,dotprod", 2);
}

/// Lanes 0 and 1 of two vectors.
#[inline(always)]
fn first_halves(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    neon! { vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))) }
}

/// Lanes 2 and 3 of two vectors.
#[inline(always)]
fn second_halves(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    neon! { vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))) }
}
