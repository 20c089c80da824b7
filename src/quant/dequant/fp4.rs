//! Four-bit floats (E2M1) with power-of-two or 8-bit float scales.

use super::nibble_halves;
use crate::quant::grids::FP4_VALUES;
use crate::quant::scales::{e8m0_half, ue4m3_half};

/// `e, qs[16]`: 2^(e - 128)·code, halves as in Q4_0.
pub(super) fn mxfp4(b: &[u8; 17], y: &mut [f32; 32]) {
    let d = e8m0_half(b[0]);
    nibble_halves(&b[1..], y, |_, q| d * f32::from(FP4_VALUES[usize::from(q)]));
}

/// `scales[4], qs[32]`: per 16 values one scale and 8 bytes; low nibbles are values 0..8.
pub(super) fn nvfp4(b: &[u8; 36], y: &mut [f32; 64]) {
    let runs = y.chunks_exact_mut(16).zip(b[4..].chunks_exact(8));
    for ((y, qs), &scale) in runs.zip(&b[..4]) {
        let d = ue4m3_half(scale);
        let (low, high) = y.split_at_mut(8);
        for ((low, high), &q) in low.iter_mut().zip(high).zip(qs) {
            *low = d * f32::from(FP4_VALUES[usize::from(q & 15)]);
            *high = d * f32::from(FP4_VALUES[usize::from(q >> 4)]);
        }
    }
}
