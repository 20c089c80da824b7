//! The recurrence of Gated DeltaNet: convolution and delta rule, in token order.

use crate::cpu::simd::Simd;

use super::{math, vector};

/// Rows of the state taken together: their dots are independent chains.
const ROWS: usize = 4;
/// Tokens for which a group of rows stays in the first-level cache.
const TOKENS: usize = 64;

/// One value or vector per token.
#[derive(Clone, Copy, Debug)]
pub struct PerToken<'a> {
    /// From the first token's first value on.
    pub data: &'a [f32],
    /// Distance of tokens, in values.
    pub stride: usize,
}

impl<'a> PerToken<'a> {
    #[inline(always)]
    fn vector(&self, t: usize, len: usize) -> &'a [f32] {
        &self.data[t * self.stride..][..len]
    }
}

/// What the delta rule reads and writes: consecutive tokens of one sequence, one head.
#[derive(Debug)]
pub struct DeltaArgs<'a> {
    /// `[j][i]`, `j` the value index, `i` the key index, `n x n`; updated.
    pub state: &'a mut [f32],
    /// Normalised queries, scaled, `[n]` each.
    pub q: PerToken<'a>,
    /// Normalised keys, `[n]` each.
    pub k: PerToken<'a>,
    /// Values, `[n]` each.
    pub v: PerToken<'a>,
    /// Factor of the old state, one each.
    pub decay: PerToken<'a>,
    /// Write strength, one each.
    pub beta: PerToken<'a>,
    /// Outputs, one slice of `n` per token; their number is the number of tokens.
    pub out: &'a mut [&'a mut [f32]],
}

/// The delta rule over consecutive tokens of one head.
///
/// Per token `S <- decay S; d_j = beta (v_j - S_j . k); S_j += d_j k; o_j = S_j . q`, in one pass:
/// both dots are taken over the old state, `d_j = beta (v_j - decay (S_j . k))`,
/// `o_j = fma(d_j, k . q, decay (S_j . q))`, and the new state is `fma(d_j, k, decay S_j)`. Rows do
/// not depend on each other, so a group of rows runs over many tokens while it is in cache.
///
/// # Panics
/// Where `n`, the root of the state's length, is not a multiple of 16 or a slice is too short.
#[inline(always)]
pub(crate) fn delta<S: Simd>(s: S, args: DeltaArgs<'_>) {
    let DeltaArgs { state, q, k, v, decay, beta, out } = args;
    let n = state.len().isqrt();
    assert!(
        n > 0 && n.is_multiple_of(16) && n * n == state.len(),
        "state of {} values",
        state.len()
    );
    for (block, out) in out.chunks_mut(TOKENS).enumerate() {
        let first = block * TOKENS;
        let mut kq = [0.0; TOKENS];
        for (t, kq) in kq.iter_mut().enumerate().take(out.len()) {
            *kq = vector::dot(s, k.vector(first + t, n), q.vector(first + t, n));
        }
        for (i, rows) in state.chunks_exact_mut(ROWS * n).enumerate() {
            for (t, out) in out.iter_mut().enumerate() {
                let at = first + t;
                let token = Token {
                    k: k.vector(at, n).as_chunks::<16>().0,
                    q: q.vector(at, n).as_chunks::<16>().0,
                    kq: kq[t],
                    decay: decay.vector(at, 1)[0],
                    beta: beta.vector(at, 1)[0],
                };
                let v = &v.vector(at, n)[i * ROWS..][..ROWS];
                token.rows(s, rows, v, &mut out[i * ROWS..][..ROWS]);
            }
        }
    }
}

/// What the rows of a head share for one token.
struct Token<'a> {
    k: &'a [[f32; 16]],
    q: &'a [[f32; 16]],
    kq: f32,
    decay: f32,
    beta: f32,
}

impl Token<'_> {
    #[inline(always)]
    fn rows<S: Simd>(&self, s: S, state: &mut [f32], v: &[f32], out: &mut [f32]) {
        const R: usize = ROWS;
        let state = state.as_chunks_mut::<16>().0;
        let (chunks, count) = (self.k.len(), state.len());
        assert!(count == R * chunks && self.q.len() == chunks, "{R} rows of the state");
        let mut dot_k = [s.splat(0.0); R];
        let mut dot_q = [s.splat(0.0); R];
        for i in 0..chunks {
            let (k, q) = (s.load(&self.k[i]), s.load(&self.q[i]));
            for r in 0..R {
                let row = s.load(&state[r * chunks + i]);
                dot_k[r] = s.fma(row, k, dot_k[r]);
                dot_q[r] = s.fma(row, q, dot_q[r]);
            }
        }
        let (dot_k, dot_q) = (s.fold4(dot_k), s.fold4(dot_q));
        let mut write = [0.0; R];
        for r in 0..R {
            write[r] = self.beta * (v[r] - self.decay * dot_k[r]);
            out[r] = write[r].mul_add(self.kq, self.decay * dot_q[r]);
        }
        let decay = s.splat(self.decay);
        for i in 0..chunks {
            let k = s.load(&self.k[i]);
            for r in 0..R {
                let row = &mut state[r * chunks + i];
                let new = s.fma(s.splat(write[r]), k, s.mul(decay, s.load(row)));
                s.store(new, row);
            }
        }
    }
}

/// Causal depthwise convolution and SiLU: `out[c] = silu(sum_t taps[c][t] * window[t][c])`.
///
/// `taps` is `[channel][tap]`; `window` holds one row of channels per tap, oldest first; products
/// are accumulated from zero by fused multiply-adds, oldest first.
///
/// # Panics
/// Where the lengths disagree.
#[inline(always)]
pub(crate) fn conv1d_silu<S: Simd>(s: S, taps: &[f32], window: &[&[f32]], out: &mut [f32]) {
    let n = window.len();
    assert_eq!(taps.len(), n * out.len(), "{n} taps per channel");
    assert!(window.iter().all(|row| row.len() == out.len()), "one value per channel and tap");
    for (at, out) in (0..).step_by(16).zip(out.chunks_mut(16)) {
        let taps = &taps[at * n..(at + out.len()) * n];
        let mut acc = s.splat(0.0);
        if let (4, Some(taps)) = (n, taps.first_chunk()) {
            for (taps, row) in s.transpose4(taps).into_iter().zip(window) {
                acc = s.fma(taps, s.load(row[at..].first_chunk().expect("whole chunk")), acc);
            }
        } else {
            for (t, row) in window.iter().enumerate() {
                let (mut w, mut x) = ([0.0; 16], [0.0; 16]);
                for i in 0..out.len() {
                    (w[i], x[i]) = (taps[i * n + t], row[at + i]);
                }
                acc = s.fma(s.load(&w), s.load(&x), acc);
            }
        }
        let mut done = [0.0; 16];
        s.store(math::silu(s, acc), &mut done);
        out.copy_from_slice(&done[..out.len()]);
    }
}
