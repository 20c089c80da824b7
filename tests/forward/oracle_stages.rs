//! The intermediate tensors that transformers computed for layer 0 (Gated DeltaNet) and layer 2
//! (attention), against the reference.

use std::collections::HashMap;
use std::slice::from_ref;

use crate::common::golden::{array, farther, tokens};
use crate::common::{mixed, shape, weights};
use crate::reference::Weights;
use crate::reference::forward::Reference;

/// How one of their tensors becomes one of ours.
#[derive(Clone, Copy)]
pub(crate) enum Map {
    /// As it is.
    Same,
    /// `[v_heads][n]`: transformers groups value heads by key head, a GGUF tiles them.
    Heads,
    /// `[conv_dim]`: as `Heads`, behind queries and keys.
    Channels,
    /// `Heads`, then the exponential: theirs is the logarithm of a decay.
    Decay,
    /// Sigmoid.
    Sigmoid,
}

/// Layer, our name, their name, how to compare.
pub(crate) const STAGES: &[(usize, &str, &str, Map)] = &[
    (0, "input", "l0.input", Map::Same),
    (0, "attn_norm", "l0.attn_norm", Map::Same),
    (0, "qkv", "l0.in_proj_qkv", Map::Channels),
    (0, "z", "l0.in_proj_z", Map::Heads),
    (0, "alpha", "l0.in_proj_a", Map::Heads),
    (0, "beta_input", "l0.in_proj_b", Map::Heads),
    (0, "conv", "l0.conv_out_silu", Map::Channels),
    (0, "q", "l0.q_l2norm", Map::Same),
    (0, "k", "l0.k_l2norm", Map::Same),
    (0, "decay", "l0.g", Map::Decay),
    (0, "beta", "l0.beta", Map::Heads),
    (0, "delta", "l0.delta_rule_out", Map::Heads),
    (0, "gated", "l0.gated_norm", Map::Heads),
    (0, "mixer", "l0.out_proj", Map::Same),
    (0, "mixer_residual", "l0.attn_residual", Map::Same),
    (0, "post_norm", "l0.post_attn_norm", Map::Same),
    (0, "router", "l0.router_logits", Map::Same),
    (0, "expert_weights", "l0.expert_weights", Map::Same),
    (0, "shared_gate", "l0.shared_gate_logit", Map::Sigmoid),
    (0, "moe", "l0.moe_out", Map::Same),
    (0, "output", "l0.output", Map::Same),
    (2, "input", "l2.input", Map::Same),
    (2, "attn_norm", "l2.attn_norm", Map::Same),
    (2, "q_raw", "l2.q_raw", Map::Same),
    (2, "gate", "l2.gate_raw", Map::Same),
    (2, "q_norm", "l2.q_norm", Map::Same),
    (2, "k_norm", "l2.k_norm", Map::Same),
    (2, "q", "l2.q_rope", Map::Same),
    (2, "k", "l2.k_rope", Map::Same),
    (2, "v", "l2.v_proj", Map::Same),
    (2, "context", "l2.attn_pregate", Map::Same),
    (2, "gated", "l2.attn_gated", Map::Same),
    (2, "mixer", "l2.o_proj", Map::Same),
    (2, "mixer_residual", "l2.attn_residual", Map::Same),
    (2, "post_norm", "l2.post_attn_norm", Map::Same),
    (2, "router", "l2.router_logits", Map::Same),
    (2, "expert_weights", "l2.expert_weights", Map::Same),
    (2, "shared_gate", "l2.shared_gate_logit", Map::Sigmoid),
    (2, "moe", "l2.moe_out", Map::Same),
    (2, "output", "l2.output", Map::Same),
];

/// Largest difference allowed, as a share of the tensor's largest value. Both sides carry the
/// rounding of f32 sums of a few hundred products; it was seen to be 1e-6.
pub(crate) const BAR: f64 = 5e-6;

/// Rows of `n` per head of our value head order.
fn tiled(theirs: &[f64], key_heads: usize, value_heads: usize) -> Vec<f64> {
    let (n, per_key) = (theirs.len() / value_heads, value_heads / key_heads);
    let head = |h: usize| (h % key_heads) * per_key + h / key_heads;
    (0..value_heads).flat_map(|h| theirs[head(h) * n..(head(h) + 1) * n].to_vec()).collect()
}

