//! The mixture of experts, stage by stage.

use super::norm::rms;
use super::{Layer, Shape, add, matvec, sigmoid, silu, softmax};

/// Stage `moe_route`.
pub struct Routed {
    /// Normed input, `[n_embd]`.
    pub h: Vec<f64>,
    /// Router logits, `[n_expert]`.
    pub logits: Vec<f64>,
    /// Chosen experts, best first, `[n_expert_used]`.
    pub experts: Vec<usize>,
    /// Their weights, summing to one, `[n_expert_used]`.
    pub weights: Vec<f64>,
    /// Weight of the shared expert, in (0, 1).
    pub shared: f64,
}

/// `x [n_embd]` to the experts it is sent to.
pub fn route(s: &Shape, w: Layer<'_>, x: &[f64]) -> Routed {
    let h = rms(x, w.get("post_attention_norm.weight"), s.rms_eps.into());
    let logits = matvec(w.get("ffn_gate_inp.weight"), &h);
    let (experts, weights) = choose(&logits, s.n_expert_used);
    let shared = sigmoid(matvec(w.get("ffn_gate_inp_shexp.weight"), &h)[0]);
    Routed { h, logits, experts, weights, shared }
}

/// Softmax over all experts, the `used` most probable ones (the lower index first among equals),
/// their probabilities divided by their sum.
pub fn choose(logits: &[f64], used: usize) -> (Vec<usize>, Vec<f64>) {
    let p = softmax(logits);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    order.truncate(used);
    // 2^-14, the smallest normal half: what ggml clamps the sum to.
    let sum = order.iter().map(|&e| p[e]).sum::<f64>().max(6.103_515_625e-5);
    let weights = order.iter().map(|&e| p[e] / sum).collect();
    (order, weights)
}

/// Stage `moe_up`: `silu(gate . h) (up . h)` of the chosen experts, then of the shared one.
pub fn up(s: &Shape, w: Layer<'_>, r: &Routed) -> Vec<Vec<f64>> {
    let len = s.n_embd * s.expert_ff;
    let [gate, up] = ["ffn_gate_exps.weight", "ffn_up_exps.weight"].map(|name| w.get(name));
    let part = |e: usize| e * len..(e + 1) * len;
    let mut ff: Vec<_> =
        r.experts.iter().map(|&e| swiglu(&gate[part(e)], &up[part(e)], &r.h)).collect();
    ff.push(swiglu(w.get("ffn_gate_shexp.weight"), w.get("ffn_up_shexp.weight"), &r.h));
    ff
}

fn swiglu(gate: &[f32], up: &[f32], h: &[f64]) -> Vec<f64> {
    matvec(gate, h).iter().zip(matvec(up, h)).map(|(&g, u)| silu(g) * u).collect()
}

/// Stage `moe_down`: the weighted sum of the experts, in rank order, the shared one last, `[n_embd]`.
pub fn down(s: &Shape, w: Layer<'_>, r: &Routed, ff: &[Vec<f64>]) -> Vec<f64> {
    let len = s.expert_ff * s.n_embd;
    let exps = w.get("ffn_down_exps.weight");
    let mut y = vec![0.0; s.n_embd];
    for ((&e, &weight), ff) in r.experts.iter().zip(&r.weights).zip(ff) {
        add(&mut y, &scaled(matvec(&exps[e * len..(e + 1) * len], ff), weight));
    }
    let shared = matvec(w.get("ffn_down_shexp.weight"), &ff[s.n_expert_used]);
    add(&mut y, &scaled(shared, r.shared));
    y
}

fn scaled(mut x: Vec<f64>, by: f64) -> Vec<f64> {
    x.iter_mut().for_each(|x| *x *= by);
    x
}
