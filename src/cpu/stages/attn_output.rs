//! `attn_output`: the output projection, added to `x`. `h [columns, q_dim] -> x [columns, n_embd]`.

use super::Pass;
use crate::model::{LayerInfo, Model};
use crate::weights::ModelWeights;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    pass.output(&pass.cx.weights.attn(layer.slot).attn_output);
}
