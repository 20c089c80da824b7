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

use std::ops::Range;

use crate::cpu::simd::{
    BlockPacking, Packing, Rows, Simd, SuperPacking, Tail, WeightTile, Words, word,
};

/// A type of 256-blocks, multiplied with Q8_K activations.
///
/// Sums stay in i32: `|S| <= 16 groups * 16 * 127 * max(|scale * q|)`, largest for q6_K with
/// `128 * 63`: 262 million; offsets and mins stay far below.
pub(crate) trait SuperType: SuperPacking {
    /// Unpacks the block at byte `at` of rows `lane..lane + S::LANES` into a tile.
    fn unpack_rows<S: Simd>(s: S, rows: &Rows<'_>, lane: usize, at: usize, tile: &mut WeightTile);
}

/// A type multiplied block by block of 32 with Q8_0-like activations.
///
/// A block's sum is at most `32 * 128 * 127`, exact in i32 and in f32.
pub(crate) trait BlockType: BlockPacking {
    /// Unpacks the stored blocks in bytes `at` of rows `lane..lane + S::LANES` into a tile.
    fn unpack_rows<S: Simd>(
        s: S,
        rows: &Rows<'_>,
        lane: usize,
        at: Range<usize>,
        tile: &mut WeightTile,
    );
}

/// Declares how a type multiplies.
macro_rules! packing {
    ($name:ident, $doc:literal, max $max:literal, steps $steps:literal, wide $wide:literal) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl Packing for $name {
            const WIDE: bool = $wide;
            const STEPS: usize = $steps;
            const MAX: i32 = $max;
        }
    };
}
use packing;

/// Declares a type of super-blocks: their bytes, the largest scale, and what follows the product.
macro_rules! super_packing {
    ($name:ident, $bytes:literal, scale $scale:literal, $tail:ident) => {
        impl SuperPacking for $name {
            const BYTES: usize = $bytes;
            const SCALE: i32 = $scale;
            const TAIL: Tail = Tail::$tail;
        }
    };
}
use super_packing;

/// Declares a type of blocks: weights in bytes of a stored block, and how they are scaled.
macro_rules! block_packing {
    (
        $name:ident, $len:literal in $bytes:literal,
        offset $offset:literal, mins $mins:literal, halves $halves:literal
    ) => {
        impl BlockPacking for $name {
            const LEN: usize = $len;
            const BYTES: usize = $bytes;
            const OFFSET: i16 = $offset;
            const MINS: bool = $mins;
            const HALVES: bool = $halves;
        }
    };
}
use block_packing;

/// A tile of which some rows are being filled.
struct Filling<'a, 'r, S> {
    s: S,
    rows: &'a Rows<'r>,
    lane: usize,
    tile: &'a mut WeightTile,
}

impl<S: Simd> Filling<'_, '_, S> {
    /// Bytes `at..at + 16` of every row.
    #[inline(always)]
    fn words(&self, at: usize) -> [S::V; 4] {
        self.s.short_rows(self.rows, self.lane, at)
    }

    /// Bytes `at..at + 8` of every row; there are at least 16.
    #[inline(always)]
    fn two_words(&self, at: usize) -> [S::V; 2] {
        let [a, b, ..] = self.words(at);
        [a, b]
    }

    /// Bytes `at..at + 32` of every row.
    #[inline(always)]
    fn wide_words(&self, at: usize) -> [S::V; 8] {
        self.s.rows(self.rows, self.lane, at)
    }

    #[inline(always)]
    fn put(&mut self, index: usize, v: S::V) {
        self.s.put(self.tile, index, self.lane, v);
    }

    /// Weights of step `step`.
    #[inline(always)]
    fn put_q<T: Packing>(&mut self, step: usize, v: S::V) {
        self.s.put_q::<T>(self.tile, word::Q + step, self.lane, v);
    }

    /// The scale of a group of 32, whose weights are stored with `offset`.
    #[inline(always)]
    fn put_scale<T: SuperPacking>(&mut self, g: usize, scale: S::V, offset: u32) {
        self.put(word::SCALE + g, self.s.scales::<T>(scale));
        if T::TAIL == Tail::Offset {
            let coef = scale.mul32(offset);
            self.put(word::COEF + g, pair(coef, coef));
        }
    }

    /// The scales of a pair of groups of 16, whose weights are stored with `offset`.
    #[inline(always)]
    fn put_scales<T: SuperPacking>(&mut self, p: usize, scales: [S::V; 2], offset: u32) {
        let [even, odd] = scales;
        self.put(word::SCALE + 2 * p, self.s.scales::<T>(even));
        self.put(word::SCALE + 2 * p + 1, self.s.scales::<T>(odd));
        if T::TAIL == Tail::Offset {
            self.put(word::COEF + p, pair(even.mul32(offset), odd.mul32(offset)));
        }
    }

    /// The f16 scale of a block in the low half of each word, times `factor`.
    #[inline(always)]
    fn put_half(&mut self, half: S::V, factor: f32) {
        self.put(word::D, self.s.halves(half, factor));
    }

    /// The f16 scale at the start of a block, times `factor`.
    #[inline(always)]
    fn put_d(&mut self, at: usize, factor: f32) {
        let [head, ..] = self.words(at);
        self.put_half(head, factor);
    }

    /// The f16 scale that ends a block.
    #[inline(always)]
    fn put_last_d(&mut self, at: usize) {
        let [.., last] = self.words(at - 14);
        self.put_half(last.shr32(16), 1.0);
    }
}

/// Two i16 from i32 values that fit.
#[inline(always)]
fn pair<V: Words>(even: V, odd: V) -> V {
    even.and32(0xffff).or(odd.shl32(16))
}

/// Byte `i` of a run of words, in the low byte.
#[inline(always)]
fn byte<V: Words>(words: &[V], i: usize) -> V {
    words[i / 4].shr32(8 * (i as u32 % 4)).and32(255)
}
