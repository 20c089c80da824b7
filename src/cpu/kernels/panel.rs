//! A tile of activations, arranged for the products.

use crate::cpu::simd::{AlignedBytes, Simd, signed};

use super::quantize::{Q8K_BYTES, Q80_BYTES};

/// Most columns of a tile.
pub const TILE: usize = 32;

/// Up to so many columns are multiplied one by one instead of across the lanes of a vector.
pub(crate) const FEW: usize = 3;

/// How a weight type's activations are given to its product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// f32.
    Float,
    /// Q8_K super-blocks of 256.
    Super,
    /// Q8_0-like blocks of 32.
    Block,
}

/// A tile of at most [`TILE`] quantised columns: filled by a kernel table's `pack`, read by its
/// products.
///
/// One per thread, made once. Few columns lie one after another; more are interleaved, so that a
/// lane of a vector is a column: per unit of 256 inputs and block of columns `[step][lane][4]`
/// values, `[group pair][lane][2]` sums of 16, and scales `[column]` per super-block or per block.
#[derive(Clone)]
pub struct Panel {
    pub(crate) family: Family,
    /// Inputs.
    pub(crate) k: usize,
    /// Columns held.
    pub(crate) columns: usize,
    /// Columns with the padding of the last vector; equal to `columns` where they are few.
    pub(crate) padded: usize,
    /// Lanes of the instruction set that packed it; 0 where columns are few.
    pub(crate) lanes: usize,
    x: AlignedBytes,
    sums: Vec<i16>,
    scales: Vec<f32>,
    wide_sums: Vec<i32>,
    max_units: usize,
}

impl Panel {
    /// A panel for vectors of up to `max_k` inputs. Allocates all it will ever need:
    /// about `38 * max_k` bytes.
    pub fn new(max_k: usize) -> Self {
        let max_units = max_k.div_ceil(256);
        Self {
            family: Family::Super,
            k: 0,
            columns: 0,
            padded: 0,
            lanes: 0,
            x: AlignedBytes::new(max_units * 256 * TILE),
            sums: vec![0; max_units * 16 * TILE],
            scales: vec![0.0; max_units * 8 * TILE],
            wide_sums: vec![0; max_units * 8 * FEW],
            max_units,
        }
    }

    /// Columns held.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Inputs of each column.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Units of 256 inputs, the last perhaps partial.
    #[inline(always)]
    pub(crate) fn units(&self) -> usize {
        self.k.div_ceil(256)
    }

    /// Values of unit `u` from column `c` (a multiple of the lanes) on, interleaved.
    #[inline(always)]
    pub(crate) fn tile_x(&self, u: usize, c: usize) -> &[i8] {
        let unit = 256 * self.padded;
        &self.x.as_i8()[u * unit + 256 * c..(u + 1) * unit]
    }

    /// Sums of unit `u`, group pair `pair`, from column `c` on, interleaved.
    #[inline(always)]
    pub(crate) fn tile_sums(&self, u: usize, pair: usize, c: usize) -> &[i16] {
        let at = (u * 8 + pair) * 2 * self.padded;
        &self.sums[at + 2 * c..at + 2 * self.padded]
    }

    /// Scales of super-block (or block of 32) `b` from column `c` on.
    #[inline(always)]
    pub(crate) fn tile_scales(&self, b: usize, c: usize) -> &[f32] {
        &self.scales[b * self.padded + c..(b + 1) * self.padded]
    }

    /// Values, group sums and scales of column `c`, one of few: per super-block.
    #[inline(always)]
    pub(crate) fn plain_super(&self, c: usize) -> (&[[i8; 256]], &[[i16; 16]], &[f32]) {
        let units = self.units();
        let of = c * units..(c + 1) * units;
        (
            &self.x.as_i8().as_chunks().0[of.clone()],
            &self.sums.as_chunks().0[of.clone()],
            &self.scales[of],
        )
    }

    /// Values, scales and sums of column `c`, one of few: per unit of eight blocks.
    #[inline(always)]
    pub(crate) fn plain_blocks(&self, c: usize) -> PlainBlocks<'_> {
        let units = self.units();
        let of = c * units..(c + 1) * units;
        (
            &self.x.as_i8().as_chunks().0[of.clone()],
            &self.scales.as_chunks().0[of.clone()],
            &self.wide_sums.as_chunks().0[of],
        )
    }
}

/// Values, scales and sums of a column, per unit of eight blocks.
type PlainBlocks<'a> = (&'a [[i8; 256]], &'a [[f32; 8]], &'a [[i32; 8]]);

/// The planes of a quantised vector.
struct Planes<'a> {
    /// Whole blocks.
    x: &'a [i8],
    /// One per block.
    scales: &'a [u8],
    /// Per super-block 16 i16; per block an i32.
    sums: &'a [u8],
}

