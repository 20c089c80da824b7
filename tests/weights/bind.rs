//! Tensors to fields: what is bound, from where, and what every mistake is called.

use pantheon::gguf::Blob;
use pantheon::quant::GgmlType;
use pantheon::weights::{Binder, Matrix};

use crate::file::{ModelFile, bytes_of, says, vectors};
use crate::model::{BINDINGS, LAYERS};

#[test]
fn the_plain_file_binds_in_place() {
    let file = ModelFile::plain();
    file.is_like_plain();
    let gguf = file.open();
    let bound = pantheon::weights::bind::<crate::model::Small>(&gguf).unwrap();
    let in_file = |name: &str| gguf.tensor(name).unwrap().data.clone();

    let up = in_file("blk.2.ffn_up_exps.weight");
    let experts = &bound.weights.moe[2].ffn_up_exps.experts;
    assert_eq!(experts.len(), 6);
    for (e, expert) in experts.iter().enumerate() {
        assert_eq!((expert.k(), expert.rows(), expert.row_bytes()), (64, 24, 256));
        let own = up.slice(e * 24 * 256..(e + 1) * 24 * 256).unwrap();
        assert_eq!(expert.bytes().as_ptr_range(), own.as_ptr_range(), "a view of the file");
        assert_eq!(expert.row(23).as_ptr_range(), own[23 * 256..].as_ptr_range());
        assert_eq!(expert.rows_bytes(3..5), &own[3 * 256..5 * 256]);
    }
    let gate = &bound.weights.moe[0].ffn_gate_inp_shexp;
    assert_eq!((gate.k(), gate.rows(), gate.scale()), (64, 1, 1.0));
    let all: u64 = gguf.tensors().iter().map(|t| t.data.len() as u64).sum();
    assert_eq!(bound.bytes, all, "every tensor of the plain file is used");
}

/// Gains, decays and biases are used as stored: nothing is added, negated or exponentiated again.
#[test]
fn vectors_are_taken_as_they_are() {
    let mut file = ModelFile::plain();
    file.tensor("blk.1.ssm_a").data = bytes_of(&[-0.05, -3.0, -1e-3, -16.0]);
    let gain = vec![1.0331f32; 64];
    file.tensor("blk.0.attn_norm.weight").data = bytes_of(&gain);
    let bound = file.bind().unwrap();
    assert_eq!(*bound.weights.gdn[1].ssm_a, [-0.05, -3.0, -1e-3, -16.0]);
    assert_eq!(*bound.weights.gdn[0].attn_norm, gain[..]);
    let taps = &bound.weights.gdn[0].ssm_conv1d;
    assert_eq!(bytes_of(taps), file.tensor("blk.0.ssm_conv1d.weight").data, "taps in file order");
}

#[test]
fn vectors_in_half_precision_are_widened() {
    let mut file = ModelFile::plain();
    let values = [1.0f32, 0.75, 1.5, 1.25];
    let gains: Vec<f32> = values.iter().copied().cycle().take(64).collect();
    let half = |bits: fn(f32) -> u16| gains.iter().flat_map(|x| bits(*x).to_le_bytes()).collect();
    for (name, ty, data) in [
        ("blk.0.attn_norm.weight", GgmlType::F16, half(|x| half::f16::from_f32(x).to_bits())),
        ("blk.1.attn_norm.weight", GgmlType::Bf16, half(|x| half::bf16::from_f32(x).to_bits())),
    ] {
        (file.tensor(name).ty, file.tensor(name).data) = (ty, data);
    }
    let bound = file.bind().unwrap();
    assert_eq!(*bound.weights.gdn[0].attn_norm, gains[..]);
    assert_eq!(*bound.weights.gdn[1].attn_norm, gains[..]);
}

#[test]
fn matrices_keep_any_weight_type() {
    for ty in GgmlType::all().filter(|ty| 64 % ty.block_len() == 0) {
        let mut file = ModelFile::plain();
        let tensor = file.tensor("blk.0.attn_gate.weight");
        (tensor.ty, tensor.data) = (ty, vec![3; ty.row_bytes(64).unwrap() * 64]);
        let bound = file.bind();
        if ty.is_weight() {
            let bound = bound.unwrap();
            let gate = &bound.weights.gdn[0].attn_gate;
            assert_eq!((gate.ty(), gate.row_bytes()), (ty, ty.row_bytes(64).unwrap()));
        } else {
            let text = bound.unwrap_err().to_string();
            says(&text, &["blk.0.attn_gate.weight", "a type that holds weights", ty.name()]);
        }
    }
}

#[test]
fn every_missing_tensor_is_named() {
    let plain = ModelFile::plain();
    for missing in plain.tensors.iter().map(|t| &t.name).filter(|n| *n != "output.weight") {
        let mut file = plain.clone();
        file.remove(missing);
        let error = file.bind().unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        says(&error.to_string(), &["small.gguf", &format!("{missing:?}"), "no such tensor"]);
    }
}

