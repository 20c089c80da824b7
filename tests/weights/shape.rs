//! The shape of a file: every key it comes from, every contradiction, every kind of file refused.

use pantheon::gguf::Value;
use pantheon::model::Shape;
use pantheon::weights::shape_fields;

use crate::file::{ModelFile, says};
use crate::model::SHAPE;

const REQUIRED: [&str; 16] = [
    "block_count",
    "context_length",
    "embedding_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.dimension_sections",
    "rope.freq_base",
    "expert_count",
    "expert_used_count",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "general.architecture",
];

#[test]
fn every_field_is_read() {
    let shape = ModelFile::plain().shape().unwrap();
    assert_eq!(Shape { name: "small", ..shape.shape }, SHAPE);
    assert_eq!(shape_fields(&SHAPE).len(), 19);
}

#[test]
fn a_key_that_cannot_be_guessed_is_named() {
    for key in REQUIRED {
        let mut file = ModelFile::plain();
        file.unset(key);
        file.shape_refusal(&["small.gguf", &format!("{key}\""), "no such key"]);
    }
}

#[test]
fn keys_that_tensors_or_defaults_replace() {
    for key in [
        "full_attention_interval",
        "attention.key_length",
        "attention.value_length",
        "expert_feed_forward_length",
        "expert_shared_feed_forward_length",
        "general.type",
    ] {
        let mut file = ModelFile::plain();
        file.unset(key).is_like_plain();
    }
    let mut file = ModelFile::plain();
    file.unset("attention.head_count_kv");
    assert_eq!(file.shape().unwrap().shape.n_head_kv, 2, "as many as query heads");
    let mut file = ModelFile::plain();
    file.unset("attention.key_length").unset("attention.value_length");
    file.remove("blk.3.attn_k_norm.weight");
    file.shape_refusal(&["attention.key_length", "no such key"]);
}

#[test]
fn any_integer_width_will_do() {
    let plain = ModelFile::plain();
    let integers: Vec<_> =
        plain.keys.iter().filter_map(|(k, v)| Some((k.clone(), v.as_u64()?))).collect();
    assert!(integers.len() > 15);
    for (key, n) in integers {
        let widths: [Value; 3] = [(n as u16).into(), (n as i64).into(), n.into()];
        for width in widths {
            let mut file = plain.clone();
            file.keys.iter_mut().find(|(k, _)| *k == key).unwrap().1 = width;
            file.is_like_plain();
        }
        for wrong in [Value::from("4"), 4.0f32.into(), (-4i32).into()] {
            let mut file = plain.clone();
            file.keys.iter_mut().find(|(k, _)| *k == key).unwrap().1 = wrong.clone();
            file.shape_refusal(&[&format!("key {key:?}"), &wrong.type_name()]);
        }
    }
}

#[test]
fn wide_floats_will_do_and_other_types_not() {
    let mut file = ModelFile::plain();
    file.set("rope.freq_base", 1e7f64).set("attention.layer_norm_rms_epsilon", 1e-6f64);
    file.is_like_plain();
    for key in ["rope.freq_base", "attention.layer_norm_rms_epsilon"] {
        for bad in [Value::from("1"), f32::NAN.into(), 0f32.into(), (-1f32).into(), f64::MAX.into()]
        {
            let mut file = ModelFile::plain();
            file.set(key, bad).shape_refusal(&[key]);
        }
    }
    let mut file = ModelFile::plain();
    file.set("general.architecture", 7u32).shape_refusal(&["general.architecture", "a string"]);
}

#[test]
fn lists_per_layer() {
    let mut file = ModelFile::plain();
    file.set("attention.head_count_kv", vec![0u32, 0, 0, 1]);
    file.set("attention.head_count", vec![2u32; 4]).set("expert_used_count", vec![2i32; 4]);
    file.set("expert_feed_forward_length", vec![24u64; 4]);
    file.is_like_plain();
    for key in ["attention.head_count_kv", "attention.head_count", "expert_used_count"] {
        let mut file = ModelFile::plain();
        file.set(key, vec![1u32, 1, 2, 1]);
        file.shape_refusal(&[key, "the same in all layers", "1 in one and 2 in another"]);
        file.set(key, vec![0u32; 4]).shape_refusal(&[key, "found 0"]);
        file.set(key, Vec::<u32>::new()).shape_refusal(&[key, "found 0"]);
    }
}

