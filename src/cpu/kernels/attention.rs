//! Attention over rows of the KV ring, stored as f16 or f32.

use crate::cpu::simd::Simd;

/// Consecutive rows of keys or of values, one head of each.
#[derive(Clone, Copy, Debug)]
pub enum KvRows<'a> {
    /// IEEE halves.
    F16 {
        /// From the first row's first value on.
        data: &'a [u16],
        /// Distance of rows, in values.
        stride: usize,
    },
    /// Singles.
    F32 {
        /// From the first row's first value on.
        data: &'a [f32],
        /// Distance of rows, in values.
        stride: usize,
    },
}

/// Queries taken together, so that a chunk of a row is converted once for all of them.
const HEADS: usize = 4;

/// Rows (of keys) or chunks (of values) taken together, so that a query or weight is loaded once for
/// them: where registers hold so many sums.
const TOGETHER: usize = 4;

/// Chunk `i` of row `t` of `dim` values.
#[inline(always)]
fn load<S: Simd>(s: S, rows: KvRows<'_>, t: usize, i: usize) -> S::F {
    match rows {
        KvRows::F16 { data, stride } => {
            s.load_f16(data[t * stride + 16 * i..].first_chunk().expect("a chunk of 16"))
        }
        KvRows::F32 { data, stride } => {
            s.load(data[t * stride + 16 * i..].first_chunk().expect("a chunk of 16"))
        }
    }
}

/// Scores of `heads` queries against `count` rows: `out[h][t] = dot(q[h], row[t]) * scale`.
///
/// `q` is `[heads][dim]`, `out` `[heads][count]`; `dim` is a multiple of 16. The dots are
/// canonical.
///
/// # Panics
/// Where the lengths disagree.
#[inline(always)]
pub(crate) fn scores<S: Simd>(
    s: S,
    q: &[f32],
    dim: usize,
    rows: KvRows<'_>,
    count: usize,
    scale: f32,
    out: &mut [f32],
) {
    assert!(dim > 0 && dim.is_multiple_of(16) && q.len().is_multiple_of(dim), "whole queries");
    assert_eq!(out.len(), q.len() / dim * count, "one score per query and row");
    if count == 0 {
        return;
    }
    let (many, few) = (q.chunks(HEADS * dim), out.chunks_mut(HEADS * count));
    for (q, out) in many.zip(few) {
        if q.len() == HEADS * dim {
            score_heads::<S, HEADS>(s, q, dim, rows, count, scale, out);
        } else {
            for (q, out) in q.chunks(dim).zip(out.chunks_mut(count)) {
                score_heads::<S, 1>(s, q, dim, rows, count, scale, out);
            }
        }
    }
}

/// `H` queries against all rows, several at a time.
#[inline(always)]
fn score_heads<S: Simd, const H: usize>(
    s: S,
    q: &[f32],
    dim: usize,
    rows: KvRows<'_>,
    count: usize,
    scale: f32,
    out: &mut [f32],
) {
    let q = q.as_chunks::<16>().0;
    assert!(q.len() == H * (dim / 16) && out.len() == H * count, "{H} queries");
    let together = if S::WIDE { count / TOGETHER * TOGETHER } else { 0 };
    for t in (0..together).step_by(TOGETHER) {
        score_rows::<S, H, TOGETHER>(s, q, rows, t, scale, out);
    }
    for t in together..count {
        score_rows::<S, H, 1>(s, q, rows, t, scale, out);
    }
}

