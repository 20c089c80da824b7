//! `head`: final norm and logits of the columns that are wanted. `x [columns, n_embd] -> logits [outputs, n_vocab]`.

use super::{Pass, rows_of};
use crate::cpu::kernels::TILE;
use crate::cpu::matmul::{arrange, multiply, row_block, tile_columns};
use crate::model::Model;
use crate::weights::ModelWeights;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>) {
    let cx = pass.cx;
    let n = M::SHAPE.n_embd;
    let (head, outputs) = (cx.weights.output(), &cx.batch.outputs);
    let count = outputs.len();
    pass.worker.parallel(count.div_ceil(TILE), 1, |tiles| {
        for tile in tiles {
            for output in tile_columns(tile, count) {
                let x = &cx.planes.x.read(outputs[output])[..n];
                let h = cx.planes.h.f32.write_range(output, 0..n);
                (cx.kernels.rms_norm)(x, cx.weights.output_norm(), M::SHAPE.rms_eps, h);
            }
            arrange(cx, tile, count, n, &[head]);
        }
    });
    let size = row_block(count);
    let products = &mut pass.scratch.products;
    pass.worker.parallel(head.rows().div_ceil(size), 1, |claim| {
        for block in claim {
            let rows = rows_of(block, size, head.rows());
            multiply(cx, head, rows.clone(), count, products, |i, values| {
                cx.logits.write_range(i, rows.clone()).copy_from_slice(values);
            });
        }
    });
}
