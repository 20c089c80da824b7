//! `moe_down`: down rows of every chosen expert and of the shared one; their sum in rank order, added to `x`.
//! `ff -> down [columns, n_expert_used + 1, n_embd] -> x [columns, n_embd]`.

use std::ops::Range;

use super::{Pass, rows_of};
use crate::cpu::context::{Context, Products};
use crate::cpu::kernels::TILE;
use crate::cpu::matmul::{Part, Parts, gather, multiply_tile, quantise, row_block};
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

    let active = cx.routing.active.read(0)[0] as usize;
    let size = row_block(columns);
    let blocks = M::SHAPE.n_embd.div_ceil(size);
    let products = &mut pass.scratch.products;
    pass.worker.parallel((active + 1) * blocks, 1, |claim| {
        for item in claim {
            let (group, rows) = (item / blocks, rows_of(item % blocks, size, M::SHAPE.n_embd));
            if group == active {
                down_block(cx, &w.ffn_down_shexp, None, &rows, products);
                continue;
            }
            let &[expert, first, count] = cx.routing.groups.read(group) else {
                unreachable!("a group is three values");
            };
            let pairs = &cx.routing.pairs.read(0)[first as usize..][..count as usize];
            let matrix = &w.ffn_down_exps.experts[expert as usize];
            down_block(cx, matrix, Some(pairs), &rows, products);
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
    pairs: Option<&[u32]>,
    rows: &Range<usize>,
    products: &mut Products,
) {
    let (n, used) = (M::SHAPE.n_embd, M::SHAPE.n_expert_used);
    let count = pairs.map_or(cx.batch.columns.len(), <[u32]>::len);
    let target = |i: usize| match pairs {
        Some(pairs) => (pairs[i] as usize / used, pairs[i] as usize % used),
        None => (i, used),
    };
    for start in (0..count).step_by(TILE) {
        let targets = (start..count.min(start + TILE)).map(target);
        let parts = Parts::new(targets.clone().map(|(column, rank)| part::<M>(column, rank)));
        let tile = gather(cx, cx.planes.ff, &parts, &[matrix], &mut products.panels);
        let out = &mut products.out[..targets.len() * rows.len()];
        multiply_tile(cx, matrix, rows.clone(), &tile, out);
        for ((column, rank), values) in targets.zip(out.chunks_exact(rows.len())) {
            let out = rank * n + rows.start..rank * n + rows.end;
            cx.planes.down.write_range(column, out).copy_from_slice(values);
        }
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
