//! Where the CUDA graphs of a step are cut.

use std::ops::Range;

use super::Plan;
use crate::family::Stage;

/// What one die does of a step: one graph per column bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Die, from 0.
    pub die: usize,
    /// Its layers.
    pub layers: Range<usize>,
    /// Whether it begins with the embedding.
    pub embeds: bool,
    /// Whether it ends with the head and the sampler.
    pub head: bool,
    /// Launches per step, for every column bucket.
    pub launches: usize,
}

/// The rule: a graph is cut only where the die changes. Everything that differs from step to step
/// is device data, so nothing within a die needs the host; the fewer graphs, the fewer launches
/// from it.
///
/// Die A takes the embedding and the layers before `split`, die B the rest and the head. A split at
/// or past the last layer is no split.
pub(super) fn cut(plan: &Plan, split: Option<usize>) -> Vec<Segment> {
    let n = plan.layers.len();
    let split = split.unwrap_or(n).clamp(1, n);
    let parts = [0..split, split..n];
    let used = parts.into_iter().filter(|layers| !layers.is_empty());
    let segments = used.enumerate().map(|(die, layers)| {
        let (embeds, head) = (layers.start == 0, layers.end == n);
        let of_layers: usize =
            plan.layers[layers.clone()].iter().map(|layer| plan.launches_of(layer)).sum();
        let global = |wanted: bool, stage| {
            let here = plan.kernels.iter().filter(|k| wanted && k.stage == stage);
            here.map(|k| k.launches).sum::<usize>()
        };
        let ends = global(embeds, Stage::Embed) + global(head, Stage::Head);
        Segment { die, layers, embeds, head, launches: of_layers + ends }
    });
    segments.collect()
}
