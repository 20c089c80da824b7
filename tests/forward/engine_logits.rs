//! The engine's logits against every oracle: llama.cpp, and the reference where no other has been.

use std::process::Command;

use pantheon::engine::EngineOptions;
use pantheon::gguf::Gguf;
use pantheon::model::Shape;
use pantheon::quant::GgmlType;

use crate::common::golden::{self, assert_exact, distance};
use crate::common::{demo, file, mixed, run, shape, synth, to_f32, weights};
use crate::reference::forward::Reference;

/// The reference's logits, `[n][vocab]`.
fn reference(gguf: &Gguf, s: &Shape, tokens: &[u32]) -> Vec<f32> {
    to_f32(&Reference::new(s, &weights(gguf)).tokens(tokens).concat())
}

/// The prompts of the demo model with their exact logits: name, tokens, logits, llama.cpp's KL.
fn prompts() -> Vec<(String, Vec<u32>, Vec<f32>, f64)> {
    let index = golden::json("index");
    let row = |row: &serde_json::Value| {
        let npz = row["exact"].as_str().unwrap().trim_end_matches(".npz");
        let tokens = golden::tokens(npz, "tokens");
        let name = row["name"].as_str().unwrap().to_owned();
        (name, tokens, golden::array(npz, "logits"), row["llama_kl"].as_f64().unwrap())
    };
    index["logits"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn exact_logits_of_the_demo_model_are_llama_cpps() {
    let (gguf, vocab) = (demo(), shape("tiny").n_vocab);
    let mut engine = run::engine(&gguf, &run::exact());
    for (name, tokens, logits, _) in prompts() {
        engine.reset(0);
        assert_exact(&name, &logits, &run::logits(&mut engine, 0, &tokens, 32), vocab);
    }
}

#[test]
fn greedy_text_of_the_demo_model_is_llama_cpps() {
    let gguf = demo();
    let mut engine = run::engine(&gguf, &run::exact());
    for (name, tokens, ..) in prompts() {
        let wanted = golden::tokens(&format!("exact-q4_k_m-{name}"), "greedy64");
        engine.reset(0);
        let logits = run::logits(&mut engine, 0, &tokens, 32);
        let mut next = golden::argmax(&logits[logits.len() - engine.shape().n_vocab..]);
        let mut found = vec![next];
        while found.len() < wanted.len() {
            next = golden::argmax(&run::logits(&mut engine, 0, &[next], 1));
            found.push(next);
        }
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn integer_arithmetic_is_as_near_to_exact_as_llama_cpps() {
    let (gguf, vocab) = (demo(), shape("tiny").n_vocab);
    let mut engine = run::engine(&gguf, &run::integer());
    let (mut ours, mut llama) = (0.0, 0.0);
    for (name, tokens, logits, theirs) in prompts() {
        engine.reset(0);
        let kl = distance(&logits, &run::logits(&mut engine, 0, &tokens, 32), vocab).kl;
        // Near ties between experts flip outside the training distribution.
        let outside = name == "unicode";
        let bar = 2.0 * theirs + if outside { 1e-3 } else { 2e-5 };
        assert!(kl <= bar, "{name}: {kl:.2e}, llama.cpp {theirs:.2e}");
        if !outside {
            (ours, llama) = (ours + kl, llama + theirs);
        }
    }
    assert!(ours <= 1.25 * llama, "sum {ours:.2e}, llama.cpp {llama:.2e}");
}

#[test]
fn half_precision_keys_and_values_stay_near_exact() {
    let options = EngineOptions { kv: pantheon::state::KvFormat::F16, ..run::exact() };
    let (_, tokens, logits, _) = prompts().swap_remove(0);
    let d = distance(&logits, &run::fresh(&demo(), &options, &tokens), shape("tiny").n_vocab);
    // 11 bits of keys and values, but no more than that.
    assert!(d.kl <= 1e-6 && d.max > golden::EXACT_DIFF / 10.0, "{d:?}");
}

#[test]
fn many_block_types_in_one_file_are_exact() {
    let (gguf, s) = (mixed(), shape("tiny"));
    let llama = golden::json("llama");
    for name in ["story", "kjv"] {
        let tokens = golden::prompt(name);
        let exact = reference(&gguf, s, &tokens);
        assert_exact(name, &exact, &run::fresh(&gguf, &run::exact(), &tokens), s.n_vocab);
        let kl = distance(&exact, &run::fresh(&gguf, &run::integer(), &tokens), s.n_vocab).kl;
        let theirs = llama["tiny-mixed"][name].as_f64().unwrap();
        assert!(kl <= 2.0 * theirs + 2e-5, "{name}: {kl:.2e}, llama.cpp {theirs:.2e}");
    }
}

#[test]
fn odd_dimensions_are_exact_by_llama_cpp_and_by_the_reference() {
    let s = shape("odd");
    let tokens = golden::tokens("odd", "tokens");
    for (name, (_file, gguf)) in
        [("f32", synth::uniform(s, GgmlType::F32)), ("blocks", synth::odd_blocks(s))]
    {
        let found = run::fresh(&gguf, &run::exact(), &tokens);
        let reference = reference(&gguf, s, &tokens);
        assert_exact(&format!("{name}, llama.cpp"), &golden::array("odd", name), &found, s.n_vocab);
        assert_exact(&format!("{name}, reference"), &reference, &found, s.n_vocab);
    }
}

#[test]
fn odd_dimensions_in_integers_are_as_near_to_exact_as_llama_cpps() {
    let s = shape("odd");
    let tokens = golden::tokens("odd", "tokens");
    let (_file, gguf) = synth::odd_blocks(s);
    let found = run::fresh(&gguf, &run::integer(), &tokens);
    let kl = distance(&golden::array("odd", "blocks"), &found, s.n_vocab).kl;
    let theirs = golden::json("llama")["odd-blocks"].as_f64().unwrap();
    assert!(kl <= 2.0 * theirs + 1e-3, "{kl:.2e}, llama.cpp {theirs:.2e}");
}

#[test]
fn random_prompts_of_many_lengths_are_exact() {
    let (gguf, s) = (demo(), shape("tiny"));
    let weights = weights(&gguf);
    let mut engine = run::engine(&gguf, &run::exact());
    for n in [1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 70] {
        let tokens = synth::tokens(&format!("prompt {n}"), n, s.n_vocab);
        let expected = to_f32(&Reference::new(s, &weights).tokens(&tokens).concat());
        engine.reset(0);
        let found = run::logits(&mut engine, 0, &tokens, 32);
        assert_exact(&format!("{n} tokens"), &expected, &found, s.n_vocab);
    }
}

#[test]
fn a_draft_block_changes_no_bit() {
    let (gguf, s) = (demo(), shape("tiny"));
    let (_file, with_draft) = synth::with_draft_block(&gguf, s);
    assert!(with_draft.tensors().len() == gguf.tensors().len() + 20);
    let tokens = &golden::prompt("kjv")[..40];
    for options in [run::exact(), run::integer()] {
        let plain = run::engine(&gguf, &options);
        let draft = run::engine(&with_draft, &options);
        assert_eq!(plain.memory().weights, draft.memory().weights, "bytes of weights");
        let expected = run::fresh(&gguf, &options, tokens);
        run::assert_same("draft block", &expected, &run::fresh(&with_draft, &options, tokens));
    }
}

#[test]
fn perplexity_of_held_out_texts_is_not_above_llama_cpps() {
    for (text, wanted) in golden::json("index")["perplexity"].as_object().unwrap() {
        let done = Command::new(env!("CARGO_BIN_EXE_pantheon"))
            .args(["perplexity", "--ctx", "256", "--chunks", "20", "--json", "-m"])
            .arg(file("assets/tiny-q4_k_m.gguf"))
            .arg("-f")
            .arg(file(&format!("tests/golden/heldout_{text}.txt")))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let out: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let (found, wanted) = (out["ppl"].as_f64().unwrap(), wanted.as_f64().unwrap());
        assert!(found <= 1.002 * wanted, "{text}: {found}, llama.cpp {wanted}");
        assert!(found >= 0.99 * wanted, "{text}: {found} is too good; llama.cpp {wanted}");
    }
}
