//! Rows of quantised weights times quantised columns.
//!
//! Rows are taken in tiles of [`Simd::ROWS`] whose lanes are rows, so that each weight is unpacked once for
//! all columns and no lanes are summed. Whatever the number of columns, a sum is the same:
//!
//! * super-blocks: integer sums are exact; `acc = fma(d d_x, sum, acc)` from the first to the last, with
//!   mins followed by `acc = fma(-(dmin d_x), mins, acc)`;
//! * blocks: block `i` goes to lane `i % 8`, `acc = fma(d d_x, sum, acc)`, with a minimum followed by
//!   `acc = fma(m d_x, sum(x), acc)`; the eight lanes are added by [`combine`].

use super::columns::{BlockColumn, SuperColumn, TILE};
use super::unpack::{BlockType, SuperType};
use crate::cpu::simd::{MAX_ROWS, Rows, Simd, WeightTile};

/// Columns multiplied at once with a tile of weights.
const AT_ONCE: usize = 4;

/// Columns of 32-blocks that share an unpacked tile: eight sums per row and column stay near.
const BLOCK_COLUMNS: usize = 32;

/// Checks the shapes and returns the number of rows.
#[inline(always)]
fn rows_of(rows: &[u8], row_bytes: usize, columns: usize, out: &[&mut [f32]]) -> usize {
    let n = rows.len() / row_bytes.max(1);
    assert!((1..=TILE).contains(&columns), "{columns} columns in a product");
    assert_eq!(n * row_bytes, rows.len(), "whole rows of {row_bytes} bytes");
    assert!(out.len() == columns && out.iter().all(|out| out.len() == n), "{n} outputs each");
    n
}

/// `out[c][r] = rows[r] . columns[c]` for a type of super-blocks.
///
/// # Panics
/// Where the lengths disagree or `k` is not a multiple of 256.
#[inline(always)]
pub(crate) fn super_rows<S: Simd, T: SuperType>(
    s: S,
    rows: &[u8],
    next: &[u8],
    k: usize,
    columns: &[&[u8]],
    out: &mut [&mut [f32]],
) {
    assert!(k.is_multiple_of(256), "rows of whole super-blocks, not {k} inputs");
    let row_bytes = k / 256 * T::BYTES;
    let n = rows_of(rows, row_bytes, columns.len(), out);
    if n == 0 {
        return;
    }
    let mut parsed = [SuperColumn::EMPTY; TILE];
    for (to, bytes) in parsed.iter_mut().zip(columns) {
        *to = SuperColumn::new(bytes, k);
    }
    let columns = &parsed[..columns.len()];
    let mut acc = [0.0; TILE * MAX_ROWS];
    let mut tile = WeightTile::ZERO;
    let mut strips = rows.chunks(S::ROWS * row_bytes).enumerate().peekable();
    while let Some((i, strip)) = strips.next() {
        let next = strips.peek().map_or(next, |(_, strip)| strip);
        let strip_rows = Rows::new(strip, row_bytes).followed_by(next, 1 + columns.len() / AT_ONCE);
        let acc = &mut acc[..columns.len() * S::ROWS];
        acc.fill(0.0);
        super_strip::<S, T>(s, &strip_rows, row_bytes, columns, &mut tile, acc);
        let count = strip.len() / row_bytes;
        for (out, acc) in out.iter_mut().zip(acc.chunks_exact(S::ROWS)) {
            put(&acc[..count], &mut out[i * S::ROWS..]);
        }
    }
}

/// Copies `from` to the start of `to`, whole vectors without a call.
#[inline(always)]
fn put(from: &[f32], to: &mut [f32]) {
    let (vectors, rest) = from.as_chunks::<8>();
    let (to, to_rest) = to[..from.len()].as_chunks_mut();
    for (to, from) in to.iter_mut().zip(vectors) {
        *to = *from;
    }
    to_rest.copy_from_slice(rest);
}

