//! `gdn_project`: norm, then the rows of q/k/v, z, alpha and beta in one region.
//! `x [columns, n_embd] -> qkv [columns, conv_dim], z [columns, value_dim], alpha, beta [columns, gdn_v_heads]`.

use super::Pass;
use crate::model::{LayerInfo, Model};
use crate::weights::ModelWeights;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let w = pass.cx.weights.gdn(layer.slot);
    let p = pass.cx.planes;
    pass.norm(&w.attn_norm, &[&w.attn_qkv, &w.attn_gate, &w.ssm_alpha, &w.ssm_beta]);
    pass.project([
        (&w.attn_qkv, p.qkv),
        (&w.attn_gate, p.z),
        (&w.ssm_alpha, p.alpha),
        (&w.ssm_beta, p.beta),
    ]);
}
