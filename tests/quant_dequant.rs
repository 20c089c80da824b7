//! Dequantisation and the reference quantisers, bit for bit against ggml and gguf-py.
//!
//! The vectors in `tests/golden/quant/` come from `tests/golden/make_quant_vectors.py`, which asks
//! ggml's own `to_float` for every weight type and gguf-py's `quants.py` for all but Q1_0 and Q2_0
//! (which it lacks), and requires the two to agree in every bit.

use std::path::PathBuf;

use pantheon::quant::{GgmlType, NotWritable, decoder, dequantize, quantize_row};

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/quant").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn golden_f32(name: &str) -> Vec<f32> {
    let bytes = golden(name);
    let (values, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty(), "{name} is not whole f32s");
    values.iter().copied().map(f32::from_le_bytes).collect()
}

fn weight_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|ty| ty.is_weight())
}

/// A value no format yields, to notice what was not written.
const POISON: f32 = f32::from_bits(0x7fc0_dead);

#[track_caller]
fn assert_bits(ty: GgmlType, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let (block, at) = (i / ty.block_len(), i % ty.block_len());
        assert_eq!(g.to_bits(), w.to_bits(), "{ty} block {block} value {at}: {g:e}, not {w:e}");
    }
}

#[test]
fn every_weight_type_matches_ggml_bit_for_bit() {
    for ty in weight_types() {
        let (blocks, want) = (golden(&format!("{ty}.blocks")), golden_f32(&format!("{ty}.f32")));
        assert_eq!(ty.row_bytes(want.len()), Some(blocks.len()), "{ty}: size of the vectors");
        let mut got = vec![POISON; want.len()];
        dequantize(ty, &blocks, &mut got);
        assert_bits(ty, &got, &want);
    }
}

#[test]
fn a_block_alone_gives_what_it_gives_in_a_row() {
    for ty in weight_types() {
        let (blocks, want) = (golden(&format!("{ty}.blocks")), golden_f32(&format!("{ty}.f32")));
        let decode = decoder(ty);
        let mut got = vec![POISON; want.len()];
        let rows = blocks.chunks_exact(ty.block_bytes()).zip(got.chunks_exact_mut(ty.block_len()));
        for (src, dst) in rows {
            decode(src, dst);
        }
        assert_bits(ty, &got, &want);
    }
}

#[test]
#[should_panic(expected = "whole blocks")]
fn a_part_of_a_block_is_refused() {
    dequantize(GgmlType::Q4K, &[0; 144], &mut [0.0; 255]);
}

#[test]
#[should_panic(expected = "whole blocks")]
fn bytes_that_do_not_fit_the_values_are_refused() {
    dequantize(GgmlType::Q8_0, &[0; 35], &mut [0.0; 32]);
}

#[test]
fn the_quantisers_match_ggml_byte_for_byte() {
    for ty in [GgmlType::Q8_0, GgmlType::Q4_0] {
        let values = golden_f32(&format!("quantize-{ty}.f32"));
        let want = golden(&format!("quantize-{ty}.blocks"));
        let mut got = vec![0xa5; want.len()];
        quantize_row(ty, &values, &mut got).expect("the type can be written");
        let size = ty.block_bytes();
        for (i, (got, want)) in got.chunks(size).zip(want.chunks(size)).enumerate() {
            assert_eq!(got, want, "{ty} block {i}");
        }
    }
}

#[test]
fn quantised_values_are_within_half_a_step() {
    let values: Vec<f32> = (0..32 * 9).map(|i| ((i * i) as f32 * 0.37).sin() * 3.0).collect();
    // The scale itself is rounded to f16 (2^-11) and reaches the widest value: 3 in all. Q4_0 has
    // no code for the far end of the other sign, so it can be off by a whole step there.
    for (ty, step) in [(GgmlType::Q8_0, 3.0 / 127.0 / 2.0), (GgmlType::Q4_0, 3.0 / 8.0)] {
        let mut blocks = vec![0xa5; ty.row_bytes(values.len()).expect("whole blocks")];
        quantize_row(ty, &values, &mut blocks).expect("the type can be written");
        let mut back = vec![POISON; values.len()];
        dequantize(ty, &blocks, &mut back);
        for (x, y) in values.iter().zip(&back) {
            assert!((x - y).abs() <= step + 3.0 / 2048.0, "{ty}: {x} became {y}");
        }
    }
}