#[test]
fn recurrent_layers_must_be_regular() {
    let with = |flags: Value| {
        let mut file = ModelFile::plain();
        file.set("attention.recurrent_layers", flags);
        file
    };
    with(vec![true, true, true, false].into()).is_like_plain();
    with(vec![1i32, 1, 1, 0].into()).is_like_plain();
    with(vec![true, true, true, false, false].into()).is_like_plain();
    let mut file = with(vec![true, true, true, false].into());
    file.unset("full_attention_interval").is_like_plain();

    let shape = with(vec![true, false, true, false].into()).shape().unwrap();
    assert_eq!(shape.shape.full_attention_interval, 2, "the list wins over the number");
    let key = "attention.recurrent_layers";
    for irregular in [[true, false, false, true], [false, true, true, true], [true; 4]] {
        let attention: Vec<usize> = (0..4).filter(|&i| !irregular[i]).collect();
        with(irregular.to_vec().into()).shape_refusal(&[
            key,
            "every n-th layer",
            &format!("layers {attention:?}"),
        ]);
    }
    with(vec![true, true, true].into()).shape_refusal(&[key, "each of 4 layers", "3 entries"]);
    with("no".into()).shape_refusal(&[key, "bools"]);
}

#[test]
fn position_sections() {
    for bad in [vec![2i32, 1], vec![2, 1, 1, 0, 0], vec![], vec![2, 1, -1, 0]] {
        let mut file = ModelFile::plain();
        file.set("rope.dimension_sections", bad).shape_refusal(&["rope.dimension_sections"]);
    }
    let mut file = ModelFile::plain();
    file.set("rope.dimension_sections", 4u32).shape_refusal(&["3 or 4 numbers", "1 numbers, [4]"]);
}

#[test]
fn numbers_that_contradict_each_other() {
    let cases: [(&str, u32, &[&str]); 13] = [
        ("attention.head_count", 0, &["attention.head_count", "found 0"]),
        ("attention.head_count", 3, &[]),
        ("attention.head_count_kv", 3, &["a divisor of head_count = 2", "found 3"]),
        ("expert_used_count", 7, &["at most expert_count = 6", "found 7"]),
        ("expert_count", 0, &["expert_count", "found 0"]),
        ("attention.value_length", 16, &["the same as key_length, 32", "found 16"]),
        ("rope.dimension_count", 34, &["an even number up to the head's 32", "found 34"]),
        ("rope.dimension_count", 7, &["an even number"]),
        ("ssm.time_step_rank", 3, &["a multiple of group_count = 2", "found 3"]),
        ("ssm.inner_size", 63, &["time_step_rank * state_size = 64", "found 63"]),
        ("full_attention_interval", 0, &["full_attention_interval", "found 0"]),
        ("embedding_length", 63, &["token_embd.weight", "embedding_length = 63", "f32 [64, 270]"]),
        ("ssm.conv_kernel", u32::MAX, &["ssm.conv_kernel", "4294967295"]),
    ];
    for (key, value, expected) in cases {
        let mut file = ModelFile::plain();
        file.set(key, value);
        match expected.is_empty() {
            true => assert_ne!(file.shape().unwrap().diff(&SHAPE), []),
            false => file.shape_refusal(expected),
        }
    }
}

#[test]
fn the_first_projection_has_the_channels_of_the_convolution() {
    let mut file = ModelFile::plain();
    let tensor = file.tensor("blk.0.attn_qkv.weight");
    (tensor.ne, tensor.data) = (vec![64, 127], vec![0; 64 * 127 * 4]);
    file.shape_refusal(&["blk.0.attn_qkv.weight", "= 128 rows", "found 127"]);
}

#[test]
fn more_tokens_than_rows() {
    let mut file = ModelFile::plain();
    file.set("tokenizer.ggml.tokens", vec!["x"; 270]);
    file.is_like_plain();
    file.set("tokenizer.ggml.tokens", vec!["x"; 271]);
    file.shape_refusal(&["tokenizer.ggml.tokens", "at most 270 tokens", "found 271"]);
}

