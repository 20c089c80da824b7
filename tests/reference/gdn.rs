//! The Gated DeltaNet mixer, stage by stage, by its sequential definition.

use super::norm::{l2, rms, rms_heads};
use super::{Layer, Shape, matvec, sigmoid, silu, softplus};

/// What one GDN layer carries from token to token.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// `[conv_dim][conv_taps - 1]`: the last inputs of the convolution, oldest first.
    pub conv: Vec<f64>,
    /// `[v_heads][j: value index][i: key index]`.
    pub delta: Vec<f64>,
}

impl State {
    /// The state before the first token: zero.
    pub fn new(s: &Shape) -> Self {
        Self { conv: vec![0.0; s.conv_len()], delta: vec![0.0; s.delta_len()] }
    }
}

/// Stage `gdn_project`.
#[derive(Default)]
pub struct Projected {
    /// Normed input, `[n_embd]`.
    pub h: Vec<f64>,
    /// Queries `[k_heads][d]`, keys `[k_heads][d]`, values `[v_heads][d]`, in this order.
    pub qkv: Vec<f64>,
    /// Output gate, `[v_heads][d]`.
    pub z: Vec<f64>,
    /// Decay input, `[v_heads]`.
    pub alpha: Vec<f64>,
    /// Write strength before its sigmoid, `[v_heads]`.
    pub beta: Vec<f64>,
}

/// `x [n_embd]` to the five projections of its norm.
pub fn project(s: &Shape, w: Layer<'_>, x: &[f64]) -> Projected {
    let h = rms(x, w.get("attn_norm.weight"), s.rms_eps.into());
    Projected {
        qkv: matvec(w.get("attn_qkv.weight"), &h),
        z: matvec(w.get("attn_gate.weight"), &h),
        alpha: matvec(w.get("ssm_alpha.weight"), &h),
        beta: matvec(w.get("ssm_beta.weight"), &h),
        h,
    }
}

/// Stage `gdn_recur`.
pub struct Recurred {
    /// Convolved and activated queries, keys, values, `[conv_dim]`.
    pub conv: Vec<f64>,
    /// Unit queries, not yet divided by `sqrt(d)`, `[k_heads][d]`.
    pub q: Vec<f64>,
    /// Unit keys, `[k_heads][d]`.
    pub k: Vec<f64>,
    /// Decay of the state, in (0, 1), `[v_heads]`.
    pub decay: Vec<f64>,
    /// Write strength, in (0, 1), `[v_heads]`.
    pub beta: Vec<f64>,
    /// Output of the delta rule, `[v_heads][d]`.
    pub delta: Vec<f64>,
    /// Normed and gated, `[v_heads][d]`.
    pub gated: Vec<f64>,
}

/// Convolution, norms, gates, delta rule and gated norm of one token.
pub fn recur(s: &Shape, w: Layer<'_>, p: &Projected, state: &mut State) -> Recurred {
    let (d, eps) = (s.gdn_head_dim, f64::from(s.rms_eps));
    let conv = convolve(s, w.get("ssm_conv1d.weight"), &p.qkv, &mut state.conv);
    let unit = |heads: &[f64]| heads.chunks_exact(d).flat_map(|h| l2(h, eps)).collect();
    let q: Vec<f64> = unit(&conv[..s.key_dim()]);
    let k: Vec<f64> = unit(&conv[s.key_dim()..2 * s.key_dim()]);
    let v = &conv[2 * s.key_dim()..];
    let decay = decay(w.get("ssm_a"), w.get("ssm_dt.bias"), &p.alpha);
    let beta: Vec<f64> = p.beta.iter().map(|&b| sigmoid(b)).collect();
    let mut delta = Vec::new();
    for (head, rows) in state.delta.chunks_exact_mut(d * d).enumerate() {
        let key = key_head(s, head) * d..(key_head(s, head) + 1) * d;
        let v = &v[head * d..(head + 1) * d];
        delta.extend(delta_rule(rows, &q[key.clone()], &k[key], v, decay[head], beta[head]));
    }
    let mut gated = rms_heads(&delta, w.get("ssm_norm.weight"), eps);
    for (o, &z) in gated.iter_mut().zip(&p.z) {
        *o *= silu(z);
    }
    Recurred { q, k, decay, beta, delta, gated, conv }
}

/// The key head that value head `head` reads: key heads are tiled over the value heads.
pub fn key_head(s: &Shape, head: usize) -> usize {
    head % s.gdn_k_heads
}

/// `decay[h] = exp(a[h] softplus(alpha[h] + dt[h]))`; the file's `a` is already `-exp(A_log)`.
pub fn decay(a: &[f32], dt: &[f32], alpha: &[f64]) -> Vec<f64> {
    let gate = |((&a, &dt), &x): ((&f32, &f32), &f64)| f64::from(a) * softplus(x + f64::from(dt));
    a.iter().zip(dt).zip(alpha).map(|x| gate(x).exp()).collect()
}

/// Causal depthwise convolution and SiLU; `window` rolls on by one.
///
/// `taps [conv_dim][conv_taps]`, the newest last; `u [conv_dim]`; `window` as [`State::conv`].
pub fn convolve(s: &Shape, taps: &[f32], u: &[f64], window: &mut [f64]) -> Vec<f64> {
    let old = s.conv_taps - 1;
    let channel = |((taps, &u), window): ((&[f32], &f64), &mut [f64])| {
        let past: f64 = taps.iter().zip(&*window).map(|(&t, &x)| f64::from(t) * x).sum();
        window.rotate_left(1);
        window[old - 1] = u;
        silu(past + f64::from(taps[old]) * u)
    };
    taps.chunks_exact(s.conv_taps).zip(u).zip(window.chunks_exact_mut(old)).map(channel).collect()
}

/// One step of the gated delta rule for one head; returns `o [d]`.
///
/// `S <- decay S;  e_j = beta (v_j - S_j . k);  S_j <- S_j + e_j k;  o_j = S_j . q / sqrt(d)`, where
/// `rows` is `S [d: value][d: key]`: decay comes before the read, the output after the write.
pub fn delta_rule(
    rows: &mut [f64],
    q: &[f64],
    k: &[f64],
    v: &[f64],
    g: f64,
    beta: f64,
) -> Vec<f64> {
    let dot = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
    let scale = 1.0 / (q.len() as f64).sqrt();
    let mut o = Vec::new();
    for (row, v) in rows.chunks_exact_mut(k.len()).zip(v) {
        row.iter_mut().for_each(|x| *x *= g);
        let error = beta * (v - dot(row, k));
        row.iter_mut().zip(k).for_each(|(x, k)| *x += error * k);
        o.push(dot(row, q) * scale);
    }
    o
}

/// Stage `gdn_output`: `[v_heads][d]` to the mixer's share of the residual, `[n_embd]`.
pub fn output(w: Layer<'_>, gated: &[f64]) -> Vec<f64> {
    matvec(w.get("ssm_out.weight"), gated)
}
