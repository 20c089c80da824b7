//! `moe_down`: down rows of every chosen expert and of the shared one; their sum in rank order, added to `x`.
//! `ff -> down [columns, n_expert_used + 1, n_embd] -> x [columns, n_embd]`.

use std::ops::Range;

use super::{Pass, following, rows_of};
use crate::cpu::context::{Context, Work};
use crate::cpu::matmul::{
    Outputs, Part, ROW_BLOCK, Tile, blocks_per_claim, multiply_tile, quantise, tiles,
};
use crate::model::{LayerInfo, Model};
use crate::weights::{Matrix, ModelWeights};

/// Columns of `x` summed at a time.
const SUM_BLOCK: usize = 512;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let cx = pass.cx;
    let (columns, used) = (pass.columns(), M::SHAPE.n_expert_used);
    let w = cx.weights.moe(layer.index);
    pass.worker.parallel(columns * (used + 1), 1, |claim| {
        for item in claim {
            let (column, rank) = (item / (used + 1), item % (used + 1));
            let matrix = if rank < used { &w.ffn_down_exps.experts[0] } else { &w.ffn_down_shexp };
            quantise(cx, cx.planes.ff, part::<M>(column, rank), &[matrix]);
        }
    });

    let active = cx.routing.experts();
    let blocks = M::SHAPE.n_embd.div_ceil(ROW_BLOCK);
    let at = |item| {
        let (group, rows) = (item / blocks, rows_of(item % blocks, M::SHAPE.n_embd));
        if group == active {
            return (&w.ffn_down_shexp, Work::Shared(columns), rows);
        }
        let (expert, work) = cx.routing.group(group);
        (&w.ffn_down_exps.experts[expert], work, rows)
    };
    let total = (active + 1) * blocks;
    pass.worker.parallel(total, blocks_per_claim(total, pass.worker.count()), |claim| {
        for item in claim.clone() {
            let (matrix, work, rows) = at(item);
            let next = following(item, &claim, |item| {
                let (matrix, _, rows) = at(item);
                matrix.rows_bytes(rows)
            });
            down_block(cx, matrix, work, &rows, next);
        }
    });

    let segments = M::SHAPE.n_embd.div_ceil(SUM_BLOCK);
    pass.worker.parallel(columns * segments, 1, |claim| {
        for item in claim {
            sum(cx, item / segments, item % segments);
        }
    });
}

/// The activations of a column's `rank`-th expert; the shared one comes after the chosen ones.
fn part<M: Model>(column: usize, rank: usize) -> Part {
    let shared = rank == M::SHAPE.n_expert_used;
    let len = if shared { M::SHAPE.shared_ff } else { M::SHAPE.expert_ff };
    Part { column, part: rank, part_len: M::SHAPE.expert_ff, len }
}

/// One block of an expert's rows, for all its columns.
fn down_block<M: Model>(
    cx: &Context<'_, M>,
    matrix: &Matrix,
    work: Work<'_>,
    rows: &Range<usize>,
    next: &[u8],
) {
    let (n, used) = (M::SHAPE.n_embd, M::SHAPE.n_expert_used);
    let count = work.count();
    let target = |i| work.target(i, used);
    for (tile, last) in tiles(count) {
        let next = if last { next } else { &[] };
        let targets = tile.map(target);
        let parts = targets.clone().map(|(column, rank)| part::<M>(column, rank));
        let out = targets.map(|(column, rank)| {
            cx.planes.down.write_range(column, rank * n + rows.start..rank * n + rows.end)
        });
        let ff = Tile::new(cx.planes.ff, parts);
        multiply_tile(cx, matrix, rows.clone(), next, &ff, Outputs::new(out));
    }
}

/// Adds the weighted outputs of a column to a segment of its `x`: chosen experts by rank, then the shared one.
fn sum<M: Model>(cx: &Context<'_, M>, column: usize, segment: usize) {
    let (n, used) = (M::SHAPE.n_embd, M::SHAPE.n_expert_used);
    let range = segment * SUM_BLOCK..((segment + 1) * SUM_BLOCK).min(n);
    let down = cx.planes.down.read(column);
    let weights = &cx.planes.expert_weights.read(column)[..used + 1];
    let mut total = [0.0f32; SUM_BLOCK];
    let total = &mut total[..range.len()];
    for (rank, weight) in weights.iter().enumerate() {
        (cx.kernels.axpy)(*weight, &down[rank * n + range.start..rank * n + range.end], total);
    }
    let x = cx.planes.x.write_range(column, range);
    (cx.kernels.add)(x, total);
}
