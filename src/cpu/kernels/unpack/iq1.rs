//! iq1_s and iq1_m: a grid of -1, 0, 1, shifted by an eighth.
//!
//! `scale * (g +- 1/8)` is `scale / 8 * (8 g +- 1)`: integers -9..=9, stored with offset 9.

use super::{SuperType, SuperUnit, Tail, odd, packing};
use crate::cpu::simd::{Packing, Simd, safe_steps};
use crate::quant::grids::IQ1;
use crate::quant::scales::u16_at;

packing!(Iq1S, "A scale and a shift per 32.", max 18, steps 8, wide false);
packing!(Iq1M, "A scale per 16, a shift per 8.", max 18, steps 4, wide false);

/// `8 g +- 1 + 9` for the eight values of a grid row.
#[inline(always)]
fn shifted(grid: u64, minus: bool) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // -1, 0, 1 are 3, 0, 1 in two bits; plus one: 0, 1, 2.
    let digits = ((grid & (3 * ONES)) + ONES) & (3 * ONES);
    ((digits << 3) + if minus { 0 } else { 2 * ONES }).to_le_bytes()
}

impl SuperType for Iq1S {
    const BYTES: usize = 50;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 50] = block.first_chunk().expect("a whole block");
        for (i, q) in unit.q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = u16_at(block, 34 + 2 * (i / 4));
            let index = usize::from(block[2 + i]) | usize::from(high >> (3 * (i % 4)) & 7) << 8;
            *q = shifted(IQ1[index], high & 0x8000 != 0);
        }
        let scale = |g: usize| u64::from(u16_at(block, 34 + 2 * g) >> 12 & 7) << (8 * g);
        let scales = (0..8).map(scale).fold(0, |scales, scale| scales | scale);
        s.widen_twice(odd(scales), 0, &mut unit.scale);
        unit.set_offset(9);
        unit.d = s.f16(u16_at(block, 0)) * 0.125;
    }
}

impl SuperType for Iq1M {
    const BYTES: usize = 56;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 56] = block.first_chunk().expect("a whole block");
        for (i, q) in unit.q.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let nibble = block[32 + i / 2] >> (4 * (i % 2));
            let index = usize::from(block[i]) | usize::from(nibble & 7) << 8;
            *q = shifted(IQ1[index], nibble & 8 != 0);
        }
        let word = |i: usize| u16_at(block, 48 + 2 * i);
        let words = [word(0), word(1), word(2), word(3)];
        for (i, scale) in unit.scale.iter_mut().enumerate() {
            *scale = (words[i / 4] >> (3 * (i % 4)) & 7) as i16 * 2 + 1;
        }
        unit.set_offset(9);
        // The f16 scale lies in the top nibbles of the words, lowest first.
        let d = words.iter().rev().fold(0, |bits, word| bits << 4 | word >> 12);
        unit.d = s.f16(d) * 0.125;
    }
}
