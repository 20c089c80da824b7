//! `attn_mix`: scores, softmax, values and the output gate. `qg, KV ring -> h [columns, q_dim]`.
//!
//! Keys are visited in tiles that start at multiples of [`KvGeometry::TILE`] in absolute position, and
//! tiles are combined in order with an online softmax, so how the prompt was cut changes no bit.

use super::Pass;
use crate::cpu::context::{Context, Scratch};
use crate::cpu::kernels::Kernels;
use crate::model::{LayerInfo, Model};
use crate::state::KvGeometry;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let cx = pass.cx;
    let heads = M::SHAPE.n_head_kv;
    let scratch = &mut *pass.scratch;
    pass.worker.parallel(cx.batch.columns.len() * heads, 1, |claim| {
        for item in claim {
            mix(cx, layer, item / heads, item % heads, scratch);
        }
    });
}

/// All query heads that share one KV head, for one column.
fn mix<M: Model>(
    cx: &Context<'_, M>,
    layer: &LayerInfo,
    column: usize,
    kv_head: usize,
    scratch: &mut Scratch,
) {
    let d = M::SHAPE.head_dim;
    let group = M::SHAPE.n_head / M::SHAPE.n_head_kv;
    let heads = kv_head * group..(kv_head + 1) * group;
    let token = cx.batch.columns[column];
    let (keys, values) = cx.sequences[token.sequence].kv.layer(layer.slot);
    let qg = &cx.planes.qg.read(column)[2 * d * heads.start..2 * d * heads.end];
    let Scratch { queries, scores, mixed, .. } = scratch;
    for (q, qg) in queries.chunks_exact_mut(d).zip(qg.chunks_exact(2 * d)) {
        q.copy_from_slice(&qg[..d]);
    }
    mixed.fill(0.0);
    let mut softmax = [Running::EMPTY; MAX_GROUP];
    let scale = 1.0 / (d as f32).sqrt();
    let mut start = cx.geometry.oldest_visible(token.position);
    while start <= token.position {
        let end = (start + 1).next_multiple_of(KvGeometry::TILE).min(token.position + 1);
        let (cell, count) = (cx.geometry.cell(start), end - start);
        let rows = keys.rows(&cx.geometry, kv_head, cell, count);
        let scores = &mut scores[..group * count];
        (cx.kernels.attention_scores)(queries, d, rows, count, scale, scores);
        for (head, weights) in scores.chunks_exact_mut(count).enumerate() {
            let rescale = softmax[head].add(cx.kernels, weights);
            if rescale != 1.0 {
                (cx.kernels.scale)(rescale, &mut mixed[head * d..(head + 1) * d]);
            }
        }
        let rows = values.rows(&cx.geometry, kv_head, cell, count);
        (cx.kernels.attention_values)(scores, d, rows, count, mixed);
        start = end;
    }
    let h = cx.planes.h.f32.write_range(column, d * heads.start..d * heads.end);
    for (head, h) in h.chunks_exact_mut(d).enumerate() {
        h.copy_from_slice(&mixed[head * d..(head + 1) * d]);
        (cx.kernels.scale)(1.0 / softmax[head].sum, h);
        (cx.kernels.sigmoid_mul)(&qg[(2 * head + 1) * d..(2 * head + 2) * d], h);
    }
}

/// Most query heads that can share a KV head; the generator refuses more.
const MAX_GROUP: usize = 64;

/// The softmax of one head over the tiles seen so far.
#[derive(Clone, Copy)]
struct Running {
    /// The largest score.
    max: f32,
    /// The sum of all weights, relative to it.
    sum: f32,
}

impl Running {
    const EMPTY: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };

    /// Turns a tile's scores into weights; returns the factor for what was accumulated before.
    fn add(&mut self, kernels: &Kernels, scores: &mut [f32]) -> f32 {
        let tile_max = (kernels.max)(scores);
        if tile_max > self.max || self.sum == 0.0 {
            let mut rescale = [self.max - tile_max];
            (kernels.exp)(&mut rescale);
            self.max = tile_max;
            self.sum = self.sum * rescale[0] + (kernels.exp_sum)(scores, self.max);
            return rescale[0];
        }
        self.sum += (kernels.exp_sum)(scores, self.max);
        1.0
    }
}
