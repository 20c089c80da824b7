//! Weight rows times input vectors: which form of the input a type wants, tiles of columns, row blocks.

use std::ops::Range;

use super::context::{Context, Input};
use super::kernels::{Family, Q8K_BYTES, Q8K_LEN, Q80_BYTES, Q80_LEN, TILE, family};
use crate::model::Model;
use crate::weights::Matrix;

/// Rows multiplied at a time: a few tiles of weights.
pub(crate) const ROW_BLOCK: usize = 128;

/// Blocks to claim at a time, of so many among so many workers: long streams of weights, each
/// prefetched while the one before is multiplied, and yet enough claims to balance.
pub(crate) const fn blocks_per_claim(blocks: usize, workers: usize) -> usize {
    const MOST: usize = 16;
    let share = blocks / (8 * workers);
    if share == 0 {
        1
    } else if share > MOST {
        MOST
    } else {
        share
    }
}

/// The form of input that a matrix is multiplied with.
fn form<M: Model>(cx: &Context<'_, M>, w: &Matrix) -> Family {
    if cx.exact { Family::Float } else { family(w.ty()) }
}

const fn q8k_bytes(len: usize) -> usize {
    len.div_ceil(Q8K_LEN) * Q8K_BYTES
}

const fn q80_bytes(len: usize) -> usize {
    len.div_ceil(Q80_LEN) * Q80_BYTES
}

/// Where a vector lies in an [`Input`]: the `part`-th of several of `part_len` values in a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) column: usize,
    pub(crate) part: usize,
    pub(crate) part_len: usize,
    pub(crate) len: usize,
}

impl Part {
    /// The whole column.
    pub(crate) fn whole(column: usize, len: usize) -> Self {
        Self { column, part: 0, part_len: len, len }
    }

    fn f32(&self) -> Range<usize> {
        let start = self.part * self.part_len;
        start..start + self.len
    }

    fn q8k(&self) -> Range<usize> {
        let start = self.part * q8k_bytes(self.part_len);
        start..start + q8k_bytes(self.len)
    }

    fn q80(&self) -> Range<usize> {
        let start = self.part * q80_bytes(self.part_len);
        start..start + q80_bytes(self.len)
    }
}

/// Quantises one vector of a stage's input, in the forms that the stage's matrices want.
pub(crate) fn quantise<M: Model>(
    cx: &Context<'_, M>,
    input: Input<'_>,
    part: Part,
    matrices: &[&Matrix],
) {
    let wanted = |family| matrices.iter().any(|w| form(cx, w) == family);
    let values = &input.f32.read(part.column)[part.f32()];
    if wanted(Family::Super) {
        (cx.kernels.quantize_q8k)(values, input.q8k.write_range(part.column, part.q8k()));
    }
    if wanted(Family::Block) {
        (cx.kernels.quantize_q80)(values, input.q80.write_range(part.column, part.q80()));
    }
}

/// At most [`TILE`] vectors of an input that [`quantise`] has prepared.
pub(crate) struct Tile<'a> {
    input: Input<'a>,
    parts: [Part; TILE],
    count: usize,
}

impl<'a> Tile<'a> {
    pub(crate) fn new(input: Input<'a>, parts: impl IntoIterator<Item = Part>) -> Self {
        let mut tile = Self { input, parts: [Part::whole(0, 0); TILE], count: 0 };
        for part in parts {
            tile.parts[tile.count] = part;
            tile.count += 1;
        }
        tile
    }

    /// Some columns of `h`.
    pub(crate) fn columns<M: Model>(
        cx: &Context<'a, M>,
        columns: Range<usize>,
        len: usize,
    ) -> Self {
        Self::new(cx.planes.h, columns.map(|column| Part::whole(column, len)))
    }

    fn parts(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// The vectors in f32.
    fn floats(&self) -> [&'a [f32]; TILE] {
        let mut columns: [&[f32]; TILE] = [&[]; TILE];
        for (column, part) in columns.iter_mut().zip(self.parts()) {
            *column = &self.input.f32.read(part.column)[part.f32()];
        }
        columns
    }

    /// The vectors in super-blocks or blocks.
    fn quantised(&self, family: Family) -> [&'a [u8]; TILE] {
        let mut columns: [&[u8]; TILE] = [&[]; TILE];
        for (column, part) in columns.iter_mut().zip(self.parts()) {
            *column = match family {
                Family::Super => &self.input.q8k.read(part.column)[part.q8k()],
                _ => &self.input.q80.read(part.column)[part.q80()],
            };
        }
        columns
    }
}

/// Where the products of a tile go: a run of rows for each of its vectors.
pub(crate) struct Outputs<'a> {
    runs: [&'a mut [f32]; TILE],
    count: usize,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(runs: impl IntoIterator<Item = &'a mut [f32]>) -> Self {
        let mut outputs = Self { runs: [(); TILE].map(|()| &mut [][..]), count: 0 };
        for run in runs {
            outputs.runs[outputs.count] = run;
            outputs.count += 1;
        }
        outputs
    }
}

/// `rows` of `w` times the vectors of a tile: `out[vector][row]`, the output scale of `w` applied.
/// `next` are weights that will be read after.
pub(crate) fn multiply_tile<M: Model>(
    cx: &Context<'_, M>,
    w: &Matrix,
    rows: Range<usize>,
    next: &[u8],
    tile: &Tile<'_>,
    mut out: Outputs<'_>,
) {
    let (family, bytes) = (form(cx, w), w.rows_bytes(rows));
    let out = &mut out.runs[..out.count];
    if family == Family::Float {
        (cx.kernels.product_float)(w.ty(), bytes, w.k(), &tile.floats()[..tile.count], out);
    } else {
        let product = (cx.kernels.product)(w.ty()).expect("quantised types have a product");
        product(bytes, next, w.k(), &tile.quantised(family)[..tile.count], out);
    }
    if w.scale() != 1.0 {
        out.iter_mut().for_each(|out| (cx.kernels.scale)(w.scale(), out));
    }
}

/// Multiplies `rows` of `w` with the first `count` columns of `h`, a tile of them at a time; `out` says where
/// a column's products go. `next` are weights that will be read after.
pub(crate) fn multiply<'o, M: Model>(
    cx: &Context<'_, M>,
    w: &Matrix,
    rows: &Range<usize>,
    next: &[u8],
    count: usize,
    out: impl Fn(usize) -> &'o mut [f32],
) {
    for (columns, last) in tiles(count) {
        let tile = Tile::columns(cx, columns.clone(), w.k());
        let next = if last { next } else { &[] };
        multiply_tile(cx, w, rows.clone(), next, &tile, Outputs::new(columns.map(&out)));
    }
}

/// So many columns, a tile at a time, and whether it is the last.
pub(crate) fn tiles(count: usize) -> impl Iterator<Item = (Range<usize>, bool)> {
    let tile = move |start| start..count.min(start + TILE);
    (0..count).step_by(TILE).map(move |start| (tile(start), start + TILE >= count))
}
