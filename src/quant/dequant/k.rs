//! The K formats: 256 values per block, sub-blocks with small integer scales.

use super::legacy::signed_bytes;
use crate::quant::scales::{f16_at, q3k_scale, q4k_scale_min};

/// Where group `g` (16 values, 0..16) of Q2_K and Q3_K keeps its two low bits: first byte of `qs`,
/// and the shift. Each half of the block uses 32 bytes, read at shifts 0, 2, 4, 6.
#[inline]
fn two_bit_group(g: usize) -> (usize, usize) {
    let (half, step, side) = (g / 8, (g % 8) / 2, g % 2);
    (32 * half + 16 * side, 2 * step)
}

/// `scales[16], qs[64], d, dmin`: per 16 values, low nibble·d·q - high nibble·dmin.
pub(super) fn q2_k(b: &[u8; 84], y: &mut [f32; 256]) {
    let (scales, qs) = (&b[..16], &b[16..80]);
    let (d, dmin) = (f16_at(b, 80), f16_at(b, 82));
    for (g, (y, &scale)) in y.chunks_exact_mut(16).zip(scales).enumerate() {
        let (first, shift) = two_bit_group(g);
        let (dl, ml) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
        for (y, &q) in y.iter_mut().zip(&qs[first..][..16]) {
            *y = dl * f32::from((q >> shift) & 3) - ml;
        }
    }
}

/// `hmask[32], qs[64], scales[12], d`: a clear bit in `hmask` takes 4 off the two low bits.
pub(super) fn q3_k(b: &[u8; 110], y: &mut [f32; 256]) {
    let (hmask, qs, scales) = (&b[..32], &b[32..96], &b[96..108]);
    let d = f16_at(b, 108);
    for (g, y) in y.chunks_exact_mut(16).enumerate() {
        let (first, shift) = two_bit_group(g);
        let (qs, mask) = (&qs[first..][..16], &hmask[16 * (g % 2)..][..16]);
        let dl = d * f32::from(q3k_scale(scales, g));
        for (y, (&q, &m)) in y.iter_mut().zip(qs.iter().zip(mask)) {
            let high = ((m >> (g / 2)) & 1) << 2;
            *y = dl * f32::from(((q >> shift) & 3 | high) as i8 - 4);
        }
    }
}

/// `d, dmin, scales[12], qs[128]`: per 32 values, d·scale·q - dmin·min.
pub(super) fn q4_k(b: &[u8; 144], y: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    let (scales, qs) = (&b[4..16], &b[16..]);
    for (s, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = q4k_scale_min(scales, s);
        let (dl, ml) = (d * f32::from(scale), dmin * f32::from(min));
        for (y, &q) in y.iter_mut().zip(&qs[32 * (s / 2)..][..32]) {
            *y = dl * f32::from((q >> (4 * (s % 2))) & 15) - ml;
        }
    }
}

/// `d, dmin, scales[12], qh[32], qs[128]`: as Q4_K; bit s of `qh[l]` is the 16's bit in
/// sub-block s.
pub(super) fn q5_k(b: &[u8; 176], y: &mut [f32; 256]) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    let (scales, qh, qs) = (&b[4..16], &b[16..48], &b[48..]);
    for (s, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = q4k_scale_min(scales, s);
        let (dl, ml) = (d * f32::from(scale), dmin * f32::from(min));
        let qs = &qs[32 * (s / 2)..][..32];
        for (y, (&q, &h)) in y.iter_mut().zip(qs.iter().zip(qh)) {
            let q = (q >> (4 * (s % 2))) & 15 | ((h >> s) & 1) << 4;
            *y = dl * f32::from(q) - ml;
        }
    }
}

/// `ql[128], qh[64], i8 scales[16], d`: per 16 values, d·scale·(q - 32).
pub(super) fn q6_k(b: &[u8; 210], y: &mut [f32; 256]) {
    let (ql, qh, scales) = (&b[..128], &b[128..192], &b[192..208]);
    let d = f16_at(b, 208);
    for (g, (y, &scale)) in y.chunks_exact_mut(16).zip(scales).enumerate() {
        // Each half of the block: 4 runs of 32; runs 0 and 1 are low nibbles, 2 and 3 high ones.
        let (half, run, side) = (g / 8, (g % 8) / 2, 16 * (g % 2));
        let ql = &ql[64 * half + 32 * (run % 2) + side..][..16];
        let qh = &qh[32 * half + side..][..16];
        let dl = d * f32::from(scale as i8);
        for (y, (&l, &h)) in y.iter_mut().zip(ql.iter().zip(qh)) {
            let q = (l >> (4 * (run / 2))) & 15 | ((h >> (2 * run)) & 3) << 4;
            *y = dl * f32::from(q as i8 - 32);
        }
    }
}

/// `f32 d, i8[256], i16 bsums[16]`: q·d.
pub(super) fn q8_k(b: &[u8; 292], y: &mut [f32; 256]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    signed_bytes(d, &b[4..260], y);
}
