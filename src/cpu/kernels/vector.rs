//! Kernels over vectors of f32: canonical dots, norms, activations, softmax.
//!
//! A vector is taken in chunks of sixteen; the last chunk is padded with a neutral value, so lanes
//! and results are those of the canonical 16-lane order for every length.

use crate::cpu::simd::Simd;

use super::math;

/// Chunks of 16 and the rest.
#[inline(always)]
fn chunks(x: &[f32]) -> (&[[f32; 16]], &[f32]) {
    x.as_chunks::<16>()
}

/// The rest of a vector, padded to a whole chunk.
#[inline(always)]
fn padded(rest: &[f32], with: f32) -> [f32; 16] {
    let mut chunk = [with; 16];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// Runs `f` over every chunk of `x` in place; values it makes in the padding are dropped.
#[inline(always)]
fn update<S: Simd>(s: S, x: &mut [f32], mut f: impl FnMut(usize, S::F) -> S::F) {
    let (whole, rest) = x.as_chunks_mut::<16>();
    let count = whole.len();
    for (i, chunk) in whole.iter_mut().enumerate() {
        let v = f(i, s.load(chunk));
        s.store(v, chunk);
    }
    if !rest.is_empty() {
        let mut chunk = padded(rest, 0.0);
        let v = f(count, s.load(&chunk));
        s.store(v, &mut chunk);
        rest.copy_from_slice(&chunk[..rest.len()]);
    }
}

/// Chunk `i` of `x`, padded with zeros where it is the last.
#[inline(always)]
fn chunk<S: Simd>(s: S, x: &[f32], i: usize) -> S::F {
    let from = &x[(16 * i).min(x.len())..];
    match from.first_chunk() {
        Some(whole) => s.load(whole),
        None => s.load(&padded(from, 0.0)),
    }
}

/// `sum(a * b)`: element `i` goes to lane `i % 16` by fused multiply-adds in order, then the fold.
#[inline(always)]
pub(crate) fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot of vectors of one length");
    let mut acc = s.splat(0.0);
    let ((a, a_rest), (b, b_rest)) = (chunks(a), chunks(b));
    for (a, b) in a.iter().zip(b) {
        acc = s.fma(s.load(a), s.load(b), acc);
    }
    if !a_rest.is_empty() {
        acc = s.fma(s.load(&padded(a_rest, 0.0)), s.load(&padded(b_rest, 0.0)), acc);
    }
    s.fold(acc)
}

/// `sum(x^2)` in the order of [`dot`].
#[inline(always)]
pub(crate) fn sum_squares<S: Simd>(s: S, x: &[f32]) -> f32 {
    dot(s, x, x)
}

/// `out = x * w / sqrt(mean(x^2) + eps)`.
#[inline(always)]
pub(crate) fn rms_norm<S: Simd>(s: S, x: &[f32], w: &[f32], eps: f32, out: &mut [f32]) {
    assert!(x.len() == w.len() && x.len() == out.len(), "norm of vectors of one length");
    let scale = s.splat(1.0 / (sum_squares(s, x) / x.len() as f32 + eps).sqrt());
    update(
        s,
        out,
        #[inline(always)]
        |i, _| s.mul(s.mul(chunk(s, x, i), scale), chunk(s, w, i)),
    );
}

/// [`rms_norm`] in place.
#[inline(always)]
pub(crate) fn rms_norm_inplace<S: Simd>(s: S, x: &mut [f32], w: &[f32], eps: f32) {
    assert_eq!(x.len(), w.len(), "norm of vectors of one length");
    let scale = s.splat(1.0 / (sum_squares(s, x) / x.len() as f32 + eps).sqrt());
    update(
        s,
        x,
        #[inline(always)]
        |i, x| s.mul(s.mul(x, scale), chunk(s, w, i)),
    );
}

/// `x = x / sqrt(sum(x^2) + eps)`.
#[inline(always)]
pub(crate) fn l2_normalize<S: Simd>(s: S, x: &mut [f32], eps: f32) {
    let scale = s.splat(1.0 / (sum_squares(s, x) + eps).sqrt());
    update(
        s,
        x,
        #[inline(always)]
        |_, x| s.mul(x, scale),
    );
}

/// `y = a * x + y`, fused.
#[inline(always)]
pub(crate) fn axpy<S: Simd>(s: S, a: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "sum of vectors of one length");
    let a = s.splat(a);
    update(
        s,
        y,
        #[inline(always)]
        |i, y| s.fma(a, chunk(s, x, i), y),
    );
}

/// `y = a * y + b * x`: `fma(b, x, a * y)`.
#[inline(always)]
pub(crate) fn scale_add<S: Simd>(s: S, a: f32, y: &mut [f32], b: f32, x: &[f32]) {
    assert_eq!(x.len(), y.len(), "sum of vectors of one length");
    let (a, b) = (s.splat(a), s.splat(b));
    update(
        s,
        y,
        #[inline(always)]
        |i, y| s.fma(b, chunk(s, x, i), s.mul(a, y)),
    );
}

