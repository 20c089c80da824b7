//! tq1_0 and tq2_0.

use super::kquants::two_bits;
use super::{SuperType, SuperUnit, Tail, packing};
use crate::cpu::simd::{Packing, Simd, safe_steps};
use crate::quant::scales::u16_at;

packing!(Tq1_0, "Base 3, five digits a byte, offset 1.", max 2, steps 8, wide false);
packing!(Tq2_0, "2 bits, offset 1.", max 3, steps 8, wide false);

/// Digit `n` of a byte: the fraction `byte / 256` times 3, n times over; its whole part.
#[inline(always)]
fn digit(byte: u8, n: usize) -> u8 {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    ((u16::from(byte.wrapping_mul(POWERS[n])) * 3) >> 8) as u8
}

/// The digits of `N` bytes, digit-major.
#[inline(always)]
fn digits<const N: usize>(from: &[u8], q: &mut [u8]) {
    let from: &[u8; N] = from.first_chunk().expect("a part of the block");
    for (n, q) in q.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        for (q, byte) in q.iter_mut().zip(from) {
            *q = digit(*byte, n);
        }
    }
}

impl SuperType for Tq1_0 {
    const BYTES: usize = 54;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 54] = block.first_chunk().expect("a whole block");
        // 32 bytes of 5 digits, 16 of 5, 4 of 4; digit-major in each part.
        let (first, rest) = unit.q.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        digits::<32>(&block[..32], first);
        digits::<16>(&block[32..48], second);
        digits::<4>(&block[48..52], third);
        unit.scale = [1; 16];
        unit.set_offset(1);
        unit.d = s.f16(u16_at(block, 52));
    }
}

impl SuperType for Tq2_0 {
    const BYTES: usize = 66;
    const TAIL: Tail = Tail::Offset;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit) {
        let block: &[u8; 66] = block.first_chunk().expect("a whole block");
        two_bits(s, block.first_chunk().expect("64 bytes"), None, &mut unit.q);
        unit.scale = [1; 16];
        unit.set_offset(1);
        unit.d = s.f16(u16_at(block, 64));
    }
}
