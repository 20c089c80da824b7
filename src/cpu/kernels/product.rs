//! Integer products: rows of quantised weights times a panel of quantised activations.
//!
//! Every row's result is the canonical one whatever the tile:
//! * super-blocks: the exact sum `S` of a block, then `acc = fma(d_w * d_x, S, acc)` in block
//!   order, and with mins `acc = fma(-(dmin_w * d_x), M, acc)`;
//! * blocks of 32: block `b` goes to lane `b % 8`, `lane = fma(d_w * d_x, S, lane)`, with a minimum
//!   `lane = fma(m_w * d_x, sum(x), lane)`; lanes combine as `((0+4)+(2+6))+((1+5)+(3+7))`.

use crate::cpu::simd::{Simd, TileX};

use super::panel::{FEW, Family, Panel, TILE};
use super::unpack::{BlockType, BlockUnit, SuperType, SuperUnit, Tail};

/// Rows unpacked together, so that a vector of activations is loaded once for them.
const ROWS: usize = 2;
/// Rows whose sums are kept while a unit of activations is in the first-level cache.
const STRIP: usize = 8;

/// Distance of prefetches in a stream of weights, in bytes.
const AHEAD: usize = 2048;

/// Checks the shapes and returns the number of rows.
#[inline(always)]
fn rows_of<S: Simd>(
    family: Family,
    rows: &[u8],
    row_bytes: usize,
    panel: &Panel,
    out: &[f32],
) -> usize {
    let n = rows.len() / row_bytes.max(1);
    assert!(
        panel.family == family,
        "the panel holds {:?}, the weights need {family:?}",
        panel.family
    );
    assert!(panel.lanes == 0 || panel.lanes == S::LANES, "the panel was packed by another table");
    assert_eq!(n * row_bytes, rows.len(), "whole rows of {row_bytes} bytes");
    assert_eq!(out.len(), n * panel.columns, "one output per row and column");
    n
}

/// `out[c][r] = rows[r] . column[c]` for a type of super-blocks.
///
/// # Panics
/// Where the lengths disagree or `k` is not a multiple of 256.
#[inline(always)]
pub(crate) fn super_rows<S: Simd, T: SuperType>(s: S, rows: &[u8], panel: &Panel, out: &mut [f32]) {
    let row_bytes = panel.units() * T::BYTES;
    assert!(panel.k.is_multiple_of(256), "rows of whole super-blocks, not {} inputs", panel.k);
    let n = rows_of::<S>(Family::Super, rows, row_bytes, panel, out);
    if n == 0 {
        return;
    }
    if panel.columns == 1 {
        for (row, out) in rows.chunks_exact(row_bytes).zip(out) {
            *out = super_one::<S, T>(s, row, panel);
        }
        return;
    }
    if panel.lanes == 0 {
        for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
            let acc = super_few::<S, T>(s, row, panel);
            for c in 0..panel.columns {
                out[c * n + r] = acc[c];
            }
        }
        return;
    }
    let mut acc = [0.0; STRIP * TILE];
    for (i, strip) in rows.chunks(STRIP * row_bytes).enumerate() {
        let count = strip.len() / row_bytes;
        super_strip::<S, T>(s, strip, row_bytes, panel, &mut acc);
        for r in 0..count {
            for c in 0..panel.columns {
                out[c * n + i * STRIP + r] = acc[r * panel.padded + c];
            }
        }
    }
}

/// Asks for the weights that follow `unit` at a distance that hides the memory's latency.
#[inline(always)]
fn ahead<S: Simd>(s: S, unit: &[u8]) {
    for line in (0..unit.len()).step_by(64) {
        s.prefetch(unit, AHEAD + line);
    }
}

/// One super-block times one column, added to `acc`.
#[inline(always)]
fn super_block<S: Simd, T: SuperType>(
    s: S,
    unit: &SuperUnit,
    x: &[i8; 256],
    sums: &[i16; 16],
    d_x: f32,
    acc: f32,
) -> f32 {
    let (dot, bias) = s.dot_super::<T>(&unit.q, x, &unit.scale, sums, &unit.coef);
    let dot = if T::TAIL == Tail::Offset { dot.wrapping_sub(bias) } else { dot };
    let acc = (unit.d * d_x).mul_add(dot as f32, acc);
    if T::TAIL == Tail::Mins { (-(unit.dmin * d_x)).mul_add(bias as f32, acc) } else { acc }
}

