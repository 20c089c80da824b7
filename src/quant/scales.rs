//! How each format stores its block and sub-block scales.

use half::f16;

/// The f16 at byte `at`, little-endian, widened.
#[inline]
pub(crate) fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(block, at)).to_f32()
}

/// The `u16` at byte `at`, little-endian.
#[inline]
pub(crate) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The `u32` at byte `at`, little-endian.
#[inline]
pub(crate) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// Scale and min (6 bits each) of sub-block `s` (0..8) from the 12 packed bytes of Q4_K and Q5_K.
#[inline]
pub(crate) fn q4k_scale_min(packed: &[u8], s: usize) -> (u8, u8) {
    if s < 4 {
        (packed[s] & 63, packed[s + 4] & 63)
    } else {
        let low = packed[s + 4];
        ((low & 15) | ((packed[s - 4] >> 6) << 4), (low >> 4) | ((packed[s] >> 6) << 4))
    }
}

/// Signed scale (-32..32) of group `g` (0..16) from the 12 packed bytes of Q3_K.
#[inline]
pub(crate) fn q3k_scale(packed: &[u8], g: usize) -> i8 {
    let low = (packed[g % 8] >> (4 * (g / 8))) & 15;
    let high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    (low | (high << 4)) as i8 - 32
}

/// Signed scale (-32..32) of sub-block `s` (0..8) of IQ4_XS: `high` are the two scale bytes after
/// `d`, `low` the four nibble bytes after those.
#[inline]
pub(crate) fn iq4xs_scale(high: u16, low: &[u8], s: usize) -> i8 {
    let low = (low[s / 2] >> (4 * (s % 2))) & 15;
    let high = ((high >> (2 * s)) & 3) as u8;
    (low | (high << 4)) as i8 - 32
}

/// Half the value of an E8M0 scale: 2^(e - 128), for the doubled codes of `FP4_VALUES`.
#[inline]
pub(crate) fn e8m0_half(e: u8) -> f32 {
    match e {
        // Below the normal range of f32 the power of two is a single mantissa bit.
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits((u32::from(e) - 1) << 23),
    }
}

/// Half the value of an unsigned E4M3 scale (bias 7; 0x7f, which would be NaN, counts as zero), for
/// the doubled codes of `FP4_VALUES`. Bit 7 is not part of the format and is ignored.
#[inline]
pub(crate) fn ue4m3_half(x: u8) -> f32 {
    if x == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(x >> 3) & 15, u32::from(x & 7));
    match exponent {
        0 => mantissa as f32 * (1.0 / 1024.0),
        // The exponent field of f32 is e - 7 + 127, less one for the half.
        _ => f32::from_bits(((exponent + 119) << 23) | (mantissa << 20)),
    }
}