/// `H` queries against rows `t..t + R`.
#[inline(always)]
fn score_rows<S: Simd, const H: usize, const R: usize>(
    s: S,
    q: &[[f32; 16]],
    rows: KvRows<'_>,
    t: usize,
    scale: f32,
    out: &mut [f32],
) {
    let (chunks, count) = (q.len() / H, out.len() / H);
    let mut acc = [[s.splat(0.0); H]; R];
    for i in 0..chunks {
        let mut queries = [s.splat(0.0); H];
        for h in 0..H {
            queries[h] = s.load(&q[h * chunks + i]);
        }
        for (r, acc) in acc.iter_mut().enumerate() {
            let row = load(s, rows, t + r, i);
            for h in 0..H {
                acc[h] = s.fma(queries[h], row, acc[h]);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        // Of four accumulators at a time; the spare ones fold to zero.
        let mut four = [s.splat(0.0); HEADS];
        four[..H].copy_from_slice(acc);
        let dots = s.fold4(four);
        for h in 0..H {
            out[h * count + t + r] = dots[h] * scale;
        }
    }
}

/// Adds weighted rows: `acc[h] = fma(p[h][t], row[t], acc[h])` for `t` in order.
///
/// `p` is `[heads][count]`, `acc` `[heads][dim]`; `dim` is a multiple of 16.
///
/// # Panics
/// Where the lengths disagree.
#[inline(always)]
pub(crate) fn values<S: Simd>(
    s: S,
    p: &[f32],
    dim: usize,
    rows: KvRows<'_>,
    count: usize,
    acc: &mut [f32],
) {
    assert!(dim > 0 && dim.is_multiple_of(16) && acc.len().is_multiple_of(dim), "whole outputs");
    assert_eq!(p.len(), acc.len() / dim * count, "one weight per output and row");
    if count == 0 {
        return;
    }
    for (p, acc) in p.chunks(HEADS * count).zip(acc.chunks_mut(HEADS * dim)) {
        if acc.len() == HEADS * dim {
            value_heads::<S, HEADS>(s, p, dim, rows, count, acc);
        } else {
            for (p, acc) in p.chunks(count).zip(acc.chunks_mut(dim)) {
                value_heads::<S, 1>(s, p, dim, rows, count, acc);
            }
        }
    }
}

/// `H` outputs, several chunks at a time.
#[inline(always)]
fn value_heads<S: Simd, const H: usize>(
    s: S,
    p: &[f32],
    dim: usize,
    rows: KvRows<'_>,
    count: usize,
    acc: &mut [f32],
) {
    let (acc, chunks) = (acc.as_chunks_mut::<16>().0, dim / 16);
    assert!(acc.len() == H * chunks && p.len() == H * count, "{H} outputs");
    let together = if S::WIDE { chunks / TOGETHER * TOGETHER } else { 0 };
    for i in (0..together).step_by(TOGETHER) {
        value_chunks::<S, H, TOGETHER>(s, p, rows, i, acc);
    }
    for i in together..chunks {
        value_chunks::<S, H, 1>(s, p, rows, i, acc);
    }
}

/// Chunks `i..i + N` of `H` outputs.
#[inline(always)]
fn value_chunks<S: Simd, const H: usize, const N: usize>(
    s: S,
    p: &[f32],
    rows: KvRows<'_>,
    i: usize,
    acc: &mut [[f32; 16]],
) {
    let (chunks, count) = (acc.len() / H, p.len() / H);
    let mut sums = [[s.splat(0.0); N]; H];
    for (h, sums) in sums.iter_mut().enumerate() {
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = s.load(&acc[h * chunks + i + n]);
        }
    }
    for t in 0..count {
        let mut row = [s.splat(0.0); N];
        for (n, row) in row.iter_mut().enumerate() {
            *row = load(s, rows, t, i + n);
        }
        for (h, sums) in sums.iter_mut().enumerate() {
            let weight = s.splat(p[h * count + t]);
            for (sum, row) in sums.iter_mut().zip(row) {
                *sum = s.fma(weight, row, *sum);
            }
        }
    }
    for (h, sums) in sums.into_iter().enumerate() {
        for (n, sum) in sums.into_iter().enumerate() {
            s.store(sum, &mut acc[h * chunks + i + n]);
        }
    }
}

/// f32 to f16, ties to even.
///
/// # Panics
/// Where the lengths differ.
#[inline(always)]
pub(crate) fn to_f16<S: Simd>(s: S, from: &[f32], to: &mut [u16]) {
    assert_eq!(from.len(), to.len(), "rows of one length");
    for (from, to) in from.chunks(16).zip(to.chunks_mut(16)) {
        let (mut wide, mut narrow) = ([0.0; 16], [0; 16]);
        wide[..from.len()].copy_from_slice(from);
        s.store_f16(s.load(&wide), &mut narrow);
        to.copy_from_slice(&narrow[..to.len()]);
    }
}

/// f16 to f32.
///
/// # Panics
/// Where the lengths differ.
#[inline(always)]
pub(crate) fn from_f16<S: Simd>(s: S, from: &[u16], to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "rows of one length");
    for (from, to) in from.chunks(16).zip(to.chunks_mut(16)) {
        let (mut wide, mut narrow) = ([0.0; 16], [0; 16]);
        narrow[..from.len()].copy_from_slice(from);
        s.store(s.load_f16(&narrow), &mut wide);
        to.copy_from_slice(&wide[..to.len()]);
    }
}
