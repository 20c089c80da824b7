//! The formats with 32 values and one f16 scale `d` (and perhaps a minimum `m`) per block.

use super::nibble_halves;
use crate::quant::scales::{f16_at, u32_at};

/// `d, qs[16]`: (q - 8)·d.
pub(super) fn q4_0(b: &[u8; 18], y: &mut [f32; 32]) {
    let d = f16_at(b, 0);
    nibble_halves(&b[2..], y, |_, q| (i32::from(q) - 8) as f32 * d);
}

/// `d, m, qs[16]`: q·d + m.
pub(super) fn q4_1(b: &[u8; 20], y: &mut [f32; 32]) {
    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
    nibble_halves(&b[4..], y, |_, q| f32::from(q) * d + m);
}

/// `d, qh (u32), qs[16]`: bit j of `qh` is the 16's bit of value j; (q - 16)·d.
pub(super) fn q5_0(b: &[u8; 22], y: &mut [f32; 32]) {
    let (d, high) = (f16_at(b, 0), u32_at(b, 2));
    nibble_halves(&b[6..], y, |j, q| (fifth_bit(high, j, q) as i32 - 16) as f32 * d);
}

/// `d, m, qh (u32), qs[16]`: as Q5_0; q·d + m.
pub(super) fn q5_1(b: &[u8; 24], y: &mut [f32; 32]) {
    let (d, m, high) = (f16_at(b, 0), f16_at(b, 2), u32_at(b, 4));
    nibble_halves(&b[8..], y, |j, q| fifth_bit(high, j, q) as f32 * d + m);
}

/// Nibble `q` of value `j` with its 16's bit from `high`.
#[inline]
fn fifth_bit(high: u32, j: usize, q: u8) -> u32 {
    u32::from(q) | (((high >> j) & 1) << 4)
}

/// `d, i8[32]`: q·d.
pub(super) fn q8_0(b: &[u8; 34], y: &mut [f32; 32]) {
    signed_bytes(f16_at(b, 0), &b[2..], y);
}

/// `d, s, i8[32]`: q·d; `s` is the sum of the values and is not needed here.
pub(super) fn q8_1(b: &[u8; 36], y: &mut [f32; 32]) {
    signed_bytes(f16_at(b, 0), &b[4..], y);
}

/// Signed bytes times `d`; also the body of Q8_K.
#[inline]
pub(super) fn signed_bytes(d: f32, qs: &[u8], y: &mut [f32]) {
    for (y, &q) in y.iter_mut().zip(qs) {
        *y = f32::from(q as i8) * d;
    }
}
