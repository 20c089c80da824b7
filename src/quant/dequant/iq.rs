//! The IQ formats: values from a table, or magnitudes from a grid with separate signs.

use super::nibble_halves;
use crate::quant::grids::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_VALUES, SIGNS};
use crate::quant::scales::{f16_at, iq4xs_scale, u16_at, u32_at};

/// `d, qs[16]`: table[nibble]·d.
pub(super) fn iq4_nl(b: &[u8; 18], y: &mut [f32; 32]) {
    iq4_run(f16_at(b, 0), &b[2..], y);
}

/// `d, u16 scales_h, scales_l[4], qs[128]`: per 32 values as IQ4_NL, with d·scale.
pub(super) fn iq4_xs(b: &[u8; 136], y: &mut [f32; 256]) {
    let (d, scales_h, scales_l) = (f16_at(b, 0), u16_at(b, 2), &b[4..8]);
    let runs = y.chunks_exact_mut(32).zip(b[8..].chunks_exact(16));
    for (s, (y, qs)) in runs.enumerate() {
        iq4_run(d * f32::from(iq4xs_scale(scales_h, scales_l, s)), qs, y);
    }
}

#[inline]
fn iq4_run(d: f32, qs: &[u8], y: &mut [f32]) {
    nibble_halves(qs, y, |_, q| d * f32::from(IQ4_VALUES[usize::from(q)]));
}

/// Magnitudes times `scale`, each negated where its bit in `signs` is set.
#[inline]
fn signed<const N: usize>(y: &mut [f32], scale: f32, grid: [u8; N], signs: u8) {
    for (j, (y, g)) in y.iter_mut().zip(grid).enumerate() {
        let negate = u32::from((signs >> j) & 1) << 31;
        *y = f32::from_bits((scale * f32::from(g)).to_bits() ^ negate);
    }
}

/// Nibble `i` of `bytes`, low before high.
#[inline]
fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

/// The scale of the two-bit grids: d·(0.5 + s)/4.
#[inline]
fn quarter_scale(d: f32, s: u8) -> f32 {
    d * (0.5 + f32::from(s)) * 0.25
}

/// `d`, then per 32 values four grid indexes and a u32: 4 × 7 sign bits and a 4-bit scale on top.
pub(super) fn iq2_xxs(b: &[u8; 66], y: &mut [f32; 256]) {
    let d = f16_at(b, 0);
    for (y, run) in y.chunks_exact_mut(32).zip(b[2..].chunks_exact(8)) {
        let aux = u32_at(run, 4);
        let scale = quarter_scale(d, (aux >> 28) as u8);
        for (l, y) in y.chunks_exact_mut(8).enumerate() {
            let signs = SIGNS[(aux >> (7 * l)) as usize & 127];
            signed(y, scale, IQ2_XXS[usize::from(run[l])].to_le_bytes(), signs);
        }
    }
}

/// `d, u16 qs[32], scales[8]`: 9 bits of grid index and 7 sign bits per 8 values, a nibble of scale
/// per 16.
pub(super) fn iq2_xs(b: &[u8; 74], y: &mut [f32; 256]) {
    let (d, scales) = (f16_at(b, 0), &b[66..]);
    for (i, y) in y.chunks_exact_mut(8).enumerate() {
        let q = usize::from(u16_at(b, 2 + 2 * i));
        let scale = quarter_scale(d, nibble(scales, i / 2));
        signed(y, scale, IQ2_XS[q & 511].to_le_bytes(), SIGNS[q >> 9]);
    }
}

/// `d, qs[32], signs[32], qh[8], scales[8]`: two more index bits per 8 values in `qh`.
pub(super) fn iq2_s(b: &[u8; 82], y: &mut [f32; 256]) {
    let (qs, signs, qh, scales) = (&b[2..34], &b[34..66], &b[66..74], &b[74..]);
    let d = f16_at(b, 0);
    for (i, y) in y.chunks_exact_mut(8).enumerate() {
        let high = usize::from(qh[i / 4] >> (2 * (i % 4))) & 3;
        let scale = quarter_scale(d, nibble(scales, i / 2));
        signed(y, scale, IQ2_S[usize::from(qs[i]) | (high << 8)].to_le_bytes(), signs[i]);
    }
}

