//! Types of 32-blocks, and those whose blocks are whole numbers of 32.

use super::{BlockType, BlockUnit, packing};
use crate::cpu::simd::{Packing, Simd, safe_steps};
use crate::quant::grids::{FP4_VALUES, IQ4_VALUES};
use crate::quant::scales::{e8m0_half, u16_at, u32_at};

packing!(Q4_0, "4 bits, offset 8.", max 15, steps 8, wide false);
packing!(Q4_1, "4 bits and a minimum.", max 15, steps 8, wide false);
packing!(Q5_0, "5 bits, offset 16.", max 31, steps 8, wide false);
packing!(Q5_1, "5 bits and a minimum.", max 31, steps 8, wide false);
packing!(Q8_0, "8 bits.", max 128, steps 8, wide true);
packing!(Iq4Nl, "4 bits by table.", max 128, steps 8, wide true);
packing!(Mxfp4, "E2M1 doubled, offset 12, a power of two per 32.", max 24, steps 8, wide false);
packing!(Nvfp4, "E2M1 doubled, an E4M3 scale per 16.", max 12, steps 4, wide true);
packing!(Q1_0, "Signs: 0 or 2, offset 1.", max 2, steps 8, wide false);
packing!(Q2_0, "2 bits, offset 1.", max 3, steps 8, wide false);

/// E2M1 doubled, plus 12.
const FP4_OFFSET_TABLE: [i8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// Low nibbles first, high nibbles after them.
#[inline(always)]
fn nibbles(from: &[u8; 16], q: &mut [u8; 32]) {
    for j in 0..16 {
        q[j] = from[j] & 15;
        q[j + 16] = from[j] >> 4;
    }
}

/// Nibbles with a fifth bit: bit `j` of `bits` is worth 16 in weight `j`.
#[inline(always)]
fn five_bits<S: Simd>(s: S, from: &[u8; 16], bits: u32, q: &mut [u8; 32]) {
    nibbles(from, q);
    s.bstore(s.bor(s.bload(q), s.bits(bits, 16)), q);
}

/// Sixteen bytes from `at` on.
#[inline(always)]
fn sixteen(block: &[u8], at: usize) -> &[u8; 16] {
    block[at..].first_chunk().expect("a whole block")
}

impl BlockType for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: i16 = 8;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<18>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            nibbles(sixteen(block, 2), unit.block(i));
        }
    }
}

impl BlockType for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const OFFSET: i16 = 0;
    const MINS: bool = true;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<20>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            unit.m[i] = s.f16(u16_at(block, 2));
            nibbles(sixteen(block, 4), unit.block(i));
        }
    }
}

impl BlockType for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;
    const OFFSET: i16 = 16;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<22>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            five_bits(s, sixteen(block, 6), u32_at(block, 2), unit.block(i));
        }
    }
}

impl BlockType for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const OFFSET: i16 = 0;
    const MINS: bool = true;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<24>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            unit.m[i] = s.f16(u16_at(block, 2));
            five_bits(s, sixteen(block, 8), u32_at(block, 4), unit.block(i));
        }
    }
}

impl BlockType for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const OFFSET: i16 = 0;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<34>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            unit.block(i).copy_from_slice(&block[2..]);
        }
    }
}

impl BlockType for Iq4Nl {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: i16 = 0;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<18>().0.iter().enumerate().take(8) {
            unit.d[i] = s.f16(u16_at(block, 0));
            s.lookup_nibbles(&IQ4_VALUES, sixteen(block, 2), unit.block(i));
        }
    }
}

impl BlockType for Mxfp4 {
    const LEN: usize = 32;
    const BYTES: usize = 17;
    const OFFSET: i16 = 12;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<17>().0.iter().enumerate().take(8) {
            unit.d[i] = e8m0_half(block[0]);
            s.lookup_nibbles(&FP4_OFFSET_TABLE, sixteen(block, 1), unit.block(i));
        }
    }
}

/// Half the value of every scale of nvfp4: unsigned E4M3 with bias 7; 0x7f counts as zero, bit 7
/// for nothing.
static UE4M3_HALVES: [f32; 256] = {
    let mut halves = [0.0; 256];
    let mut i = 0;
    while i < 256 {
        let (exponent, mantissa) = (i as u32 >> 3 & 15, i as u32 & 7);
        halves[i] = match (i, exponent) {
            (0x7f, _) => 0.0,
            (_, 0) => mantissa as f32 / 1024.0,
            _ => f32::from_bits((exponent + 119) << 23 | mantissa << 20),
        };
        i += 1;
    }
    halves
};

impl BlockType for Nvfp4 {
    const LEN: usize = 64;
    const BYTES: usize = 36;
    const OFFSET: i16 = 0;
    const MINS: bool = false;
    const HALVES: bool = true;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<36>().0.iter().enumerate().take(4) {
            for j in 0..4 {
                unit.d[4 * i + j] = UE4M3_HALVES[usize::from(block[j])];
            }
            for half in 0..2 {
                // Two runs of 16, each 8 bytes: low nibbles first.
                let mut both = [0; 32];
                s.lookup_nibbles(&FP4_VALUES, sixteen(block, 4 + 16 * half), &mut both);
                let q = unit.block(2 * i + half);
                for (to, from) in [(0, 0), (8, 16), (16, 8), (24, 24)] {
                    q[to..to + 8].copy_from_slice(&both[from..from + 8]);
                }
            }
        }
    }
}

impl BlockType for Q1_0 {
    const LEN: usize = 128;
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<18>().0.iter().enumerate().take(2) {
            unit.d[4 * i..4 * i + 4].fill(s.f16(u16_at(block, 0)));
            for j in 0..4 {
                s.bstore(s.bits(u32_at(block, 2 + 4 * j), 2), unit.block(4 * i + j));
            }
        }
    }
}

impl BlockType for Q2_0 {
    const LEN: usize = 64;
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MINS: bool = false;
    const HALVES: bool = false;

    #[inline(always)]
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit) {
        for (i, block) in blocks.as_chunks::<18>().0.iter().enumerate().take(4) {
            unit.d[2 * i..2 * i + 2].fill(s.f16(u16_at(block, 0)));
            for (q, &byte) in unit.q[64 * i..].as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
                // Two bits more to the left for every byte to the right.
                let byte = u32::from(byte);
                let spread = byte | byte << 6 | byte << 12 | byte << 18;
                *q = (spread & 0x0303_0303).to_le_bytes();
            }
        }
    }
}
