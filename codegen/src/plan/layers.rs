//! Layer `i`: its mixer, and its index among the layers of the same kind.

use crate::family::LayerKind;
use crate::spec::ModelSpec;

/// A row of the layer table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Index in the trunk.
    pub index: usize,
    /// Mixer.
    pub kind: LayerKind,
    /// Index among the layers of the same kind.
    pub slot: usize,
}

pub(super) fn all(spec: &ModelSpec) -> Vec<Layer> {
    let layers = (0..spec.n_layer).map(|index| {
        let attention_before = index / spec.full_attention_interval;
        match spec.kind(index) {
            kind @ LayerKind::Attention => Layer { index, kind, slot: attention_before },
            kind @ LayerKind::Gdn => Layer { index, kind, slot: index - attention_before },
        }
    });
    layers.collect()
}
