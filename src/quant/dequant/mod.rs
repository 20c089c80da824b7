//! From blocks to f32, bit for bit as ggml's `to_float` does it.
//!
//! One function per format takes a block as an array and fills an array of values; every product
//! and sum is done in ggml's order, in f32, and is never fused.

mod fp4;
mod iq;
mod k;
mod legacy;
mod plain;
mod ternary;

use super::GgmlType;

/// Dequantises whole blocks from the first argument into the second; see [`decoder`].
pub type Decoder = fn(&[u8], &mut [f32]);

/// Dequantises `dst.len()` values of type `ty` from `src`.
///
/// Works on any whole number of blocks: a row, a matrix or a single block. Types that never hold
/// weights are converted too (integers and f64 are rounded to the nearest f32).
///
/// # Panics
/// If `dst` is not a whole number of blocks or `src` is not exactly the bytes of these blocks.
///
/// # Examples
/// ```
/// use pantheon::quant::{GgmlType, dequantize};
///
/// // One q8_0 block: the f16 scale 0.5, then 32 signed bytes.
/// let mut block = [3_u8; 34];
/// block[..2].copy_from_slice(&[0x00, 0x38]);
/// let mut values = [0.0; 32];
/// dequantize(GgmlType::Q8_0, &block, &mut values);
/// assert_eq!(values, [1.5; 32]);
/// ```
pub fn dequantize(ty: GgmlType, src: &[u8], dst: &mut [f32]) {
    assert_eq!(
        ty.row_bytes(dst.len()),
        Some(src.len()),
        "dequantising {} values of {ty}: the bytes must be those of whole blocks",
        dst.len()
    );
    decoder(ty)(src, dst);
}

/// The function that dequantises type `ty`, for loops that decode block by block.
///
/// Unlike [`dequantize`] it does not check lengths: it stops at the last block that both slices
/// hold whole.
pub fn decoder(ty: GgmlType) -> Decoder {
    use GgmlType as T;
    match ty {
        T::F32 => |s, d| each(s, d, plain::f32),
        T::F16 => plain::f16,
        T::Bf16 => |s, d| each(s, d, plain::bf16),
        T::F64 => |s, d| each(s, d, plain::f64),
        T::I8 => |s, d| each(s, d, plain::i8),
        T::I16 => |s, d| each(s, d, plain::i16),
        T::I32 => |s, d| each(s, d, plain::i32),
        T::I64 => |s, d| each(s, d, plain::i64),
        T::Q4_0 => |s, d| each(s, d, legacy::q4_0),
        T::Q4_1 => |s, d| each(s, d, legacy::q4_1),
        T::Q5_0 => |s, d| each(s, d, legacy::q5_0),
        T::Q5_1 => |s, d| each(s, d, legacy::q5_1),
        T::Q8_0 => |s, d| each(s, d, legacy::q8_0),
        T::Q8_1 => |s, d| each(s, d, legacy::q8_1),
        T::Q2K => |s, d| each(s, d, k::q2_k),
        T::Q3K => |s, d| each(s, d, k::q3_k),
        T::Q4K => |s, d| each(s, d, k::q4_k),
        T::Q5K => |s, d| each(s, d, k::q5_k),
        T::Q6K => |s, d| each(s, d, k::q6_k),
        T::Q8K => |s, d| each(s, d, k::q8_k),
        T::Iq2Xxs => |s, d| each(s, d, iq::iq2_xxs),
        T::Iq2Xs => |s, d| each(s, d, iq::iq2_xs),
        T::Iq2S => |s, d| each(s, d, iq::iq2_s),
        T::Iq3Xxs => |s, d| each(s, d, iq::iq3_xxs),
        T::Iq3S => |s, d| each(s, d, iq::iq3_s),
        T::Iq1S => |s, d| each(s, d, iq::iq1_s),
        T::Iq1M => |s, d| each(s, d, iq::iq1_m),
        T::Iq4Nl => |s, d| each(s, d, iq::iq4_nl),
        T::Iq4Xs => |s, d| each(s, d, iq::iq4_xs),
        T::Tq1_0 => |s, d| each(s, d, ternary::tq1_0),
        T::Tq2_0 => |s, d| each(s, d, ternary::tq2_0),
        T::Q1_0 => |s, d| each(s, d, ternary::q1_0),
        T::Q2_0 => |s, d| each(s, d, ternary::q2_0),
        T::Mxfp4 => |s, d| each(s, d, fp4::mxfp4),
        T::Nvfp4 => |s, d| each(s, d, fp4::nvfp4),
    }
}

/// Runs `block` over consecutive blocks of `B` bytes and `N` values.
#[inline]
fn each<const B: usize, const N: usize>(
    src: &[u8],
    dst: &mut [f32],
    block: impl Fn(&[u8; B], &mut [f32; N]),
) {
    let (blocks, _) = src.as_chunks::<B>();
    let (values, _) = dst.as_chunks_mut::<N>();
    for (b, y) in blocks.iter().zip(values) {
        block(b, y);
    }
}

/// Low nibbles of 16 bytes to values 0..16, high ones to 16..32, through `value(element, nibble)`.
#[inline]
fn nibble_halves(bytes: &[u8], y: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    let (low, high) = y.split_at_mut(16);
    for (j, ((low, high), &q)) in low.iter_mut().zip(high).zip(&bytes[..16]).enumerate() {
        *low = value(j, q & 15);
        *high = value(j + 16, q >> 4);
    }
}