#[test]
fn every_other_shape_is_named_with_both() {
    let plain = ModelFile::plain();
    for i in 0..plain.tensors.len() {
        let mut file = plain.clone();
        let tensor = &mut file.tensors[i];
        let ne = tensor.ne.clone();
        *tensor.ne.last_mut().unwrap() += 1;
        let elements: u64 = tensor.ne.iter().product();
        tensor.data = vec![0; elements as usize * 4];
        let (name, wrong) = (tensor.name.clone(), format!("f32 {:?}", tensor.ne));
        let text = file.bind().unwrap_err().to_string();
        let expected = if name.contains("inp_shexp") { vec![64, 1] } else { ne };
        says(&text, &[&name, &format!("shape {expected:?}"), &wrong]);
    }
}

#[test]
fn vectors_hold_floats() {
    for pattern in vectors() {
        let name = [0, 3].map(|l: usize| pattern.replace("{}", &l.to_string()));
        let mut file = ModelFile::plain();
        let found = file.tensors.iter_mut().find(|t| name.contains(&t.name)).unwrap();
        found.ty = GgmlType::I32;
        let name = found.name.clone();
        file.bind_refusal(&[&name, "type f32, f16 or bf16", "found i32"]);
    }
}

#[test]
fn all_problems_come_together() {
    let mut file = ModelFile::plain();
    file.remove("blk.2.attn_qkv.weight");
    file.remove("blk.3.attn_k.weight");
    file.remove("blk.3.attn_v.weight");
    file.tensor("blk.1.ffn_up_exps.weight").ne = vec![64, 6, 24];
    file.tensor("output_norm.weight").ty = GgmlType::I32;
    file.tensor("blk.0.ssm_a").data = bytes_of(&[-1.0, 2.0, -1.0, -1.0]);
    file.add("blk.3.attn_q.bias", &[128]);
    let error = file.bind().unwrap_err();
    assert_eq!(error.problems.len(), 7, "{error}");
    let text = error.to_string();
    says(&text, &["7 problems", "blk.2.attn_qkv.weight", "blk.3.attn_k.weight", "blk.3.attn_v"]);
    says(&text, &["f32 [64, 6, 24]", "output_norm.weight", "A_log", "blk.3.attn_q.bias"]);
    assert_eq!(text.lines().count(), 8);

    file.tensors.retain(|t| !t.name.contains("blk.0"));
    let text = file.bind().unwrap_err().to_string();
    assert!(text.lines().count() == 22 && text.contains("and 5 more"), "{text}");
}

#[test]
fn decays_must_be_negative() {
    for bad in [0.0, 2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut file = ModelFile::plain();
        file.tensor("blk.2.ssm_a").data = bytes_of(&[-1.0, -2.0, bad, -4.0]);
        file.bind_refusal(&["blk.2.ssm_a", "-exp(A_log)", &bad.to_string()]);
    }
}

#[test]
fn gains_far_from_one_are_warned_of() {
    let shifted = |shift: f32| {
        let mut file = ModelFile::plain();
        for t in file.tensors.iter_mut().filter(|t| t.name.ends_with("norm.weight")) {
            let (values, _) = t.data.as_chunks::<4>();
            let moved: Vec<f32> = values.iter().map(|b| f32::from_le_bytes(*b) + shift).collect();
            // The gated norm is stored without the 1 and must not count.
            t.data =
                if t.name.contains("ssm_norm") { bytes_of(&[9.0; 16]) } else { bytes_of(&moved) };
        }
        file.bind().unwrap().warnings
    };
    assert_eq!(shifted(0.0), Vec::<String>::new());
    assert_eq!(shifted(0.3), Vec::<String>::new());
    says(&shifted(1.0).join("\n"), &["near 2 instead of 1", "1 was added twice"]);
    says(&shifted(-1.0).join("\n"), &["near 0 instead of 1", "1 was never added"]);
}

#[test]
fn a_row_the_table_lacks_is_an_error_not_a_panic() {
    let gguf = ModelFile::plain().open();
    let error = Binder::new(&gguf, BINDINGS).matrix("blk.{}.other.weight", 0).unwrap_err();
    says(&error.to_string(), &["blk.{}.other.weight", "a row in the model's binding table"]);
    let empty = Binder::new(&gguf, &[]);
    assert!(empty.attention_qkv(3).is_err() && empty.gate_up_experts(0).is_err());
    assert!(empty.head().is_err() && empty.check(&LAYERS).is_err(), "biases are not used");
    assert_eq!(empty.bound_bytes(), 0);
}

#[test]
fn matrices_are_whole_rows() {
    let matrix =
        |k, rows, bytes: usize| Matrix::new(GgmlType::Q8_0, k, rows, Blob::from(vec![0u8; bytes]));
    let sound = matrix(64, 3, 3 * 68).unwrap();
    assert!(matrix(64, 3, 3 * 68 - 1).is_none() && matrix(64, 3, 3 * 68 + 1).is_none());
    assert!(matrix(33, 3, 102).is_none() && matrix(64, usize::MAX, 0).is_none());
    assert_eq!(sound.cut(1..3).unwrap().rows(), 2);
    assert!(sound.cut(2..4).is_none() && sound.cut(0..usize::MAX).is_none());
    assert_eq!(sound.with_scale(2.5).cut(0..1).unwrap().scale(), 2.5);
}