/// `d, qs[64], u32 aux[8]`: a grid index per 4 values; per 32, 4 × 7 sign bits and a 4-bit scale.
pub(super) fn iq3_xxs(b: &[u8; 98], y: &mut [f32; 256]) {
    let (d, qs) = (f16_at(b, 0), &b[2..66]);
    for (i, (y, pair)) in y.chunks_exact_mut(8).zip(qs.chunks_exact(2)).enumerate() {
        let aux = u32_at(b, 66 + 4 * (i / 4));
        let scale = d * (0.5 + (aux >> 28) as f32) * 0.5;
        let signs = SIGNS[(aux >> (7 * (i % 4))) as usize & 127];
        let (low, high) = y.split_at_mut(4);
        signed(low, scale, IQ3_XXS[usize::from(pair[0])].to_le_bytes(), signs);
        signed(high, scale, IQ3_XXS[usize::from(pair[1])].to_le_bytes(), signs >> 4);
    }
}

/// `d, qs[64], qh[8], signs[32], scales[4]`: a 9-bit grid index per 4 values; per 32 values
/// d·(1 + 2·nibble).
pub(super) fn iq3_s(b: &[u8; 110], y: &mut [f32; 256]) {
    let (qs, qh, signs, scales) = (&b[2..66], &b[66..74], &b[74..106], &b[106..]);
    let d = f16_at(b, 0);
    for (i, y) in y.chunks_exact_mut(4).enumerate() {
        let high = usize::from(qh[i / 8] >> (i % 8)) & 1;
        let scale = d * f32::from(1 + 2 * nibble(scales, i / 8));
        let grid = IQ3_S[usize::from(qs[i]) | (high << 8)];
        signed(y, scale, grid.to_le_bytes(), signs[i / 2] >> (4 * (i % 2)));
    }
}

/// What the one-bit formats add to each grid value, or take off.
const DELTA: f32 = 0.125;

/// Grid row `index` of the one-bit formats: scale·(grid ± delta).
#[inline]
fn shifted(y: &mut [f32], scale: f32, index: usize, minus: bool) {
    let delta = if minus { -DELTA } else { DELTA };
    for (y, g) in y.iter_mut().zip(IQ1[index].to_le_bytes()) {
        *y = scale * (f32::from(g as i8) + delta);
    }
}

/// `d, qs[32], u16 qh[8]`: per 32 values, `qh` is 4 × 3 index bits, 3 scale bits, delta's sign.
pub(super) fn iq1_s(b: &[u8; 50], y: &mut [f32; 256]) {
    let (d, qs) = (f16_at(b, 0), &b[2..34]);
    for (i, y) in y.chunks_exact_mut(8).enumerate() {
        let qh = u16_at(b, 34 + 2 * (i / 4));
        let scale = d * f32::from(2 * ((qh >> 12) & 7) + 1);
        let high = usize::from(qh >> (3 * (i % 4))) & 7;
        shifted(y, scale, usize::from(qs[i]) | (high << 8), qh & 0x8000 != 0);
    }
}

/// `qs[32], qh[16], u16 scales[4]`: per 8 values a nibble of `qh` (3 index bits, delta's sign);
/// per 16 values 3 scale bits; the f16 `d` is in the top nibbles of the four scale words.
pub(super) fn iq1_m(b: &[u8; 56], y: &mut [f32; 256]) {
    let (qs, qh) = (&b[..32], &b[32..48]);
    let words = [48, 50, 52, 54].map(|at| u16_at(b, at));
    let d = iq1m_d(words);
    for (i, y) in y.chunks_exact_mut(8).enumerate() {
        let high = nibble(qh, i);
        let step = (words[i / 8] >> (3 * ((i / 2) % 4))) & 7;
        let index = usize::from(qs[i]) | (usize::from(high & 7) << 8);
        shifted(y, d * f32::from(2 * step + 1), index, high & 8 != 0);
    }
}

/// The f16 scale of IQ1_M from its four scale words, the lowest nibble in the first.
fn iq1m_d(words: [u16; 4]) -> f32 {
    let bits = words.iter().rev().fold(0, |bits, word| (bits << 4) | (word >> 12));
    half::f16::from_bits(bits).to_f32()
}
