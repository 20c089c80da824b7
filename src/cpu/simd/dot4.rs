//! Tiles of weights on sets with an instruction that adds four products of bytes to an i32.
//!
//! Where the instruction wants one factor unsigned, wide weights are stored with an offset; what
//! that adds is what the sums of products start below.

use super::{BlockPacking, BlockX, Packing, Simd, SuperPacking, SuperX, Tail, WeightTile, word};

/// What such a set adds to [`Simd`]: operations on words of rows, i32 or f32 as they are named.
pub(super) trait Dot4: Simd {
    /// Wide weights are stored with so much added.
    const OFFSET: i32;
    /// Whether to convert a sum and to multiply it as f32 is less work than to multiply it as i32.
    const SCALES_IN_FLOAT: bool;

    /// The same word for all rows.
    fn all(self, v: i32) -> Self::V;
    /// A word of each row from memory.
    ///
    /// # Safety
    /// `from` points to [`Simd::LANES`] words.
    unsafe fn get(self, from: *const u32) -> Self::V;
    /// A word of each row to memory.
    ///
    /// # Safety
    /// `to` points to [`Simd::LANES`] words.
    unsafe fn set(self, v: Self::V, to: *mut u32);
    /// Wide weights plus [`Dot4::OFFSET`].
    fn offset(self, q: Self::V) -> Self::V;
    /// `sum` plus the products of four weights and four i8, kept in its register at this place in
    /// the code: sums are exact, and a compiler free to reorder them spills what they share.
    fn dot4(self, sum: Self::V, w: Self::V, x: Self::V) -> Self::V;
    /// `sum` plus the products of two i16 and two i16.
    fn dot2(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, i32.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`, i32.
    fn sum(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`, i32.
    fn less(self, a: Self::V, b: Self::V) -> Self::V;
    /// i32 to f32.
    fn to_float(self, a: Self::V) -> Self::V;
    /// Whole f32 to i32.
    fn to_int(self, a: Self::V) -> Self::V;
    /// `a * b`, f32.
    fn float_mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, f32, rounded once.
    fn float_fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
}

/// The operations of [`Simd`] on tiles, for a set of [`Dot4`] with the features named and so many
/// vectors in a tile.
macro_rules! units {
    ($set:ident, $features:literal, $vectors:literal) => {
        #[inline(always)]
        fn scales<P: SuperPacking>(self, a: Self::V) -> Self::V {
            if dot4::in_float::<Self, P>() { self.to_float(a) } else { a }
        }
        #[inline(always)]
        fn put(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V) {
            dot4::put(self, tile, index, lane, v);
        }
        #[inline(always)]
        fn put_q<P: Packing>(self, tile: &mut WeightTile, index: usize, lane: usize, v: Self::V) {
            dot4::put(self, tile, index, lane, if P::WIDE { self.offset(v) } else { v });
        }
        #[inline(always)]
        fn super_unit<P: SuperPacking, const C: usize>(
            self,
            tile: &WeightTile,
            x: [SuperX<'_>; C],
            acc: &mut [f32],
        ) {
            #[target_feature(enable = $features)]
            #[inline]
            fn unit<P: SuperPacking, const C: usize>(
                s: $set,
                tile: &WeightTile,
                x: [SuperX<'_>; C],
                acc: &mut [f32],
            ) {
                dot4::super_unit::<$set, P, C, $vectors>(s, tile, x, acc);
            }
            // SAFETY: the token says that the features are there.
            unsafe { unit::<P, C>(self, tile, x, acc) }
        }
        #[inline(always)]
        fn block_unit<P: BlockPacking, const C: usize>(
            self,
            tile: &WeightTile,
            count: usize,
            x: [BlockX<'_>; C],
            acc: &mut [f32],
        ) {
            #[target_feature(enable = $features)]
            #[inline]
            fn unit<P: BlockPacking, const C: usize>(
                s: $set,
                tile: &WeightTile,
                count: usize,
                x: [BlockX<'_>; C],
                acc: &mut [f32],
            ) {
                dot4::block_unit::<$set, P, C, $vectors>(s, tile, count, x, acc);
            }
            // SAFETY: the token says that the features are there.
            unsafe { unit::<P, C>(self, tile, count, x, acc) }
        }
    };
}

pub(super) use units;

/// Whether scaled group sums are collected as f32: where enough of them are exact, that is less
/// work than an integer product of two steps.
pub(super) const fn in_float<S: Dot4, P: SuperPacking>() -> bool {
    S::SCALES_IN_FLOAT && P::EXACT >= 3
}

/// [`Simd::put`].
#[inline(always)]
pub(super) fn put<S: Dot4>(s: S, tile: &mut WeightTile, index: usize, lane: usize, v: S::V) {
    assert!(index < word::COUNT && lane <= S::ROWS - S::LANES, "outside of the tile");
    // SAFETY: a word of the tile, a whole vector of its rows.
    unsafe { s.set(v, tile.0.as_mut_ptr().add(index * S::ROWS + lane)) }
}

/// A word of every row.
///
/// # Safety
/// `tile` is a whole tile of `R` vectors, `index` below [`word::COUNT`].
#[inline(always)]
unsafe fn word_at<S: Dot4, const R: usize>(s: S, tile: *const u32, index: usize) -> [S::V; R] {
    let mut words = [s.all(0); R];
    for (r, word) in words.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *word = unsafe { s.get(tile.add(index * S::ROWS + r * S::LANES)) };
    }
    words
}

/// The products of steps `first..first + P::STEPS`, less `below`.
///
/// # Safety
/// `tile` is a whole tile; each of `x` holds `4 * P::STEPS` values.
#[inline(always)]
unsafe fn steps<S: Dot4, P: Packing, const C: usize, const R: usize>(
    s: S,
    tile: *const u32,
    first: usize,
    x: [*const i8; C],
    below: [i32; C],
) -> [[S::V; C]; R] {
    let mut part = [[s.all(0); C]; R];
    for c in 0..C {
        let start = s.all(-below[c]);
        for part in &mut part {
            part[c] = start;
        }
    }
    for step in 0..P::STEPS {
        // SAFETY: steps of the tile and of `x`.
        let w = unsafe { word_at::<S, R>(s, tile, word::Q + first + step) };
        for c in 0..C {
            // SAFETY: as above.
            let four = unsafe { x[c].add(4 * step).cast::<i32>().read_unaligned() };
            let four = s.all(four);
            for r in 0..R {
                part[r][c] = s.dot4(part[r][c], w[r], four);
            }
        }
    }
    part
}

/// The scaled group sums of a super-block.
///
/// # Safety
/// `tile` is a whole tile.
#[inline(always)]
unsafe fn scaled<S: Dot4, P: SuperPacking, const C: usize, const R: usize>(
    s: S,
    tile: *const u32,
    x: &[SuperX<'_>; C],
) -> [[S::V; C]; R] {
    let mut dot = [[s.all(0); C]; R];
    let mut run = [[s.all(0); C]; R];
    let (groups, float) = (64 / P::STEPS, in_float::<S, P>());
    for g in 0..groups {
        let below = x.map(|x| if P::WIDE { S::OFFSET * group_sum::<P>(x.sums, g) } else { 0 });
        // SAFETY: whole super-blocks.
        let part: [[S::V; C]; R] = unsafe {
            let x = x.map(|x| x.x.as_ptr().add(4 * P::STEPS * g));
            steps::<S, P, C, R>(s, tile, g * P::STEPS, x, below)
        };
        // SAFETY: a whole tile.
        let scale = unsafe { word_at::<S, R>(s, tile, word::SCALE + g) };
        for r in 0..R {
            for c in 0..C {
                if float {
                    run[r][c] = s.float_fma(scale[r], s.to_float(part[r][c]), run[r][c]);
                } else {
                    dot[r][c] = s.mul_add(part[r][c], scale[r], dot[r][c]);
                }
            }
        }
        if float && ((g + 1) % P::EXACT == 0 || g + 1 == groups) {
            for r in 0..R {
                for c in 0..C {
                    dot[r][c] = s.sum(dot[r][c], s.to_int(run[r][c]));
                    run[r][c] = s.all(0);
                }
            }
        }
    }
    dot
}

/// Sum of the activations of a group.
#[inline(always)]
fn group_sum<P: Packing>(sums: &[u8; 32], g: usize) -> i32 {
    let sixteen = |i: usize| i32::from(i16::from_le_bytes(sums.as_chunks().0[i]));
    if P::STEPS == 8 { sixteen(2 * g) + sixteen(2 * g + 1) } else { sixteen(g) }
}

/// A float for all rows.
#[inline(always)]
fn float<S: Dot4>(s: S, v: f32) -> S::V {
    s.all(v.to_bits().cast_signed())
}

/// `to = a * b + to`, f32.
///
/// # Safety
/// `to` points to [`Simd::LANES`] values.
#[inline(always)]
unsafe fn add_product<S: Dot4>(s: S, to: *mut f32, a: S::V, b: S::V) {
    let to = to.cast::<u32>();
    // SAFETY: the caller's.
    unsafe { s.set(s.float_fma(a, b, s.get(to)), to) }
}

/// [`Simd::super_unit`], `R` vectors of rows.
#[inline(always)]
pub(super) fn super_unit<S: Dot4, P: SuperPacking, const C: usize, const R: usize>(
    s: S,
    tile: &WeightTile,
    x: [SuperX<'_>; C],
    acc: &mut [f32],
) {
    const { assert!(S::ROWS == R * S::LANES, "whole vectors") };
    assert!(acc.len() >= C * S::ROWS, "sums of {C} columns");
    let (tile, acc) = (tile.0.as_ptr(), acc.as_mut_ptr());
    // SAFETY: a whole tile.
    let dot = unsafe { scaled::<S, P, C, R>(s, tile, &x) };
    let mut bias = [[s.all(0); C]; R];
    if P::TAIL != Tail::None {
        for pair in 0..8 {
            // SAFETY: a whole tile.
            let coef = unsafe { word_at::<S, R>(s, tile, word::COEF + pair) };
            for c in 0..C {
                let sums = s.all(i32::from_le_bytes(x[c].sums.as_chunks().0[pair]));
                for r in 0..R {
                    bias[r][c] = s.dot2(bias[r][c], coef[r], sums);
                }
            }
        }
    }
    // SAFETY: a whole tile.
    let (d, dmin) =
        unsafe { (word_at::<S, R>(s, tile, word::D), word_at::<S, R>(s, tile, word::DMIN)) };
    for r in 0..R {
        for c in 0..C {
            let (dot, bias) = (dot[r][c], bias[r][c]);
            let sum = if P::TAIL == Tail::Offset { s.less(dot, bias) } else { dot };
            let scale = s.float_mul(d[r], float(s, x[c].d));
            // SAFETY: the length was just checked.
            let to = unsafe { acc.add(c * S::ROWS + r * S::LANES) };
            // SAFETY: as above.
            unsafe { add_product(s, to, scale, s.to_float(sum)) };
            if P::TAIL == Tail::Mins {
                let scale = s.float_mul(dmin[r], float(s, -x[c].d));
                // SAFETY: as above.
                unsafe { add_product(s, to, scale, s.to_float(bias)) };
            }
        }
    }
}

/// [`Simd::block_unit`], `R` vectors of rows.
#[inline(always)]
pub(super) fn block_unit<S: Dot4, P: BlockPacking, const C: usize, const R: usize>(
    s: S,
    tile: &WeightTile,
    count: usize,
    x: [BlockX<'_>; C],
    acc: &mut [f32],
) {
    const { assert!(S::ROWS == R * S::LANES, "whole vectors") };
    assert!(acc.len() >= C * 8 * S::ROWS, "sums of {C} columns");
    assert!(count <= 8 && x.iter().all(|x| x.has(count)), "{count} blocks of a column");
    let (tile, acc) = (tile.0.as_ptr(), acc.as_mut_ptr());
    let offset = i32::from(P::OFFSET) + if P::WIDE { S::OFFSET } else { 0 };
    for b in 0..count {
        let sums = x.map(|x| x.halves(b));
        let mut d_x = [s.all(0); C];
        for c in 0..C {
            d_x[c] = float(s, x[c].scale(b));
        }
        // SAFETY: the length was just checked.
        let to = |r: usize, c: usize| unsafe { acc.add((8 * c + b) * S::ROWS + r * S::LANES) };
        for part in 0..8 / P::STEPS {
            let below = sums.map(|s| offset * if P::HALVES { s[part] } else { s[0] + s[1] });
            let scale = word::SCALE + if P::HALVES { 2 * b + part } else { b };
            // SAFETY: a whole tile, `count` blocks.
            let (dot, d): ([[S::V; C]; R], [S::V; R]) = unsafe {
                let x = x.map(|x| x.x.as_ptr().add(32 * b + 4 * P::STEPS * part));
                let dot = steps::<S, P, C, R>(s, tile, 8 * b + P::STEPS * part, x, below);
                (dot, word_at(s, tile, scale))
            };
            for r in 0..R {
                for c in 0..C {
                    let scale = s.float_mul(d[r], d_x[c]);
                    // SAFETY: as above.
                    unsafe { add_product(s, to(r, c), scale, s.to_float(dot[r][c])) };
                }
            }
        }
        if P::MINS {
            // SAFETY: a whole tile.
            let m = unsafe { word_at::<S, R>(s, tile, word::COEF + b) };
            for (r, m) in m.into_iter().enumerate() {
                for c in 0..C {
                    let sum = float(s, (sums[c][0] + sums[c][1]) as f32);
                    // SAFETY: as above.
                    unsafe { add_product(s, to(r, c), s.float_mul(m, d_x[c]), sum) };
                }
            }
        }
    }
}
