//! Formats of one to two bits per value: -1, 0 or +1 (or 2) times one f16 scale.

use crate::quant::scales::f16_at;

/// `qs[48], qh[4], d`: base 3. A byte b holds a fraction b/256 whose digits, read by multiplying by
/// 3, are the values plus 1: 5 a byte in `qs`, 4 in `qh`. Values run over the bytes of a group (32,
/// 16, then 4) before they run over the digits.
pub(super) fn tq1_0(b: &[u8; 54], y: &mut [f32; 256]) {
    let d = f16_at(b, 52);
    let (first, rest) = y.split_at_mut(160);
    let (second, third) = rest.split_at_mut(80);
    for (bytes, y) in [(&b[..32], first), (&b[32..48], second), (&b[48..52], third)] {
        let mut power = 1_u8;
        for y in y.chunks_exact_mut(bytes.len()) {
            for (y, &q) in y.iter_mut().zip(bytes) {
                let digit = (u16::from(q.wrapping_mul(power)) * 3) >> 8;
                *y = f32::from(digit as i16 - 1) * d;
            }
            power = power.wrapping_mul(3);
        }
    }
}

/// `qs[64], d`: per 128 values 32 bytes, read at shifts 0, 2, 4, 6; (q - 1)·d.
pub(super) fn tq2_0(b: &[u8; 66], y: &mut [f32; 256]) {
    let d = f16_at(b, 64);
    for (g, y) in y.chunks_exact_mut(32).enumerate() {
        for (y, &q) in y.iter_mut().zip(&b[32 * (g / 4)..][..32]) {
            *y = f32::from(((q >> (2 * (g % 4))) & 3) as i8 - 1) * d;
        }
    }
}

/// `d, bits[16]`: +d where the bit is set, else -d; bit j of byte i is value 8·i + j.
pub(super) fn q1_0(b: &[u8; 18], y: &mut [f32; 128]) {
    let d = f16_at(b, 0);
    for (y, &bits) in y.chunks_exact_mut(8).zip(&b[2..]) {
        for (j, y) in y.iter_mut().enumerate() {
            *y = if (bits >> j) & 1 == 1 { d } else { -d };
        }
    }
}

/// `d, qs[16]`: four values a byte, lowest bits first; (q - 1)·d.
pub(super) fn q2_0(b: &[u8; 18], y: &mut [f32; 64]) {
    let d = f16_at(b, 0);
    for (y, &q) in y.chunks_exact_mut(4).zip(&b[2..]) {
        for (j, y) in y.iter_mut().enumerate() {
            *y = f32::from(((q >> (2 * j)) & 3) as i8 - 1) * d;
        }
    }
}
