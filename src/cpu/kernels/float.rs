//! Float products: rows of any type times f32 columns, rows made f32 a piece at a time.

use crate::cpu::simd::Simd;
use crate::quant::GgmlType;

use super::columns::TILE;

/// Values of a row made f32 at a time: whole blocks of every type.
const PIECE: usize = 512;
/// Columns taken together, so that a chunk of a row is loaded once for them.
const GROUP: usize = 4;
/// Rows taken together, so that a chunk of a column is loaded once for them: where registers hold so
/// many sums.
const ROWS: usize = 4;

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
    out: &mut [&mut [f32]],
) {
    let row_bytes = ty.row_bytes(k).expect("rows of whole blocks");
    assert!(columns.len() <= TILE && columns.iter().all(|c| c.len() >= k), "columns of {k} inputs");
    if row_bytes == 0 || columns.is_empty() {
        out.iter_mut().for_each(|out| out.fill(0.0));
        return;
    }
    let n = rows.len() / row_bytes;
    assert!(n * row_bytes == rows.len(), "whole rows of {row_bytes} bytes");
    assert!(out.len() == columns.len() && out.iter().all(|out| out.len() == n), "{n} outputs each");
    let together = if S::WIDE && columns.len() > 1 { n / ROWS * ROWS } else { 0 };
    for r in (0..together).step_by(ROWS) {
        let rows = &rows[r * row_bytes..(r + ROWS) * row_bytes];
        some_rows::<S, ROWS>(s, ty, rows, k, columns, (r, out));
    }
    for r in together..n {
        let row = &rows[r * row_bytes..(r + 1) * row_bytes];
        some_rows::<S, 1>(s, ty, row, k, columns, (r, out));
    }
}

/// `R` rows, the first of them row `first` of the output.
#[inline(always)]
fn some_rows<S: Simd, const R: usize>(
    s: S,
    ty: GgmlType,
    rows: &[u8],
    k: usize,
    columns: &[&[f32]],
    (first, out): (usize, &mut [&mut [f32]]),
) {
    let row_bytes = rows.len() / R;
    let piece_bytes = ty.row_bytes(PIECE).expect("whole blocks");
    let mut pieces = [[0.0; PIECE]; R];
    let mut acc = [[s.splat(0.0); R]; TILE];
    for (i, at) in (0..k).step_by(PIECE).enumerate() {
        let len = PIECE.min(k - at);
        for (row, piece) in rows.chunks_exact(row_bytes).zip(&mut pieces) {
            let bytes = &row[i * piece_bytes..row_bytes.min((i + 1) * piece_bytes)];
            widen(s, ty, bytes, &mut piece[..len]);
        }
        for (columns, acc) in columns.chunks(GROUP).zip(acc.chunks_mut(GROUP)) {
            if let ([a, b, c, d], [_, _, _, _]) = (columns, &*acc) {
                add::<S, R, GROUP>(s, &pieces, len, [a, b, c, d].map(|c| &c[at..]), acc);
            } else {
                for (column, acc) in columns.iter().zip(acc.chunks_mut(1)) {
                    add::<S, R, 1>(s, &pieces, len, [&column[at..]], acc);
                }
            }
        }
    }
    for (out, acc) in out.iter_mut().zip(acc) {
        for (out, acc) in out[first..].iter_mut().zip(acc) {
            *out = s.fold(acc);
        }
    }
}

/// Adds the first `len` values of `R` pieces times `N` columns to their lanes.
#[inline(always)]
fn add<S: Simd, const R: usize, const N: usize>(
    s: S,
    w: &[[f32; PIECE]; R],
    len: usize,
    x: [&[f32]; N],
    acc: &mut [[S::F; R]],
) {
    let mut lanes = [[s.splat(0.0); R]; N];
    lanes.copy_from_slice(acc);
    for at in (0..len).step_by(16) {
        let mut columns = [s.splat(0.0); N];
        for c in 0..N {
            columns[c] = chunk(s, &x[c][at..len]);
        }
        for r in 0..R {
            let w = chunk(s, &w[r][at..len]);
            for c in 0..N {
                lanes[c][r] = s.fma(w, columns[c], lanes[c][r]);
            }
        }
    }
    acc.copy_from_slice(&lanes);
}

/// The first 16 values, zeros past the end.
#[inline(always)]
fn chunk<S: Simd>(s: S, from: &[f32]) -> S::F {
    match from.first_chunk() {
        Some(whole) => s.load(whole),
        None => {
            let mut chunk = [0.0; 16];
            chunk[..from.len()].copy_from_slice(from);
            s.load(&chunk)
        }
    }
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
