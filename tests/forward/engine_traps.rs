//! The faults of `traps.rs` in the engine itself: one model whose weights are chosen so that its
//! stages show the right values, and would show the wrong ones.

use std::sync::{Arc, Mutex};

use crate::common::{run, shape, synth};
use pantheon::model::Shape;
use pantheon::quant::GgmlType;

/// Gain with which the norm of [`residual`] starts with 1.
fn unit_gain(s: &Shape) -> f32 {
    5.0 / (3.0 * (s.n_embd as f32).sqrt())
}

/// Every token's embedding is 3, 4, 0, 0, …; no layer adds to it.
fn residual(column: usize) -> f32 {
    [3.0, 4.0].get(column).copied().unwrap_or(0.0)
}

/// Weights that read the first input only, whose normed value is 1; `row` is the row's weight.
fn first_input(s: &Shape, i: u64, row: impl Fn(usize) -> f32) -> f32 {
    let (row_index, column) = (i as usize / s.n_embd, i as usize % s.n_embd);
    if column == 0 { row(row_index) } else { 0.0 }
}

/// Queries of heads 0, 1 and 2: the first, the second and the first unrotated unit vector.
/// Gates: the row's number.
fn query_or_gate(s: &Shape, row: usize) -> f32 {
    let (head, r) = (row / (2 * s.head_dim), row % (2 * s.head_dim));
    let unit = [0, 1, s.rope_dim];
    match unit.get(head) {
        _ if r >= s.head_dim => row as f32,
        // Large beside the epsilon of the head's norm, which makes it a unit vector.
        Some(&one) if r == one => 16.0,
        _ => 0.0,
    }
}

/// Router logits: falling and all negative in layer 0, all -80 in layer 3, equal elsewhere.
fn router(layer: &str, expert: usize) -> f32 {
    match layer {
        "0" => -1.0 - 0.01 * expert as f32,
        "3" => -80.0,
        _ => 0.0,
    }
}

/// Value `i` of the tensor `name`.
fn weight(s: &Shape, name: &str, i: u64) -> f32 {
    if name == "token_embd.weight" {
        return residual(i as usize % s.n_embd);
    }
    let Some(name) = name.strip_prefix("blk.") else { return 1.0 };
    let (layer, name) = name.split_once('.').unwrap();
    match name {
        "attn_norm.weight" if layer == "1" => 1.0331,
        "attn_norm.weight" | "post_attention_norm.weight" => unit_gain(s),
        "attn_q_norm.weight" => 1.0 / (s.head_dim as f32).sqrt(),
        "attn_k_norm.weight" | "ssm_norm.weight" => 1.0,
        "ssm_a" => -0.05,
        "attn_q.weight" => first_input(s, i, |row| query_or_gate(s, row)),
        "ffn_gate_inp.weight" => first_input(s, i, |expert| router(layer, expert)),
        "ffn_gate_exps.weight" => first_input(s, i, |_| 1.0),
        "ffn_up_exps.weight" => first_input(s, i, |row| (row / s.expert_ff + 1) as f32),
        _ => 0.0,
    }
}

/// The last token's value of `stage`'s buffer `name` in `layer`, after two tokens.
fn observed(stage: &'static str, layer: usize, name: &'static str) -> Vec<f32> {
    let s = shape("odd");
    let (_file, gguf) =
        synth::opened(synth::write(s, &|_| GgmlType::F32, &|name, i| weight(s, name, i)));
    let mut engine = run::engine(&gguf, &run::exact());
    let found = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&found);
    engine.set_trace(Some(Box::new(move |e| {
        if (e.stage, e.layer, e.name) == (stage, layer, name) {
            *seen.lock().unwrap() = e.values.to_vec();
        }
    })));
    run::logits(&mut engine, 0, &[0, 1], 32);
    let found = found.lock().unwrap();
    assert!(!found.is_empty(), "{stage} of layer {layer} shows no {name}");
    found.clone()
}

/// Compares the first values; the epsilon of the norms, which these values leave out, is 3e-6 of them.
#[track_caller]
fn assert_near(found: &[f32], expected: &[f32]) {
    assert!(found.len() >= expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(near, "{i}: expected {expected}, found {found}");
    }
}

#[test]
fn norm_gain_is_used_as_stored() {
    let scale = (shape("odd").n_embd as f32).sqrt() * 1.0331;
    assert_near(&observed("gdn_project", 1, "h"), &[0.6 * scale, 0.8 * scale, 0.0]);
}

#[test]
fn stored_decay_is_not_exponentiated_again() {
    let heads = shape("odd").gdn_v_heads;
    assert_near(&observed("gdn_recur", 0, "alpha"), &vec![0.965_936_3; heads]);
}

#[test]
fn query_and_gate_alternate_head_by_head() {
    let s = shape("odd");
    let qg = observed("attn_project", 2, "qg");
    for head in 0..s.n_head {
        let first = 2 * head * s.head_dim + s.head_dim;
        let gates: Vec<f32> = (first..first + s.head_dim).map(|row| row as f32).collect();
        assert_near(&qg[first..], &gates);
    }
}

#[test]
fn rotary_pairs_are_half_the_rotary_width_apart() {
    let s = shape("odd");
    let (half, qg) = (s.rope_dim / 2, observed("attn_project", 2, "qg"));
    let query = |head: usize| &qg[2 * head * s.head_dim..][..s.head_dim];
    let expect = |values: &[(usize, f32)]| {
        let mut head = vec![0.0; s.head_dim];
        values.iter().for_each(|&(i, value)| head[i] = value);
        head
    };
    assert_near(query(0), &expect(&[(0, 0.540_302_3), (half, 0.841_471)]));
    let angle = s.rope_base.powf(-2.0 / s.rope_dim as f32);
    assert_near(query(1), &expect(&[(1, angle.cos()), (1 + half, angle.sin())]));
    assert_near(query(2), &expect(&[(s.rope_dim, 1.0)]));
}

#[test]
fn negative_router_logits_choose_the_largest_and_sum_to_one() {
    let s = shape("odd");
    let weights = observed("moe_route", 0, "expert_weights");
    let e: Vec<f32> = (0..s.n_expert_used).map(|i| (-0.01 * i as f32).exp()).collect();
    let sum: f32 = e.iter().sum();
    assert_near(&weights, &e.iter().map(|e| e / sum).collect::<Vec<_>>());
}

#[test]
fn equal_router_logits_choose_the_lowest_experts_evenly() {
    let s = shape("odd");
    let silu_of_one = 1.0 / (1.0 + (-1.0f32).exp());
    for layer in [1, 3] {
        let weights = observed("moe_route", layer, "expert_weights");
        assert_near(&weights, &vec![1.0 / s.n_expert_used as f32; s.n_expert_used]);
        // Expert e's activations are e + 1 times the same.
        let ff = observed("moe_up", layer, "ff");
        for (rank, ff) in ff.chunks(s.expert_ff).take(s.n_expert_used).enumerate() {
            assert_near(ff, &vec![silu_of_one * (rank + 1) as f32; s.expert_ff]);
        }
    }
}
