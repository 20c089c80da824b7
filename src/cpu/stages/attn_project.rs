//! `attn_project`: norm; q+gate, k and v rows; per-head norms and RoPE; append to the KV ring.
//! `x [columns, n_embd] -> qg [columns, 2 q_dim], k, v [columns, kv_dim]`.

use super::Pass;
use crate::cpu::context::Context;
use crate::model::{LayerInfo, Model};
use crate::weights::{AttnWeights, ModelWeights};

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let cx = pass.cx;
    let w = cx.weights.attn(layer.slot);
    let p = cx.planes;
    pass.norm(&w.attn_norm, &[&w.attn_q, &w.attn_k, &w.attn_v]);
    pass.project([(&w.attn_q, p.qg), (&w.attn_k, p.k), (&w.attn_v, p.v)]);
    pass.worker.parallel(pass.columns(), 1, |columns| {
        for column in columns {
            finish_column(cx, w, layer, column);
        }
    });
}

/// Norms and rotates a column's query and key heads, and appends its keys and values.
fn finish_column<M: Model>(cx: &Context<'_, M>, w: &AttnWeights, layer: &LayerInfo, column: usize) {
    let (shape, d) = (&M::SHAPE, M::SHAPE.head_dim);
    let rope = &cx.rope.read(column)[..shape.rope_dim];
    let prepare = |head: &mut [f32], gain: &[f32]| {
        (cx.kernels.rms_norm_inplace)(head, gain, shape.rms_eps);
        rotate(head, rope);
    };
    // In `qg` a head's query is followed by its gate.
    for head in cx.planes.qg.write(column)[..2 * shape.q_dim()].chunks_exact_mut(2 * d) {
        prepare(&mut head[..d], &w.attn_q_norm);
    }
    let keys = cx.planes.k.write_range(column, 0..shape.kv_dim());
    keys.chunks_exact_mut(d).for_each(|head| prepare(head, &w.attn_k_norm));
    let values = &cx.planes.v.read(column)[..shape.kv_dim()];

    let token = cx.batch.columns[column];
    let cell = cx.geometry.cell(token.position);
    let (k_rows, v_rows) = cx.sequences[token.sequence].kv.layer(layer.slot);
    for head in 0..shape.n_head_kv {
        k_rows.append(&cx.geometry, head, cell, &keys[head * d..(head + 1) * d]);
        v_rows.append(&cx.geometry, head, cell, &values[head * d..(head + 1) * d]);
    }
}

/// NEOX pairing inside the rotary dimensions: value `i` turns with value `i + rope_dim / 2`.
/// `rope` holds the cosines of all pairs, then the sines.
fn rotate(head: &mut [f32], rope: &[f32]) {
    let half = rope.len() / 2;
    let (cos, sin) = rope.split_at(half);
    let (first, rest) = head.split_at_mut(half);
    for (i, (a, b)) in first.iter_mut().zip(rest).enumerate() {
        (*a, *b) = (*a * cos[i] - *b * sin[i], *a * sin[i] + *b * cos[i]);
    }
}
