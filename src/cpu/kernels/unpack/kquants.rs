//! q2_K to q6_K.

use super::{SuperType, SuperUnit, Tail, join, packing, repeat};
use crate::cpu::simd::{Packing, Simd, safe_steps};
use crate::quant::scales::{u16_at, u32_at};

packing!(Q2K, "2 bits, 4-bit scale and min per 16.", max 3, steps 4, wide false);
packing!(Q3K, "3 bits, 6-bit scale per 16, offset 4.", max 7, steps 4, wide false);
packing!(Q4K, "4 bits, 6-bit scale and min per 32.", max 15, steps 8, wide false);
packing!(Q5K, "5 bits, 6-bit scale and min per 32.", max 31, steps 8, wide false);
packing!(Q6K, "6 bits, 8-bit scale per 16, offset 32.", max 63, steps 4, wide false);

/// The bytes of a fixed-size block.
#[inline(always)]
fn bytes<const N: usize>(block: &[u8]) -> &[u8; N] {
    block.first_chunk().expect("a whole block")
}

/// Two bits per value, and with `high` a third: halves of 128, in which 32 bytes hold four groups
/// of 32 two bits each; bit `g` of `high[l]` belongs to group `g` of eight.
#[inline(always)]
pub(super) fn two_bits<S: Simd>(s: S, qs: &[u8; 64], high: Option<&[u8; 32]>, q: &mut [u8; 256]) {
    let mut high = high.map(|high| s.bload(high));
    for (h, q) in q.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let low = s.bload(bytes(&qs[32 * h..]));
        let [q0, q1, q2, q3] = q.as_chunks_mut::<32>().0 else { unreachable!("four groups") };
        let mut pairs =
            [s.band(low, 3), s.bshr::<2>(low, 3), s.bshr::<4>(low, 3), s.bshr::<6>(low, 3)];
        if let Some(bits) = high {
            pairs[0] = s.bor(pairs[0], s.bshl::<2>(s.band(bits, 1)));
            pairs[1] = s.bor(pairs[1], s.bshl::<1>(s.band(bits, 2)));
            pairs[2] = s.bor(pairs[2], s.band(bits, 4));
            pairs[3] = s.bor(pairs[3], s.bshr::<1>(bits, 4));
            high = Some(s.bshr::<4>(bits, 15));
        }
        s.bstore(pairs[0], q0);
        s.bstore(pairs[1], q1);
        s.bstore(pairs[2], q2);
        s.bstore(pairs[3], q3);
    }
}

impl SuperType for Q2K {
    const BYTES: usize = 84;
    const TAIL: Tail = Tail::Mins;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 84] = bytes(block);
        let low = join(u32_at(block, 0), u32_at(block, 4));
        let high = join(u32_at(block, 8), u32_at(block, 12));
        s.widen(low & repeat(15), high & repeat(15), 0, &mut unit.scale);
        s.widen(low >> 4 & repeat(15), high >> 4 & repeat(15), 0, &mut unit.coef);
        two_bits(s, bytes(&block[16..]), None, &mut unit.q);
        unit.d = s.f16(u16_at(block, 80));
        unit.dmin = s.f16(u16_at(block, 82));
    }
}

impl SuperType for Q3K {
    const BYTES: usize = 110;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 110] = bytes(block);
        two_bits(s, bytes(&block[32..]), Some(bytes(block)), &mut unit.q);
        // Six-bit scales: nibbles of the first eight bytes, pairs of bits of the last four.
        let (low, mid, top) = (u32_at(block, 96), u32_at(block, 100), u32_at(block, 104));
        let (nibbles, pairs) = (0x0f0f_0f0f, 0x0303_0303);
        let words = [
            low & nibbles | (top & pairs) << 4,
            mid & nibbles | (top >> 2 & pairs) << 4,
            low >> 4 & nibbles | (top >> 4 & pairs) << 4,
            mid >> 4 & nibbles | (top >> 6 & pairs) << 4,
        ];
        s.widen(join(words[0], words[1]), join(words[2], words[3]), 32, &mut unit.scale);
        unit.set_offset(4);
        unit.d = s.f16(u16_at(block, 108));
    }
}