/// One row times one column.
#[inline(always)]
fn super_one<S: Simd, T: SuperType>(s: S, row: &[u8], panel: &Panel) -> f32 {
    let mut acc = 0.0;
    let mut unit = SuperUnit::ZERO;
    let (x, sums, scales) = panel.plain_super(0);
    let column = x.iter().zip(sums).zip(scales);
    for (block, ((x, sums), d_x)) in row.chunks_exact(T::BYTES).zip(column) {
        ahead(s, block);
        T::unpack(s, block, &mut unit);
        acc = super_block::<S, T>(s, &unit, x, sums, *d_x, acc);
    }
    acc
}

/// One row times few columns.
#[inline(always)]
fn super_few<S: Simd, T: SuperType>(s: S, row: &[u8], panel: &Panel) -> [f32; FEW] {
    let mut acc = [0.0; FEW];
    let mut unit = SuperUnit::ZERO;
    for (u, block) in row.chunks_exact(T::BYTES).enumerate() {
        ahead(s, block);
        T::unpack(s, block, &mut unit);
        for (c, acc) in acc.iter_mut().enumerate().take(panel.columns) {
            let (x, sums, scales) = panel.plain_super(c);
            *acc = super_block::<S, T>(s, &unit, &x[u], &sums[u], scales[u], *acc);
        }
    }
    acc
}

/// Up to [`STRIP`] rows times all columns of an interleaved panel; `acc` is `[row][padded]`.
#[inline(always)]
fn super_strip<S: Simd, T: SuperType>(
    s: S,
    strip: &[u8],
    row_bytes: usize,
    panel: &Panel,
    acc: &mut [f32; STRIP * TILE],
) {
    let (count, padded) = (strip.len() / row_bytes, panel.padded);
    acc[..count * padded].fill(0.0);
    let mut units = [SuperUnit::ZERO; ROWS];
    for u in 0..panel.units() {
        for first in (0..count).step_by(ROWS) {
            for (r, unit) in units.iter_mut().enumerate() {
                // An odd last row is multiplied twice; the second result is dropped.
                let at = (first + r).min(count - 1) * row_bytes + u * T::BYTES;
                T::unpack(s, &strip[at..at + T::BYTES], unit);
            }
            let mut sums = acc[first * padded..].chunks_exact_mut(padded);
            let mut spare = [0.0; TILE];
            let mut acc = [sums.next().expect("a row"), &mut spare[..padded]];
            if let Some(second) = sums.next().filter(|_| first + 1 < count) {
                acc[1] = second;
            }
            let mut c = 0;
            while c + 2 * S::LANES <= padded {
                super_tile::<S, T, 2>(s, &units, panel, u, c, &mut acc);
                c += 2 * S::LANES;
            }
            if c < padded {
                super_tile::<S, T, 1>(s, &units, panel, u, c, &mut acc);
            }
        }
    }
}

/// Two rows' super-blocks times `NB` blocks of columns from `c` on, added to `acc`.
#[inline(always)]
fn super_tile<S: Simd, T: SuperType, const NB: usize>(
    s: S,
    units: &[SuperUnit; ROWS],
    panel: &Panel,
    u: usize,
    c: usize,
    acc: &mut [&mut [f32]; ROWS],
) {
    let (x, stride) = (panel.tile_x(u, c), 256 * S::LANES);
    let mut dot = [[s.izero(); NB]; ROWS];
    let group = T::STEPS * 4;
    for g in 0..256 / group {
        let tile = TileX { x: &x[g * group * S::LANES..], stride };
        let w = [&units[0].q[g * group..][..group], &units[1].q[g * group..][..group]];
        let scale = [units[0].scale[g * group / 16], units[1].scale[g * group / 16]];
        s.tile_group::<T, ROWS, NB>(&mut dot, tile, w, scale);
    }
    let mut bias = [[s.izero(); NB]; ROWS];
    if T::TAIL != Tail::None {
        for pair in 0..8 {
            let sums = panel.tile_sums(u, pair, c);
            for r in 0..ROWS {
                let coef = [units[r].coef[2 * pair], units[r].coef[2 * pair + 1]];
                for b in 0..NB {
                    bias[r][b] = s.ipairs(bias[r][b], &sums[2 * b * S::LANES..], coef);
                }
            }
        }
    }
    let scales = panel.tile_scales(u, c);
    for r in 0..ROWS {
        for b in 0..NB {
            let at = c + b * S::LANES;
            let d_x = s.cload(&scales[b * S::LANES..]);
            let mut sum = s.cload(&acc[r][at..]);
            let dot = dot[r][b];
            let dot = if T::TAIL == Tail::Offset { s.isub(dot, bias[r][b]) } else { dot };
            sum = s.cfma(s.cscale(d_x, units[r].d), s.itof(dot), sum);
            if T::TAIL == Tail::Mins {
                // -(dmin d_x) rounds as (-dmin) d_x does.
                sum = s.cfma(s.cscale(d_x, -units[r].dmin), s.itof(bias[r][b]), sum);
            }
            s.cstore(sum, &mut acc[r][at..]);
        }
    }
}

