//! Words of eight rows on NEON with dot products.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Neon, neon};
use crate::cpu::simd::dot4::Dot4;
use crate::cpu::simd::{Bytes, Rows, Words};

/// Words of eight rows: 0-3, 4-7.
#[derive(Clone, Copy)]
pub struct U8x32(pub(super) uint8x16_t, pub(super) uint8x16_t);

impl U8x32 {
    #[inline(always)]
    fn map(self, f: impl Fn(uint8x16_t) -> uint8x16_t) -> Self {
        Self(f(self.0), f(self.1))
    }
    #[inline(always)]
    fn map_words(self, f: impl Fn(uint32x4_t) -> uint32x4_t) -> Self {
        let [low, high] = self.words();
        Self::of_words([f(low), f(high)])
    }
    #[inline(always)]
    pub(super) fn words(self) -> [uint32x4_t; 2] {
        neon! { [vreinterpretq_u32_u8(self.0), vreinterpretq_u32_u8(self.1)] }
    }
    #[inline(always)]
    fn ints(self) -> [int32x4_t; 2] {
        neon! { [vreinterpretq_s32_u8(self.0), vreinterpretq_s32_u8(self.1)] }
    }
    #[inline(always)]
    fn shorts(self) -> [int16x8_t; 2] {
        neon! { [vreinterpretq_s16_u8(self.0), vreinterpretq_s16_u8(self.1)] }
    }
    #[inline(always)]
    fn floats(self) -> [float32x4_t; 2] {
        neon! { [vreinterpretq_f32_u8(self.0), vreinterpretq_f32_u8(self.1)] }
    }
    #[inline(always)]
    pub(super) fn of_words(v: [uint32x4_t; 2]) -> Self {
        neon! { Self(vreinterpretq_u8_u32(v[0]), vreinterpretq_u8_u32(v[1])) }
    }
    #[inline(always)]
    fn of_ints(v: [int32x4_t; 2]) -> Self {
        neon! { Self(vreinterpretq_u8_s32(v[0]), vreinterpretq_u8_s32(v[1])) }
    }
    #[inline(always)]
    pub(super) fn of_floats(v: [float32x4_t; 2]) -> Self {
        neon! { Self(vreinterpretq_u8_f32(v[0]), vreinterpretq_u8_f32(v[1])) }
    }
}

impl Bytes for U8x32 {
    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        self.map(|a| neon! { vandq_u8(a, vdupq_n_u8(mask)) })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        neon! { Self(vorrq_u8(self.0, other.0), vorrq_u8(self.1, other.1)) }
    }
    #[inline(always)]
    fn shr<const N: i32>(self, mask: u8) -> Self {
        self.map(|a| neon! { vshrq_n_u8::<N>(a) }).and(mask)
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        self.map(|a| neon! { vshlq_n_u8::<N>(a) })
    }
}

