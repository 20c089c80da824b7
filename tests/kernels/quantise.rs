//! Quantisation of activations.

use pantheon::cpu::kernels::{Family, Q8K_BYTES, Q80_BYTES};

use crate::support::{Noise, quantised, restored, tables};

fn samples() -> Vec<Vec<f32>> {
    let mut noise = Noise::new(5);
    let mut samples: Vec<Vec<f32>> =
        [1, 15, 16, 31, 32, 33, 160, 255, 256, 257, 512, 700].map(|n| noise.floats(n)).into();
    samples.push(vec![0.0; 300]);
    samples.push(vec![-0.0; 300]);
    // Ties of the largest magnitude: the first one's sign counts.
    samples.push([[0.5, -2.0, 2.0, 1.0]; 64].concat());
    samples.push([[0.5, 2.0, -2.0, 1.0]; 64].concat());
    // Halves round to even.
    samples.push((0..256).map(|i| if i == 0 { 127.0 } else { i as f32 / 2.0 - 60.0 }).collect());
    samples
}

#[test]
fn every_instruction_set_quantises_to_the_same_bytes() {
    let (scalar, others) = tables();
    for x in samples() {
        for family in [Family::Super, Family::Block] {
            let want = quantised(scalar, family, &x);
            for table in &others {
                assert_eq!(quantised(table, family, &x), want, "{} {family:?}", table.isa);
            }
        }
    }
}

#[test]
fn quantised_values_are_within_half_a_step() {
    for x in samples() {
        for (family, len) in [(Family::Super, 256), (Family::Block, 32)] {
            let bytes = quantised(tables().0, family, &x);
            let back = restored(family, x.len(), &bytes);
            for (x, back) in x.chunks(len).zip(back.chunks(len)) {
                let top = x.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
                for (x, back) in x.iter().zip(back) {
                    let error = (f64::from(*x) - back).abs();
                    assert!(error <= f64::from(top) / 254.0 * 1.0001, "{x} became {back}");
                }
            }
        }
    }
}

/// The largest magnitude becomes exactly -127 with a scale of the opposite sign, as in ggml.
#[test]
fn super_blocks_follow_ggml() {
    let mut x = vec![0.0_f32; 256];
    (x[3], x[200]) = (0.25, 4.0);
    let bytes = quantised(tables().0, Family::Super, &x);
    let d = f32::from_le_bytes(bytes[288..292].try_into().unwrap());
    assert_eq!(d, 1.0 / (-127.0_f32 / 4.0));
    assert_eq!((bytes[200] as i8, bytes[3] as i8), (-127, -8));
    assert_eq!(i16::from_le_bytes([bytes[256 + 24], bytes[256 + 25]]), -127);
}

#[test]
fn sums_are_those_of_the_values_and_padding_is_zero() {
    for x in samples() {
        let bytes = quantised(tables().0, Family::Super, &x);
        let blocks = x.len().div_ceil(256);
        assert_eq!(bytes.len(), blocks * Q8K_BYTES);
        assert!(bytes[x.len()..blocks * 256].iter().all(|&q| q == 0));
        for (g, q) in bytes[..blocks * 256].chunks(16).enumerate() {
            let at = blocks * 256 + 2 * g;
            let sum: i16 = q.iter().map(|&q| i16::from(q as i8)).sum();
            assert_eq!(i16::from_le_bytes([bytes[at], bytes[at + 1]]), sum);
        }
        let bytes = quantised(tables().0, Family::Block, &x);
        let blocks = x.len().div_ceil(32);
        assert_eq!(bytes.len(), blocks * Q80_BYTES);
        for (b, q) in bytes[..blocks * 32].chunks(32).enumerate() {
            let at = blocks * 36 + 4 * b;
            for (half, q) in q.chunks(16).enumerate() {
                let sum: i16 = q.iter().map(|&q| i16::from(q as i8)).sum();
                let at = at + 2 * half;
                assert_eq!(i16::from_le_bytes([bytes[at], bytes[at + 1]]), sum);
            }
        }
    }
}
