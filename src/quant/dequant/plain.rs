//! Plain numbers: a block is one value.

use half::f16;
use half::slice::HalfFloatSliceExt;

pub(super) fn f32(b: &[u8; 4], y: &mut [f32; 1]) {
    y[0] = f32::from_le_bytes(*b);
}

/// Whole rows, in pieces, so that the CPU's conversion instructions are used where there are any.
pub(super) fn f16(src: &[u8], dst: &mut [f32]) {
    let (values, _) = src.as_chunks::<2>();
    let mut piece = [f16::ZERO; 64];
    for (values, y) in values.chunks(piece.len()).zip(dst.chunks_mut(piece.len())) {
        for (to, &from) in piece.iter_mut().zip(values) {
            *to = f16::from_le_bytes(from);
        }
        let n = values.len().min(y.len());
        piece[..n].convert_to_f32_slice(&mut y[..n]);
    }
}

pub(super) fn bf16(b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
}

pub(super) fn f64(b: &[u8; 8], y: &mut [f32; 1]) {
    y[0] = f64::from_le_bytes(*b) as f32;
}

pub(super) fn i8(b: &[u8; 1], y: &mut [f32; 1]) {
    y[0] = f32::from(b[0] as i8);
}

pub(super) fn i16(b: &[u8; 2], y: &mut [f32; 1]) {
    y[0] = f32::from(i16::from_le_bytes(*b));
}

pub(super) fn i32(b: &[u8; 4], y: &mut [f32; 1]) {
    y[0] = i32::from_le_bytes(*b) as f32;
}

pub(super) fn i64(b: &[u8; 8], y: &mut [f32; 1]) {
    y[0] = i64::from_le_bytes(*b) as f32;
}
