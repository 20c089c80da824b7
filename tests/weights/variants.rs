//! Files that other converters write: all give the weights of the plain file.

use pantheon::quant::GgmlType;
use pantheon::weights::{ExpertMatrix, Matrix};

use crate::file::{ModelFile, says};
use crate::model::{SHAPE, contents};

const ATTENTION_TENSORS: [(&str, &[u64]); 16] = [
    ("attn_norm.weight", &[64]),
    ("post_attention_norm.weight", &[64]),
    ("ffn_gate_inp.weight", &[64, 6]),
    ("ffn_gate_inp_shexp.weight", &[64]),
    ("ffn_gate_exps.weight", &[64, 24, 6]),
    ("ffn_up_exps.weight", &[64, 24, 6]),
    ("ffn_down_exps.weight", &[24, 64, 6]),
    ("ffn_gate_shexp.weight", &[64, 40]),
    ("ffn_up_shexp.weight", &[64, 40]),
    ("ffn_down_shexp.weight", &[40, 64]),
    ("attn_q.weight", &[64, 128]),
    ("attn_k.weight", &[64, 32]),
    ("attn_v.weight", &[64, 32]),
    ("attn_q_norm.weight", &[32]),
    ("attn_k_norm.weight", &[32]),
    ("attn_output.weight", &[64, 64]),
];

/// Adds a draft block behind the trunk.
fn add_draft_block(file: &mut ModelFile) {
    let drafts: [(&str, &[u64]); 3] = [
        ("nextn.eh_proj.weight", &[128, 64]),
        ("nextn.enorm.weight", &[64]),
        ("nextn.hnorm.weight", &[64]),
    ];
    for (name, ne) in ATTENTION_TENSORS.iter().chain(&drafts) {
        file.add(&format!("blk.4.{name}"), ne);
    }
}

#[test]
fn a_bias_without_its_suffix() {
    let mut file = ModelFile::plain();
    for layer in 0..3 {
        file.tensor(&format!("blk.{layer}.ssm_dt.bias")).name = format!("blk.{layer}.ssm_dt");
    }
    file.is_like_plain();
}

#[test]
fn three_position_sections() {
    let mut file = ModelFile::plain();
    file.set("rope.dimension_sections", vec![2i32, 1, 1]).is_like_plain();
}

#[test]
fn tensors_of_other_purposes_are_ignored() {
    let mut file = ModelFile::plain();
    for name in ["v.x", "v.blk.0.attn_q.bias", "mm.0.weight", "mtp.fc.weight"] {
        file.add(name, &[3]);
    }
    file.add("blk.3.attn_q.input_scale", &[1]);
    file.set("ssm.v_head_reordered", true);
    file.is_like_plain();
    let plain = ModelFile::plain().bind().unwrap();
    assert_eq!(file.bind().unwrap().bytes, plain.bytes);

    file.unset("ssm.v_head_reordered");
    says(&file.shape().unwrap().warnings.join("\n"), &["order", "value heads"]);
}

#[test]
fn unknown_tensors_are_warned_of_and_biases_refused() {
    let mut file = ModelFile::plain();
    (0..5).for_each(|i| file.add(&format!("blk.{}.extra_{i}.weight", i % 4), &[3]));
    file.add("rope_freqs.weight", &[4]);
    let warnings = file.bind().unwrap().warnings.join("\n");
    says(&warnings, &["6 tensors are not used", "blk.0.extra_0.weight", "..."]);
    let harmful = ["blk.3.attn_qkv.bias", "blk.0.exp_probs_b.bias", "output.bias"];
    for name in harmful.into_iter().chain(["blk.0.attn_norm.scale", "blk.1.exp_probs_b"]) {
        let mut file = ModelFile::plain();
        file.add(name, &[6]);
        file.bind_refusal(&[name, "other results"]);
    }
}

#[test]
fn a_draft_block_is_neither_bound_nor_counted() {
    let mut file = ModelFile::plain();
    file.set("block_count", 5u32).set("nextn_predict_layers", 1u32);
    add_draft_block(&mut file);
    // What lies in it does not matter: not even a decay of the wrong sign, a bias or a shape.
    file.add("blk.4.attn_q.bias", &[128]);
    file.tensor("blk.4.ffn_up_exps.weight").ne = vec![24, 64, 6];
    file.is_like_plain();
    assert_eq!(file.shape().unwrap().facts.draft_blocks, 1);
    let plain = ModelFile::plain().bind().unwrap();
    assert_eq!(file.bind().unwrap().bytes, plain.bytes);
}

