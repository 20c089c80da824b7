//! The recurrent state of one sequence's GDN layers.
//!
//! A sequence at position 0 has a zero state whatever the memory holds: the stages start from zeros
//! there, so a reset is a position set to 0 and cannot be forgotten half-way.

use crate::cpu::team::{OutOfMemory, Plane, SharedBuf};
use crate::model::Shape;

/// Convolution and delta-rule state of every GDN layer of one sequence.
pub(crate) struct RecurrentState {
    shape: Shape,
    /// Per layer `[conv_dim][conv_taps - 1]`: the last inputs of each channel, oldest first.
    conv: SharedBuf,
    /// Per layer `[gdn_v_heads][value][key]`: the transposed state matrices.
    delta: SharedBuf,
}

impl RecurrentState {
    /// A state for every GDN layer of `shape`.
    pub(crate) fn new(shape: &Shape) -> Result<Self, OutOfMemory> {
        let [conv, delta] = Self::sizes(shape);
        let (conv, delta) = (SharedBuf::zeroed(conv)?, SharedBuf::zeroed(delta)?);
        Ok(Self { shape: *shape, conv, delta })
    }

    /// Bytes of both states.
    pub(crate) fn sizes(shape: &Shape) -> [usize; 2] {
        [shape.conv_len(), shape.delta_len()].map(|len| 4 * len * shape.n_gdn())
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.conv.bytes() + self.delta.bytes()
    }

    /// Convolution state of the `layer`-th GDN layer, one row per channel.
    pub(crate) fn conv(&self, layer: usize) -> Plane<'_, f32> {
        let shape = &self.shape;
        self.conv.plane(4 * shape.conv_len() * layer, shape.conv_taps - 1, shape.conv_dim())
    }

    /// Delta-rule state of the `layer`-th GDN layer, one row per value head.
    pub(crate) fn delta(&self, layer: usize) -> Plane<'_, f32> {
        let shape = &self.shape;
        let head = shape.gdn_head_dim * shape.gdn_head_dim;
        self.delta.plane(4 * shape.delta_len() * layer, head, shape.gdn_v_heads)
    }

    /// Overwrites everything, for tests.
    pub(crate) fn poison(&mut self) {
        self.conv.fill(0xFF);
        self.delta.fill(0xFF);
    }
}
