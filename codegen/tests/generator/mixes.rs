//! Type mixes, against files whose contents are known.

use std::collections::BTreeMap;

use pantheon_codegen::{mix, plan::Stored};

use super::plan;

fn stored(model: &str, name: &str) -> Vec<Stored> {
    plan(model).stored(mix::lookup(name).expect("a mix"))
}

/// How many tensors of each type a file has.
fn count(tensors: &[Stored]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for tensor in tensors {
        *counts.entry(tensor.ty.as_str()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn nex_n2_mini_has_the_counts_of_real_files() {
    // As loaders print them; of the files with a draft block without its tensors.
    let files: [(&str, &[(&str, usize)]); 4] = [
        ("q4_k_m", &[("f32", 301), ("q4_K", 355), ("q5_K", 30), ("q6_K", 47)]),
        ("iq4_xs", &[("f32", 301), ("iq4_xs", 391), ("q5_K", 40), ("q6_K", 1)]),
        ("q8_0", &[("f32", 301), ("q8_0", 432)]),
        ("nvfp4", &[("f32", 301), ("nvfp4", 240), ("q8_0", 192)]),
    ];
    for (name, expected) in files {
        let tensors = stored("nex-n2-mini", name);
        assert_eq!(tensors.len(), 733);
        assert_eq!(count(&tensors), expected.iter().copied().collect(), "{name}");
    }
}

#[test]
fn nex_n2_mini_has_the_size_of_real_files() {
    // In GB: pure types as computed from the parameters, mixes as files are listed.
    for (name, size) in [("bf16", 69.4), ("q8_0", 36.9), ("q6_k", 28.5), ("q4_k_m", 21.15)] {
        let bytes: u64 = stored("nex-n2-mini", name).iter().map(|tensor| tensor.bytes).sum();
        let found = bytes as f64 / 1e9;
        assert!((found / size - 1.0).abs() < 0.005, "{name}: expected {size} GB, found {found}");
    }
}

#[test]
fn more_bits_go_to_the_layers_that_the_quantiser_chose() {
    let tensors = stored("nex-n2-mini", "q4_k_m");
    let q6 = |class: &str| -> Vec<usize> {
        let suffix = format!(".{class}.weight");
        let here = tensors.iter().filter(|t| t.name.ends_with(&suffix) && t.ty == "q6_K");
        here.map(|t| t.name.split('.').nth(1).expect("a layer").parse().expect("a number"))
            .collect()
    };
    let half: Vec<usize> = (0..40).filter(|i| *i < 5 || *i >= 35 || (i - 5) % 3 == 2).collect();
    assert_eq!(q6("ffn_down_exps"), half);
    assert_eq!(q6("ffn_down_shexp"), half);
    // The 1st to the 5th and the 8th attention layer.
    assert_eq!(q6("attn_v"), [3, 7, 11, 15, 19, 31]);
}

#[test]
fn with_eight_experts_attention_gets_more() {
    let tensors = stored("tiny", "q4_k_m");
    let ty = |name: &str| tensors.iter().find(|t| t.name == name).expect("a tensor").ty.as_str();
    let expected = [
        ("token_embd.weight", "q4_K"),
        ("output.weight", "q6_K"),
        ("blk.0.attn_qkv.weight", "q8_0"),
        ("blk.0.attn_gate.weight", "q4_K"),
        ("blk.2.attn_q.weight", "q4_K"),
        ("blk.2.attn_k.weight", "q8_0"),
        ("blk.2.attn_v.weight", "q8_0"),
        ("blk.2.attn_output.weight", "q5_K"),
        ("blk.1.ffn_down_exps.weight", "q4_K"),
        ("blk.2.ffn_down_exps.weight", "q6_K"),
        ("blk.5.ffn_down_shexp.weight", "q6_K"),
        ("blk.0.ffn_gate_inp.weight", "f32"),
    ];
    for (name, expected) in expected {
        assert_eq!(ty(name), expected, "{name}");
    }
}

#[test]
fn rows_are_whole_blocks_in_every_mix() {
    for mix in &mix::MIXES {
        for model in ["nex-n2-mini", "tiny", "odd", "qwen3.5-397b-a17b"] {
            for tensor in plan(model).stored(mix) {
                let ty = pantheon_codegen::types::BlockType::lookup(&tensor.ty).expect("a type");
                let whole = tensor.ne[0] % ty.values as u64 == 0;
                assert!(whole, "{model} {}: {} as {}", mix.name, tensor.name, tensor.ty);
                assert!(tensor.bytes > 0);
            }
        }
    }
}

#[test]
fn mixes_have_names_of_their_own() {
    let mut names: Vec<&str> = mix::names().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), mix::MIXES.len());
    assert!(mix::lookup("q4_K_M").is_none(), "names are lower case");
}