/// Lanes of a block product combined.
#[inline(always)]
fn combine(l: [f32; 8]) -> f32 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// `out[c][r] = rows[r] . column[c]` for a type of blocks of 32.
///
/// # Panics
/// Where the lengths disagree or `k` is not a whole number of stored blocks.
#[inline(always)]
pub(crate) fn block_rows<S: Simd, T: BlockType>(s: S, rows: &[u8], panel: &Panel, out: &mut [f32]) {
    let row_bytes = panel.k / T::LEN * T::BYTES;
    assert!(panel.k.is_multiple_of(T::LEN), "rows of whole blocks, not {} inputs", panel.k);
    let n = rows_of::<S>(Family::Block, rows, row_bytes, panel, out);
    if n == 0 {
        return;
    }
    if panel.columns == 1 {
        for (row, out) in rows.chunks_exact(row_bytes).zip(out) {
            *out = combine(block_one::<S, T>(s, row, panel));
        }
        return;
    }
    if panel.lanes == 0 {
        for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
            let lanes = block_few::<S, T>(s, row, panel);
            for c in 0..panel.columns {
                out[c * n + r] = combine(lanes[c]);
            }
        }
        return;
    }
    let mut acc = [0.0; STRIP * 8 * TILE];
    for (i, strip) in rows.chunks(STRIP * row_bytes).enumerate() {
        let count = strip.len() / row_bytes;
        block_strip::<S, T>(s, strip, row_bytes, panel, &mut acc);
        for r in 0..count {
            for c in 0..panel.columns {
                let lane = |l: usize| acc[(r * 8 + l) * panel.padded + c];
                out[c * n + i * STRIP + r] = combine(std::array::from_fn(lane));
            }
        }
    }
}

/// One row times one column: its eight lanes.
#[inline(always)]
fn block_one<S: Simd, T: BlockType>(s: S, row: &[u8], panel: &Panel) -> [f32; 8] {
    let mut acc = [0.0; 8];
    let mut unit = BlockUnit::ZERO;
    let (x, scales, sums) = panel.plain_blocks(0);
    let column = x.iter().zip(scales).zip(sums);
    for (blocks, ((x, scales), sums)) in row.chunks(256 / T::LEN * T::BYTES).zip(column) {
        ahead(s, blocks);
        T::unpack(s, blocks, &mut unit);
        let count = blocks.len() / T::BYTES * (T::LEN / 32);
        block_unit::<S, T>(s, &unit, x, scales, sums, count, &mut acc);
    }
    acc
}

/// One row times few columns: the eight lanes of each.
#[inline(always)]
fn block_few<S: Simd, T: BlockType>(s: S, row: &[u8], panel: &Panel) -> [[f32; 8]; FEW] {
    let mut acc = [[0.0; 8]; FEW];
    let mut unit = BlockUnit::ZERO;
    for (u, blocks) in row.chunks(256 / T::LEN * T::BYTES).enumerate() {
        ahead(s, blocks);
        T::unpack(s, blocks, &mut unit);
        let count = blocks.len() / T::BYTES * (T::LEN / 32);
        for (c, acc) in acc.iter_mut().enumerate().take(panel.columns) {
            let (x, scales, sums) = panel.plain_blocks(c);
            block_unit::<S, T>(s, &unit, &x[u], &scales[u], &sums[u], count, acc);
        }
    }
    acc
}