/// `x = a * x`.
#[inline(always)]
pub(crate) fn scale<S: Simd>(s: S, a: f32, x: &mut [f32]) {
    let a = s.splat(a);
    update(
        s,
        x,
        #[inline(always)]
        |_, x| s.mul(a, x),
    );
}

/// `x = x + y`.
#[inline(always)]
pub(crate) fn add<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "sum of vectors of one length");
    update(
        s,
        x,
        #[inline(always)]
        |i, x| s.add(x, chunk(s, y, i)),
    );
}

/// `out = silu(gate) * up`.
#[inline(always)]
pub(crate) fn swiglu<S: Simd>(s: S, gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert!(gate.len() == up.len() && gate.len() == out.len(), "gate, up, out of one length");
    update(
        s,
        out,
        #[inline(always)]
        |i, _| s.mul(math::silu(s, chunk(s, gate, i)), chunk(s, up, i)),
    );
}

/// `x = x * sigmoid(gate)`.
#[inline(always)]
pub(crate) fn sigmoid_mul<S: Simd>(s: S, gate: &[f32], x: &mut [f32]) {
    assert_eq!(gate.len(), x.len(), "gate and value of one length");
    update(
        s,
        x,
        #[inline(always)]
        |i, x| s.mul(x, math::sigmoid(s, chunk(s, gate, i))),
    );
}

/// `x = x * silu(gate)`.
#[inline(always)]
pub(crate) fn silu_mul<S: Simd>(s: S, gate: &[f32], x: &mut [f32]) {
    assert_eq!(gate.len(), x.len(), "gate and value of one length");
    update(
        s,
        x,
        #[inline(always)]
        |i, x| s.mul(x, math::silu(s, chunk(s, gate, i))),
    );
}

/// `x = silu(x)`.
#[inline(always)]
pub(crate) fn silu_inplace<S: Simd>(s: S, x: &mut [f32]) {
    update(
        s,
        x,
        #[inline(always)]
        |_, x| math::silu(s, x),
    );
}

/// `x = sigmoid(x)`.
#[inline(always)]
pub(crate) fn sigmoid_inplace<S: Simd>(s: S, x: &mut [f32]) {
    update(
        s,
        x,
        #[inline(always)]
        |_, x| math::sigmoid(s, x),
    );
}

/// `x = exp(x)`.
#[inline(always)]
pub(crate) fn exp_inplace<S: Simd>(s: S, x: &mut [f32]) {
    update(
        s,
        x,
        #[inline(always)]
        |_, x| math::exp(s, x),
    );
}

/// `x = ln(1 + x)`, `x >= 0`.
#[inline(always)]
pub(crate) fn log1p_inplace<S: Simd>(s: S, x: &mut [f32]) {
    update(
        s,
        x,
        #[inline(always)]
        |_, x| math::log1p(s, x),
    );
}

/// `x = softplus(x)`.
#[inline(always)]
pub(crate) fn softplus_inplace<S: Simd>(s: S, x: &mut [f32]) {
    update(
        s,
        x,
        #[inline(always)]
        |_, x| math::softplus(s, x),
    );
}

/// `x = exp(a * softplus(x + bias))`: the decay of the delta rule's state, `a` negative.
#[inline(always)]
pub(crate) fn decay<S: Simd>(s: S, x: &mut [f32], a: &[f32], bias: &[f32]) {
    assert!(x.len() == a.len() && x.len() == bias.len(), "one input, rate and bias per head");
    update(
        s,
        x,
        #[inline(always)]
        |i, x| {
            let step = math::softplus(s, s.add(x, chunk(s, bias, i)));
            math::exp(s, s.mul(chunk(s, a, i), step))
        },
    );
}

/// The largest element; minus infinity of none.
#[inline(always)]
pub(crate) fn max<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (whole, rest) = chunks(x);
    let mut top = s.load(&padded(rest, f32::NEG_INFINITY));
    for chunk in whole {
        top = s.max(s.load(chunk), top);
    }
    s.fold_max(top)
}

/// `x = exp(x - shift)`; returns the sum of the new values in the order of [`dot`].
#[inline(always)]
pub(crate) fn exp_sum<S: Simd>(s: S, x: &mut [f32], shift: f32) -> f32 {
    let shift = s.splat(shift);
    let mut sum = s.splat(0.0);
    let (whole, rest) = x.as_chunks_mut::<16>();
    for chunk in whole {
        let e = math::exp(s, s.sub(s.load(chunk), shift));
        sum = s.add(sum, e);
        s.store(e, chunk);
    }
    if !rest.is_empty() {
        let mut chunk = padded(rest, f32::NEG_INFINITY);
        let e = math::exp(s, s.sub(s.load(&chunk), shift));
        sum = s.add(sum, e);
        s.store(e, &mut chunk);
        rest.copy_from_slice(&chunk[..rest.len()]);
    }
    s.fold(sum)
}

/// Softmax in place: `exp(x - max)` times the reciprocal of its sum.
#[inline(always)]
pub(crate) fn softmax<S: Simd>(s: S, x: &mut [f32]) {
    let top = max(s, x);
    let sum = exp_sum(s, x, top);
    scale(s, 1.0 / sum, x);
}
