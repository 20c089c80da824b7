//! `embed`: the token's row of the embedding table, dequantised into `x`. `[columns] -> [columns, n_embd]`.

use super::Pass;
use crate::model::Model;
use crate::quant;
use crate::weights::ModelWeights;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>) {
    let cx = pass.cx;
    let table = cx.weights.token_embd();
    pass.worker.parallel(pass.columns(), 8, |columns| {
        for column in columns {
            let token = cx.batch.columns[column].token as usize;
            let x = cx.planes.x.write_range(column, 0..M::SHAPE.n_embd);
            quant::dequantize(table.ty(), table.row(token), x);
            if table.scale() != 1.0 {
                (cx.kernels.scale)(table.scale(), x);
            }
        }
    });
}
