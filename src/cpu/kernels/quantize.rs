//! Activations to i8, once per stage. Two layouts, both in planes over a whole vector.
//!
//! * super-blocks ([`Q8K_BYTES`] per 256 values): `i8[256]` of all blocks, then `i16[16]` sums of
//!   groups of 16, then the f32 scales;
//! * blocks ([`Q80_BYTES`] per 32 values): `i8[32]` of all blocks, then the f32 scales, then the
//!   i16 sums of both halves.
//!
//! A last, partial block is filled with zeros. All quantised values are in -127..=127.

use crate::cpu::simd::Simd;

/// Values of a super-block.
pub const Q8K_LEN: usize = 256;
/// Bytes of a super-block.
pub const Q8K_BYTES: usize = 292;
/// Values of a block.
pub const Q80_LEN: usize = 32;
/// Bytes of a block.
pub const Q80_BYTES: usize = 40;

/// The `i`-th run of 16 of a block, zeros past its end.
#[inline(always)]
fn run<S: Simd>(s: S, x: &[f32], i: usize) -> S::F {
    let from = &x[(16 * i).min(x.len())..];
    match from.first_chunk() {
        Some(whole) => s.load(whole),
        None => {
            let mut chunk = [0.0; 16];
            chunk[..from.len()].copy_from_slice(from);
            s.load(&chunk)
        }
    }
}

/// Rounds `x * scale` to i8 and returns the sum.
#[inline(always)]
fn round_run<S: Simd>(s: S, x: S::F, scale: S::F, out: &mut [u8]) -> i32 {
    s.to_i8(s.mul(x, scale), out.first_chunk_mut().expect("16 bytes"))
}

/// Quantises to super-blocks: `d = -max / 127` where `max` is the value of largest magnitude (the
/// first of them), `q = round(x * (-127 / max))`, as ggml's `quantize_row_q8_K`.
///
/// # Panics
/// Where `out` is not [`Q8K_BYTES`] per started super-block.
#[inline(always)]
pub(crate) fn q8k<S: Simd>(s: S, x: &[f32], out: &mut [u8]) {
    let blocks = x.len().div_ceil(Q8K_LEN);
    assert_eq!(out.len(), blocks * Q8K_BYTES, "super-blocks of {} values", x.len());
    let (q, rest) = out.split_at_mut(blocks * Q8K_LEN);
    let (sums, scales) = rest.split_at_mut(blocks * 32);
    for (b, x) in x.chunks(Q8K_LEN).enumerate() {
        let q = &mut q[b * Q8K_LEN..][..Q8K_LEN];
        let sums = &mut sums[b * 32..][..32];
        let peak = peak(s, x);
        // A peak so small that the quotient overflows counts as zero.
        let inverse = -127.0 / peak;
        let (inverse, d) =
            if inverse.is_infinite() { (0.0, 0.0) } else { (inverse, 1.0 / inverse) };
        scales[b * 4..][..4].copy_from_slice(&d.to_le_bytes());
        let inverse = s.splat(inverse);
        for i in 0..16 {
            let sum = round_run(s, run(s, x, i), inverse, &mut q[16 * i..][..16]);
            sums[2 * i..][..2].copy_from_slice(&(sum as i16).to_le_bytes());
        }
    }
}

/// The element of largest magnitude with its sign; of several, the first.
#[inline(always)]
fn peak<S: Simd>(s: S, x: &[f32]) -> f32 {
    let zero = s.splat(0.0);
    let (mut high, mut low) = (zero, zero);
    for i in 0..x.len().div_ceil(16) {
        let v = run(s, x, i);
        high = s.max(v, high);
        low = s.max(s.sub(zero, v), low);
    }
    let (high, low) = (s.fold_max(high), s.fold_max(low));
    if high > low {
        high
    } else if low > high {
        -low
    } else {
        x.iter().copied().find(|v| v.abs() == high).unwrap_or(0.0)
    }
}

/// Quantises to blocks: `d = max|x| / 127`, `q = round(x / d)`.
///
/// # Panics
/// Where `out` is not [`Q80_BYTES`] per started block.
#[inline(always)]
pub(crate) fn q80<S: Simd>(s: S, x: &[f32], out: &mut [u8]) {
    let blocks = x.len().div_ceil(Q80_LEN);
    assert_eq!(out.len(), blocks * Q80_BYTES, "blocks of {} values", x.len());
    let (q, rest) = out.split_at_mut(blocks * Q80_LEN);
    let (scales, sums) = rest.split_at_mut(blocks * 4);
    let zero = s.splat(0.0);
    for (b, x) in x.chunks(Q80_LEN).enumerate() {
        let (low, high) = (run(s, x, 0), run(s, x, 1));
        let top = s.max(s.max(low, s.sub(zero, low)), s.max(high, s.sub(zero, high)));
        let d = s.fold_max(top) / 127.0;
        // A scale so small that its reciprocal overflows counts as zero.
        let inverse = 1.0 / d;
        let (inverse, d) = if inverse.is_infinite() { (0.0, 0.0) } else { (inverse, d) };
        let inverse = s.splat(inverse);
        let (q_low, q_high) = q[b * Q80_LEN..][..Q80_LEN].split_at_mut(16);
        scales[b * 4..][..4].copy_from_slice(&d.to_le_bytes());
        for (half, (x, q)) in [(low, q_low), (high, q_high)].into_iter().enumerate() {
            let sum = round_run(s, x, inverse, q) as i16;
            sums[4 * b + 2 * half..][..2].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
