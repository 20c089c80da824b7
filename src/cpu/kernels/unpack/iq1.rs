//! iq1_s and iq1_m: a grid of -1, 0, 1, shifted by an eighth.
//!
//! `scale * (g +- 1/8)` is `scale / 8 * (8 g +- 1)`: integers -9..=9, stored with offset 9.

use super::{Filling, SuperType, iq::words_of, packing, super_packing};
use crate::cpu::simd::{Bytes as _, Packing, Rows, Simd, SuperPacking, Tail, WeightTile, Words};
use crate::quant::grids::IQ1;

packing!(Iq1S, "A scale and a shift per 32.", max 18, steps 8, wide false);
super_packing!(Iq1S, 50, scale 15, Offset);
packing!(Iq1M, "A scale per 16, a shift per 8.", max 18, steps 4, wide false);
super_packing!(Iq1M, 56, scale 15, Offset);

/// `8 (g + 1)`: 0, 8 or 16 per byte.
static EIGHTS: [u32; 4096] = {
    let mut words: [u32; 4096] = words_of(&IQ1);
    let mut i = 0;
    while i < words.len() {
        // -1, 0, 1 are 3, 0, 1 in two bits; plus one: 0, 1, 2.
        let three = 0x0303_0303;
        words[i] = (((words[i] & three) + 0x0101_0101) & three) << 3;
        i += 1;
    }
    words
};

/// `8 g +- 1 + 9` for word `i` of a grid row, minus where `minus` is 1.
#[inline(always)]
fn shifted<S: Simd>(s: S, index: S::V, i: usize, minus: S::V) -> S::V {
    let eights = s.gather(&EIGHTS, index.shl32(1).add32(i as i32 % 2));
    eights.or(minus.equals(0).and32(0x0202_0202))
}

/// `2 s + 1` of the low three bits of a word.
#[inline(always)]
fn odd_scale<V: Words>(word: V) -> V {
    word.and32(7).shl32(1).add32(1)
}

impl SuperType for Iq1S {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let (low, highs) = (s.rows(rows, lane, at + 2), fill.words(at + 34));
        for g in 0..8 {
            let high = highs[g / 2].shr32(16 * (g as u32 % 2));
            for i in 0..8 {
                let part = i as u32 / 2;
                let top = high.shr32(3 * part).and32(7).shl32(8);
                let index = low[g].shr32(8 * part).and32(255).or(top);
                let q = shifted(s, index, i, high.shr32(15).and32(1));
                fill.put_q::<Self>(8 * g + i, q);
            }
            fill.put_scale::<Self>(g, odd_scale(high.shr32(12)), 9);
        }
        fill.put_d(at, 0.125);
    }
}

impl SuperType for Iq1M {
    #[inline(always)]
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile) {
        let mut fill = Filling { s, rows, lane, tile };
        let (low, highs) = (s.rows(rows, lane, at), fill.words(at + 32));
        let [.., a, b] = fill.words(at + 40);
        for g in 0..8 {
            let high = highs[g / 2].shr32(16 * (g as u32 % 2));
            for i in 0..8 {
                let part = i as u32 / 2;
                let nibble = high.shr32(4 * part);
                let index = low[g].shr32(8 * part).and32(255).or(nibble.and32(7).shl32(8));
                let q = shifted(s, index, i, nibble.shr32(3).and32(1));
                fill.put_q::<Self>(8 * g + i, q);
            }
            // Four scales of three bits in each half word.
            let word = if g < 4 { a } else { b };
            let pair = word.shr32(16 * (g as u32 / 2 % 2) + 6 * (g as u32 % 2));
            fill.put_scales::<Self>(g, [odd_scale(pair), odd_scale(pair.shr32(3))], 9);
        }
        // The f16 scale lies in the top nibbles of the four half words, lowest first.
        let low = a.shr32(12).and32(15).or(a.shr32(28).shl32(4));
        let high = b.shr32(12).and32(15).or(b.shr32(28).shl32(4));
        fill.put_half(low.or(high.shl32(8)), 0.125);
    }
}
