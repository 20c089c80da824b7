//! `gdn_recur`: convolution and gates, then the delta rule and the gated norm, token by token.
//! `qkv, z, alpha, beta -> h [columns, value_dim]`; reads and writes the sequence's recurrent state.

use std::ops::Range;

use super::{CHANNEL_BLOCK, Pass, TOKEN_BLOCK};
use crate::cpu::context::{Context, Span};
use crate::cpu::kernels::{DeltaArgs, PerToken};
use crate::cpu::team::Plane;
use crate::model::{LayerInfo, Model};
use crate::weights::{GdnWeights, ModelWeights};

/// Most taps a convolution can have; the generator refuses more.
const MAX_TAPS: usize = 8;

pub(super) fn run<M: Model>(pass: &mut Pass<'_, M>, layer: &LayerInfo) {
    let cx = pass.cx;
    let w = cx.weights.gdn(layer.slot);
    let spans = &cx.batch.spans;
    let blocks = M::SHAPE.conv_dim().div_ceil(CHANNEL_BLOCK);
    let window = &mut pass.scratch.window;
    pass.worker.parallel(spans.len() * blocks, 1, |claim| {
        for item in claim {
            let (span, block) = (&spans[item / blocks], item % blocks);
            let end = ((block + 1) * CHANNEL_BLOCK).min(M::SHAPE.conv_dim());
            convolve(cx, w, layer, span, block * CHANNEL_BLOCK..end, window);
            if block == 0 {
                gates(cx, w, span);
            }
        }
    });
    let heads = M::SHAPE.gdn_v_heads;
    let qk = &mut pass.scratch.qk;
    pass.worker.parallel(spans.len() * heads, 1, |claim| {
        for item in claim {
            recur(cx, w, layer, &spans[item / heads], item % heads, qk);
        }
    });
}

/// Causal depthwise convolution and SiLU of some channels, in place; rolls their state.
fn convolve<M: Model>(
    cx: &Context<'_, M>,
    w: &GdnWeights,
    layer: &LayerInfo,
    span: &Span,
    channels: Range<usize>,
    window: &mut [f32],
) {
    let (taps, n) = (M::SHAPE.conv_taps, channels.len());
    let state = cx.sequences[span.sequence].recurrent.conv(layer.slot);
    // A ring of `taps` rows of inputs; the state is the rows before the first column's, oldest first.
    for (i, channel) in channels.clone().enumerate() {
        let past = state.read(channel);
        for t in 0..taps - 1 {
            window[t * n + i] = if span.position == 0 { 0.0 } else { past[t] };
        }
    }
    let taps_of = &w.ssm_conv1d[channels.start * taps..channels.end * taps];
    for i in 0..span.len {
        let x = cx.planes.qkv.write_range(span.first_column + i, channels.clone());
        let newest = (i + taps - 1) % taps;
        window[newest * n..(newest + 1) * n].copy_from_slice(x);
        let mut rows: [&[f32]; MAX_TAPS] = [&[]; MAX_TAPS];
        for (age, row) in rows[..taps].iter_mut().enumerate() {
            *row = &window[(i + age) % taps * n..][..n];
        }
        (cx.kernels.conv1d_silu)(taps_of, &rows[..taps], x);
    }
    for (i, channel) in channels.enumerate() {
        let past = state.write(channel);
        (0..taps - 1).for_each(|t| past[t] = window[(span.len + t) % taps * n + i]);
    }
}

/// alpha becomes the decay `exp(ssm_a * softplus(alpha + dt))`, beta the write strength `sigmoid(beta)`.
fn gates<M: Model>(cx: &Context<'_, M>, w: &GdnWeights, span: &Span) {
    for column in span.first_column..span.first_column + span.len {
        let alpha = cx.planes.alpha.write_range(column, 0..M::SHAPE.gdn_v_heads);
        let beta = cx.planes.beta.write_range(column, 0..M::SHAPE.gdn_v_heads);
        (cx.kernels.decay)(alpha, &w.ssm_a, &w.ssm_dt);
        (cx.kernels.sigmoid)(beta);
    }
}

/// The delta rule of one value head over the columns of a span, then its gated norm.
///
/// Value head `h` uses key head `h % gdn_k_heads`: a GGUF tiles the key heads over the value heads.
fn recur<M: Model>(
    cx: &Context<'_, M>,
    w: &GdnWeights,
    layer: &LayerInfo,
    span: &Span,
    head: usize,
    qk: &mut [f32],
) {
    let n = M::SHAPE.gdn_head_dim;
    let state = cx.sequences[span.sequence].recurrent.delta(layer.slot).write(head);
    if span.position == 0 {
        state.fill(0.0);
    }
    let (q, k) = qk.split_at_mut(TOKEN_BLOCK * n);
    let end = span.first_column + span.len;
    for first in (span.first_column..end).step_by(TOKEN_BLOCK) {
        let count = TOKEN_BLOCK.min(end - first);
        normalise(cx, head, first, &mut q[..count * n], &mut k[..count * n]);
        let tokens = first..first + count;
        let mut out: [&mut [f32]; TOKEN_BLOCK] = [(); TOKEN_BLOCK].map(|()| &mut [][..]);
        for (i, out) in out[..count].iter_mut().enumerate() {
            *out = cx.planes.h.f32.write_range(first + i, head * n..(head + 1) * n);
        }
        (cx.kernels.delta)(DeltaArgs {
            state,
            q: PerToken { data: q, stride: n },
            k: PerToken { data: k, stride: n },
            v: per_token(cx.planes.qkv, &tokens, 2 * M::SHAPE.key_dim() + head * n),
            decay: per_token(cx.planes.alpha, &tokens, head),
            beta: per_token(cx.planes.beta, &tokens, head),
            out: &mut out[..count],
        });
        for column in tokens {
            let out = cx.planes.h.f32.write_range(column, head * n..(head + 1) * n);
            let z = &cx.planes.z.read(column)[head * n..(head + 1) * n];
            (cx.kernels.rms_norm_inplace)(out, &w.ssm_norm, M::SHAPE.rms_eps);
            (cx.kernels.silu_mul)(z, out);
        }
    }
}

/// A value or vector of each of some columns, from the `skip`-th value of their rows on.
fn per_token<'a>(plane: Plane<'a, f32>, columns: &Range<usize>, skip: usize) -> PerToken<'a> {
    let rows = plane.read_rows(columns.start, columns.len());
    PerToken { data: &rows[skip..], stride: plane.stride() }
}

/// Queries and keys of consecutive columns, of unit length; queries scaled by `1 / sqrt(n)`.
fn normalise<M: Model>(
    cx: &Context<'_, M>,
    head: usize,
    first: usize,
    queries: &mut [f32],
    keys: &mut [f32],
) {
    let (shape, n) = (&M::SHAPE, M::SHAPE.gdn_head_dim);
    let query_at = head % shape.gdn_k_heads * n;
    let key_at = shape.key_dim() + query_at;
    let scale = 1.0 / (n as f32).sqrt();
    let pairs = queries.chunks_exact_mut(n).zip(keys.chunks_exact_mut(n));
    for (i, (q, k)) in pairs.enumerate() {
        let qkv = cx.planes.qkv.read(first + i);
        q.copy_from_slice(&qkv[query_at..query_at + n]);
        k.copy_from_slice(&qkv[key_at..key_at + n]);
        (cx.kernels.l2_normalize)(q, shape.rms_eps);
        (cx.kernels.l2_normalize)(k, shape.rms_eps);
        (cx.kernels.scale)(scale, q);
    }
}