#[test]
fn a_draft_block_announced_and_missing() {
    let mut file = ModelFile::plain();
    file.set("block_count", 5u32).set("nextn_predict_layers", 1u32);
    file.is_like_plain();
    assert_eq!(file.shape().unwrap().facts.draft_blocks, 0);
}

#[test]
fn layers_are_counted_by_their_tensors() {
    let mut silent = ModelFile::plain();
    silent.set("block_count", 5u32);
    add_draft_block(&mut silent);
    let mut short = ModelFile::plain();
    short.set("block_count", 4u32).set("nextn_predict_layers", 1u32);
    let mut long = ModelFile::plain();
    long.set("block_count", 41u32);
    for (file, announced) in [(silent, 5), (short, 3), (long, 41)] {
        let shape = file.shape().unwrap();
        assert_eq!(shape.diff(&SHAPE), []);
        let expected = format!("announces {announced} layers, the file has 4");
        says(&shape.warnings.join("\n"), &[&expected]);
        assert!(file.bind().is_ok());
    }
    for huge in [u64::MAX, 1 << 63] {
        let mut file = ModelFile::plain();
        file.set("block_count", huge).set("nextn_predict_layers", u64::MAX);
        assert_eq!(file.shape().unwrap().shape.n_layer, 4);
    }
}

#[test]
fn a_hole_in_the_trunk_is_not_a_shorter_model() {
    for hole in 0..4 {
        let mut file = ModelFile::plain();
        let name = format!("blk.{hole}.attn_norm.weight");
        file.remove(&name);
        file.shape_refusal(&[&name, "no such tensor", "incomplete"]);
    }
}

#[test]
fn draft_only_and_vocabulary_only_files() {
    let mut file = ModelFile::plain();
    add_draft_block(&mut file);
    file.tensors.retain(|t| !t.name.starts_with("blk.") || t.name.starts_with("blk.4."));
    file.set("block_count", 5u32).set("nextn_predict_layers", 1u32);
    file.shape_refusal(&["blk.0.attn_norm.weight", "draft (MTP) block only"]);
    file.tensors.clear();
    file.shape_refusal(&["blk.0.attn_norm.weight", "no tensors at all", "vocabulary"]);
}

#[test]
fn the_shared_gate_in_one_or_two_dimensions() {
    let mut file = ModelFile::plain();
    for layer in 0..4 {
        file.tensor(&format!("blk.{layer}.ffn_gate_inp_shexp.weight")).ne = vec![64];
    }
    file.is_like_plain();
}

/// Joins rows of several tensors, expert by expert.
fn fuse(file: &mut ModelFile, layer: usize, parts: &[&str], fused: &str, experts: usize) {
    let parts: Vec<_> =
        parts.iter().map(|p| file.remove(&format!("blk.{layer}.{p}.weight"))).collect();
    let mut data = Vec::new();
    for e in 0..experts {
        for part in &parts {
            let len = part.data.len() / experts;
            data.extend(&part.data[e * len..(e + 1) * len]);
        }
    }
    let mut first = parts[0].clone();
    first.ne[1] = parts.iter().map(|p| p.ne[1]).sum();
    (first.name, first.data) = (format!("blk.{layer}.{fused}.weight"), data);
    file.tensors.push(first);
}

#[test]
fn fused_gate_and_up() {
    let mut file = ModelFile::plain();
    for layer in [0, 2, 3] {
        fuse(&mut file, layer, &["ffn_gate_exps", "ffn_up_exps"], "ffn_gate_up_exps", 6);
    }
    file.is_like_plain();
    file.tensor("blk.2.ffn_gate_up_exps.weight").ne = vec![64, 6, 48];
    file.bind_refusal(&["blk.2.ffn_gate_up_exps.weight", "shape [64, 48, 6]", "f32 [64, 6, 48]"]);
}

#[test]
fn fused_gate_and_up_share_the_scale_of_up() {
    let mut file = ModelFile::plain();
    fuse(&mut file, 1, &["ffn_gate_exps", "ffn_up_exps"], "ffn_gate_up_exps", 6);
    let scales = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0];
    file.add_values("blk.1.ffn_up_exps.scale", &[6], &scales);
    file.add_values("blk.1.ffn_gate_exps.scale", &[6], &[9.0; 6]);
    let bound = file.bind().unwrap();
    let moe = &bound.weights.moe[1];
    for experts in [&moe.ffn_gate_exps, &moe.ffn_up_exps] {
        assert_eq!(experts.experts.iter().map(Matrix::scale).collect::<Vec<_>>(), scales);
    }
    assert_eq!(moe.ffn_down_exps.experts[0].scale(), 1.0);
}

