//! Tiles of weights in plain Rust: eight rows at a time.

use super::weight;
use crate::cpu::simd::{
    BlockPacking, BlockX, Bytes, Rows, SuperPacking, SuperX, Tail, WeightTile, Words, word,
};

/// Rows of a tile.
pub(super) const ROWS: usize = 8;

/// Four bytes of each row, one row after another.
pub(super) type Lanes = [u8; 4 * ROWS];

impl Bytes for Lanes {
    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        self.map(|a| a & mask)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] | other[i])
    }
    #[inline(always)]
    fn shr<const N: i32>(self, mask: u8) -> Self {
        self.map(|a| a >> N & mask)
    }
    #[inline(always)]
    fn shl<const N: i32>(self) -> Self {
        self.map(|a| a << N)
    }
}

#[inline(always)]
pub(super) fn words(a: Lanes) -> [u32; ROWS] {
    std::array::from_fn(|row| u32::from_le_bytes(*a[4 * row..].first_chunk().expect("a word")))
}

#[inline(always)]
pub(super) fn lanes(words: [u32; ROWS]) -> Lanes {
    std::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}

impl Words for Lanes {
    #[inline(always)]
    fn and32(self, mask: u32) -> Self {
        lanes(words(self).map(|a| a & mask))
    }
    #[inline(always)]
    fn shr32(self, n: u32) -> Self {
        lanes(words(self).map(|a| a >> n))
    }
    #[inline(always)]
    fn sar32(self, n: u32) -> Self {
        lanes(words(self).map(|a| (a.cast_signed() >> n).cast_unsigned()))
    }
    #[inline(always)]
    fn shl32(self, n: u32) -> Self {
        lanes(words(self).map(|a| a << n))
    }
    #[inline(always)]
    fn add32(self, n: i32) -> Self {
        lanes(words(self).map(|a| a.wrapping_add_signed(n)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] ^ other[i])
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let (a, b) = (words(self), words(other));
        lanes(std::array::from_fn(|row| a[row].wrapping_sub(b[row])))
    }
    #[inline(always)]
    fn mul32(self, n: u32) -> Self {
        lanes(words(self).map(|a| a.wrapping_mul(n)))
    }
    #[inline(always)]
    fn equals(self, n: u32) -> Self {
        lanes(words(self).map(|a| if a == n { u32::MAX } else { 0 }))
    }
    #[inline(always)]
    fn pick(self, yes: Self, no: Self) -> Self {
        std::array::from_fn(|i| self[i] & yes[i] | !self[i] & no[i])
    }
}

/// [`super::Simd::rows`].
#[inline(always)]
pub(super) fn rows(rows: &Rows<'_>, lane: usize, at: usize) -> [Lanes; 8] {
    gather(rows, lane, at)
}

/// [`super::Simd::short_rows`].
#[inline(always)]
pub(super) fn short_rows(rows: &Rows<'_>, lane: usize, at: usize) -> [Lanes; 4] {
    gather(rows, lane, at)
}

#[inline(always)]
fn gather<const N: usize>(rows: &Rows<'_>, lane: usize, at: usize) -> [Lanes; N] {
    rows.check(at, 4 * N);
    std::array::from_fn(|i| {
        let mut lanes = [0; 4 * ROWS];
        for (row, lanes) in lanes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let at = rows.starts[lane + row] + at + 4 * i;
            *lanes = *rows.bytes[at..].first_chunk().expect("checked");
        }
        lanes
    })
}

/// A word of a row of a tile.
#[inline(always)]
fn at(tile: &WeightTile, index: usize, row: usize) -> u32 {
    tile.0[index * ROWS + row]
}

/// The sum of products of some steps of a row with as many activations.
#[inline(always)]
fn dot(wide: bool, tile: &WeightTile, first: usize, row: usize, x: &[i8]) -> i32 {
    let steps = x.as_chunks::<4>().0.iter().enumerate();
    let product = |(step, x): (usize, &[i8; 4])| -> i32 {
        let q = at(tile, word::Q + first + step, row).to_le_bytes();
        q.iter().zip(x).map(|(&q, &x)| weight(wide, q) * i32::from(x)).sum()
    };
    steps.map(product).sum()
}

/// [`super::Simd::super_unit`].
#[inline(always)]
pub(super) fn super_unit<P: SuperPacking>(tile: &WeightTile, x: &[SuperX<'_>], acc: &mut [f32]) {
    for (x, acc) in x.iter().zip(acc.chunks_exact_mut(ROWS)) {
        for (row, acc) in acc.iter_mut().enumerate() {
            let groups = x.x.chunks_exact(4 * P::STEPS).enumerate();
            let scaled = |(g, x)| {
                let scale = at(tile, word::SCALE + g, row).cast_signed();
                scale * dot(P::WIDE, tile, g * P::STEPS, row, x)
            };
            let sum: i32 = groups.map(scaled).sum();
            let bias = if P::TAIL == Tail::None { 0 } else { bias(tile, row, x.sums) };
            let sum = if P::TAIL == Tail::Offset { sum - bias } else { sum };
            let d = f32::from_bits(at(tile, word::D, row)) * x.d;
            *acc = d.mul_add(sum as f32, *acc);
            if P::TAIL == Tail::Mins {
                let dmin = -f32::from_bits(at(tile, word::DMIN, row)) * x.d;
                *acc = dmin.mul_add(bias as f32, *acc);
            }
        }
    }
}

/// The coefficients of a row times the group sums of a column.
#[inline(always)]
fn bias(tile: &WeightTile, row: usize, sums: &[u8; 32]) -> i32 {
    let halves = |word: u32| [word as u16 as i16, (word >> 16) as i16].map(i32::from);
    let pairs = sums.as_chunks::<4>().0.iter().enumerate();
    let product = |(pair, sums): (usize, &[u8; 4])| {
        let coef = halves(at(tile, word::COEF + pair, row));
        let sums = halves(u32::from_le_bytes(*sums));
        coef[0] * sums[0] + coef[1] * sums[1]
    };
    pairs.map(product).sum()
}

/// [`super::Simd::block_unit`].
#[inline(always)]
pub(super) fn block_unit<P: BlockPacking>(
    tile: &WeightTile,
    count: usize,
    x: &[BlockX<'_>],
    acc: &mut [f32],
) {
    let float = |index, row| f32::from_bits(at(tile, index, row));
    for (x, acc) in x.iter().zip(acc.chunks_exact_mut(8 * ROWS)) {
        for (b, acc) in acc.chunks_exact_mut(ROWS).enumerate().take(count) {
            let (d_x, sums) = (x.scale(b), x.halves(b));
            for (row, acc) in acc.iter_mut().enumerate() {
                for part in 0..8 / P::STEPS {
                    let values = &x.x[32 * b + 16 * part..][..4 * P::STEPS];
                    let mut sum = dot(P::WIDE, tile, 8 * b + part * P::STEPS, row, values);
                    if P::OFFSET != 0 {
                        sum -= i32::from(P::OFFSET) * (sums[0] + sums[1]);
                    }
                    let scale = word::SCALE + if P::HALVES { 2 * b + part } else { b };
                    *acc = (float(scale, row) * d_x).mul_add(sum as f32, *acc);
                }
                if P::MINS {
                    let m = float(word::COEF + b, row) * d_x;
                    *acc = m.mul_add((sums[0] + sums[1]) as f32, *acc);
                }
            }
        }
    }
}