#[test]
fn other_kinds_of_file() {
    for (arch, reason) in [
        ("qwen35", "dense"),
        ("qwen3next", "predecessor"),
        ("qwen4exp", "later architecture"),
        ("qwen35moe_mtp", "fork"),
        ("clip", "vision projector"),
        ("llama", "one family only"),
        ("\x1b[31m", "\\u{1b}"),
    ] {
        let mut file = ModelFile::plain();
        file.set("general.architecture", arch);
        file.shape_refusal(&["general.architecture", "expected \"qwen35moe\"", reason]);
    }
    for (kind, reason) in [("mmproj", "vision projector"), ("adapter", "LoRA"), ("vocab", "whole")]
    {
        let mut file = ModelFile::plain();
        file.set("general.type", kind).set("general.architecture", "clip");
        file.shape_refusal(&["general.type", kind, reason]);
    }
    let mut file = ModelFile::plain();
    file.set("ssm.v_head_reordered", false);
    file.shape_refusal(&["ssm.v_head_reordered", "grouped by key head"]);
}

#[test]
fn the_compiled_model_that_fits_is_chosen() {
    let other = Shape { name: "other", n_layer: 8, n_expert: 5, ..SHAPE };
    let file = ModelFile::plain().shape().unwrap();
    assert_eq!(file.choose("f", &[other, SHAPE]), Ok(1));
    assert_eq!(file.choose("f", &[SHAPE, other]), Ok(0));
}

#[test]
fn a_shape_not_compiled_in_says_what_differs_and_what_to_do() {
    let mut file = ModelFile::plain();
    file.set("expert_used_count", 3u32).set("rope.freq_base", 1e6f32).set("block_count", 41u32);
    let near = Shape { name: "near", n_head_kv: 2, ..SHAPE };
    let far = Shape { name: "far", n_layer: 40, n_embd: 2048, n_vocab: 248_320, ..SHAPE };
    let choose = |path: &str, compiled: &[Shape]| {
        file.shape().unwrap().choose(path, compiled).unwrap_err().to_string()
    };
    let text = choose("my models/x.gguf", &[far, SHAPE, near]);
    says(&text, &["my models/x.gguf: no model of this shape is compiled in."]);
    says(
        &text,
        &["The nearest, small, differs in:\n  rope.freq_base: file 1000000.0, compiled 10000000.0"],
    );
    says(&text, &["expert_used_count: file 3, compiled 2", "near differs in 3 fields"]);
    says(&text, &["far differs in 5 fields", "announces 41 layers"]);
    says(&text, &["pantheon configure 'my models/x.gguf' --write\n  cargo build --release"]);
    let tied = choose("./x.gguf", &[near, Shape { name: "twin", ..near }]);
    says(&tied, &["The nearest, near,", "The nearest, twin,", "configure ./x.gguf --write"]);
    says(&choose("it's.gguf", &[]), &[r"configure 'it'\''s.gguf' --write"]);
}

/// Every field of the shape takes part in the comparison.
#[test]
fn each_field_makes_a_difference() {
    let file = ModelFile::plain().shape().unwrap();
    let s = SHAPE;
    let others = [
        Shape { n_layer: 8, ..s },
        Shape { full_attention_interval: 2, ..s },
        Shape { n_embd: 65, ..s },
        Shape { n_vocab: 271, ..s },
        Shape { n_head: 4, ..s },
        Shape { n_head_kv: 2, ..s },
        Shape { head_dim: 16, ..s },
        Shape { rope_dim: 4, ..s },
        Shape { rope_sections: [2, 1, 0, 1], ..s },
        Shape { rope_base: 1e6, ..s },
        Shape { rms_eps: 1.000_001e-6, ..s },
        Shape { n_expert: 5, ..s },
        Shape { n_expert_used: 1, ..s },
        Shape { expert_ff: 40, ..s },
        Shape { shared_ff: 24, ..s },
        Shape { gdn_k_heads: 4, ..s },
        Shape { gdn_v_heads: 2, ..s },
        Shape { gdn_head_dim: 8, ..s },
        Shape { conv_taps: 4, ..s },
    ];
    for (other, (field, _)) in others.iter().zip(shape_fields(&SHAPE)) {
        let fields: Vec<_> = file.diff(other).iter().map(|d| d.field).collect();
        assert_eq!(fields, [field]);
    }
    assert_eq!(file.diff(&Shape { name: "another name", ..s }), []);
}
