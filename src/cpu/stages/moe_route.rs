//! `moe_route`: norm, router, top-k, the shared expert's gate; then who works for which expert.
//! `x [columns, n_embd] -> expert_ids, expert_weights [columns, n_expert_used (+ 1)], routing`.

use super::Pass;
use crate::cpu::context::Context;
use crate::model::{LayerInfo, Model};
use crate::weights::ModelWeights;

/// Smallest sum of chosen probabilities that weights are divided by, 2^-14, as in llama.cpp.
const MIN_WEIGHT_SUM: f32 = 6.103_515_6e-5;

/// Most routed experts a layer can have, and most that a token can use; the generator refuses more.
const MAX_EXPERTS: usize = 512;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let cx = pass.cx;
    let w = cx.weights.moe(layer.index);
    // Routed experts of one tensor share a type, so the first stands for all.
    let readers = [
        &w.ffn_gate_inp,
        &w.ffn_gate_inp_shexp,
        &w.ffn_gate_exps.experts[0],
        &w.ffn_up_exps.experts[0],
        &w.ffn_gate_shexp,
        &w.ffn_up_shexp,
    ];
    pass.norm(&w.post_attention_norm, &readers);
    let shared_gate = cx.planes.expert_weights.skip(M::SHAPE.n_expert_used);
    pass.project([(&w.ffn_gate_inp, cx.planes.router), (&w.ffn_gate_inp_shexp, shared_gate)]);
    pass.worker.parallel(pass.columns(), 1, |columns| columns.for_each(|c| choose(cx, c)));
    pass.worker.single(|| group(cx));
}

/// Softmax over all experts, the best `n_expert_used`, renormalised; the shared expert's gate.
fn choose<M: Model>(cx: &Context<'_, M>, column: usize) {
    let used = M::SHAPE.n_expert_used;
    let router = cx.planes.router.write_range(column, 0..M::SHAPE.n_expert);
    let ids = cx.planes.expert_ids.write_range(column, 0..used);
    let weights = cx.planes.expert_weights.write_range(column, 0..used + 1);
    top_k(router, ids, &mut weights[..used]);
    (cx.kernels.softmax)(router);
    let mut sum = 0.0;
    for (weight, id) in weights.iter_mut().zip(&*ids) {
        *weight = router[*id as usize];
        sum += *weight;
    }
    let factor = cx.expert_scale / sum.max(MIN_WEIGHT_SUM);
    weights[..used].iter_mut().for_each(|weight| *weight *= factor);
    (cx.kernels.sigmoid)(&mut weights[used..]);
}

/// The largest logits, descending; the lower index first among equals. NaN sorts last.
fn top_k(logits: &[f32], ids: &mut [u32], best: &mut [f32]) {
    let mut found = 0;
    for (id, &logit) in logits.iter().enumerate() {
        let beats = |other: &f32| logit > *other || (other.is_nan() && !logit.is_nan());
        let place = best[..found].iter().position(beats).unwrap_or(found);
        if place == best.len() {
            continue;
        }
        found = (found + 1).min(best.len());
        best[place..found].rotate_right(1);
        ids[place..found].rotate_right(1);
        (best[place], ids[place]) = (logit, id as u32);
    }
}

/// Counting sort of all (column, rank) pairs by expert.
fn group<M: Model>(cx: &Context<'_, M>) {
    let used = M::SHAPE.n_expert_used;
    let columns = cx.batch.columns.len();
    let ids = |column| &cx.planes.expert_ids.read(column)[..used];
    let mut next = [0u32; MAX_EXPERTS];
    (0..columns).flat_map(ids).for_each(|id| next[*id as usize] += 1);
    let (mut active, mut first) = (0, 0);
    for (expert, next) in next[..M::SHAPE.n_expert].iter_mut().enumerate() {
        let count = std::mem::replace(next, first);
        if count > 0 {
            cx.routing.groups.write(active).copy_from_slice(&[expert as u32, first, count]);
            active += 1;
            first += count;
        }
    }
    cx.routing.active.write(0)[0] = active as u32;
    let pairs = cx.routing.pairs.write(0);
    for column in 0..columns {
        for (rank, id) in ids(column).iter().enumerate() {
            let next = &mut next[*id as usize];
            pairs[*next as usize] = (column * used + rank) as u32;
            *next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::top_k;

    #[test]
    fn top_k_is_descending_with_the_lower_index_first_among_equals() {
        let mut ids = [9; 3];
        let mut best = [0.0; 3];
        for (logits, want) in [
            (vec![-1.0, -1.01, -1.02, -1.03], [0, 1, 2]),
            (vec![5.0; 6], [0, 1, 2]),
            (vec![1.0, 3.0, 2.0, 3.0, 0.0], [1, 3, 2]),
            (vec![f32::NAN, 1.0, f32::NAN, 2.0], [3, 1, 0]),
            (vec![f32::NEG_INFINITY; 4], [0, 1, 2]),
        ] {
            top_k(&logits, &mut ids, &mut best);
            assert_eq!(ids, want, "{logits:?}");
        }
    }
}
