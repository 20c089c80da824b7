//! The other direction: f32 to the few formats that are written.

use half::{bf16, f16};

use super::GgmlType;

/// [`quantize_row`] was asked for a type it cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot write tensor type {0}; f32, f16, bf16, q8_0 and q4_0 can be written")]
pub struct NotWritable(
    /// The type asked for.
    pub GgmlType,
);

/// Writes `src` to `dst` as blocks of type `ty`, rounding as ggml's reference code does.
///
/// F16 and BF16 round to the nearest, ties to even. Q8_0 takes d = max|x| / 127 and rounds x/d half
/// away from zero. Q4_0 takes d = (the x of greatest magnitude, the first of equals) / -8 and codes
/// floor(x/d + 8.5), at most 15. Both divide by the unrounded d and store it as f16, so magnitudes
/// above what f16 holds (Q8_0: 8.3e6, Q4_0: 524,000) store an infinite scale.
///
/// # Errors
/// [`NotWritable`] for every type not named here.
///
/// # Panics
/// If `src` is not a whole number of blocks or `dst` is not exactly the bytes of these blocks.
pub fn quantize_row(ty: GgmlType, src: &[f32], dst: &mut [u8]) -> Result<(), NotWritable> {
    assert_eq!(
        ty.row_bytes(src.len()),
        Some(dst.len()),
        "quantising {} values to {ty}: the bytes must be those of whole blocks",
        src.len()
    );
    match ty {
        GgmlType::F32 => each(src, dst, |x: &[f32; 1], b| *b = x[0].to_le_bytes()),
        GgmlType::F16 => each(src, dst, |x: &[f32; 1], b| *b = f16::from_f32(x[0]).to_le_bytes()),
        GgmlType::Bf16 => each(src, dst, |x: &[f32; 1], b| *b = bf16::from_f32(x[0]).to_le_bytes()),
        GgmlType::Q8_0 => each(src, dst, q8_0),
        GgmlType::Q4_0 => each(src, dst, q4_0),
        _ => return Err(NotWritable(ty)),
    }
    Ok(())
}

/// Runs `block` over consecutive blocks of `N` values and `B` bytes.
fn each<const N: usize, const B: usize>(
    src: &[f32],
    dst: &mut [u8],
    block: impl Fn(&[f32; N], &mut [u8; B]),
) {
    for (x, b) in src.as_chunks::<N>().0.iter().zip(dst.as_chunks_mut::<B>().0) {
        block(x, b);
    }
}

/// 1/d, or 0 where d is 0.
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

fn q8_0(x: &[f32; 32], b: &mut [u8; 34]) {
    let d = x.iter().fold(0.0_f32, |max, v| max.max(v.abs())) / 127.0;
    let inverse = inverse(d);
    b[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (q, x) in b[2..].iter_mut().zip(x) {
        *q = (x * inverse).round() as i8 as u8;
    }
}

fn q4_0(x: &[f32; 32], b: &mut [u8; 18]) {
    let widest = x.iter().fold(0.0_f32, |max, &v| if v.abs() > max.abs() { v } else { max });
    let d = widest / -8.0;
    let inverse = inverse(d);
    let code = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    b[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (j, q) in b[2..].iter_mut().enumerate() {
        *q = code(x[j]) | (code(x[j + 16]) << 4);
    }
}
