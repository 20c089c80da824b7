//! `moe_up`: gate and up rows of every chosen expert and of the shared one, SwiGLU.
//! `h [columns, n_embd] -> ff [columns, n_expert_used * expert_ff + shared_ff]`.
//!
//! Columns are grouped by expert, so an expert's rows are read once per tile of its columns.

use std::ops::Range;

use super::{Pass, following, rows_of};
use crate::cpu::context::{Scratch, Work};
use crate::cpu::matmul::{Outputs, Part, ROW_BLOCK, Tile, blocks_per_claim, multiply_tile, tiles};
use crate::model::{LayerInfo, Model};
use crate::weights::{Matrix, ModelWeights};

/// A block of an expert's gate and up rows, and who works on it.
struct Job<'a> {
    gate: &'a Matrix,
    up: &'a Matrix,
    rows: Range<usize>,
    work: Work<'a>,
}

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let w = pass.cx.weights.moe(layer.index);
    let (routing, columns, worker) = (pass.cx.routing, pass.columns(), pass.worker);
    let blocks = M::SHAPE.expert_ff.div_ceil(ROW_BLOCK);
    let routed = routing.experts() * blocks;
    let at = |item: usize| {
        if item < routed {
            let (expert, work) = routing.group(item / blocks);
            let (gate, up) = (&w.ffn_gate_exps.experts[expert], &w.ffn_up_exps.experts[expert]);
            Job { gate, up, rows: rows_of(item % blocks, M::SHAPE.expert_ff), work }
        } else {
            let (gate, up, work) = (&w.ffn_gate_shexp, &w.ffn_up_shexp, Work::Shared(columns));
            Job { gate, up, rows: rows_of(item - routed, M::SHAPE.shared_ff), work }
        }
    };
    let total = routed + M::SHAPE.shared_ff.div_ceil(ROW_BLOCK);
    worker.parallel(total, blocks_per_claim(total, worker.count()), |claim| {
        for item in claim.clone() {
            let next = following(item, &claim, |item| {
                let Job { gate, rows, .. } = at(item);
                gate.rows_bytes(rows)
            });
            up_block(pass, &at(item), next);
        }
    });
}

/// One block for all its columns; `next` are the weights that follow.
fn up_block<M: Model>(pass: &mut Pass<'_, M>, job: &Job<'_>, next: &[u8]) {
    let Job { gate, up, rows, work } = job;
    let cx = pass.cx;
    let (n, used) = (M::SHAPE.n_embd, M::SHAPE.n_expert_used);
    let count = work.count();
    let target = |i| work.target(i, used);
    let Scratch { gates, ups, .. } = &mut *pass.scratch;
    for (tile, last) in tiles(count) {
        let next = if last { next } else { &[] };
        let targets = tile.map(target);
        let parts = targets.clone().map(|(column, _)| Part::whole(column, n));
        let h = Tile::new(cx.planes.h, parts);
        let size = targets.len() * rows.len();
        let [gates, ups] = [&mut gates[..size], &mut ups[..size]];
        let out = Outputs::new(gates.chunks_exact_mut(rows.len()));
        multiply_tile(cx, gate, rows.clone(), up.rows_bytes(rows.clone()), &h, out);
        let out = Outputs::new(ups.chunks_exact_mut(rows.len()));
        multiply_tile(cx, up, rows.clone(), next, &h, out);
        let products = gates.chunks_exact(rows.len()).zip(ups.chunks_exact(rows.len()));
        for ((column, rank), (gate, up)) in targets.zip(products) {
            let offset = rank * M::SHAPE.expert_ff;
            let out = offset + rows.start..offset + rows.end;
            (cx.kernels.swiglu)(gate, up, cx.planes.ff.f32.write_range(column, out));
        }
    }
}
