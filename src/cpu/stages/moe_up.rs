//! `moe_up`: gate and up rows of every chosen expert and of the shared one, SwiGLU.
//! `h [columns, n_embd] -> ff [columns, n_expert_used * expert_ff + shared_ff]`.
//!
//! Columns are grouped by expert, so an expert's rows are read once per tile of its columns.

use std::ops::Range;

use super::{Pass, rows_of};
use crate::cpu::context::{Scratch, Work};
use crate::cpu::kernels::TILE;
use crate::cpu::matmul::{Part, Parts, Tile, gather, multiply_tile, row_block};
use crate::model::{LayerInfo, Model};
use crate::weights::{Matrix, ModelWeights};

/// One expert's work: its gate and up rows, and where the results of its columns go.
struct Job<'a> {
    gate: &'a Matrix,
    up: &'a Matrix,
    work: Work<'a>,
}

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let w = pass.cx.weights.moe(layer.index);
    let routing = pass.cx.routing;
    let active = routing.experts();
    let size = row_block(pass.columns());
    let blocks = M::SHAPE.expert_ff.div_ceil(size);
    let shared_blocks = M::SHAPE.shared_ff.div_ceil(size);
    let worker = pass.worker;
    worker.parallel(active * blocks + shared_blocks, 1, |claim| {
        for item in claim {
            if item < active * blocks {
                let (expert, work) = routing.group(item / blocks);
                let (gate, up) = (&w.ffn_gate_exps.experts[expert], &w.ffn_up_exps.experts[expert]);
                let rows = rows_of(item % blocks, size, M::SHAPE.expert_ff);
                up_block(pass, &Job { gate, up, work }, &rows);
            } else {
                let work = Work::Shared(pass.columns());
                let job = Job { gate: &w.ffn_gate_shexp, up: &w.ffn_up_shexp, work };
                let block = item - active * blocks;
                up_block(pass, &job, &rows_of(block, size, M::SHAPE.shared_ff));
            }
        }
    });
}

/// One block of an expert's rows, for all its columns.
fn up_block<M: Model>(pass: &mut Pass<'_, M>, job: &Job<'_>, rows: &Range<usize>) {
    let cx = pass.cx;
    let (n, used, columns) = (M::SHAPE.n_embd, M::SHAPE.n_expert_used, cx.batch.columns.len());
    let count = job.work.count();
    let target = |i| job.work.target(i, used);
    let Scratch { products, gates, ups, .. } = &mut *pass.scratch;
    for start in (0..count).step_by(TILE) {
        let targets = (start..count.min(start + TILE)).map(target);
        let parts = Parts::new(targets.clone().map(|(column, _)| Part::whole(column, n)));
        // A lone column, and the shared expert's, are arranged already.
        let tile = if matches!(job.work, Work::Shared(_)) || columns == 1 {
            Tile::Arranged(start / TILE, start..start + targets.len())
        } else {
            gather(cx, cx.planes.h, &parts, &[job.gate, job.up], &mut products.panels)
        };
        let size = targets.len() * rows.len();
        multiply_tile(cx, job.gate, rows.clone(), &tile, &mut gates[..size]);
        multiply_tile(cx, job.up, rows.clone(), &tile, &mut ups[..size]);
        let products = gates.chunks_exact(rows.len()).zip(ups.chunks_exact(rows.len()));
        for ((column, rank), (gate, up)) in targets.zip(products) {
            let offset = rank * M::SHAPE.expert_ff;
            let out = offset + rows.start..offset + rows.end;
            (cx.kernels.swiglu)(gate, up, cx.planes.ff.f32.write_range(column, out));
        }
    }
}