#[test]
fn fused_query_key_value_in_an_attention_layer() {
    let mut file = ModelFile::plain();
    fuse(&mut file, 3, &["attn_q", "attn_k", "attn_v"], "attn_qkv", 1);
    file.is_like_plain();
    file.add_values("blk.3.attn_qkv.scale", &[1], &[0.25]);
    let bound = file.bind().unwrap();
    let attn = &bound.weights.attn[0];
    for part in [&attn.attn_q, &attn.attn_k, &attn.attn_v] {
        assert_eq!(part.scale(), 0.25);
    }
    file.tensor("blk.3.attn_qkv.weight").ne = vec![192, 64];
    file.bind_refusal(&["blk.3.attn_qkv.weight", "shape [64, 192]", "f32 [192, 64]"]);
}

#[test]
fn scales_beside_their_matrices() {
    let mut file = ModelFile::plain();
    let experts = [1.0, 2.0, 0.5, 4.0, 8.0, 16.0];
    file.add_values("blk.0.attn_gate.scale", &[1], &[3.0]);
    file.add_values("blk.1.ssm_out.weight.scale", &[1], &[7.0]);
    file.add_values("blk.2.ffn_down_exps.scale", &[6], &experts);
    file.add_values("blk.3.ffn_up_exps.scale", &[1], &[6.0]);
    file.add_values("output.scale", &[1], &[0.125]);
    let bound = file.bind().unwrap();
    let weights = &bound.weights;
    assert_eq!(weights.gdn[0].attn_gate.scale(), 3.0);
    assert_eq!(weights.gdn[1].ssm_out.scale(), 7.0);
    assert_eq!(weights.gdn[1].attn_gate.scale(), 1.0);
    let of = |m: &ExpertMatrix| m.experts.iter().map(Matrix::scale).collect::<Vec<_>>();
    assert_eq!(of(&weights.moe[2].ffn_down_exps), experts);
    assert_eq!(of(&weights.moe[3].ffn_up_exps), [6.0; 6]);
    assert_eq!(of(&weights.moe[3].ffn_gate_exps), [1.0; 6]);
    assert_eq!(weights.output.scale(), 0.125);
    assert_eq!(weights.token_embd.scale(), 1.0);
    assert!(bound.warnings.is_empty());
}

#[test]
fn scales_that_cannot_be_right() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut file = ModelFile::plain();
        file.add_values("blk.0.ffn_up_exps.scale", &[6], &[1.0, 1.0, 1.0, 1.0, 1.0, bad]);
        file.bind_refusal(&["blk.0.ffn_up_exps.scale", "finite scales", &bad.to_string()]);
    }
    for (name, n) in [("blk.0.ffn_up_exps.scale", 5), ("blk.0.attn_gate.scale", 64)] {
        let mut file = ModelFile::plain();
        file.add(name, &[n]);
        file.bind_refusal(&[name, &format!("found f32 [{n}]")]);
    }
    let mut file = ModelFile::plain();
    file.add("blk.0.attn_gate.scale", &[1]);
    file.tensor("blk.0.attn_gate.scale").ty = GgmlType::I32;
    file.bind_refusal(&["blk.0.attn_gate.scale", "i32 [1]"]);
}

#[test]
fn a_tied_head_is_the_embedding_table() {
    let mut file = ModelFile::plain();
    let output = file.remove("output.weight");
    let plain = ModelFile::plain().bind().unwrap();
    let bound = file.bind().unwrap();
    let (table, head) = (&bound.weights.token_embd, &bound.weights.output);
    assert_eq!(head.bytes().as_ptr_range(), table.bytes().as_ptr_range(), "one table, not two");
    assert_eq!((head.k(), head.rows()), (64, 270));
    assert_eq!(bound.bytes, plain.bytes - output.data.len() as u64);
    assert!(bound.warnings.is_empty());

    file.add_values("output.scale", &[1], &[0.5]);
    let bound = file.bind().unwrap();
    assert_eq!((bound.weights.output.scale(), bound.weights.token_embd.scale()), (0.5, 1.0));

    file.remove("token_embd.weight");
    let error = file.bind().unwrap_err();
    assert_eq!(error.problems.len(), 1, "the table is missing once: {error}");
    says(&error.to_string(), &["token_embd.weight", "no such tensor"]);
}

#[test]
fn two_equal_heads_are_two_tensors() {
    let mut file = ModelFile::plain();
    let table = file.tensor("token_embd.weight").data.clone();
    file.tensor("output.weight").data = table;
    let bound = file.bind().unwrap();
    assert_ne!(bound.weights.output.bytes().as_ptr(), bound.weights.token_embd.bytes().as_ptr());
    assert_ne!(contents(&bound.weights), contents(&ModelFile::plain().bind().unwrap().weights));
}