/// Up to [`Simd::ROWS`] rows times all columns, added to `acc`, `[column][row]`.
#[inline(always)]
fn super_strip<S: Simd, T: SuperType>(
    s: S,
    rows: &Rows<'_>,
    row_bytes: usize,
    columns: &[SuperColumn<'_>],
    tile: &mut WeightTile,
    acc: &mut [f32],
) {
    let share = S::ROWS * T::BYTES / (1 + columns.len() / AT_ONCE);
    for u in 0..row_bytes / T::BYTES {
        for lane in (0..S::ROWS).step_by(S::LANES) {
            T::unpack_rows(s, rows, lane, u * T::BYTES, tile);
        }
        let mut groups = columns.chunks_exact(AT_ONCE);
        let mut sums = acc.chunks_mut(AT_ONCE * S::ROWS);
        for (group, acc) in groups.by_ref().zip(sums.by_ref()) {
            rows.ahead(s, share);
            s.super_unit::<T, AT_ONCE>(tile, std::array::from_fn(|c| group[c].unit(u)), acc);
        }
        let Some(acc) = sums.next() else { continue };
        match *groups.remainder() {
            [a] => s.super_unit::<T, 1>(tile, [a.unit(u)], acc),
            [a, b] => s.super_unit::<T, 2>(tile, [a.unit(u), b.unit(u)], acc),
            [a, b, c] => s.super_unit::<T, 3>(tile, [a.unit(u), b.unit(u), c.unit(u)], acc),
            _ => unreachable!("less than {AT_ONCE} columns"),
        }
    }
}

/// Lanes of a block product combined.
#[inline(always)]
fn combine(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// `out[c][r] = rows[r] . columns[c]` for a type of blocks of 32.
///
/// # Panics
/// Where the lengths disagree or `k` is not a whole number of stored blocks.
#[inline(always)]
pub(crate) fn block_rows<S: Simd, T: BlockType>(
    s: S,
    rows: &[u8],
    next: &[u8],
    k: usize,
    columns: &[&[u8]],
    out: &mut [&mut [f32]],
) {
    assert!(k.is_multiple_of(T::LEN), "rows of whole blocks, not {k} inputs");
    let row_bytes = k / T::LEN * T::BYTES;
    let n = rows_of(rows, row_bytes, columns.len(), out);
    if n == 0 {
        return;
    }
    let mut parsed = [BlockColumn::EMPTY; TILE];
    for (to, bytes) in parsed.iter_mut().zip(columns) {
        *to = BlockColumn::new(bytes, k);
    }
    let columns = &parsed[..columns.len()];
    let mut acc = [0.0; BLOCK_COLUMNS * 8 * MAX_ROWS];
    let mut tile = WeightTile::ZERO;
    for (columns, out) in columns.chunks(BLOCK_COLUMNS).zip(out.chunks_mut(BLOCK_COLUMNS)) {
        let mut strips = rows.chunks(S::ROWS * row_bytes).enumerate().peekable();
        while let Some((i, strip)) = strips.next() {
            let next = strips.peek().map_or(next, |(_, strip)| strip);
            let strip_rows =
                Rows::new(strip, row_bytes).followed_by(next, 1 + columns.len() / AT_ONCE);
            let acc = &mut acc[..columns.len() * 8 * S::ROWS];
            acc.fill(0.0);
            block_strip::<S, T>(s, &strip_rows, row_bytes, columns, &mut tile, acc);
            for (out, acc) in out.iter_mut().zip(acc.chunks_exact(8 * S::ROWS)) {
                for r in 0..strip.len() / row_bytes {
                    let lanes = std::array::from_fn(|lane| acc[lane * S::ROWS + r]);
                    out[i * S::ROWS + r] = combine(lanes);
                }
            }
        }
    }
}

/// Up to [`Simd::ROWS`] rows times all columns, added to `acc`, `[column][lane][row]`.
#[inline(always)]
fn block_strip<S: Simd, T: BlockType>(
    s: S,
    rows: &Rows<'_>,
    row_bytes: usize,
    columns: &[BlockColumn<'_>],
    tile: &mut WeightTile,
    acc: &mut [f32],
) {
    let unit_bytes = 256 / T::LEN * T::BYTES;
    let share = S::ROWS * unit_bytes / (1 + columns.len() / AT_ONCE);
    for start in (0..row_bytes).step_by(unit_bytes) {
        let u = start / unit_bytes;
        let bytes = unit_bytes.min(row_bytes - start);
        let count = bytes / T::BYTES * (T::LEN / 32);
        for lane in (0..S::ROWS).step_by(S::LANES) {
            T::unpack_rows(s, rows, lane, start..start + bytes, tile);
        }
        let mut groups = columns.chunks_exact(AT_ONCE);
        let mut sums = acc.chunks_mut(AT_ONCE * 8 * S::ROWS);
        for (group, acc) in groups.by_ref().zip(sums.by_ref()) {
            rows.ahead(s, share);
            let x = std::array::from_fn(|c| group[c].unit(u, count));
            s.block_unit::<T, AT_ONCE>(tile, count, x, acc);
        }
        let Some(acc) = sums.next() else { continue };
        match groups.remainder() {
            [a] => s.block_unit::<T, 1>(tile, count, [a.unit(u, count)], acc),
            [a, b] => s.block_unit::<T, 2>(tile, count, [a, b].map(|c| c.unit(u, count)), acc),
            [a, b, c] => {
                s.block_unit::<T, 3>(tile, count, [a, b, c].map(|c| c.unit(u, count)), acc);
            }
            _ => unreachable!("less than {AT_ONCE} columns"),
        }
    }
}