impl<'a> Planes<'a> {
    #[inline(always)]
    fn of(family: Family, k: usize, bytes: &'a [u8]) -> Self {
        let (len, size, sum_size) = match family {
            Family::Super => (256, Q8K_BYTES, 32),
            _ => (32, Q80_BYTES, 4),
        };
        let blocks = k.div_ceil(len);
        assert!(bytes.len() >= blocks * size, "a column of {k} quantised inputs is too short");
        let (x, rest) = bytes[..blocks * size].split_at(blocks * len);
        let (sums, scales) = match family {
            Family::Super => rest.split_at(blocks * sum_size),
            _ => {
                let (scales, sums) = rest.split_at(blocks * 4);
                (sums, scales)
            }
        };
        Self { x: signed(x), scales, sums }
    }
}

#[inline(always)]
fn f32_at(bytes: &[u8], i: usize) -> f32 {
    f32::from_le_bytes(*bytes[4 * i..].first_chunk().expect("a scale"))
}

/// Fills `panel` with `columns`: vectors of `k` inputs as the family's quantiser lays them out.
///
/// # Panics
/// Where there are no columns or more than [`TILE`], one is too short, or `k` exceeds the panel's.
#[inline(always)]
pub(crate) fn pack<S: Simd>(s: S, family: Family, k: usize, columns: &[&[u8]], panel: &mut Panel) {
    let units = k.div_ceil(256);
    assert!((1..=TILE).contains(&columns.len()), "{} columns in a tile", columns.len());
    assert!(units <= panel.max_units, "{k} inputs in a panel made for {} * 256", panel.max_units);
    assert!(family != Family::Float, "f32 activations are not packed");
    (panel.family, panel.k, panel.columns) = (family, k, columns.len());
    if columns.len() <= FEW {
        (panel.padded, panel.lanes) = (columns.len(), 0);
        for (c, bytes) in columns.iter().enumerate() {
            pack_plain(panel, c, &Planes::of(family, k, bytes));
        }
    } else {
        panel.padded = columns.len().next_multiple_of(S::LANES);
        panel.lanes = S::LANES;
        for first in (0..columns.len()).step_by(S::LANES) {
            pack_lanes(s, panel, first, &columns[first..]);
        }
    }
}

#[inline(always)]
fn pack_plain(panel: &mut Panel, c: usize, from: &Planes<'_>) {
    let units = panel.units();
    let x = &mut panel.x.as_i8_mut()[c * units * 256..][..units * 256];
    let (whole, rest) = x.split_at_mut(from.x.len());
    whole.copy_from_slice(from.x);
    rest.fill(0);
    if panel.family == Family::Super {
        for u in 0..units {
            panel.scales[c * units + u] = f32_at(from.scales, u);
        }
        let sums = &mut panel.sums[c * units * 16..][..units * 16];
        for (to, from) in sums.iter_mut().zip(from.sums.as_chunks::<2>().0) {
            *to = i16::from_le_bytes(*from);
        }
    } else {
        let blocks = from.scales.len() / 4;
        for b in 0..units * 8 {
            let at = c * units * 8 + b;
            let known = b < blocks;
            panel.scales[at] = if known { f32_at(from.scales, b) } else { 0.0 };
            panel.wide_sums[at] = if known {
                i32::from_le_bytes(*from.sums[4 * b..].first_chunk().expect("a sum"))
            } else {
                0
            };
        }
    }
}

/// Interleaves the columns of one vector of lanes; missing ones are zero.
#[inline(always)]
fn pack_lanes<S: Simd>(s: S, panel: &mut Panel, first: usize, columns: &[&[u8]]) {
    const ZERO: [i8; 256] = [0; 256];
    let (units, padded) = (panel.units(), panel.padded);
    let per_unit = if panel.family == Family::Super { 1 } else { 8 };
    for u in 0..units {
        let mut partial = [[0_i8; 256]; 16];
        let mut x = [&ZERO; 16];
        for (lane, partial) in partial.iter_mut().enumerate().take(S::LANES) {
            let planes = columns.get(lane).map(|bytes| Planes::of(panel.family, panel.k, bytes));
            if let Some(planes) = &planes {
                let rest = &planes.x[256 * u..];
                x[lane] = match rest.first_chunk() {
                    Some(whole) => whole,
                    None => {
                        partial[..rest.len()].copy_from_slice(rest);
                        partial
                    }
                };
            }
            for b in u * per_unit..(u + 1) * per_unit {
                let known = planes.as_ref().filter(|planes| 4 * b < planes.scales.len());
                panel.scales[b * padded + first + lane] =
                    known.map_or(0.0, |planes| f32_at(planes.scales, b));
            }
            for (g, x) in x[lane].as_chunks::<16>().0.iter().enumerate() {
                let at = (u * 8 + g / 2) * 2 * padded + 2 * (first + lane) + g % 2;
                panel.sums[at] = x.iter().map(|&x| i16::from(x)).sum();
            }
        }
        let at = (u * padded + first) * 256;
        let to = &mut panel.x.as_i8_mut()[at..][..256 * S::LANES];
        s.interleave(&x[..S::LANES], to);
    }
}
