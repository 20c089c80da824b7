//! Random rows of valid blocks: weights for speed tests of models nobody has trained.

use half::f16;
use rand::RngCore;

use super::GgmlType;
use super::grids::FP4_VALUES;

/// Fills `out` with whole blocks of type `ty` whose values have mean near 0 and a root mean square
/// of about `scale`.
///
/// All bits that carry codes are random; only the scale fields are set, so that every value is
/// finite whatever `scale` is: a scale that the type's scale field cannot hold becomes the nearest
/// that it can (NVFP4 on its own goes no lower than about 0.006, F16 no higher than 37,000).
///
/// # Panics
/// If `ty` is not a weight type ([`GgmlType::is_weight`]) or `out` is not whole blocks.
pub fn random_row(ty: GgmlType, rng: &mut impl RngCore, out: &mut [u8], scale: f32) {
    assert!(ty.is_weight(), "random rows are of weight types; {ty} is none");
    let size = ty.block_bytes();
    assert!(
        out.len().is_multiple_of(size),
        "{} bytes are not whole blocks of {ty} ({size} bytes each)",
        out.len()
    );
    let scale =
        if scale.is_nan() { f32::MIN_POSITIVE } else { scale.clamp(f32::MIN_POSITIVE, 1e30) };
    rng.fill_bytes(out);
    match ty {
        GgmlType::F32 | GgmlType::F16 | GgmlType::Bf16 => plain(ty, out, scale),
        GgmlType::Mxfp4 => mxfp4(out, scale),
        GgmlType::Nvfp4 => nvfp4(out, scale),
        _ => {
            let unit = scale / unit_rms(ty);
            out.chunks_exact_mut(size).for_each(|block| set_scales(ty, block, unit));
        }
    }
}

/// Root mean square of the values of random blocks with `d` = 1, as [`set_scales`] leaves them.
fn unit_rms(ty: GgmlType) -> f32 {
    use GgmlType as T;
    match ty {
        T::Q4_0 => 4.637,
        T::Q4_1 => 4.610,
        T::Q5_0 => 9.247,
        T::Q5_1 => 9.233,
        T::Q8_0 => 73.9,
        T::Q2K => 9.84,
        T::Q3K => 43.3,
        T::Q4K => 168.3,
        T::Q5K => 337.2,
        T::Q6K => 1366.0,
        T::Iq2Xxs => 53.4,
        T::Iq2Xs => 55.7,
        T::Iq2S => 56.5,
        T::Iq3Xxs => 142.1,
        T::Iq3S => 140.3,
        T::Iq1S | T::Iq1M => 7.18,
        T::Iq4Nl => 67.5,
        T::Iq4Xs => 1243.0,
        T::Tq1_0 => 0.817,
        T::Tq2_0 | T::Q2_0 => 0.707,
        _ => 1.0,
    }
}

/// Sets the scale fields of one block of random bytes; `unit` is the scale `d` to aim at.
fn set_scales(ty: GgmlType, block: &mut [u8], unit: f32) {
    use GgmlType as T;
    match ty {
        // Codes are not centred here: a random sign of `d` makes up for it.
        T::Q4_0 | T::Q5_0 | T::Q8_0 | T::Iq4Nl => {
            let sign = if block[1] & 0x80 == 0 { 1.0 } else { -1.0 };
            put_f16(block, 0, sign * spread(block, 0, unit));
        }
        T::Q4_1 => put_scale_and_min(block, 0, unit, -7.5),
        T::Q5_1 => put_scale_and_min(block, 0, unit, -15.5),
        T::Q2K => {
            // Equal scale and min per group, so that each group is centred; likewise below.
            block[..16].iter_mut().for_each(|scale| *scale = (*scale & 15) * 0x11);
            put_scale_and_min(block, 80, unit, 1.5);
        }
        T::Q4K | T::Q5K => {
            block.copy_within(4..8, 8);
            block[12..16].iter_mut().for_each(|scale| *scale = (*scale & 15) * 0x11);
            put_scale_and_min(block, 0, unit, if ty == T::Q4K { 7.5 } else { 15.5 });
        }
        T::Q3K => put_scale(block, 108, unit),
        T::Q6K => put_scale(block, 208, unit),
        T::Tq1_0 => put_scale(block, 52, unit),
        T::Tq2_0 => {
            block[..64].iter_mut().for_each(|codes| *codes = ternary_codes(*codes));
            put_scale(block, 64, unit);
        }
        T::Q2_0 => {
            block[2..].iter_mut().for_each(|codes| *codes = ternary_codes(*codes));
            put_scale(block, 0, unit);
        }
        T::Iq1M => {
            let d = to_f16(spread(block, 0, unit)).to_bits();
            for i in 0..4 {
                let nibble = (d >> (4 * i)) as u8 & 15;
                let top = &mut block[49 + 2 * i];
                *top = (*top & 15) | (nibble << 4);
            }
        }
        _ => put_scale(block, 0, unit),
    }
}

