//! Faults that engines of this model family were reported to have, each with the smallest input that
//! shows it and the right value.

use crate::reference::{Shape, Weights, attention, gdn, moe, norm};

/// A shape with the given delta-rule heads and attention heads; the rest is as small as it gets.
fn shape(gdn: [usize; 3], attention: [usize; 3]) -> Shape {
    Shape {
        name: "trap",
        n_layer: 1,
        full_attention_interval: 4,
        n_embd: 8,
        n_vocab: 8,
        n_head: attention[0],
        n_head_kv: 1,
        head_dim: attention[1],
        rope_dim: attention[2],
        rope_sections: [0; 4],
        rope_base: 1e7,
        rms_eps: 1e-6,
        n_expert: 1,
        n_expert_used: 1,
        expert_ff: 1,
        shared_ff: 1,
        gdn_k_heads: gdn[0],
        gdn_v_heads: gdn[1],
        gdn_head_dim: gdn[2],
        conv_taps: 4,
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64, by: f64) {
    assert!((found - expected).abs() <= by, "expected {expected}, found {found}");
}

/// Which key head each value head of one layer reads, found by running it: key head `h` holds `e_h`,
/// so the state that a value head is left with names the key it was written with.
fn observed_key_heads(s: &Shape) -> Vec<usize> {
    let d = s.gdn_head_dim;
    let mut qkv = vec![0.0; s.conv_dim()];
    for head in 0..s.gdn_k_heads {
        qkv[head * d + head] = 1.0;
        qkv[s.key_dim() + head * d + head] = 1.0;
    }
    qkv[2 * s.key_dim()..].fill(1.0);
    let mut w = Weights::default();
    let newest_tap: Vec<f32> = [0.0, 0.0, 0.0, 1.0].repeat(s.conv_dim());
    w.insert("blk.0.ssm_conv1d.weight", newest_tap);
    w.insert("blk.0.ssm_a", vec![-1.0; s.gdn_v_heads]);
    w.insert("blk.0.ssm_dt.bias", vec![0.0; s.gdn_v_heads]);
    w.insert("blk.0.ssm_norm.weight", vec![1.0; d]);
    let heads = vec![0.0; s.gdn_v_heads];
    let p = gdn::Projected {
        qkv,
        z: vec![1.0; s.value_dim()],
        alpha: heads.clone(),
        beta: heads,
        ..Default::default()
    };
    let mut state = gdn::State::new(s);
    gdn::recur(s, w.layer(0), &p, &mut state);
    let key = |rows: &[f64]| {
        let written: Vec<usize> = (0..d).filter(|&i| rows[i].abs() > 0.1).collect();
        assert_eq!(written.len(), 1, "one key per head");
        written[0]
    };
    state.delta.chunks_exact(d * d).map(key).collect()
}

#[test]
fn key_heads_are_tiled_over_value_heads_not_repeated() {
    assert_eq!(observed_key_heads(&shape([2, 4, 4], [1, 4, 2])), [0, 1, 0, 1]);
    let tiled: Vec<usize> = (0..32).map(|head| head % 16).collect();
    assert_eq!(observed_key_heads(&shape([16, 32, 16], [1, 4, 2])), tiled);
}

#[test]
fn stored_decay_is_not_exponentiated_again() {
    let decay = gdn::decay(&[-0.05], &[0.0], &[0.0])[0];
    assert_near(decay, 0.965936, 5e-7);
    // 64 tokens that write nothing leave only the decay in the state.
    let mut state = [1.0];
    for _ in 0..64 {
        gdn::delta_rule(&mut state, &[1.0], &[1.0], &[1.0], decay, 0.0);
    }
    assert_near(state[0], 0.108819, 5e-7);
}

#[test]
fn query_and_gate_alternate_head_by_head() {
    let s = shape([1, 1, 4], [2, 4, 2]);
    let rows: Vec<f64> = (0..16).map(f64::from).collect();
    let (q, gate) = attention::split_gate(&s, &rows);
    assert_eq!(q, [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(gate, [4.0, 5.0, 6.0, 7.0, 12.0, 13.0, 14.0, 15.0]);
}

#[test]
fn rotary_pairs_are_half_the_rotary_width_apart() {
    let s = shape([1, 1, 4], [1, 256, 64]);
    let turned = |i: usize, position: usize| {
        let mut head = vec![0.0; 256];
        head[i] = 1.0;
        attention::rope(&s, &mut head, position);
        head
    };
    let e0 = turned(0, 1);
    assert_near(e0[0], 0.540302, 5e-7);
    assert_near(e0[32], 0.841471, 5e-7);
    assert_near(e0[1], 0.0, 0.0);
    let e1 = turned(1, 1);
    assert_near(e1[33].atan2(e1[1]), 0.604296, 5e-7);
    // Behind the rotary width nothing turns; at position 0 nothing does.
    assert_near(turned(64, 1)[64], 1.0, 0.0);
    assert_near(turned(0, 0)[0], 1.0, 0.0);
}

#[test]
fn delta_rule_over_33_tokens_keeps_its_own_gate() {
    let mut state = [0.0];
    for _ in 0..33 {
        gdn::delta_rule(&mut state, &[1.0], &[1.0], &[1.0], (-0.1f64).exp(), 0.5);
    }
    assert_near(state[0], 0.913106, 5e-7);
}

#[test]
fn negative_router_logits_choose_the_largest_and_sum_to_one() {
    let logits: Vec<f64> = (0..256).map(|i| -1.0 - 0.01 * f64::from(i)).collect();
    let (experts, weights) = moe::choose(&logits, 8);
    assert_eq!(experts, [0, 1, 2, 3, 4, 5, 6, 7]);
    let expected = [0.129418, 0.128131, 0.126856, 0.125594, 0.124344, 0.123107, 0.121882, 0.120669];
    for (&found, expected) in weights.iter().zip(expected) {
        assert_near(found, expected, 6e-7);
    }
    assert_near(weights.iter().sum(), 1.0, 1e-12);
}

#[test]
fn equal_router_logits_choose_the_lowest_experts_evenly() {
    for logit in [0.0, -80.0] {
        let (experts, weights) = moe::choose(&[logit; 256], 8);
        assert_eq!(experts, [0, 1, 2, 3, 4, 5, 6, 7]);
        weights.iter().for_each(|&w| assert_near(w, 0.125, 1e-12));
    }
}

#[test]
fn norm_gain_is_used_as_stored() {
    let y = norm::rms(&[3.0, 4.0], &[1.0331, 1.0331], 1e-6);
    assert_near(y[0], 0.848528 * 1.0331, 1e-6);
    assert_near(y[1], 1.131371 * 1.0331, 1e-6);
}