/// The 6-bit scales and mins of q4_K and q5_K, twelve bytes: per block of 32, hence each twice.
#[inline(always)]
fn six_bit_scales<S: Simd>(s: S, packed: &[u8; 12], unit: &mut SuperUnit) {
    let (a, b, c) = (u32_at(packed, 0), u32_at(packed, 4), u32_at(packed, 8));
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let scales = [a & six, c & four | (a >> 6 & two) << 4];
    let mins = [b & six, c >> 4 & four | (b >> 6 & two) << 4];
    s.widen_twice(join(scales[0], scales[1]), 0, &mut unit.scale);
    s.widen_twice(join(mins[0], mins[1]), 0, &mut unit.coef);
}

impl SuperType for Q4K {
    const BYTES: usize = 144;
    const TAIL: Tail = Tail::Mins;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 144] = bytes(block);
        unit.d = s.f16(u16_at(block, 0));
        unit.dmin = s.f16(u16_at(block, 2));
        six_bit_scales(s, bytes(&block[4..]), unit);
        let qs: &[u8; 128] = bytes(&block[16..]);
        for (qs, q) in qs.as_chunks::<32>().0.iter().zip(unit.q.as_chunks_mut::<64>().0) {
            let (low, high) = q.split_at_mut(32);
            let v = s.bload(qs);
            s.bstore(s.band(v, 15), low.first_chunk_mut().expect("32"));
            s.bstore(s.bshr::<4>(v, 15), high.first_chunk_mut().expect("32"));
        }
    }
}

impl SuperType for Q5K {
    const BYTES: usize = 176;
    const TAIL: Tail = Tail::Mins;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 176] = bytes(block);
        unit.d = s.f16(u16_at(block, 0));
        unit.dmin = s.f16(u16_at(block, 2));
        six_bit_scales(s, bytes(&block[4..]), unit);
        let mut fifth = s.bload(bytes(&block[16..]));
        let qs: &[u8; 128] = bytes(&block[48..]);
        for (qs, q) in qs.as_chunks::<32>().0.iter().zip(unit.q.as_chunks_mut::<64>().0) {
            let (low, high) = q.split_at_mut(32);
            let v = s.bload(qs);
            let (first, second) = (s.band(fifth, 1), s.band(fifth, 2));
            let (first, second) = (s.bshl::<4>(first), s.bshl::<3>(second));
            s.bstore(s.bor(s.band(v, 15), first), low.first_chunk_mut().expect("32"));
            s.bstore(s.bor(s.bshr::<4>(v, 15), second), high.first_chunk_mut().expect("32"));
            fifth = s.bshr::<2>(fifth, 63);
        }
    }
}

impl SuperType for Q6K {
    const BYTES: usize = 210;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 210] = bytes(block);
        for (half, q) in unit.q.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let from = &block[64 * half..];
            let low = [s.bload(bytes(from)), s.bload(bytes(&from[32..]))];
            let high = s.bload(bytes(&block[128 + 32 * half..]));
            let [q0, q1, q2, q3] = q.as_chunks_mut::<32>().0 else { unreachable!("four groups") };
            s.bstore(s.bor(s.band(low[0], 15), s.bshl::<4>(s.band(high, 3))), q0);
            s.bstore(s.bor(s.band(low[1], 15), s.bshl::<2>(s.band(high, 12))), q1);
            s.bstore(s.bor(s.bshr::<4>(low[0], 15), s.band(high, 48)), q2);
            s.bstore(s.bor(s.bshr::<4>(low[1], 15), s.bshr::<2>(high, 48)), q3);
        }
        let scales: &[u8; 16] = bytes(&block[192..]);
        for (scale, byte) in unit.scale.iter_mut().zip(scales) {
            *scale = i16::from(*byte as i8);
        }
        unit.set_offset(32);
        unit.d = s.f16(u16_at(block, 208));
    }
}
