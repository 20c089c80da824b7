//! Decides everything that can be printed: layers, the CPU arena, kernels and their launches,
//! segments, bytes per token.
//!
//! A plan is data. `emit` turns it into text without deciding anything, and the printed plan is
//! what a reviewer reads first.

mod buffers;
mod cost;
mod kernels;
mod layers;
mod print;
mod segments;

pub use buffers::{ALIGN, ArenaPlan, BufferPlan, MAX_COLUMNS};
pub use cost::{ClassCost, Cost, Stored};
pub use kernels::{COLUMN_BUCKETS, Kernel, Launch};
pub use layers::Layer;
pub use print::Report;
pub use segments::Segment;

use crate::mix::{self, Mix};
use crate::spec::ModelSpec;

/// Everything decided about a model.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was planned for.
    pub spec: ModelSpec,
    /// One row per trunk layer.
    pub layers: Vec<Layer>,
    /// The CPU executor's buffers.
    pub arena: ArenaPlan,
    /// The CUDA executor's kernels, in the order in which a token meets them.
    pub kernels: Vec<Kernel>,
}

impl Plan {
    /// Plans a validated model; cannot fail.
    pub fn new(spec: &ModelSpec) -> Self {
        Self {
            layers: layers::all(spec),
            arena: buffers::allocate(spec),
            kernels: kernels::all(spec),
            spec: spec.clone(),
        }
    }

    /// The type mix that the plan's own figures assume.
    pub fn reference_mix(&self) -> &'static Mix {
        mix::lookup(&self.spec.reference_mix).expect("validated specs name a mix of the table")
    }

    /// Launches of a layer in one step, the same in every column bucket.
    pub fn launches_of(&self, layer: &Layer) -> usize {
        let here = self.kernels.iter().filter(|k| k.stage.layers().has(layer.kind));
        here.map(|k| k.launches).sum()
    }

    /// Launches of a step, over all segments.
    pub fn launches_per_step(&self) -> usize {
        segments::cut(self, None).iter().map(|segment| segment.launches).sum()
    }

    /// The graphs of a step, one per die; `split` is the first layer of die B, none where one die
    /// does it all.
    pub fn segments(&self, split: Option<usize>) -> Vec<Segment> {
        segments::cut(self, split)
    }
}