impl Words for U8x32 {
    #[inline(always)]
    fn and32(self, mask: u32) -> Self {
        self.map_words(|a| neon! { vandq_u32(a, vdupq_n_u32(mask)) })
    }
    // A negative shift to the left is one to the right.
    #[inline(always)]
    fn shr32(self, n: u32) -> Self {
        self.map_words(|a| neon! { vshlq_u32(a, vdupq_n_s32(-n.cast_signed())) })
    }
    #[inline(always)]
    fn sar32(self, n: u32) -> Self {
        let [low, high] = self.ints();
        neon! {
            let right = vdupq_n_s32(-n.cast_signed());
            Self::of_ints([vshlq_s32(low, right), vshlq_s32(high, right)])
        }
    }
    #[inline(always)]
    fn shl32(self, n: u32) -> Self {
        self.map_words(|a| neon! { vshlq_u32(a, vdupq_n_s32(n.cast_signed())) })
    }
    #[inline(always)]
    fn add32(self, n: i32) -> Self {
        self.map_words(|a| neon! { vaddq_u32(a, vdupq_n_u32(n.cast_unsigned())) })
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        neon! { Self(veorq_u8(self.0, other.0), veorq_u8(self.1, other.1)) }
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let (a, b) = (self.words(), other.words());
        neon! { Self::of_words([vsubq_u32(a[0], b[0]), vsubq_u32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn mul32(self, n: u32) -> Self {
        self.map_words(|a| neon! { vmulq_n_u32(a, n) })
    }
    #[inline(always)]
    fn equals(self, n: u32) -> Self {
        self.map_words(|a| neon! { vceqq_u32(a, vdupq_n_u32(n)) })
    }
    #[inline(always)]
    fn pick(self, yes: Self, no: Self) -> Self {
        neon! { Self(vbslq_u8(self.0, yes.0, no.0), vbslq_u8(self.1, yes.1, no.1)) }
    }
}

/// [`super::Simd::rows`].
#[inline(always)]
pub(super) fn rows(rows: &Rows<'_>, lane: usize, at: usize) -> [U8x32; 8] {
    rows.check(at, 32);
    let [a, b, c, d] = four_words(rows, lane, at);
    let [e, f, g, h] = four_words(rows, lane, at + 16);
    [a, b, c, d, e, f, g, h]
}

/// [`super::Simd::short_rows`].
#[inline(always)]
pub(super) fn short_rows(rows: &Rows<'_>, lane: usize, at: usize) -> [U8x32; 4] {
    rows.check(at, 16);
    four_words(rows, lane, at)
}

/// Four words of eight rows. The bytes have been checked.
#[inline(always)]
fn four_words(rows: &Rows<'_>, lane: usize, at: usize) -> [U8x32; 4] {
    let mut all = [neon! { vdupq_n_u32(0) }; 8];
    for (i, row) in all.iter_mut().enumerate() {
        let start = rows.starts[lane + i] + at;
        *row = neon! { vreinterpretq_u32_u8(vld1q_u8(rows.bytes.as_ptr().add(start))) };
    }
    let low = transpose([all[0], all[1], all[2], all[3]]);
    let high = transpose([all[4], all[5], all[6], all[7]]);
    [
        U8x32::of_words([low[0], high[0]]),
        U8x32::of_words([low[1], high[1]]),
        U8x32::of_words([low[2], high[2]]),
        U8x32::of_words([low[3], high[3]]),
    ]
}

/// Transposes four rows of four words.
#[inline(always)]
fn transpose([a, b, c, d]: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
    neon! {
        let (ab0, ab1) = (vtrn1q_u32(a, b), vtrn2q_u32(a, b));
        let (cd0, cd1) = (vtrn1q_u32(c, d), vtrn2q_u32(c, d));
        let (ab0, ab1) = (vreinterpretq_u64_u32(ab0), vreinterpretq_u64_u32(ab1));
        let (cd0, cd1) = (vreinterpretq_u64_u32(cd0), vreinterpretq_u64_u32(cd1));
        [
            vreinterpretq_u32_u64(vtrn1q_u64(ab0, cd0)),
            vreinterpretq_u32_u64(vtrn1q_u64(ab1, cd1)),
            vreinterpretq_u32_u64(vtrn2q_u64(ab0, cd0)),
            vreinterpretq_u32_u64(vtrn2q_u64(ab1, cd1)),
        ]
    }
}

/// `sum` plus the products of four i8 and four i8 in each lane.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn dot(mut sum: int32x4_t, w: uint8x16_t, x: uint8x16_t) -> int32x4_t {
    // SAFETY: an instruction of the features named.
    unsafe {
        asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum, in(vreg) w, in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

impl Dot4 for Neon {
    const OFFSET: i32 = 0;
    const SCALES_IN_FLOAT: bool = false;

    #[inline(always)]
    fn all(self, v: i32) -> U8x32 {
        let v = neon! { vdupq_n_s32(v) };
        U8x32::of_ints([v, v])
    }
    #[inline(always)]
    unsafe fn get(self, from: *const u32) -> U8x32 {
        neon! { U8x32::of_words([vld1q_u32(from), vld1q_u32(from.add(4))]) }
    }
    #[inline(always)]
    unsafe fn set(self, v: U8x32, to: *mut u32) {
        let [low, high] = v.words();
        neon! {
            vst1q_u32(to, low);
            vst1q_u32(to.add(4), high);
        }
    }
    #[inline(always)]
    fn offset(self, q: U8x32) -> U8x32 {
        q
    }
    #[inline(always)]
    fn dot4(self, sum: U8x32, w: U8x32, x: U8x32) -> U8x32 {
        let [low, high] = sum.ints();
        neon! { U8x32::of_ints([dot(low, w.0, x.0), dot(high, w.1, x.1)]) }
    }
    #[inline(always)]
    fn dot2(self, sum: U8x32, a: U8x32, b: U8x32) -> U8x32 {
        let (mut out, a, b) = (sum.ints(), a.shorts(), b.shorts());
        for i in 0..2 {
            neon! {
                let low = vmull_s16(vget_low_s16(a[i]), vget_low_s16(b[i]));
                let pairs = vpaddq_s32(low, vmull_high_s16(a[i], b[i]));
                out[i] = vaddq_s32(out[i], pairs);
            }
        }
        U8x32::of_ints(out)
    }
    #[inline(always)]
    fn mul_add(self, a: U8x32, b: U8x32, c: U8x32) -> U8x32 {
        let (a, b, c) = (a.ints(), b.ints(), c.ints());
        neon! { U8x32::of_ints([vmlaq_s32(c[0], a[0], b[0]), vmlaq_s32(c[1], a[1], b[1])]) }
    }
    #[inline(always)]
    fn sum(self, a: U8x32, b: U8x32) -> U8x32 {
        let (a, b) = (a.ints(), b.ints());
        neon! { U8x32::of_ints([vaddq_s32(a[0], b[0]), vaddq_s32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn less(self, a: U8x32, b: U8x32) -> U8x32 {
        let (a, b) = (a.ints(), b.ints());
        neon! { U8x32::of_ints([vsubq_s32(a[0], b[0]), vsubq_s32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn to_float(self, a: U8x32) -> U8x32 {
        let [low, high] = a.ints();
        neon! { U8x32::of_floats([vcvtq_f32_s32(low), vcvtq_f32_s32(high)]) }
    }
    #[inline(always)]
    fn to_int(self, a: U8x32) -> U8x32 {
        let [low, high] = a.floats();
        neon! { U8x32::of_ints([vcvtnq_s32_f32(low), vcvtnq_s32_f32(high)]) }
    }
    #[inline(always)]
    fn float_mul(self, a: U8x32, b: U8x32) -> U8x32 {
        let (a, b) = (a.floats(), b.floats());
        neon! { U8x32::of_floats([vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn float_fma(self, a: U8x32, b: U8x32, c: U8x32) -> U8x32 {
        let (a, b, c) = (a.floats(), b.floats(), c.floats());
        neon! { U8x32::of_floats([vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])]) }
    }
}
