//! `head`: final norm and logits of the columns that are wanted. `x [columns, n_embd] -> logits [outputs, n_vocab]`.

use super::{Pass, blocks};
use crate::cpu::matmul::{Part, multiply, quantise};
use crate::model::Model;
use crate::weights::ModelWeights;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>) {
    let cx = pass.cx;
    let n = M::SHAPE.n_embd;
    let (head, outputs) = (cx.weights.output(), &cx.batch.outputs);
    let count = outputs.len();
    pass.worker.parallel(count, 1, |claim| {
        for output in claim {
            let x = &cx.planes.x.read(outputs[output])[..n];
            let h = cx.planes.h.f32.write_range(output, 0..n);
            (cx.kernels.rms_norm)(x, cx.weights.output_norm(), M::SHAPE.rms_eps, h);
            quantise(cx, cx.planes.h, Part::whole(output, n), &[head]);
        }
    });
    blocks(pass.worker, head, |rows, next| {
        multiply(cx, head, &rows, next, count, |i| cx.logits.write_range(i, rows.clone()));
    });
}
