//! Products of every weight type.

use pantheon::cpu::kernels::{Family, Kernels, TILE, family};
use pantheon::quant::{GgmlType, dequantize};

use crate::support::{Noise, quantised, restored, rows, same_bits, set_scales, tables};

fn weights() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|ty| ty.is_weight())
}

fn integer_types() -> impl Iterator<Item = GgmlType> {
    weights().filter(|ty| family(*ty) != Family::Float)
}

/// The product of some columns, out of a poisoned buffer.
fn product(table: &Kernels, ty: GgmlType, w: &[u8], k: usize, x: &[&[u8]]) -> Vec<f32> {
    let n = w.len() / ty.row_bytes(k).expect("whole blocks");
    let mut out = vec![f32::NAN; n * x.len()];
    let mut columns: Vec<&mut [f32]> = out.chunks_mut(n).collect();
    (table.product)(ty).expect("an integer product")(w, &[], k, x, &mut columns);
    out
}

/// A length of one block, an odd number of blocks, more than one unit.
fn lengths(ty: GgmlType) -> Vec<usize> {
    let block = ty.block_len();
    match family(ty) {
        Family::Super => vec![256, 768],
        _ if block == 32 => vec![32, 96, 160, 256, 544],
        _ => vec![block, 256, 256 + block, 512],
    }
}

/// Every type: each tile width and instruction set gives the bits of the scalar single column.
#[test]
fn products_do_not_depend_on_tile_or_instruction_set() {
    let (scalar, others) = tables();
    let mut noise = Noise::new(1);
    for ty in integer_types() {
        for k in lengths(ty) {
            let w = rows(ty, 33, k, &mut noise);
            let row_bytes = ty.row_bytes(k).expect("whole blocks");
            let floats: Vec<Vec<f32>> = (0..TILE).map(|_| noise.floats(k)).collect();
            let x: Vec<Vec<u8>> = floats.iter().map(|x| quantised(scalar, family(ty), x)).collect();
            let x: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
            let single: Vec<Vec<f32>> =
                x.iter().map(|x| product(scalar, ty, &w, k, &[x])).collect();
            for table in std::iter::once(scalar).chain(others.iter().copied()) {
                for (n, columns) in [
                    (33, 1),
                    (1, 2),
                    (2, 3),
                    (3, 4),
                    (4, 5),
                    (8, 6),
                    (9, 7),
                    (33, 8),
                    (32, 33),
                    (17, TILE),
                ] {
                    let w = &w[..n * row_bytes];
                    let out = product(table, ty, w, k, &x[..columns]);
                    for c in 0..columns {
                        let what = format!("{ty}, k {k}, {n} rows, column {c} of {columns}");
                        let what = format!("{}: {what}", table.isa);
                        same_bits(&out[c * n..(c + 1) * n], &single[c][..n], &what);
                    }
                }
            }
        }
    }
}

/// `|result - sum w x|` is within the rounding of a few f32 operations per unit.
#[track_caller]
fn near(got: f32, w: &[f32], x: &[f64], what: &str) {
    let terms = w.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
    let error = (f64::from(got) - sum).abs();
    assert!(error <= 2e-6 * size, "{what}: {got} for {sum}, off by {error:e} of {size}");
}

#[test]
fn integer_products_are_those_of_the_dequantised_values() {
    let (_, others) = tables();
    let mut noise = Noise::new(2);
    for ty in integer_types() {
        for k in lengths(ty) {
            let w = rows(ty, 3, k, &mut noise);
            let mut plain = vec![0.0; 3 * k];
            dequantize(ty, &w, &mut plain);
            let x: Vec<Vec<u8>> =
                (0..5).map(|_| quantised(tables().0, family(ty), &noise.floats(k))).collect();
            let x: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
            for table in others.iter().copied().chain([tables().0]) {
                let out = product(table, ty, &w, k, &x);
                for (c, x) in x.iter().enumerate() {
                    let x = restored(family(ty), k, x);
                    for r in 0..3 {
                        let what = format!("{} {ty} k {k} row {r} column {c}", table.isa);
                        near(out[c * 3 + r], &plain[r * k..(r + 1) * k], &x, &what);
                    }
                }
            }
        }
    }
}