#[test]
fn plain_types_survive_a_round_trip() {
    for ty in [GgmlType::F32, GgmlType::F16, GgmlType::Bf16] {
        let values = golden_f32(&format!("{ty}.f32"));
        let mut blocks = vec![0xa5; ty.row_bytes(values.len()).expect("whole blocks")];
        quantize_row(ty, &values, &mut blocks).expect("the type can be written");
        assert_eq!(blocks, golden(&format!("{ty}.blocks")), "{ty}");
    }
    // Ties go to even, and what is too large becomes infinite.
    let mut blocks = [0; 6];
    quantize_row(GgmlType::F16, &[1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 1e6], &mut blocks)
        .expect("the type can be written");
    assert_eq!(blocks, [0x00, 0x3c, 0x02, 0x3c, 0x00, 0x7c]);
    quantize_row(GgmlType::Bf16, &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, f32::MAX], &mut blocks)
        .expect("the type can be written");
    assert_eq!(blocks, [0x80, 0x3f, 0x82, 0x3f, 0x80, 0x7f]);
}

#[test]
fn odd_input_to_the_quantisers_is_no_trouble() {
    let mut values = [0.0; 32];
    values[3] = f32::NAN;
    values[4] = f32::INFINITY;
    values[5] = f32::from_bits(1);
    for ty in [GgmlType::Q8_0, GgmlType::Q4_0] {
        quantize_row(ty, &values, &mut vec![0; ty.block_bytes()]).expect("the type can be written");
    }
    let error = quantize_row(GgmlType::Q6K, &[0.0; 256], &mut [0; 210]);
    assert_eq!(error, Err(NotWritable(GgmlType::Q6K)));
    assert_eq!(
        NotWritable(GgmlType::Q6K).to_string(),
        "cannot write tensor type q6_K; f32, f16, bf16, q8_0 and q4_0 can be written"
    );
}

#[test]
fn types_that_hold_no_weights_are_converted_too() {
    let mut y = [POISON; 2];
    dequantize(GgmlType::I8, &[0x80, 0x7f], &mut y);
    assert_eq!(y, [-128.0, 127.0]);
    dequantize(GgmlType::I16, &[0x00, 0x80, 0x01, 0x00], &mut y);
    assert_eq!(y, [-32768.0, 1.0]);
    let i32s = [-5_i32, 16_777_217].map(i32::to_le_bytes).concat();
    dequantize(GgmlType::I32, &i32s, &mut y);
    assert_eq!(y, [-5.0, 16_777_216.0]);
    let i64s = [-5_i64, 1 << 40].map(i64::to_le_bytes).concat();
    dequantize(GgmlType::I64, &i64s, &mut y);
    assert_eq!(y, [-5.0, 1_099_511_627_776.0]);
    let f64s = [0.1_f64, -1e300].map(f64::to_le_bytes).concat();
    dequantize(GgmlType::F64, &f64s, &mut y);
    assert_eq!(y, [0.1_f32, f32::NEG_INFINITY]);

    let (mut q8_1, mut y) = ([2_u8; 36], [POISON; 32]);
    q8_1[..2].copy_from_slice(&[0x00, 0xb8]);
    q8_1[35] = 0xff;
    dequantize(GgmlType::Q8_1, &q8_1, &mut y);
    assert_eq!((y[0], y[30], y[31]), (-1.0, -1.0, 0.5));

    let (mut q8_k, mut y) = ([3_u8; 292], [POISON; 256]);
    q8_k[..4].copy_from_slice(&(-0.25_f32).to_le_bytes());
    q8_k[259] = 0x80;
    dequantize(GgmlType::Q8K, &q8_k, &mut y);
    assert_eq!((y[0], y[254], y[255]), (-0.75, -0.75, 32.0));
}
