//! Weight rows times input vectors: which form of the input a type wants, tiles of columns, row blocks.
//!
//! A matrix that all columns meet reads them from panels that the team arranged once ([`Panels`]); an
//! expert's columns are gathered by the worker that multiplies them.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::context::{Context, Input, Products};
use super::kernels::{Family, Panel, Q8K_BYTES, Q8K_LEN, Q80_BYTES, Q80_LEN, TILE, family};
use crate::model::Model;
use crate::weights::Matrix;

/// Most rows claimed at a time: gathered columns are arranged once per claim.
pub(crate) const ROW_BLOCK: usize = 128;
/// Rows claimed at a time for few columns: long enough to stream, short enough to balance.
const ROW_BLOCK_FEW: usize = 32;
/// Columns that count as few.
const FEW: usize = 3;

/// Rows to claim at a time for so many columns.
pub(crate) const fn row_block(columns: usize) -> usize {
    if columns <= FEW { ROW_BLOCK_FEW } else { ROW_BLOCK }
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

/// The columns of a stage's input, a panel per tile and family.
///
/// A tile is written by the worker that claimed it in one region and read by all in the next; the locks
/// are never contended.
pub(crate) struct Panels(Vec<[RwLock<Panel>; 2]>);

impl Panels {
    /// Panels for `columns` vectors of up to `len` values.
    pub(crate) fn new(columns: usize, len: usize) -> Self {
        let panel = |_| [(); 2].map(|()| RwLock::new(Panel::new(len)));
        Self((0..columns.div_ceil(TILE)).map(panel).collect())
    }

    fn lock(&self, tile: usize, family: Family) -> &RwLock<Panel> {
        &self.0[tile][usize::from(family == Family::Block)]
    }

    fn read(&self, tile: usize, family: Family) -> RwLockReadGuard<'_, Panel> {
        self.lock(tile, family).read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Columns of a tile.
pub(crate) fn tile_columns(tile: usize, count: usize) -> Range<usize> {
    tile * TILE..((tile + 1) * TILE).min(count)
}

/// Quantises the vectors of a tile of `h` and arranges them, in the forms that the stage's matrices want.
pub(crate) fn arrange<M: Model>(
    cx: &Context<'_, M>,
    tile: usize,
    count: usize,
    len: usize,
    matrices: &[&Matrix],
) {
    let parts = Parts::new(tile_columns(tile, count).map(|column| Part::whole(column, len)));
    parts.as_slice().iter().for_each(|part| quantise(cx, cx.planes.h, *part, matrices));
    for family in QUANTISED {
        if matrices.iter().any(|w| form(cx, w) == family) {
            let lock = cx.panels.lock(tile, family);
            let mut panel = lock.write().unwrap_or_else(PoisonError::into_inner);
            pack(cx, family, cx.planes.h, parts.as_slice(), &mut panel);
        }
    }
}

const QUANTISED: [Family; 2] = [Family::Super, Family::Block];

/// At most a tile of vectors.
pub(crate) struct Parts {
    parts: [Part; TILE],
    count: usize,
}

impl Parts {
    pub(crate) fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut all = Self { parts: [Part::whole(0, 0); TILE], count: 0 };
        for part in parts {
            all.parts[all.count] = part;
            all.count += 1;
        }
        all
    }

    fn as_slice(&self) -> &[Part] {
        &self.parts[..self.count]
    }
}

/// Arranges at most a tile of quantised vectors.
fn pack<M: Model>(
    cx: &Context<'_, M>,
    family: Family,
    input: Input<'_>,
    parts: &[Part],
    panel: &mut Panel,
) {
    let mut columns: [&[u8]; TILE] = [&[]; TILE];
    for (column, part) in columns.iter_mut().zip(parts) {
        *column = match family {
            Family::Super => &input.q8k.read(part.column)[part.q8k()],
            _ => &input.q80.read(part.column)[part.q80()],
        };
    }
    (cx.kernels.pack)(family, parts[0].len, &columns[..parts.len()], panel);
}

/// Where a tile of vectors comes from.
pub(crate) enum Tile<'a> {
    /// A tile of `h` that [`arrange`] has prepared, and its columns.
    Arranged(usize, Range<usize>),
    /// Vectors from anywhere that [`gather`] has prepared.
    Gathered(Input<'a>, &'a Parts, &'a [Panel; 2]),
}

impl Tile<'_> {
    /// Number of vectors.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Arranged(_, columns) => columns.len(),
            Self::Gathered(_, parts, _) => parts.count,
        }
    }
}

/// Arranges vectors from anywhere for one worker, in the forms that `matrices` want.
pub(crate) fn gather<'a, M: Model>(
    cx: &Context<'a, M>,
    input: Input<'a>,
    parts: &'a Parts,
    matrices: &[&Matrix],
    panels: &'a mut [Panel; 2],
) -> Tile<'a> {
    for (family, panel) in QUANTISED.into_iter().zip(panels.iter_mut()) {
        if matrices.iter().any(|w| form(cx, w) == family) {
            pack(cx, family, input, parts.as_slice(), panel);
        }
    }
    Tile::Gathered(input, parts, panels)
}

/// `rows` of `w` times the vectors of a tile: `out[vector][row]`, the output scale of `w` applied.
pub(crate) fn multiply_tile<M: Model>(
    cx: &Context<'_, M>,
    w: &Matrix,
    rows: Range<usize>,
    tile: &Tile<'_>,
    out: &mut [f32],
) {
    let family = form(cx, w);
    let bytes = w.rows_bytes(rows);
    if family == Family::Float {
        let mut columns: [&[f32]; TILE] = [&[]; TILE];
        for (i, column) in columns[..tile.count()].iter_mut().enumerate() {
            *column = match tile {
                Tile::Arranged(_, range) => &cx.planes.h.f32.read(range.start + i)[..w.k()],
                Tile::Gathered(input, parts, _) => {
                    let part = parts.parts[i];
                    &input.f32.read(part.column)[part.f32()]
                }
            };
        }
        (cx.kernels.product_float)(w.ty(), bytes, w.k(), &columns[..tile.count()], out);
    } else {
        let product = (cx.kernels.product)(w.ty()).expect("quantised types have a product");
        match tile {
            Tile::Arranged(tile, _) => product(bytes, &cx.panels.read(*tile, family), out),
            Tile::Gathered(_, _, panels) => {
                product(bytes, &panels[usize::from(family == Family::Block)], out);
            }
        }
    }
    if w.scale() != 1.0 {
        (cx.kernels.scale)(w.scale(), out);
    }
}

/// Multiplies `rows` of `w` (at most [`ROW_BLOCK`]) with the first `count` columns of `h` and hands each
/// column's products to `sink`.
pub(crate) fn multiply<M: Model>(
    cx: &Context<'_, M>,
    w: &Matrix,
    rows: Range<usize>,
    count: usize,
    products: &mut Products,
    mut sink: impl FnMut(usize, &[f32]),
) {
    for tile in 0..count.div_ceil(TILE) {
        let columns = tile_columns(tile, count);
        let out = &mut products.out[..columns.len() * rows.len()];
        multiply_tile(cx, w, rows.clone(), &Tile::Arranged(tile, columns.clone()), out);
        for (column, values) in columns.zip(out.chunks_exact(rows.len())) {
            sink(column, values);
        }
    }
}