/// Every byte of a block at an extreme, activations at +-127: no sum may saturate or wrap.
#[test]
fn extreme_blocks_do_not_overflow() {
    let (scalar, others) = tables();
    for ty in integer_types() {
        let k = if family(ty) == Family::Super { 512 } else { 256 };
        for fill in [0x00, 0xff, 0x80, 0x7f, 0x88, 0x08] {
            let mut w = vec![fill; 2 * ty.row_bytes(k).expect("whole blocks")];
            for block in w.chunks_exact_mut(ty.block_bytes()) {
                set_scales(ty, block, 0x3c00);
            }
            let mut plain = vec![0.0; 2 * k];
            dequantize(ty, &w, &mut plain);
            let signs: [fn(usize) -> f32; 4] = [
                |_| 127.0,
                |_| -127.0,
                |i| if i % 2 == 0 { 127.0 } else { -127.0 },
                |i| if i % 32 < 16 { -127.0 } else { 127.0 },
            ];
            let x: Vec<Vec<u8>> = (0..8)
                .map(|c| {
                    let x: Vec<f32> = (0..k).map(signs[c % 4]).collect();
                    quantised(scalar, family(ty), &x)
                })
                .collect();
            let x: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
            for table in others.iter().copied().chain([scalar]) {
                for columns in [1, 8] {
                    let out = product(table, ty, &w, k, &x[..columns]);
                    for (c, x) in x[..columns].iter().enumerate() {
                        let what = format!("{} {ty} of {fill:#x}, column {c}", table.isa);
                        near(out[2 * c], &plain[..k], &restored(family(ty), k, x), &what);
                    }
                }
            }
        }
    }
}

/// The canonical dot, spelt out.
fn canonical_dot(w: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    for (i, (w, x)) in w.iter().zip(x).enumerate() {
        lanes[i % 16] = w.mul_add(*x, lanes[i % 16]);
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

#[test]
fn float_products_are_canonical_dots_of_the_dequantised_rows() {
    // Four that are taken together, and two that are not.
    const ROWS: usize = 6;
    let (scalar, others) = tables();
    let mut noise = Noise::new(3);
    for ty in weights() {
        let lengths = if ty.block_len() == 1 { vec![1, 15, 33, 513, 1040] } else { lengths(ty) };
        for k in lengths {
            let w = rows(ty, ROWS, k, &mut noise);
            let mut plain = vec![0.0; ROWS * k];
            dequantize(ty, &w, &mut plain);
            let x: Vec<Vec<f32>> = (0..TILE).map(|_| noise.floats(k)).collect();
            let x: Vec<&[f32]> = x.iter().map(Vec::as_slice).collect();
            for table in others.iter().copied().chain([scalar]) {
                for columns in [1, 3, 4, 7, TILE] {
                    let mut out = vec![f32::NAN; ROWS * columns];
                    let mut runs: Vec<&mut [f32]> = out.chunks_mut(ROWS).collect();
                    (table.product_float)(ty, &w, k, &x[..columns], &mut runs);
                    for (c, x) in x[..columns].iter().enumerate() {
                        let want: Vec<f32> =
                            plain.chunks_exact(k).map(|w| canonical_dot(w, x)).collect();
                        let what = format!("{} {ty} k {k} column {c} of {columns}", table.isa);
                        same_bits(&out[ROWS * c..][..ROWS], &want, &what);
                    }
                }
            }
        }
    }
}

/// Weights far from 1 and activations that are zero, subnormal or huge: finite, and the same
/// everywhere.
#[test]
fn extreme_activations_give_the_same_bits_everywhere() {
    let (scalar, others) = tables();
    let mut noise = Noise::new(4);
    for ty in [GgmlType::Q4K, GgmlType::Q6K, GgmlType::Q8_0, GgmlType::Q4_1, GgmlType::Nvfp4] {
        let k = 512;
        let w = rows(ty, 4, k, &mut noise);
        for scale in [0.0, 1e-45, 1e-40, 1e-38, 1e30, 1e37, f32::INFINITY] {
            let mut x: Vec<f32> = noise.floats(k).iter().map(|x| x * scale).collect();
            x[7] = if scale.is_infinite() { scale } else { -scale };
            let columns = [quantised(scalar, family(ty), &x)];
            let want = product(scalar, ty, &w, k, &[&columns[0]]);
            if scale < 1e30 {
                assert!(want.iter().all(|v| v.is_finite()), "{ty} at {scale:e}: {want:?}");
            }
            for table in &others {
                assert_eq!(quantised(table, family(ty), &x), columns[0], "{ty} at {scale:e}");
                let out = product(table, ty, &w, k, &[&columns[0]]);
                for (a, b) in out.iter().zip(&want) {
                    assert!(
                        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                        "{ty} {scale:e}"
                    );
                }
            }
        }
    }
}

/// Every type says which family it is, and has a product exactly where that is an integer one.
#[test]
fn every_weight_type_has_its_product() {
    for table in tables().1.into_iter().chain([tables().0]) {
        for ty in GgmlType::all() {
            let integer = family(ty) != Family::Float;
            assert_eq!((table.product)(ty).is_some(), integer, "{} {ty}", table.isa);
            assert!(!integer || ty.is_weight(), "{ty}");
        }
    }
}
