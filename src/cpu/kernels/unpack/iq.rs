//! iq2 and iq3: magnitudes from a grid, signs apart; iq4_xs: values from a table.
//!
//! Weights are `scale * (+-magnitude)`; they are stored as `offset +- magnitude`, which is never
//! negative.

use super::{Filling, SuperType, byte, packing, super_packing};
use crate::cpu::simd::{Bytes as _, Packing, Rows, Simd, SuperPacking, Tail, WeightTile, Words};
use crate::quant::grids::{IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_VALUES};

packing!(Iq2Xxs, "Magnitudes up to 43.", max 86, steps 8, wide false);
super_packing!(Iq2Xxs, 66, scale 31, Offset);
packing!(Iq2Xs, "Magnitudes up to 43, a scale per 16.", max 86, steps 4, wide false);
super_packing!(Iq2Xs, 74, scale 31, Offset);
packing!(Iq2S, "Magnitudes up to 43, a scale per 16.", max 86, steps 4, wide false);
super_packing!(Iq2S, 82, scale 31, Offset);
packing!(Iq3Xxs, "Magnitudes up to 62.", max 124, steps 8, wide false);
super_packing!(Iq3Xxs, 98, scale 31, Offset);
packing!(Iq3S, "Magnitudes up to 15.", max 30, steps 8, wide false);
super_packing!(Iq3S, 110, scale 31, Offset);
packing!(Iq4Xs, "4 bits by table, 6-bit scale per 32.", max 128, steps 8, wide true);
super_packing!(Iq4Xs, 136, scale 32, None);

static IQ2_XXS_WORDS: [u32; 512] = words_of(&IQ2_XXS);
static IQ2_XS_WORDS: [u32; 1024] = words_of(&IQ2_XS);
static IQ2_S_WORDS: [u32; 2048] = words_of(&IQ2_S);

/// Rows of eight as two words each.
pub(super) const fn words_of<const N: usize, const M: usize>(grid: &[u64; N]) -> [u32; M] {
    assert!(M == 2 * N, "two words a row");
    let mut words = [0; M];
    let mut i = 0;
    while i < M {
        words[i] = (grid[i / 2] >> (32 * (i % 2))) as u32;
        i += 1;
    }
    words
}

/// `2 s + 1` of the low nibble of a word.
#[inline(always)]
fn odd<V: Words>(word: V) -> V {
    word.and32(15).shl32(1).add32(1)
}

/// The sign bytes of four runs of eight, from the seven bits that are stored of each: the eighth makes
/// their number even.
#[inline(always)]
fn signs<V: Words>(sevens: V) -> V {
    let mut parity = sevens.xor(sevens.shr32(4));
    parity = parity.xor(parity.shr32(2));
    parity = parity.xor(parity.shr32(1));
    sevens.or(parity.and(1).shl::<7>())
}

/// The four sevens of a word of 28 bits, a byte each.
#[inline(always)]
fn sevens<V: Words>(aux: V) -> V {
    let low = aux.and32(0x7f).or(aux.shl32(1).and32(0x7f00));
    low.or(aux.shl32(2).and32(0x007f_0000).or(aux.shl32(3).and32(0x7f00_0000)))
}

/// A word of four magnitudes with the signs of bits `4 i..4 i + 4` of a group, plus `OFFSET`.
///
/// No byte carries: magnitudes are at most the offset.
#[inline(always)]
fn signed<const OFFSET: i32, V: Words>(magnitudes: V, signs: V, i: usize) -> V {
    let minus = signs.four_bits(i).all_bits();
    let above = magnitudes.add32(OFFSET * 0x0101_0101);
    above.minus(minus.pick(magnitudes, magnitudes.and32(0)).shl32(1))
}

impl SuperType for Iq2Xxs {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        for two in 0..4 {
            let [a, aux_a, b, aux_b] = fill.words(at + 2 + 16 * two);
            for (g, (indexes, aux)) in [(a, aux_a), (b, aux_b)].into_iter().enumerate() {
                let (g, signs) = (2 * two + g, signs(sevens(aux)));
                for i in 0..8 {
                    let row = byte(&[indexes], i / 2).shl32(1).add32(i as i32 % 2);
                    let q = signed::<43, _>(s.gather(&IQ2_XXS_WORDS, row), signs, i);
                    fill.put_q::<Self>(8 * g + i, q);
                }
                fill.put_scale::<Self>(g, odd(aux.shr32(28)), 43);
            }
        }
        fill.put_d(at, 0.125);
    }
}

impl SuperType for Iq2Xs {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        for two in 0..4 {
            let [a, b, c, d] = fill.words(at + 2 + 16 * two);
            for (g, [a, b]) in [[a, b], [c, d]].into_iter().enumerate() {
                put_xs_group(&mut fill, 2 * two + g, a, b);
            }
        }
        put_nibble_scales::<S, Self>(&mut fill, at + 66);
        fill.put_d(at, 0.125);
    }
}