/// Their tensor, one row per token, in our order.
pub(crate) fn theirs(name: &str, map: Map, rows: usize) -> Vec<Vec<f64>> {
    let s = shape("tiny");
    let flat: Vec<f64> = array::<f32>("stages", name).iter().map(|&x| x.into()).collect();
    let tiled = |row: &[f64]| tiled(row, s.gdn_k_heads, s.gdn_v_heads);
    let row = |row: &[f64]| match map {
        Map::Same => row.to_vec(),
        Map::Heads => tiled(row),
        Map::Channels => {
            let (qk, v) = row.split_at(2 * s.key_dim());
            [qk.to_vec(), tiled(v)].concat()
        }
        Map::Decay => tiled(row).iter().map(|g| g.exp()).collect(),
        Map::Sigmoid => row.iter().map(|&x| crate::reference::sigmoid(x)).collect(),
    };
    flat.chunks_exact(flat.len() / rows).map(row).collect()
}

/// Largest difference of the two, as a share of the largest value.
pub(crate) fn share(ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "tokens");
    let pairs = || ours.iter().flatten().zip(theirs.iter().flatten());
    assert!(ours.iter().zip(theirs).all(|(a, b)| a.len() == b.len()), "row lengths");
    let max = pairs().map(|(_, b)| b.abs()).fold(0.0, f64::max);
    pairs().map(|(a, b)| (a - b).abs()).fold(0.0, farther) / max
}

/// Every value of layers 0 and 2 for the 48 tokens: `(layer, name)` to one row per token.
fn reference_values(weights: &Weights) -> HashMap<(usize, &'static str), Vec<Vec<f64>>> {
    let s = shape("tiny");
    let mut values: HashMap<_, Vec<Vec<f64>>> = HashMap::new();
    let mut reference = Reference::new(s, weights);
    for token in tokens("stages", "ids") {
        reference.watched(token, &mut |layer, name, value| {
            values.entry((layer, name)).or_default().push(value.to_vec());
        });
    }
    values
}

#[test]
fn reference_gives_every_intermediate_tensor_of_transformers() {
    let weights = weights(&mixed());
    let values = reference_values(&weights);
    for &(layer, ours, name, map) in STAGES {
        let ours = &values[&(layer, ours)];
        let share = share(ours, &theirs(name, map, ours.len()));
        assert!(share <= BAR, "{name}: {share:.2e}");
    }
}

#[test]
fn reference_chooses_the_experts_of_transformers() {
    let weights = weights(&mixed());
    let values = reference_values(&weights);
    for layer in [0, 2] {
        let theirs = array::<i32>("stages", &format!("l{layer}.experts_chosen"));
        let ours: Vec<i32> =
            values[&(layer, "experts")].iter().flatten().map(|&e| e as i32).collect();
        assert_eq!(ours, theirs, "layer {layer}");
    }
}

#[test]
fn reference_attends_as_transformers_and_leaves_its_recurrent_state() {
    let s = shape("tiny");
    let weights = weights(&mixed());
    let values = reference_values(&weights);
    // Theirs is [head][query][key], ours a row per (query, head) of the keys so far.
    let theirs: Vec<f64> =
        array::<f32>("stages", "l2.attn_weights").iter().map(|&x| x.into()).collect();
    let n = tokens("stages", "ids").len();
    for (i, ours) in values[&(2, "attention")].iter().enumerate() {
        let (query, head) = (i / s.n_head, i % s.n_head);
        let row = &theirs[(head * n + query) * n..][..=query];
        assert!(share(from_ref(ours), &[row.to_vec()]) <= BAR, "query {query}, head {head}");
    }
    // Theirs is [head][key][value] in their head order.
    let d = s.gdn_head_dim;
    let state: Vec<f64> =
        array::<f32>("stages", "l0.final_state").iter().map(|&x| x.into()).collect();
    let state = tiled(&state, s.gdn_k_heads, s.gdn_v_heads);
    let ours = values[&(0, "state")].last().unwrap();
    let transposed = |i: usize| state[i / (d * d) * d * d + i % d * d + i / d % d];
    let theirs: Vec<f64> = (0..state.len()).map(transposed).collect();
    assert!(share(from_ref(ours), &[theirs]) <= BAR, "state");
}
