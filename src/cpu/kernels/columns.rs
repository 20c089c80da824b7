//! Quantised vectors as the products read them: the layouts of [`super::quantize`], taken apart.

use super::quantize::{Q8K_BYTES, Q8K_LEN, Q80_BYTES, Q80_LEN};
use crate::cpu::simd::{BlockX, SuperX, signed};

/// Most columns of a product.
pub const TILE: usize = 64;

/// How a weight type's activations are given to its product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// f32.
    Float,
    /// Q8_K super-blocks of 256.
    Super,
    /// Q8_0-like blocks of 32.
    Block,
}

/// A vector in super-blocks.
#[derive(Clone, Copy)]
pub(crate) struct SuperColumn<'a> {
    x: &'a [[i8; 256]],
    sums: &'a [[u8; 32]],
    scales: &'a [[u8; 4]],
}

impl<'a> SuperColumn<'a> {
    /// No super-blocks.
    pub(crate) const EMPTY: Self = Self { x: &[], sums: &[], scales: &[] };

    /// # Panics
    /// Where `bytes` are not those of `k` inputs.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], k: usize) -> Self {
        let blocks = k.div_ceil(Q8K_LEN);
        assert_eq!(bytes.len(), blocks * Q8K_BYTES, "a column of {k} inputs in super-blocks");
        let (x, rest) = bytes.split_at(blocks * Q8K_LEN);
        let (sums, scales) = rest.split_at(blocks * 32);
        Self { x: signed(x).as_chunks().0, sums: sums.as_chunks().0, scales: scales.as_chunks().0 }
    }

    /// Super-block `u`.
    #[inline(always)]
    pub(crate) fn unit(&self, u: usize) -> SuperX<'a> {
        SuperX { x: &self.x[u], sums: &self.sums[u], d: f32::from_le_bytes(self.scales[u]) }
    }
}

/// A vector in blocks of 32.
#[derive(Clone, Copy)]
pub(crate) struct BlockColumn<'a>(BlockX<'a>);

impl<'a> BlockColumn<'a> {
    /// No blocks.
    pub(crate) const EMPTY: Self = Self(BlockX { x: &[], scales: &[], sums: &[] });

    /// # Panics
    /// Where `bytes` are not those of `k` inputs.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], k: usize) -> Self {
        let blocks = k.div_ceil(Q80_LEN);
        assert_eq!(bytes.len(), blocks * Q80_BYTES, "a column of {k} inputs in blocks");
        let (x, rest) = bytes.split_at(blocks * Q80_LEN);
        let (scales, sums) = rest.split_at(blocks * 4);
        Self(BlockX { x: signed(x), scales: scales.as_chunks().0, sums: sums.as_chunks().0 })
    }

    /// The `count` blocks of unit `u`.
    #[inline(always)]
    pub(crate) fn unit(&self, u: usize, count: usize) -> BlockX<'a> {
        BlockX {
            x: &self.0.x[256 * u..][..32 * count],
            scales: &self.0.scales[8 * u..][..count],
            sums: &self.0.sums[8 * u..][..count],
        }
    }
}
