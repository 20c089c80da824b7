//! q2_K to q6_K.

use super::{Filling, SuperType, byte, packing, pair, super_packing};
use crate::cpu::simd::{
    Bytes, Packing, Rows, Simd, SuperPacking, Tail, WeightTile, Words as _, word,
};

packing!(Q2K, "2 bits, 4-bit scale and min per 16.", max 3, steps 4, wide false);
super_packing!(Q2K, 84, scale 15, Mins);
packing!(Q3K, "3 bits, 6-bit scale per 16, offset 4.", max 7, steps 4, wide false);
super_packing!(Q3K, 110, scale 32, Offset);
packing!(Q4K, "4 bits, 6-bit scale and min per 32.", max 15, steps 8, wide false);
super_packing!(Q4K, 144, scale 63, Mins);
packing!(Q5K, "5 bits, 6-bit scale and min per 32.", max 31, steps 8, wide false);
super_packing!(Q5K, 176, scale 63, Mins);
packing!(Q6K, "6 bits, 8-bit scale per 16, offset 32.", max 63, steps 4, wide false);
super_packing!(Q6K, 210, scale 128, Offset);

/// Low and high nibbles.
#[inline(always)]
fn nibbles<B: Bytes>(v: B) -> [B; 2] {
    [v.and(15), v.shr::<4>(15)]
}

/// Nibbles with the two lowest bits of `fifth` as their fifth bits.
#[inline(always)]
fn five_bits<B: Bytes>(v: B, fifth: B) -> [B; 2] {
    let [low, high] = nibbles(v);
    [low.or(fifth.and(1).shl::<4>()), high.or(fifth.and(2).shl::<3>())]
}

/// The four nibbles of two bytes with the four bit pairs of a third above them.
#[inline(always)]
fn six_bits<B: Bytes>(low: [B; 2], high: B) -> [B; 4] {
    [
        low[0].and(15).or(high.and(3).shl::<4>()),
        low[1].and(15).or(high.and(12).shl::<2>()),
        low[0].shr::<4>(15).or(high.and(48)),
        low[1].shr::<4>(15).or(high.shr::<2>(48)),
    ]
}

/// The four bit pairs of a byte.
#[inline(always)]
pub(super) fn bit_pairs<B: Bytes>(v: B) -> [B; 4] {
    [v.and(3), v.shr::<2>(3), v.shr::<4>(3), v.shr::<6>(3)]
}

/// Four bit pairs with the four lowest bits of `third` as their third bits.
#[inline(always)]
fn three_bits<B: Bytes>(v: B, third: B) -> [B; 4] {
    let [a, b, c, d] = bit_pairs(v);
    [
        a.or(third.and(1).shl::<2>()),
        b.or(third.and(2).shl::<1>()),
        c.or(third.and(4)),
        d.or(third.shr::<1>(4)),
    ]
}

impl SuperType for Q2K {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let head = fill.words(at);
        for p in 0..8 {
            let (even, odd) = (byte(&head, 2 * p), byte(&head, 2 * p + 1));
            fill.put_scales::<Self>(p, [even.and32(15), odd.and32(15)], 0);
            fill.put(word::COEF + p, pair(even.shr32(4), odd.shr32(4)));
        }
        for half in 0..2 {
            for (i, v) in fill.wide_words(at + 16 + 32 * half).into_iter().enumerate() {
                for (g, q) in bit_pairs(v).into_iter().enumerate() {
                    fill.put_q::<Self>(32 * half + 8 * g + i, q);
                }
            }
        }
        let [.., both] = fill.words(at + 68);
        fill.put_half(both, 1.0);
        fill.put(word::DMIN, s.halves(both.shr32(16), 1.0));
    }
}

impl SuperType for Q3K {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let mut third = fill.wide_words(at);
        for half in 0..2 {
            for (i, v) in fill.wide_words(at + 32 + 32 * half).into_iter().enumerate() {
                for (g, q) in three_bits(v, third[i]).into_iter().enumerate() {
                    fill.put_q::<Self>(32 * half + 8 * g + i, q);
                }
                third[i] = third[i].shr::<4>(15);
            }
        }
        let [_, low, mid, top] = fill.words(at + 92);
        let [a, b, c, d] = bit_pairs(top);
        let words = [
            low.and(15).or(a.shl::<4>()),
            mid.and(15).or(b.shl::<4>()),
            low.shr::<4>(15).or(c.shl::<4>()),
            mid.shr::<4>(15).or(d.shl::<4>()),
        ];
        for p in 0..8 {
            let (even, odd) = (byte(&words, 2 * p), byte(&words, 2 * p + 1));
            fill.put_scales::<Self>(p, [even.add32(-32), odd.add32(-32)], 4);
        }
        fill.put_last_d(at + 108);
    }
}

/// The first sixteen bytes of q4_K and q5_K in every row: both f16 scales, then the 6-bit ones.
#[inline(always)]
fn put_six_bit_head<S: Simd, T: SuperPacking>(fill: &mut Filling<'_, '_, S>, at: usize) {
    let [d, a, b, c] = fill.words(at);
    fill.put_half(d, 1.0);
    fill.put(word::DMIN, fill.s.halves(d.shr32(16), 1.0));
    let scales = [a.and(63), c.and(15).or(a.shr::<6>(3).shl::<4>())];
    let mins = [b.and(63), c.shr::<4>(15).or(b.shr::<6>(3).shl::<4>())];
    for g in 0..8 {
        let min = byte(&mins, g);
        fill.put_scale::<T>(g, byte(&scales, g), 0);
        fill.put(word::COEF + g, pair(min, min));
    }
}

impl SuperType for Q4K {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        put_six_bit_head::<S, Self>(&mut fill, at);
        for part in 0..4 {
            for (i, v) in fill.wide_words(at + 16 + 32 * part).into_iter().enumerate() {
                for (half, q) in nibbles(v).into_iter().enumerate() {
                    fill.put_q::<Self>(16 * part + 8 * half + i, q);
                }
            }
        }
    }
}

impl SuperType for Q5K {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        put_six_bit_head::<S, Self>(&mut fill, at);
        let mut fifth = fill.wide_words(at + 16);
        for part in 0..4 {
            for (i, v) in fill.wide_words(at + 48 + 32 * part).into_iter().enumerate() {
                for (half, q) in five_bits(v, fifth[i]).into_iter().enumerate() {
                    fill.put_q::<Self>(16 * part + 8 * half + i, q);
                }
                fifth[i] = fifth[i].shr::<2>(63);
            }
        }
    }
}

impl SuperType for Q6K {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        for half in 0..2 {
            let first = fill.wide_words(at + 64 * half);
            let second = fill.wide_words(at + 64 * half + 32);
            let high = fill.wide_words(at + 128 + 32 * half);
            for (i, ((a, b), high)) in first.into_iter().zip(second).zip(high).enumerate() {
                for (g, q) in six_bits([a, b], high).into_iter().enumerate() {
                    fill.put_q::<Self>(32 * half + 8 * g + i, q);
                }
            }
        }
        let bytes = fill.words(at + 192);
        for p in 0..8 {
            // Signed bytes: up to the top of the word, and down again.
            let (even, odd) = (byte(&bytes, 2 * p).shl32(24), byte(&bytes, 2 * p + 1).shl32(24));
            fill.put_scales::<Self>(p, [even.sar32(24), odd.sar32(24)], 32);
        }
        fill.put_last_d(at + 208);
    }
}
