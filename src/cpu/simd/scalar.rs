//! Plain Rust: the definition the other instruction sets are held to.

use super::{Isa, Packing, Simd, TileX};

/// Token of the scalar set.
#[derive(Clone, Copy, Debug)]
pub struct Scalar(());

type F = [f32; 16];

#[inline(always)]
fn zip(a: F, b: F, f: impl Fn(f32, f32) -> f32) -> F {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// As the processor converts: what does not fit becomes `i32::MIN`.
#[inline(always)]
fn to_i32(v: f32) -> i32 {
    let rounded = v.round_ties_even();
    if (-2_147_483_648.0..2_147_483_648.0).contains(&rounded) { rounded as i32 } else { i32::MIN }
}

/// IEEE half to single, exactly.
#[inline(always)]
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exp, man) = (u32::from(bits >> 10) & 31, u32::from(bits & 0x3ff));
    let magnitude = match exp {
        0 => (man as f32 * (1.0 / 16_777_216.0)).to_bits(),
        31 if man == 0 => 0x7f80_0000,
        31 => 0x7fc0_0000 | man << 13,
        _ => (exp + 112) << 23 | man << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Single to IEEE half, ties to even.
#[inline(always)]
pub(super) fn f32_to_f16(v: f32) -> u16 {
    let bits = v.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let abs = bits & 0x7fff_ffff;
    let magnitude = if abs > 0x7f80_0000 {
        0x7e00 | (abs >> 13 & 0x3ff)
    } else if abs >= 0x477f_f000 {
        0x7c00
    } else if abs < 0x3880_0000 {
        // Subnormal: adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits,
        // rounded.
        (f32::from_bits(abs) + 0.5).to_bits() - 0x3f00_0000
    } else {
        (abs - 0x3800_0000 + 0xfff + (abs >> 13 & 1)) >> 13
    };
    sign | magnitude as u16
}

/// 2^e as f32 for `e` in -126..=127.
#[inline(always)]
fn power2(e: i32) -> f32 {
    f32::from_bits((e.wrapping_add(127) as u32) << 23)
}

#[inline(always)]
fn weight(wide: bool, w: u8) -> i32 {
    if wide { i32::from(w as i8) } else { i32::from(w) }
}

impl Simd for Scalar {
    const ISA: Isa = Isa::Scalar;
    const LANES: usize = 8;
    type Narrow = Self;
    type F = F;
    type B = [u8; 32];
    type I = [i32; 8];
    type C = [f32; 8];

    fn enter<R>(f: impl FnOnce(Self) -> R) -> R {
        f(Self(()))
    }

    #[inline(always)]
    fn splat(self, v: f32) -> F {
        [v; 16]
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> F {
        *from
    }
    #[inline(always)]
    fn store(self, v: F, to: &mut [f32; 16]) {
        *to = v;
    }
    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn select_gt(self, a: F, b: F, yes: F, no: F) -> F {
        std::array::from_fn(|i| if a[i] > b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn round(self, a: F) -> F {
        a.map(f32::round_ties_even)
    }
    #[inline(always)]
    fn scale2(self, p: F, n: F) -> F {
        zip(p, n, |p, n| {
            let n = to_i32(n);
            let half = n >> 1;
            p * power2(half) * power2(n.wrapping_sub(half))
        })
    }
    #[inline(always)]
    fn split2(self, w: F) -> (F, F) {
        let shifted = w.map(|w| w.to_bits().wrapping_add(0x3f80_0000 - 0x3f35_04f3));
        let k = shifted.map(|b| ((b >> 23) as i32 - 127) as f32);
        (k, shifted.map(|b| f32::from_bits((b & 0x007f_ffff) + 0x3f35_04f3)))
    }
    #[inline(always)]
    fn fold(self, v: F) -> f32 {
        let a: [f32; 8] = std::array::from_fn(|i| v[i] + v[i + 8]);
        let b: [f32; 4] = std::array::from_fn(|i| a[i] + a[i + 4]);
        (b[0] + b[2]) + (b[1] + b[3])
    }
    #[inline(always)]
    fn fold4(self, v: [F; 4]) -> [f32; 4] {
        v.map(|v| self.fold(v))
    }
    #[inline(always)]
    fn fold_max(self, v: F) -> f32 {
        v.into_iter().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn to_i8(self, v: F, to: &mut [u8; 16]) -> i32 {
        let q = v.map(|v| to_i32(v).clamp(-127, 127));
        *to = q.map(|q| q as u8);
        q.iter().sum()
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> F {
        from.map(f16_to_f32)
    }
    #[inline(always)]
    fn store_f16(self, v: F, to: &mut [u16; 16]) {
        *to = v.map(f32_to_f16);
    }
    #[inline(always)]
    fn f16(self, bits: u16) -> f32 {
        f16_to_f32(bits)
    }
    #[inline(always)]
    fn transpose4(self, from: &[f32; 64]) -> [F; 4] {
        std::array::from_fn(|t| std::array::from_fn(|i| from[4 * i + t]))
    }

    #[inline(always)]
    fn prefetch(self, _from: &[u8], _at: usize) {}

    #[inline(always)]
    fn izero(self) -> [i32; 8] {
        [0; 8]
    }
    #[inline(always)]
    fn isub(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    fn ipairs(self, acc: [i32; 8], sums: &[i16], pair: [i16; 2]) -> [i32; 8] {
        let sums = &sums[..16];
        std::array::from_fn(|i| {
            acc[i]
                + i32::from(sums[2 * i]) * i32::from(pair[0])
                + i32::from(sums[2 * i + 1]) * i32::from(pair[1])
        })
    }
    #[inline(always)]
    fn itof(self, v: [i32; 8]) -> [f32; 8] {
        v.map(|v| v as f32)
    }
    #[inline(always)]
    fn cload(self, from: &[f32]) -> [f32; 8] {
        *from.first_chunk().expect("eight columns")
    }
    #[inline(always)]
    fn cstore(self, v: [f32; 8], to: &mut [f32]) {
        to[..8].copy_from_slice(&v);
    }
    #[inline(always)]
    fn cscale(self, a: [f32; 8], v: f32) -> [f32; 8] {
        a.map(|a| a * v)
    }
    #[inline(always)]
    fn cfma(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn tile_group<P: Packing, const R: usize, const NB: usize>(
        self,
        acc: &mut [[[i32; 8]; NB]; R],
        x: TileX<'_>,
        w: [&[u8]; R],
        scale: [i16; R],
    ) {
        for (r, row) in acc.iter_mut().enumerate() {
            for (b, columns) in row.iter_mut().enumerate() {
                let x = &x.x[b * x.stride..][..P::STEPS * 32];
                let mut sums = [0; 8];
                for (x, w) in x.chunks_exact(32).zip(w[r].chunks_exact(4)) {
                    for (sum, x) in sums.iter_mut().zip(x.chunks_exact(4)) {
                        for i in 0..4 {
                            *sum += weight(P::WIDE, w[i]) * i32::from(x[i]);
                        }
                    }
                }
                for (column, sum) in columns.iter_mut().zip(sums) {
                    *column = column.wrapping_add(sum * i32::from(scale[r]));
                }
            }
        }
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
        let (mut dot, mut bias) = (0_i32, 0_i32);
        for (g, (q, x)) in q.chunks_exact(16).zip(x.chunks_exact(16)).enumerate() {
            let sum: i32 = q.iter().zip(x).map(|(&q, &x)| weight(P::WIDE, q) * i32::from(x)).sum();
            dot = dot.wrapping_add(i32::from(scale[g]) * sum);
            bias = bias.wrapping_add(i32::from(coef[g]) * i32::from(sums[g]));
        }
        (dot, bias)
    }

    #[inline(always)]
    fn dot_blocks<P: Packing>(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 8] {
        std::array::from_fn(|b| {
            let (q, x) = (&q[b * 32..][..32], &x[b * 32..][..32]);
            q.iter().zip(x).map(|(&q, &x)| weight(P::WIDE, q) * i32::from(x)).sum()
        })
    }

    #[inline(always)]
    fn dot_halves(self, q: &[u8; 256], x: &[i8; 256]) -> [i32; 16] {
        std::array::from_fn(|b| {
            let (q, x) = (&q[b * 16..][..16], &x[b * 16..][..16]);
            q.iter().zip(x).map(|(&q, &x)| weight(true, q) * i32::from(x)).sum()
        })
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
        for i in 0..count.min(8) {
            acc[i] = (a[i] * b[i]).mul_add(dots[i] as f32, acc[i]);
        }
    }

    #[inline(always)]
    fn bload(self, from: &[u8; 32]) -> [u8; 32] {
        *from
    }
    #[inline(always)]
    fn bstore(self, v: [u8; 32], to: &mut [u8; 32]) {
        *to = v;
    }
    #[inline(always)]
    fn band(self, a: [u8; 32], mask: u8) -> [u8; 32] {
        a.map(|a| a & mask)
    }
    #[inline(always)]
    fn bor(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn bshr<const N: i32>(self, a: [u8; 32], mask: u8) -> [u8; 32] {
        a.map(|a| a >> N & mask)
    }
    #[inline(always)]
    fn bshl<const N: i32>(self, a: [u8; 32]) -> [u8; 32] {
        a.map(|a| a << N)
    }
    #[inline(always)]
    fn bits(self, bits: u32, value: u8) -> [u8; 32] {
        std::array::from_fn(|j| if bits >> j & 1 == 1 { value } else { 0 })
    }

    #[inline(always)]
    fn widen(self, low: u64, high: u64, minus: i16, to: &mut [i16; 16]) {
        for (i, to) in to.iter_mut().enumerate() {
            let word = if i < 8 { low } else { high };
            *to = i16::from((word >> (8 * (i % 8))) as u8) - minus;
        }
    }
    #[inline(always)]
    fn widen_twice(self, bytes: u64, minus: i16, to: &mut [i16; 16]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = i16::from((bytes >> (8 * (i / 2))) as u8) - minus;
        }
    }
    #[inline(always)]
    fn signed_grid(self, words: [u64; 4], signs: u32, offset: u8, to: &mut [u8; 32]) {
        for (j, to) in to.iter_mut().enumerate() {
            let g = (words[j / 8] >> (8 * (j % 8))) as u8;
            *to = if signs >> j & 1 == 1 { offset - g } else { offset + g };
        }
    }
    #[inline(always)]
    fn lookup_nibbles(self, table: &[i8; 16], from: &[u8; 16], out: &mut [u8; 32]) {
        for (j, &byte) in from.iter().enumerate() {
            out[j] = table[usize::from(byte & 15)] as u8;
            out[j + 16] = table[usize::from(byte >> 4)] as u8;
        }
    }

    #[inline(always)]
    fn interleave(self, from: &[&[i8; 256]], to: &mut [i8]) {
        interleave(from, 8, to);
    }
}

/// [`Simd::interleave`] for any number of lanes.
#[inline(always)]
pub(super) fn interleave(from: &[&[i8; 256]], lanes: usize, to: &mut [i8]) {
    assert!(from.len() == lanes && to.len() == 256 * lanes, "one unit of {lanes} columns");
    for (lane, column) in from.iter().enumerate() {
        for (step, values) in column.chunks_exact(4).enumerate() {
            to[(step * lanes + lane) * 4..][..4].copy_from_slice(values);
        }
    }
}