/// The first `count` blocks of a unit times one column, added to their lanes.
#[inline(always)]
fn block_unit<S: Simd, T: BlockType>(
    s: S,
    unit: &BlockUnit,
    x: &[i8; 256],
    d_x: &[f32; 8],
    sums: &[i32; 8],
    count: usize,
    acc: &mut [f32; 8],
) {
    if T::HALVES {
        let dots = s.dot_halves(&unit.q, x);
        let part = |half: usize| {
            let d: [f32; 8] = std::array::from_fn(|i| unit.d[2 * i + half]);
            let dots: [i32; 8] = std::array::from_fn(|i| dots[2 * i + half]);
            (d, dots)
        };
        for (d, dots) in [part(0), part(1)] {
            s.add_lanes(acc, &d, d_x, &dots, count);
        }
        return;
    }
    let mut dots = s.dot_blocks::<T>(&unit.q, x);
    if T::OFFSET != 0 {
        for (dot, sum) in dots.iter_mut().zip(sums) {
            *dot -= i32::from(T::OFFSET) * sum;
        }
    }
    let d: &[f32; 8] = unit.d.first_chunk().expect("eight scales");
    s.add_lanes(acc, d, d_x, &dots, count);
    if T::MINS {
        s.add_lanes(acc, &unit.m, d_x, sums, count);
    }
}

/// Up to [`STRIP`] rows times all columns of an interleaved panel; `acc` is `[row][lane][padded]`.
#[inline(always)]
fn block_strip<S: Simd, T: BlockType>(
    s: S,
    strip: &[u8],
    row_bytes: usize,
    panel: &Panel,
    acc: &mut [f32; STRIP * 8 * TILE],
) {
    let (count, padded) = (strip.len() / row_bytes, panel.padded);
    acc[..count * 8 * padded].fill(0.0);
    let unit_bytes = 256 / T::LEN * T::BYTES;
    let mut units = [BlockUnit::ZERO; ROWS];
    for u in 0..panel.units() {
        let blocks = (panel.k / 32 - 8 * u).min(8);
        for first in (0..count).step_by(ROWS) {
            for (r, unit) in units.iter_mut().enumerate() {
                let row = &strip[(first + r).min(count - 1) * row_bytes..][..row_bytes];
                T::unpack(s, &row[u * unit_bytes..row_bytes.min((u + 1) * unit_bytes)], unit);
            }
            let mut sums = acc[first * 8 * padded..].chunks_exact_mut(8 * padded);
            let mut spare = [0.0; 8 * TILE];
            let mut acc = [sums.next().expect("a row"), &mut spare[..8 * padded]];
            if let Some(second) = sums.next().filter(|_| first + 1 < count) {
                acc[1] = second;
            }
            for block in 0..blocks {
                let mut c = 0;
                while c + 2 * S::LANES <= padded {
                    block_tile::<S, T, 2>(s, &units, panel, (u, block), c, &mut acc);
                    c += 2 * S::LANES;
                }
                if c < padded {
                    block_tile::<S, T, 1>(s, &units, panel, (u, block), c, &mut acc);
                }
            }
        }
    }
}

/// Two rows' blocks times `NB` blocks of columns from `c` on, added to their lane of `acc`.
#[inline(always)]
fn block_tile<S: Simd, T: BlockType, const NB: usize>(
    s: S,
    units: &[BlockUnit; ROWS],
    panel: &Panel,
    (u, block): (usize, usize),
    c: usize,
    acc: &mut [&mut [f32]; ROWS],
) {
    let (x, stride) = (panel.tile_x(u, c), 256 * S::LANES);
    let sums = panel.tile_sums(u, block, c);
    let scales = panel.tile_scales(8 * u + block, c);
    let group = T::STEPS * 4;
    for part in 0..32 / group {
        let at = 32 * block + part * group;
        let mut dot = [[s.izero(); NB]; ROWS];
        let tile = TileX { x: &x[at * S::LANES..], stride };
        let w = [&units[0].q[at..][..group], &units[1].q[at..][..group]];
        s.tile_group::<T, ROWS, NB>(&mut dot, tile, w, [1; ROWS]);
        for r in 0..ROWS {
            let d = if T::HALVES { units[r].d[2 * block + part] } else { units[r].d[block] };
            for b in 0..NB {
                let to = &mut acc[r][block * panel.padded + c + b * S::LANES..];
                let d_x = s.cload(&scales[b * S::LANES..]);
                let sums = &sums[2 * b * S::LANES..];
                let mut dot = dot[r][b];
                if T::OFFSET != 0 {
                    dot = s.isub(dot, s.ipairs(s.izero(), sums, [T::OFFSET; 2]));
                }
                let mut sum = s.cfma(s.cscale(d_x, d), s.itof(dot), s.cload(to));
                if T::MINS {
                    let sums = s.itof(s.ipairs(s.izero(), sums, [1; 2]));
                    sum = s.cfma(s.cscale(d_x, units[r].m[block]), sums, sum);
                }
                s.cstore(sum, to);
            }
        }
    }
}
