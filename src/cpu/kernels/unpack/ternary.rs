//! tq1_0 and tq2_0.

use super::kquants::bit_pairs;
use super::{Filling, SuperType, packing, super_packing};
use crate::cpu::simd::{Packing, Rows, Simd, SuperPacking, Tail, WeightTile, Words};

packing!(Tq1_0, "Base 3, five digits a byte, offset 1.", max 2, steps 8, wide false);
super_packing!(Tq1_0, 54, scale 1, Offset);
packing!(Tq2_0, "2 bits, offset 1.", max 3, steps 8, wide false);
super_packing!(Tq2_0, 66, scale 1, Offset);

/// Digit `n` of every other byte: the fraction `byte / 256` times 3, n times over; its whole part.
/// Between them products have room.
#[inline(always)]
fn alternate_digits<V: Words>(bytes: V, n: usize) -> V {
    const POWERS: [u32; 5] = [1, 3, 9, 27, 81];
    let fraction = bytes.and32(0x00ff_00ff).mul32(POWERS[n]).and32(0x00ff_00ff);
    fraction.mul32(3).shr32(8).and32(0x00ff_00ff)
}

/// Digit `n` of every byte.
#[inline(always)]
fn digits<V: Words>(bytes: V, n: usize) -> V {
    alternate_digits(bytes, n).or(alternate_digits(bytes.shr32(8), n).shl32(8))
}

/// All scales one.
#[inline(always)]
fn put_ones<S: Simd, P: SuperType>(fill: &mut Filling<'_, '_, S>, any: S::V) {
    for g in 0..8 {
        fill.put_scale::<P>(g, any.and32(0).add32(1), 1);
    }
}

impl SuperType for Tq1_0 {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        // 32 bytes of 5 digits, 16 of 5, 4 of 4; digit-major in each part.
        for (i, v) in s.rows(rows, lane, at).into_iter().enumerate() {
            for n in 0..5 {
                fill.put_q::<Self>(8 * n + i, digits(v, n));
            }
        }
        for (i, v) in fill.words(at + 32).into_iter().enumerate() {
            for n in 0..5 {
                fill.put_q::<Self>(40 + 4 * n + i, digits(v, n));
            }
        }
        let [.., last] = fill.words(at + 36);
        for n in 0..4 {
            fill.put_q::<Self>(60 + n, digits(last, n));
        }
        put_ones::<S, Self>(&mut fill, last);
        fill.put_last_d(at + 52);
    }
}

impl SuperType for Tq2_0 {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        for half in 0..2 {
            for (i, v) in s.rows(rows, lane, at + 32 * half).into_iter().enumerate() {
                for (g, q) in bit_pairs(v).into_iter().enumerate() {
                    fill.put_q::<Self>(32 * half + 8 * g + i, q);
                }
            }
        }
        let [any, ..] = fill.words(at);
        put_ones::<S, Self>(&mut fill, any);
        fill.put_last_d(at + 64);
    }
}