/// Four 2-bit codes with each 3, which quantisers do not write, made a 1 (the value 0).
fn ternary_codes(codes: u8) -> u8 {
    codes & !((codes & (codes << 1)) & 0xaa)
}

/// `unit` times 0.75 to 1.25, by the two random bytes at `at`.
fn spread(block: &[u8], at: usize, unit: f32) -> f32 {
    let random = u16::from_le_bytes([block[at], block[at + 1]]) & 0x7fff;
    unit * (0.75 + f32::from(random) / 65536.0)
}

/// The nearest f16 that is finite and not zero, of the sign of `x`.
fn to_f16(x: f32) -> f16 {
    let least = f16::from_bits(1).to_f32();
    f16::from_f32(x.abs().clamp(least, f16::MAX.to_f32()).copysign(x))
}

fn put_f16(block: &mut [u8], at: usize, x: f32) {
    block[at..at + 2].copy_from_slice(&to_f16(x).to_le_bytes());
}

fn put_scale(block: &mut [u8], at: usize, unit: f32) {
    let d = spread(block, at, unit);
    put_f16(block, at, d);
}

/// `d` at `at`, and after it the min: `ratio` times the `d` that was stored.
fn put_scale_and_min(block: &mut [u8], at: usize, unit: f32, ratio: f32) {
    // Neither of the two may leave the range of f16, or the block would lose its balance.
    let d = to_f16(spread(block, at, unit).min(f16::MAX.to_f32() / ratio.abs()));
    block[at..at + 2].copy_from_slice(&d.to_le_bytes());
    put_f16(block, at + 2, d.to_f32() * ratio);
}

/// Evenly distributed numbers of root mean square `scale`.
fn plain(ty: GgmlType, out: &mut [u8], scale: f32) {
    let bound = scale * 3_f32.sqrt();
    if ty == GgmlType::F32 {
        for value in out.as_chunks_mut::<4>().0 {
            let random = i32::from_le_bytes(*value) as f32 / 2_147_483_648.0;
            *value = (random * bound).to_le_bytes();
        }
        return;
    }
    for value in out.as_chunks_mut::<2>().0 {
        let x = f32::from(i16::from_le_bytes(*value)) / 32768.0 * bound;
        *value = match ty {
            GgmlType::Bf16 => half::bf16::from_f32(x).to_le_bytes(),
            _ => f16::from_f32(x.clamp(f16::MIN.to_f32(), f16::MAX.to_f32())).to_le_bytes(),
        };
    }
}

/// Root mean square of the codes of [`FP4_VALUES`].
fn fp4_rms() -> f32 {
    (FP4_VALUES.iter().map(|&v| f32::from(v) * f32::from(v)).sum::<f32>() / 16.0).sqrt()
}

/// Scales are powers of two: of the two around the one wanted, the upper is taken as often as makes
/// the mean square right.
fn mxfp4(out: &mut [u8], scale: f32) {
    let unit = scale / fp4_rms();
    let exponent = unit.log2().floor().clamp(-126.0, 123.0);
    let above = ((unit / exponent.exp2()).powi(2) - 1.0) / 3.0;
    for block in out.as_chunks_mut::<17>().0 {
        let up = f32::from(block[0]) < above * 256.0;
        block[0] = (exponent + 128.0) as u8 + u8::from(up);
    }
}

fn nvfp4(out: &mut [u8], scale: f32) {
    let unit = 2.0 * scale / fp4_rms();
    for block in out.as_chunks_mut::<36>().0 {
        for scale in &mut block[..4] {
            *scale = ue4m3(unit * (0.75 + f32::from(*scale) / 512.0));
        }
    }
}

