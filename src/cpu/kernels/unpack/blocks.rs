//! Types of 32-blocks, and those whose blocks are whole numbers of 32: for all rows of a tile at once.

use std::ops::Range;

use super::{BlockType, Filling, block_packing, packing};
use crate::cpu::simd::{BlockPacking, Bytes as _, Packing, Rows, Simd, WeightTile, Words, word};
use crate::quant::grids::{FP4_VALUES, IQ4_VALUES};

packing!(Q4_0, "4 bits, offset 8.", max 15, steps 8, wide false);
block_packing!(Q4_0, 32 in 18, offset 8, mins false, halves false);
packing!(Q4_1, "4 bits and a minimum.", max 15, steps 8, wide false);
block_packing!(Q4_1, 32 in 20, offset 0, mins true, halves false);
packing!(Q5_0, "5 bits, offset 16.", max 31, steps 8, wide false);
block_packing!(Q5_0, 32 in 22, offset 16, mins false, halves false);
packing!(Q5_1, "5 bits and a minimum.", max 31, steps 8, wide false);
block_packing!(Q5_1, 32 in 24, offset 0, mins true, halves false);
packing!(Q8_0, "8 bits.", max 128, steps 8, wide true);
block_packing!(Q8_0, 32 in 34, offset 0, mins false, halves false);
packing!(Iq4Nl, "4 bits by table.", max 128, steps 8, wide true);
block_packing!(Iq4Nl, 32 in 18, offset 0, mins false, halves false);
packing!(Mxfp4, "E2M1 doubled, offset 12, a power of two per 32.", max 24, steps 8, wide false);
block_packing!(Mxfp4, 32 in 17, offset 12, mins false, halves false);
packing!(Nvfp4, "E2M1 doubled, an E4M3 scale per 16.", max 12, steps 4, wide true);
block_packing!(Nvfp4, 64 in 36, offset 0, mins false, halves true);
packing!(Q1_0, "Signs: 0 or 2, offset 1.", max 2, steps 8, wide false);
block_packing!(Q1_0, 128 in 18, offset 1, mins false, halves false);
packing!(Q2_0, "2 bits, offset 1.", max 3, steps 8, wide false);
block_packing!(Q2_0, 64 in 18, offset 1, mins false, halves false);

