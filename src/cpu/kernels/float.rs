//! Float products: rows of any type times f32 columns, rows made f32 a piece at a time.

use crate::cpu::simd::Simd;
use crate::quant::GgmlType;

use super::panel::TILE;

/// Values of a row made f32 at a time: whole blocks of every type.
const PIECE: usize = 512;
/// Columns taken together, so that a chunk of the row is loaded once for them.
const GROUP: usize = 4;

/// `out[c][r] = rows[r] . columns[c]`, the canonical 16-lane dot over dequantised weights.
///
/// # Panics
/// Where the lengths disagree, or there are more than [`TILE`] columns.
#[inline(always)]
pub(crate) fn rows<S: Simd>(
    s: S,
    ty: GgmlType,
    rows: &[u8],
    k: usize,
    columns: &[&[f32]],
    out: &mut [f32],
) {
    let row_bytes = ty.row_bytes(k).expect("rows of whole blocks");
    assert!(columns.len() <= TILE && columns.iter().all(|c| c.len() >= k), "columns of {k} inputs");
    if row_bytes == 0 || columns.is_empty() {
        out.fill(0.0);
        return;
    }
    let n = rows.len() / row_bytes;
    assert!(n * row_bytes == rows.len(), "whole rows of {row_bytes} bytes");
    assert_eq!(out.len(), n * columns.len(), "one output per row and column");
    let piece_bytes = ty.row_bytes(PIECE).expect("whole blocks");
    let mut piece = [0.0; PIECE];
    for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
        let mut acc = [s.splat(0.0); TILE];
        for (i, bytes) in row.chunks(piece_bytes).enumerate() {
            let at = i * PIECE;
            let w = &mut piece[..PIECE.min(k - at)];
            widen(s, ty, bytes, w);
            let groups = columns.chunks(GROUP).zip(acc.chunks_mut(GROUP));
            for (columns, acc) in groups {
                if let [a, b, c, d] = columns {
                    add::<S, GROUP>(s, w, [a, b, c, d].map(|c| &c[at..]), acc);
                } else {
                    for (column, acc) in columns.iter().zip(acc.chunks_mut(1)) {
                        add::<S, 1>(s, w, [&column[at..]], acc);
                    }
                }
            }
        }
        for c in 0..columns.len() {
            out[c * n + r] = s.fold(acc[c]);
        }
    }
}

/// Adds a piece of a row times `N` columns to their lanes.
#[inline(always)]
fn add<S: Simd, const N: usize>(s: S, w: &[f32], x: [&[f32]; N], acc: &mut [S::F]) {
    let mut lanes = [s.splat(0.0); N];
    lanes.copy_from_slice(acc);
    let (whole, rest) = w.as_chunks::<16>();
    let x = x.map(|x| &x[..w.len()]);
    for (i, w) in whole.iter().enumerate() {
        let w = s.load(w);
        for c in 0..N {
            let x = x[c][16 * i..].first_chunk().expect("as long as the row");
            lanes[c] = s.fma(w, s.load(x), lanes[c]);
        }
    }
    if !rest.is_empty() {
        let mut w = [0.0; 16];
        w[..rest.len()].copy_from_slice(rest);
        let w = s.load(&w);
        for c in 0..N {
            let mut last = [0.0; 16];
            last[..rest.len()].copy_from_slice(&x[c][whole.len() * 16..]);
            lanes[c] = s.fma(w, s.load(&last), lanes[c]);
        }
    }
    acc.copy_from_slice(&lanes);
}

/// A piece of a row as f32.
#[inline(always)]
fn widen<S: Simd>(s: S, ty: GgmlType, bytes: &[u8], to: &mut [f32]) {
    match ty {
        GgmlType::F32 => {
            for (to, from) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *to = f32::from_le_bytes(*from);
            }
        }
        GgmlType::Bf16 => {
            for (to, from) in to.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *to = f32::from_bits(u32::from(u16::from_le_bytes(*from)) << 16);
            }
        }
        GgmlType::F16 => {
            let (whole, rest) = bytes.as_chunks::<32>();
            let (to, to_rest) = to.as_chunks_mut::<16>();
            for (to, from) in to.iter_mut().zip(whole) {
                let half = |i: usize| u16::from_le_bytes([from[2 * i], from[2 * i + 1]]);
                s.store(s.load_f16(&std::array::from_fn(half)), to);
            }
            for (to, from) in to_rest.iter_mut().zip(rest.as_chunks::<2>().0) {
                *to = s.f16(u16::from_le_bytes(*from));
            }
        }
        _ => crate::quant::dequantize(ty, bytes, to),
    }
}
