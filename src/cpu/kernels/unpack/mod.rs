//! Blocks of every weight type into small integers and scales: the one unpacking per type.
//!
//! Two families, by how activations are quantised. A *unit* is 256 weights of a row in both: a
//! super-block, or up to eight blocks of 32. Unpackers are plain Rust over arrays, which vectorises
//! where it is compiled for an instruction set; table look-ups go through [`Simd`].

mod blocks;
mod iq;
mod iq1;
mod kquants;
mod ternary;

pub(crate) use blocks::*;
pub(crate) use iq::*;
pub(crate) use iq1::*;
pub(crate) use kquants::*;
pub(crate) use ternary::*;

use crate::cpu::simd::{Packing, Simd};

/// What is added to the scaled product of a super-block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing: weights are `d * scale * q`.
    None,
    /// Weights are `d * scale * q - dmin * min`; `coef` holds the mins.
    Mins,
    /// Weights are `d * scale * (q - offset)`; `coef` holds `offset * scale`.
    Offset,
}

/// An unpacked super-block.
#[repr(C, align(64))]
pub(crate) struct SuperUnit {
    /// Weights, i8 where [`Packing::WIDE`].
    pub(crate) q: [u8; 256],
    /// Scales of the groups of 16.
    pub(crate) scale: [i16; 16],
    /// Coefficients of the activations' group sums; see [`Tail`].
    pub(crate) coef: [i16; 16],
    /// Scale of the block.
    pub(crate) d: f32,
    /// Scale of the mins.
    pub(crate) dmin: f32,
}

impl SuperUnit {
    pub(crate) const ZERO: Self =
        Self { q: [0; 256], scale: [0; 16], coef: [0; 16], d: 0.0, dmin: 0.0 };

    /// Sets `coef` for weights stored with an offset.
    #[inline(always)]
    fn set_offset(&mut self, offset: i16) {
        for (coef, scale) in self.coef.iter_mut().zip(self.scale) {
            *coef = offset * scale;
        }
    }
}

/// A type of 256-blocks, multiplied with Q8_K activations.
///
/// Sums stay in i32: `|S| <= 16 groups * 16 * 127 * max(|scale * q|)`, largest for q6_K with
/// `128 * 63`: 262 million; offsets and mins stay far below.
pub(crate) trait SuperType: Packing {
    /// Bytes of a block.
    const BYTES: usize;
    /// What follows the product.
    const TAIL: Tail;

    /// Unpacks one block.
    fn unpack<S: Simd>(s: S, block: &[u8], unit: &mut SuperUnit);
}

/// Up to eight unpacked blocks of 32.
#[repr(C, align(64))]
pub(crate) struct BlockUnit {
    /// Weights, i8 where [`Packing::WIDE`].
    pub(crate) q: [u8; 256],
    /// Scales: one per block of 32, or two where [`BlockType::HALVES`].
    pub(crate) d: [f32; 16],
    /// Minimums (added, times the activations' sum), where [`BlockType::MINS`].
    pub(crate) m: [f32; 8],
}

impl BlockUnit {
    pub(crate) const ZERO: Self = Self { q: [0; 256], d: [0.0; 16], m: [0.0; 8] };

    /// Block `i` of 32 weights.
    #[inline(always)]
    fn block(&mut self, i: usize) -> &mut [u8; 32] {
        self.q[32 * i..].first_chunk_mut().expect("one of eight blocks")
    }
}

/// A type multiplied block by block of 32 with Q8_0-like activations.
///
/// A block's sum is at most `32 * 128 * 127`, exact in i32 and in f32.
pub(crate) trait BlockType: Packing {
    /// Weights of a stored block: 32, 64 or 128.
    const LEN: usize;
    /// Bytes of a stored block.
    const BYTES: usize;
    /// Subtracted from every weight.
    const OFFSET: i16;
    /// Whether blocks have a minimum.
    const MINS: bool;
    /// Whether each half of 32 has its own scale.
    const HALVES: bool;

    /// Unpacks the whole stored blocks of a unit.
    fn unpack<S: Simd>(s: S, blocks: &[u8], unit: &mut BlockUnit);
}

/// Declares how a type multiplies.
macro_rules! packing {
    ($name:ident, $doc:literal, max $max:literal, steps $steps:literal, wide $wide:literal) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Packing for $name {
            const WIDE: bool = $wide;
            const STEPS: usize = $steps;
            const SAFE: usize = safe_steps($max);
        }
    };
}
use packing;

// Scales are taken apart in words of bytes: written value by value, they would be vectorised badly.

/// A word of eight equal bytes.
const fn repeat(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// Two words of a byte each.
const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The eight nibbles of `word`, lowest first, as bytes.
#[inline(always)]
fn spread_nibbles(word: u32) -> u64 {
    let x = u64::from(word);
    let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    (x | x << 4) & repeat(15)
}

/// The eight bit pairs of `half`, lowest first, as bytes.
#[inline(always)]
fn spread_pairs(half: u16) -> u64 {
    let x = u64::from(half);
    let x = (x | x << 24) & 0x0000_00ff_0000_00ff;
    let x = (x | x << 12) & 0x000f_000f_000f_000f;
    (x | x << 6) & repeat(3)
}

/// `2 s + 1` for eight bytes below 128.
#[inline(always)]
fn odd(scales: u64) -> u64 {
    (scales << 1) + repeat(1)
}
