//! Plain Rust: the definition the other instruction sets are held to.

mod tile;

use super::{BlockPacking, BlockX, Isa, Packing, Rows, Simd, SuperPacking, SuperX, WeightTile};

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
    const LANES: usize = tile::ROWS;
    const ROWS: usize = tile::ROWS;
    const WIDE: bool = false;
    type F = F;
    type V = tile::Lanes;

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
    fn rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 8] {
        tile::rows(rows, lane, at)
    }
    #[inline(always)]
    fn short_rows(self, rows: &Rows<'_>, lane: usize, at: usize) -> [Self::V; 4] {
        tile::short_rows(rows, lane, at)
    }
    #[inline(always)]
    fn lookup(self, table: &[i8; 16], a: Self::V) -> Self::V {
        a.map(|a| table[usize::from(a & 15)] as u8)
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: Self::V) -> Self::V {
        assert!(table.len().is_power_of_two(), "a table of {} words", table.len());
        tile::lanes(tile::words(a).map(|a| table[a as usize & (table.len() - 1)]))
    }
    #[inline(always)]
    fn halves(self, a: Self::V, factor: f32) -> Self::V {
        tile::lanes(tile::words(a).map(|a| (f16_to_f32(a as u16) * factor).to_bits()))
    }
    #[inline(always)]
    fn scales<P: SuperPacking>(self, a: Self::V) -> Self::V {
        a
    }
    #[inline(always)]
    fn put(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V) {
        tile.0[index * tile::ROWS + lane..][..tile::ROWS].copy_from_slice(&tile::words(v));
    }
    #[inline(always)]
    fn put_q<P: Packing>(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V) {
        self.put(tile, index, lane, v);
    }
    #[inline(always)]
    fn super_unit<P: SuperPacking, const C: usize>(
        self,
        tile: &WeightTile,
        x: [SuperX<'_>; C],
        acc: &mut [f32],
    ) {
        tile::super_unit::<P>(tile, &x, &mut acc[..C * tile::ROWS]);
    }
    #[inline(always)]
    fn block_unit<P: BlockPacking, const C: usize>(
        self,
        tile: &WeightTile,
        count: usize,
        x: [BlockX<'_>; C],
        acc: &mut [f32],
    ) {
        tile::block_unit::<P>(tile, count, &x, &mut acc[..C * 8 * tile::ROWS]);
    }
}
