//! The reference itself against llama.cpp's exact logits: what the engine is measured with is right.

use pantheon::gguf::Gguf;
use pantheon::model::Shape;
use pantheon::quant::GgmlType;

use crate::common::golden::{self, distance};
use crate::common::{demo, shape, synth, to_f32, weights};
use crate::reference::forward::Reference;

/// Asserts what float32 arithmetic in llama.cpp leaves between the two, a tenth of the bars.
fn assert_reference(what: &str, gguf: &Gguf, s: &Shape, tokens: &[u32], logits: &[f32]) {
    let found = to_f32(&Reference::new(s, &weights(gguf)).tokens(tokens).concat());
    let d = distance(logits, &found, s.n_vocab);
    assert!(d.kl <= 1e-10 && d.max <= 1e-4, "{what}: {d:?}");
}

#[test]
fn reference_gives_llama_cpps_exact_logits_of_trained_weights() {
    let (gguf, s) = (demo(), shape("tiny"));
    for name in ["story", "unicode"] {
        let npz = format!("exact-q4_k_m-{name}");
        let tokens = golden::tokens(&npz, "tokens");
        assert_reference(name, &gguf, s, &tokens, &golden::array(&npz, "logits"));
    }
}

#[test]
fn reference_gives_llama_cpps_exact_logits_of_unequal_dimensions() {
    let s = shape("odd");
    let tokens = golden::tokens("odd", "tokens");
    let (_f32, f32) = synth::uniform(s, GgmlType::F32);
    assert_reference("f32", &f32, s, &tokens, &golden::array("odd", "f32"));
    let (_blocks, blocks) = synth::odd_blocks(s);
    assert_reference("blocks", &blocks, s, &tokens, &golden::array("odd", "blocks"));
}