/// The nearest unsigned E4M3 that is neither zero nor its NaN code.
fn ue4m3(x: f32) -> u8 {
    let code = if x < 1.0 / 64.0 {
        // Subnormals count in steps of 2^-9; the eighth is the least normal number.
        (x * 512.0).round() as u32
    } else {
        // Half up at the third mantissa bit, then the exponent from bias 127 to bias 7.
        ((x.to_bits() + (1 << 19)) >> 20) - (120 << 3)
    };
    code.clamp(1, 0x7e) as u8
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::quant::dequantize;
    use crate::quant::scales::ue4m3_half;

    fn weight_types() -> impl Iterator<Item = GgmlType> {
        GgmlType::all().filter(|ty| ty.is_weight())
    }

    fn values(ty: GgmlType, n: usize, scale: f32, seed: u64) -> Vec<f32> {
        let mut bytes = vec![0xff; ty.row_bytes(n).expect("a whole number of blocks")];
        random_row(ty, &mut SmallRng::seed_from_u64(seed), &mut bytes, scale);
        let mut values = vec![f32::NAN; n];
        dequantize(ty, &bytes, &mut values);
        values
    }

    #[test]
    fn values_have_the_size_asked_for_and_no_bias() {
        for ty in weight_types() {
            for scale in [0.015, 0.3, 2.0] {
                let values = values(ty, 256 * 256, scale, 7);
                let n = values.len() as f64;
                let rms = (values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n).sqrt();
                let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
                let ratio = rms / f64::from(scale);
                assert!((0.9..1.1).contains(&ratio), "{ty} at {scale}: rms is {rms}");
                assert!(mean.abs() < 0.03 * rms, "{ty} at {scale}: mean is {mean}, rms {rms}");
            }
        }
    }

    #[test]
    fn values_are_finite_and_not_all_zero_at_any_scale() {
        let scales = [0.0, -1.0, 1e-42, 1e-20, 1e-6, 1e3, 6e4, 1e20, f32::MAX, f32::INFINITY];
        for ty in weight_types() {
            for scale in scales.into_iter().chain([f32::NAN]) {
                let values = values(ty, 256 * 64, scale, 8);
                assert!(values.iter().all(|v| v.is_finite()), "{ty} at {scale}");
                // Only f16 has no room for values that small.
                if ty != GgmlType::F16 {
                    assert!(values.iter().any(|&v| v != 0.0), "{ty} at {scale} is all zero");
                }
            }
        }
    }

    #[test]
    fn rows_differ_and_repeat_with_the_seed() {
        for ty in weight_types() {
            let row = values(ty, 256, 1.0, 1);
            assert_eq!(row, values(ty, 256, 1.0, 1), "{ty}");
            assert_ne!(row, values(ty, 256, 1.0, 2), "{ty}");
        }
    }

    #[test]
    fn ternary_blocks_hold_ternary_codes() {
        for codes in 0..=u8::MAX {
            for shift in [0, 2, 4, 6] {
                let (before, after) = ((codes >> shift) & 3, (ternary_codes(codes) >> shift) & 3);
                assert_eq!(after, if before == 3 { 1 } else { before }, "{codes:#x} >> {shift}");
            }
        }
    }

    #[test]
    fn eight_bit_scales_round_to_the_nearest() {
        for code in 1..=0x7e {
            assert_eq!(ue4m3(2.0 * ue4m3_half(code)), code);
        }
        let halfway = |a, b| ue4m3_half(a) + ue4m3_half(b);
        for code in 1..0x7e {
            let middle = halfway(code, code + 1);
            assert_eq!(ue4m3(middle * 0.999), code);
            assert_eq!(ue4m3(middle * 1.001), code + 1);
        }
        assert_eq!((ue4m3(0.0), ue4m3(1e9)), (1, 0x7e));
    }

    #[test]
    #[should_panic(expected = "whole blocks")]
    fn a_part_of_a_block_is_refused() {
        random_row(GgmlType::Q6K, &mut SmallRng::seed_from_u64(0), &mut [0; 211], 1.0);
    }

    #[test]
    #[should_panic(expected = "weight types")]
    fn types_that_hold_no_weights_are_refused() {
        random_row(GgmlType::Q8K, &mut SmallRng::seed_from_u64(0), &mut [0; 292], 1.0);
    }
}
