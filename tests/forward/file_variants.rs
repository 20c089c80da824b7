//! What converters do differently must not change the numbers.

use pantheon::gguf::Gguf;
use pantheon::quant::GgmlType;

use crate::common::golden::assert_exact;
use crate::common::run::{self, assert_same};
use crate::common::synth::{self, Parts};
use crate::common::{shape, to_f32, weights};
use crate::reference::Weights;
use crate::reference::forward::Reference;

fn odd() -> Parts {
    let (_file, gguf) = synth::uniform(shape("odd"), GgmlType::F32);
    Parts::of(&gguf)
}

fn logits(gguf: &Gguf) -> Vec<f32> {
    run::fresh(gguf, &run::exact(), &tokens())
}

fn tokens() -> Vec<u32> {
    synth::tokens("variants", 12, shape("odd").n_vocab)
}

/// Asserts that `variant` computes what `plain` does, bit for bit.
fn assert_equal(what: &str, plain: &Parts, variant: &Parts) {
    let (_plain, plain) = plain.open();
    let (_variant, variant) = variant.open();
    assert_same(what, &logits(&plain), &logits(&variant));
}

/// Layers with full attention, and the others.
fn layers(attention: bool) -> impl Iterator<Item = usize> {
    let s = shape("odd");
    let is_attention = |i: usize| (i + 1).is_multiple_of(s.full_attention_interval);
    (0..s.n_layer).filter(move |&i| is_attention(i) == attention)
}

#[test]
fn other_names_extra_tensors_and_other_keys_change_no_bit() {
    let (plain, s) = (odd(), shape("odd"));
    let mut without_suffix = plain.clone();
    for i in layers(false) {
        without_suffix.tensor(&format!("blk.{i}.ssm_dt.bias")).0 = format!("blk.{i}.ssm_dt");
    }
    assert_equal("ssm_dt", &plain, &without_suffix);

    let mut three_sections = plain.clone();
    let sections = s.rope_sections.map(|n| n as i32);
    three_sections.key("rope.dimension_sections", sections[..3].to_vec());
    assert_equal("three sections", &plain, &three_sections);

    let mut vision = plain.clone();
    vision.add("v.patch_embd.weight", &[7, 3], |_| 1.0);
    vision.add("mm.0.weight", &[7, 3], |_| 1.0);
    assert_equal("vision tensors", &plain, &vision);

    let mut announced = plain.clone();
    announced.key("nextn_predict_layers", 1u32);
    announced.key("block_count", s.n_layer as u32 + 1);
    assert_equal("a draft block that is not there", &plain, &announced);

    let mut per_layer = plain.clone();
    let kv = |i| if layers(true).any(|a| a == i) { s.n_head_kv as u32 } else { 0 };
    per_layer.key("attention.head_count_kv", (0..s.n_layer).map(kv).collect::<Vec<u32>>());
    per_layer.key("expert_used_count", vec![s.n_expert_used as u32; s.n_layer]);
    assert_equal("values per layer", &plain, &per_layer);

    let mut two_dimensions = plain.clone();
    for i in 0..s.n_layer {
        two_dimensions.tensor(&format!("blk.{i}.ffn_gate_inp_shexp.weight")).1.push(1);
    }
    assert_equal("a shared gate of two dimensions", &plain, &two_dimensions);
}

#[test]
fn fused_experts_and_fused_attention_change_no_bit() {
    let (plain, s) = (odd(), shape("odd"));
    let mut fused = plain.clone();
    for i in 0..s.n_layer {
        let gate = fused.remove(&format!("blk.{i}.ffn_gate_exps.weight"));
        let up = fused.remove(&format!("blk.{i}.ffn_up_exps.weight"));
        let expert = gate.3.len() / s.n_expert;
        let pairs = gate.3.chunks(expert).zip(up.3.chunks(expert));
        let data = pairs.flat_map(|(gate, up)| [gate, up].concat()).collect();
        let ne = vec![s.n_embd as u64, 2 * s.expert_ff as u64, s.n_expert as u64];
        let name = format!("blk.{i}.ffn_gate_up_exps.weight");
        fused.tensors.push((name, ne, GgmlType::F32, data));
    }
    assert_equal("gate_up", &plain, &fused);
    for i in layers(true) {
        let parts = ["q", "k", "v"].map(|x| fused.remove(&format!("blk.{i}.attn_{x}.weight")));
        let rows = parts.iter().map(|part| part.1[1]).sum();
        let name = format!("blk.{i}.attn_qkv.weight");
        let data = parts.map(|part| part.3).concat();
        fused.tensors.push((name, vec![s.n_embd as u64, rows], GgmlType::F32, data));
    }
    assert_equal("qkv of attention layers", &plain, &fused);
}

#[test]
fn a_tied_head_is_the_embedding_table() {
    let mut tied = odd();
    tied.remove("output.weight");
    let mut copied = tied.clone();
    let mut table = copied.tensor("token_embd.weight").clone();
    table.0 = "output.weight".to_owned();
    copied.tensors.push(table);
    assert_equal("tied head", &copied, &tied);
}

#[test]
fn output_scales_and_the_experts_factor_are_applied() {
    let s = shape("odd");
    let mut parts = odd();
    let (_file, gguf) = parts.open();
    let mut scaled = weights(&gguf);
    let mut multiply = |weights: &mut Weights, name: &str, scales: &[f32]| {
        let stem = name.strip_suffix(".weight").unwrap();
        parts.add(&format!("{stem}.scale"), &[scales.len()], |i| scales[i as usize]);
        let mut values = weights.get(name).to_vec();
        let part = values.len() / scales.len();
        for (values, scale) in values.chunks_mut(part).zip(scales) {
            values.iter_mut().for_each(|value| *value *= scale);
        }
        weights.insert(name, values);
    };
    let one_per_expert: Vec<f32> = (0..s.n_expert).map(|e| 0.5 + e as f32 / 16.0).collect();
    for name in ["attn_qkv", "ssm_out", "ffn_down_shexp"] {
        multiply(&mut scaled, &format!("blk.0.{name}.weight"), &[1.5]);
    }
    for name in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"] {
        multiply(&mut scaled, &format!("blk.1.{name}.weight"), &one_per_expert);
    }
    for name in ["attn_q", "attn_v", "attn_output"] {
        multiply(&mut scaled, &format!("blk.2.{name}.weight"), &[0.75]);
    }
    multiply(&mut scaled, "output.weight", &[1.25]);
    // A factor on the experts' weights is one on their down rows.
    parts.key("expert_weights_scale", 2.5f32);
    for i in 0..s.n_layer {
        let name = format!("blk.{i}.ffn_down_exps.weight");
        let down = scaled.get(&name).iter().map(|w| w * 2.5).collect();
        scaled.insert(&name, down);
    }
    let expected = to_f32(&Reference::new(s, &scaled).tokens(&tokens()).concat());
    let (_file, gguf) = parts.open();
    assert_exact("scales", &expected, &logits(&gguf), s.n_vocab);
}