/// E2M1 doubled, plus 12.
const FP4_OFFSET_TABLE: [i8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

impl<S: Simd> Filling<'_, '_, S> {
    /// The f16 that stored blocks of `T` begin with, and where there are minimums, the one after it.
    #[inline(always)]
    fn halves<T: BlockType>(&mut self, at: Range<usize>) {
        let parts = T::LEN / 32;
        for (b, at) in at.step_by(T::BYTES).enumerate() {
            let [head, ..] = self.words(at);
            for part in 0..parts {
                self.put(word::SCALE + parts * b + part, self.s.halves(head, 1.0));
            }
            if T::MINS {
                self.put(word::COEF + b, self.s.halves(head.shr32(16), 1.0));
            }
        }
    }

    /// Blocks that keep 32 weights in 16 bytes, low nibbles first: bytes `at..` of block `b`, each word
    /// of four weights through `map`.
    #[inline(always)]
    fn nibbles<T: BlockType>(&mut self, b: usize, at: usize, map: impl Nibble<S>) {
        for (i, v) in self.words(at).into_iter().enumerate() {
            self.put_q::<T>(8 * b + i, map.weights(self.s, v.and(15), i));
            self.put_q::<T>(8 * b + 4 + i, map.weights(self.s, v.shr::<4>(15), 4 + i));
        }
    }
}

/// What nibbles mean.
trait Nibble<S: Simd>: Copy {
    /// The weights that the nibbles of word `i` of a block stand for.
    fn weights(self, s: S, nibbles: S::V, i: usize) -> S::V;
}

/// Themselves.
#[derive(Clone, Copy)]
struct Plain;

impl<S: Simd> Nibble<S> for Plain {
    #[inline(always)]
    fn weights(self, _: S, nibbles: S::V, _: usize) -> S::V {
        nibbles
    }
}

/// Entries of a table.
#[derive(Clone, Copy)]
struct Table(&'static [i8; 16]);

impl<S: Simd> Nibble<S> for Table {
    #[inline(always)]
    fn weights(self, s: S, nibbles: S::V, _: usize) -> S::V {
        s.lookup(self.0, nibbles)
    }
}

/// The low four of five bits; the fifth of weight `j` is bit `j`.
#[derive(Clone, Copy)]
struct Fifth<V>(V);

impl<S: Simd> Nibble<S> for Fifth<S::V> {
    #[inline(always)]
    fn weights(self, _: S, nibbles: S::V, i: usize) -> S::V {
        nibbles.or(self.0.four_bits(i).shl::<4>())
    }
}

/// Implements [`BlockType`]: the scales of all blocks, then the weights of block `b` at byte `at`.
macro_rules! unpack {
    ($ty:ident, $scales:path, |$fill:ident, $b:ident, $at:ident| $weights:block) => {
        impl BlockType for $ty {
            #[inline(always)]
            fn unpack_rows<S: Simd>(
                s: S,
                rows: &Rows<'_>,
                lane: usize,
                at: Range<usize>,
                tile: &mut WeightTile,
            ) {
                let mut fill = Filling { s, rows, lane, tile };
                let $fill = &mut fill;
                $scales($fill, at.clone());
                for ($b, $at) in at.step_by(Self::BYTES).enumerate() {
                    $weights
                }
            }
        }
    };
}

unpack!(Q4_0, Filling::halves::<Self>, |fill, b, at| { fill.nibbles::<Self>(b, at + 2, Plain) });
unpack!(Q4_1, Filling::halves::<Self>, |fill, b, at| { fill.nibbles::<Self>(b, at + 4, Plain) });
unpack!(Q5_0, Filling::halves::<Self>, |fill, b, at| {
    let [fifth, ..] = fill.words(at + 2);
    fill.nibbles::<Self>(b, at + 6, Fifth(fifth));
});
unpack!(Q5_1, Filling::halves::<Self>, |fill, b, at| {
    let [_, fifth, ..] = fill.words(at);
    fill.nibbles::<Self>(b, at + 8, Fifth(fifth));
});
unpack!(Q8_0, Filling::halves::<Self>, |fill, b, at| {
    for (i, q) in fill.wide_words(at + 2).into_iter().enumerate() {
        fill.put_q::<Self>(8 * b + i, q);
    }
});
unpack!(Iq4Nl, Filling::halves::<Self>, |fill, b, at| {
    fill.nibbles::<Self>(b, at + 2, Table(&IQ4_VALUES));
});
unpack!(Mxfp4, e8m0_halves, |fill, b, at| {
    fill.nibbles::<Self>(b, at + 1, Table(&FP4_OFFSET_TABLE));
});
unpack!(Nvfp4, e4m3_halves, |fill, b, at| {
    // Four runs of 16 weights, each 8 bytes: low nibbles first.
    for (i, v) in fill.wide_words(at + 4).into_iter().enumerate() {
        let to = 16 * b + 4 * (i / 2) + i % 2;
        fill.put_q::<Self>(to, fill.s.lookup(&FP4_VALUES, v.and(15)));
        fill.put_q::<Self>(to + 2, fill.s.lookup(&FP4_VALUES, v.shr::<4>(15)));
    }
});
unpack!(Q1_0, Filling::halves::<Self>, |fill, b, at| {
    for (part, v) in fill.words(at + 2).into_iter().enumerate() {
        for i in 0..8 {
            fill.put_q::<Self>(32 * b + 8 * part + i, v.four_bits(i).shl::<1>());
        }
    }
});
unpack!(Q2_0, Filling::halves::<Self>, |fill, b, at| {
    for (part, v) in fill.words(at + 2).into_iter().enumerate() {
        for i in 0..4 {
            // Two bits more to the left for every byte to the right.
            let byte = v.shr32(8 * i).and32(255);
            let spread = byte.or(byte.shl32(6)).or(byte.shl32(12).or(byte.shl32(18)));
            fill.put_q::<Self>(16 * b + 4 * part + i as usize, spread.and(3));
        }
    }
});

/// Half of every power of two `2^(e - 127)`; the two smallest are subnormal.
#[inline(always)]
fn e8m0_halves<S: Simd>(fill: &mut Filling<'_, '_, S>, at: Range<usize>) {
    for (b, at) in at.step_by(Mxfp4::BYTES).enumerate() {
        let [head, ..] = fill.words(at);
        let e = head.and32(255);
        let tiny = e.equals(0).or(e.equals(1));
        fill.put(word::SCALE + b, tiny.pick(e.add32(1).shl32(21), e.add32(-1).shl32(23)));
    }
}

/// Half of every unsigned E4M3 number, bias 7; 0x7f counts as zero, bit 7 for nothing else.
///
/// Seven bits to the left it is an f16 of 2^-8 the value, which 2^7 brings to half of it.
#[inline(always)]
fn e4m3_halves<S: Simd>(fill: &mut Filling<'_, '_, S>, at: Range<usize>) {
    for (b, at) in at.step_by(Nvfp4::BYTES).enumerate() {
        let [head, ..] = fill.words(at);
        for i in 0..4 {
            let byte = head.shr32(8 * i).and32(255);
            let half = fill.s.halves(byte.and32(127).shl32(7), 128.0);
            let zero = byte.equals(127);
            fill.put(word::SCALE + 4 * b + i as usize, zero.pick(byte.and32(0), half));
        }
    }
}
