//! The gated attention mixer, stage by stage.

use super::norm::{rms, rms_heads};
use super::{Layer, Shape, matvec, sigmoid, softmax};

/// What one attention layer carries from token to token; entry `t` is the token at position `t`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Rotated keys, `[kv_dim]` each.
    pub k: Vec<Vec<f64>>,
    /// Values, `[kv_dim]` each.
    pub v: Vec<Vec<f64>>,
}

/// Stage `attn_project`.
pub struct Projected {
    /// Normed input, `[n_embd]`.
    pub h: Vec<f64>,
    /// Queries as projected, `[heads][d]`.
    pub q_raw: Vec<f64>,
    /// Output gate before its sigmoid, `[heads][d]`.
    pub gate: Vec<f64>,
    /// Normed queries, not rotated, `[heads][d]`.
    pub q_norm: Vec<f64>,
    /// Normed keys, not rotated, `[kv_heads][d]`.
    pub k_norm: Vec<f64>,
    /// Rotated queries, `[heads][d]`.
    pub q: Vec<f64>,
    /// Rotated keys, `[kv_heads][d]`.
    pub k: Vec<f64>,
    /// Values, `[kv_heads][d]`.
    pub v: Vec<f64>,
}

/// `x [n_embd]` at position `pos` to rotated queries and keys, values, and the output gate.
pub fn project(s: &Shape, w: Layer<'_>, x: &[f64], pos: usize) -> Projected {
    let eps = s.rms_eps.into();
    let h = rms(x, w.get("attn_norm.weight"), eps);
    let (q_raw, gate) = split_gate(s, &matvec(w.get("attn_q.weight"), &h));
    let q_norm = rms_heads(&q_raw, w.get("attn_q_norm.weight"), eps);
    let k_norm = rms_heads(&matvec(w.get("attn_k.weight"), &h), w.get("attn_k_norm.weight"), eps);
    let v = matvec(w.get("attn_v.weight"), &h);
    let (mut q, mut k) = (q_norm.clone(), k_norm.clone());
    q.chunks_exact_mut(s.head_dim).for_each(|head| rope(s, head, pos));
    k.chunks_exact_mut(s.head_dim).for_each(|head| rope(s, head, pos));
    Projected { h, q_raw, gate, q_norm, k_norm, q, k, v }
}

/// Cuts `[heads][2 d]` into queries `[heads][d]` and gates `[heads][d]`: each head holds both.
pub fn split_gate(s: &Shape, qg: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let heads = || qg.chunks_exact(2 * s.head_dim);
    let q = heads().flat_map(|head| head[..s.head_dim].to_vec()).collect();
    let gate = heads().flat_map(|head| head[s.head_dim..].to_vec()).collect();
    (q, gate)
}

/// Rotates pair `(i, i + rope_dim / 2)` of `head [d]` by `pos base^(-2 i / rope_dim)`.
///
/// Dimensions from `rope_dim` on stay. Text has equal time, height and width positions, so the
/// position sections all say the same.
pub fn rope(s: &Shape, head: &mut [f64], pos: usize) {
    let half = s.rope_dim / 2;
    for i in 0..half {
        let freq = f64::from(s.rope_base).powf(-2.0 * i as f64 / s.rope_dim as f64);
        let (sin, cos) = (pos as f64 * freq).sin_cos();
        let (a, b) = (head[i], head[i + half]);
        (head[i], head[i + half]) = (a * cos - b * sin, a * sin + b * cos);
    }
}

/// Stage `attn_mix`.
pub struct Mixed {
    /// Softmax over positions, `[heads][positions]`.
    pub weights: Vec<Vec<f64>>,
    /// Weighted values, `[heads][d]`.
    pub context: Vec<f64>,
    /// The context times the sigmoid of the gate, `[heads][d]`.
    pub gated: Vec<f64>,
}

/// Attention of one token over all positions of `state`, its own being the last one there.
pub fn mix(s: &Shape, p: &Projected, state: &State) -> Mixed {
    let d = s.head_dim;
    let (mut weights, mut context) = (Vec::new(), Vec::new());
    for (n, q) in p.q.chunks_exact(d).enumerate() {
        let kv_head = n / (s.n_head / s.n_head_kv);
        let kv = kv_head * d..(kv_head + 1) * d;
        let score = |k: &Vec<f64>| {
            let dot: f64 = q.iter().zip(&k[kv.clone()]).map(|(a, b)| a * b).sum();
            dot / (d as f64).sqrt()
        };
        let p = softmax(&state.k.iter().map(score).collect::<Vec<_>>());
        let value = |i: usize| p.iter().zip(&state.v).map(|(p, v)| p * v[i]).sum::<f64>();
        context.extend(kv.clone().map(value));
        weights.push(p);
    }
    let gated = context.iter().zip(&p.gate).map(|(c, &g)| c * sigmoid(g)).collect();
    Mixed { weights, context, gated }
}

/// Stage `attn_output`: `[heads][d]` to the mixer's share of the residual, `[n_embd]`.
pub fn output(w: Layer<'_>, gated: &[f64]) -> Vec<f64> {
    matvec(w.get("attn_output.weight"), gated)
}