/// A group of iq2_xs: four half words of nine bits of index and seven of signs.
#[inline(always)]
fn put_xs_group<S: Simd>(fill: &mut Filling<'_, '_, S>, g: usize, a: S::V, b: S::V) {
    let low = a.shr32(9).and32(127).or(a.shr32(25).shl32(8));
    let high = b.shr32(9).and32(127).shl32(16).or(b.shr32(25).shl32(24));
    let signs = signs(low.or(high));
    for i in 0..8 {
        let word = if i < 4 { a } else { b };
        let row = word.shr32(16 * (i as u32 / 2 % 2)).and32(511).shl32(1).add32(i as i32 % 2);
        let q = signed::<43, _>(fill.s.gather(&IQ2_XS_WORDS, row), signs, i);
        fill.put_q::<Iq2Xs>(8 * g + i, q);
    }
}

/// `2 s + 1` for each nibble of eight bytes that end a block: scales of groups of 16; offset 43.
#[inline(always)]
fn put_nibble_scales<S: Simd, P: SuperType>(fill: &mut Filling<'_, '_, S>, at: usize) {
    let [.., a, b] = fill.words(at - 8);
    for pair in 0..8 {
        let both = byte(&[a, b], pair);
        fill.put_scales::<P>(pair, [odd(both), odd(both.shr32(4))], 43);
    }
}

impl SuperType for Iq2S {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let highs = fill.two_words(at + 66);
        for half in 0..2 {
            let (indexes, signs) =
                (fill.words(at + 2 + 16 * half), fill.words(at + 34 + 16 * half));
            for (g, (indexes, signs)) in indexes.into_iter().zip(signs).enumerate() {
                let high = byte(&highs, 4 * half + g);
                for i in 0..8 {
                    let top = high.shr32(i as u32 / 2 * 2).and32(3).shl32(8);
                    let row = byte(&[indexes], i / 2).or(top).shl32(1).add32(i as i32 % 2);
                    let q = signed::<43, _>(s.gather(&IQ2_S_WORDS, row), signs, i);
                    fill.put_q::<Self>(8 * (4 * half + g) + i, q);
                }
            }
        }
        put_nibble_scales::<S, Self>(&mut fill, at + 74);
        fill.put_d(at, 0.125);
    }
}

impl SuperType for Iq3Xxs {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        for half in 0..2 {
            for (g, aux) in fill.words(at + 66 + 16 * half).into_iter().enumerate() {
                let g = 4 * half + g;
                let (indexes, signs) = (fill.two_words(at + 2 + 8 * g), signs(sevens(aux)));
                for i in 0..8 {
                    let q = signed::<62, _>(s.gather(&IQ3_XXS, byte(&indexes, i)), signs, i);
                    fill.put_q::<Self>(8 * g + i, q);
                }
                fill.put_scale::<Self>(g, odd(aux.shr32(28)), 62);
            }
        }
        fill.put_d(at, 0.25);
    }
}

impl SuperType for Iq3S {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let highs = fill.two_words(at + 66);
        for half in 0..2 {
            for (g, signs) in fill.words(at + 74 + 16 * half).into_iter().enumerate() {
                let g = 4 * half + g;
                let (indexes, high) = (fill.two_words(at + 2 + 8 * g), byte(&highs, g));
                for i in 0..8 {
                    let row = byte(&indexes, i).or(high.shr32(i as u32).and32(1).shl32(8));
                    let q = signed::<15, _>(s.gather(&IQ3_S, row), signs, i);
                    fill.put_q::<Self>(8 * g + i, q);
                }
            }
        }
        let [.., scales] = fill.words(at + 94);
        for g in 0..8 {
            fill.put_scale::<Self>(g, odd(scales.shr32(4 * g as u32)), 15);
        }
        fill.put_d(at, 1.0);
    }
}

impl SuperType for Iq4Xs {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let [head, low, ..] = fill.words(at);
        for g in 0..8 {
            let (low, high) = (low.shr32(4 * g as u32), head.shr32(16 + 2 * g as u32));
            let scale = low.and32(15).or(high.and32(3).shl32(4)).add32(-32);
            fill.put_scale::<Self>(g, scale, 0);
        }
        for two in 0..4 {
            for (i, v) in fill.wide_words(at + 8 + 32 * two).into_iter().enumerate() {
                let to = 16 * two + 8 * (i / 4) + i % 4;
                fill.put_q::<Self>(to, s.lookup(&IQ4_VALUES, v.and(15)));
                fill.put_q::<Self>(to + 4, s.lookup(&IQ4_VALUES, v.shr::<4>(15)));
            }
        }
        fill.put_d(at, 1.0);
    }
}
