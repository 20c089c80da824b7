//! Drives the engine for tests.

use std::path::Path;

use pantheon::engine::{Engine, EngineOptions, Outputs, Run};
use pantheon::gguf::Gguf;
use pantheon::state::KvFormat;

use super::open;

/// Options of most tests: exact arithmetic, `f32` keys and values, two threads.
pub fn exact() -> EngineOptions {
    EngineOptions { exact: true, ..integer() }
}

/// Options of most tests: integer arithmetic, `f32` keys and values, two threads.
pub fn integer() -> EngineOptions {
    EngineOptions {
        threads: Some(2),
        ctx: 256,
        chunk: 32,
        max_outputs: 32,
        kv: KvFormat::F32,
        exact: false,
        ..EngineOptions::default()
    }
}

/// Loads the file that `gguf` was opened from.
pub fn engine(gguf: &Gguf, options: &EngineOptions) -> Engine {
    Engine::load(open(Path::new(gguf.name())), options).unwrap_or_else(|e| panic!("{e}"))
}

/// Feeds `tokens` to `sequence`, `chunk` at a time; the logits after each, `[n][vocab]`.
pub fn logits(engine: &mut Engine, sequence: usize, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for tokens in tokens.chunks(chunk) {
        engine.step(&[Run { sequence, tokens, outputs: Outputs::All }]).unwrap();
        (0..tokens.len()).for_each(|row| out.extend_from_slice(engine.logits(row)));
    }
    out
}

/// The logits of a fresh engine after each of `tokens`.
pub fn fresh(gguf: &Gguf, options: &EngineOptions, tokens: &[u32]) -> Vec<f32> {
    logits(&mut engine(gguf, options), 0, tokens, options.chunk)
}

/// Asserts equal bits; says where the first difference is.
#[track_caller]
pub fn assert_same(what: &str, expected: &[f32], found: &[f32]) {
    assert_eq!(expected.len(), found.len(), "{what}: numbers of logits");
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
    if let Some(i) = expected.iter().zip(found).position(differs) {
        panic!("{what}: value {i} is {} instead of {}", found[i], expected[i]);
    }
    assert!(expected.iter().all(|x| x.is_finite()), "{what}: not finite");
}
