//! iq2 and iq3: magnitudes from a grid, signs apart; iq4_xs: values from a table.
//!
//! Weights are `scale * (+-magnitude)`; they are stored as `offset +- magnitude`, which is never
//! negative.

use super::{SuperType, SuperUnit, Tail, odd, packing, spread_nibbles, spread_pairs};
use crate::cpu::simd::{Packing, Simd, safe_steps};
use crate::quant::grids::{IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_VALUES, SIGNS};
use crate::quant::scales::{u16_at, u32_at};

packing!(Iq2Xxs, "Magnitudes up to 43.", max 86, steps 8, wide false);
packing!(Iq2Xs, "Magnitudes up to 43, a scale per 16.", max 86, steps 4, wide false);
packing!(Iq2S, "Magnitudes up to 43, a scale per 16.", max 86, steps 4, wide false);
packing!(Iq3Xxs, "Magnitudes up to 62.", max 124, steps 8, wide false);
packing!(Iq3S, "Magnitudes up to 15.", max 30, steps 8, wide false);
packing!(Iq4Xs, "4 bits by table, 6-bit scale per 32.", max 128, steps 8, wide true);

/// The sign bytes of four runs of eight, from the seven bits that are stored of each, as one word.
#[inline(always)]
fn signs([a, b, c, d]: [usize; 4]) -> u32 {
    let byte = |bits: usize| SIGNS[bits & 127];
    u32::from_le_bytes([byte(a), byte(b), byte(c), byte(d)])
}

/// The four runs of signs of a word of 28 bits.
#[inline(always)]
fn packed_signs(aux: u32) -> u32 {
    let aux = aux as usize;
    signs([aux, aux >> 7, aux >> 14, aux >> 21])
}

/// `2 s + 1` for every nibble of the eight scale bytes from `at` on, low before high.
#[inline(always)]
fn odd_scales<S: Simd>(s: S, block: &[u8], at: usize, unit: &mut SuperUnit) {
    let low = spread_nibbles(u32_at(block, at));
    let high = spread_nibbles(u32_at(block, at + 4));
    s.widen(odd(low), odd(high), 0, &mut unit.scale);
}

impl SuperType for Iq2Xxs {
    const BYTES: usize = 66;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 66] = block.first_chunk().expect("a whole block");
        let mut scales = 0;
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (indexes, aux) = (&block[2 + 8 * g..][..4], u32_at(block, 6 + 8 * g));
            let words = std::array::from_fn(|l| IQ2_XXS[usize::from(indexes[l])]);
            s.signed_grid(words, packed_signs(aux), 43, q);
            scales |= u64::from(aux >> 28) << (8 * g);
        }
        s.widen_twice(odd(scales), 0, &mut unit.scale);
        unit.set_offset(43);
        unit.d = s.f16(u16_at(block, 0)) * 0.125;
    }
}

impl SuperType for Iq2Xs {
    const BYTES: usize = 74;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 74] = block.first_chunk().expect("a whole block");
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let word = |l: usize| usize::from(u16_at(block, 2 + 8 * g + 2 * l));
            let [a, b, c, d] = [word(0), word(1), word(2), word(3)];
            let row = |word: usize| IQ2_XS[word & 511];
            let signs = signs([a >> 9, b >> 9, c >> 9, d >> 9]);
            s.signed_grid([row(a), row(b), row(c), row(d)], signs, 43, q);
        }
        odd_scales(s, block, 66, unit);
        unit.set_offset(43);
        unit.d = s.f16(u16_at(block, 0)) * 0.125;
    }
}

impl SuperType for Iq2S {
    const BYTES: usize = 82;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 82] = block.first_chunk().expect("a whole block");
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let high = usize::from(block[66 + g]);
            let words = std::array::from_fn(|l| {
                IQ2_S[usize::from(block[2 + 4 * g + l]) | (high >> (2 * l) & 3) << 8]
            });
            s.signed_grid(words, u32_at(block, 34 + 4 * g), 43, q);
        }
        odd_scales(s, block, 74, unit);
        unit.set_offset(43);
        unit.d = s.f16(u16_at(block, 0)) * 0.125;
    }
}

/// Two grid rows of four.
#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl SuperType for Iq3Xxs {
    const BYTES: usize = 98;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 98] = block.first_chunk().expect("a whole block");
        let mut scales = 0;
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let aux = u32_at(block, 66 + 4 * g);
            let row = |i: usize| IQ3_XXS[usize::from(block[2 + 8 * g + i])];
            let words = std::array::from_fn(|l| pair(row(2 * l), row(2 * l + 1)));
            s.signed_grid(words, packed_signs(aux), 62, q);
            scales |= u64::from(aux >> 28) << (8 * g);
        }
        s.widen_twice(odd(scales), 0, &mut unit.scale);
        unit.set_offset(62);
        unit.d = s.f16(u16_at(block, 0)) * 0.25;
    }
}

impl SuperType for Iq3S {
    const BYTES: usize = 110;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 110] = block.first_chunk().expect("a whole block");
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let high = usize::from(block[66 + g]);
            let row = |i: usize| IQ3_S[usize::from(block[2 + 8 * g + i]) | (high >> i & 1) << 8];
            let words = std::array::from_fn(|l| pair(row(2 * l), row(2 * l + 1)));
            s.signed_grid(words, u32_at(block, 74 + 4 * g), 15, q);
        }
        s.widen_twice(odd(spread_nibbles(u32_at(block, 106))), 0, &mut unit.scale);
        unit.set_offset(15);
        unit.d = s.f16(u16_at(block, 0));
    }
}

impl SuperType for Iq4Xs {
    const BYTES: usize = 136;
    const TAIL: Tail = Tail::None;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 136] = block.first_chunk().expect("a whole block");
        for (g, q) in unit.q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let from = block[8 + 16 * g..].first_chunk().expect("16 of 128 bytes");
            s.lookup_nibbles(&IQ4_VALUES, from, q);
        }
        let scales = spread_nibbles(u32_at(block, 4)) | spread_pairs(u16_at(block, 2)) << 4;
        s.widen_twice(scales, 32, &mut unit.scale);
        unit.d = s.f16(u16_at(block, 0));
    }
}
