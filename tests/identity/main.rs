//! The same bits, however the work is cut: threads, chunks, batches, instruction sets, memory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../reference/mod.rs"]
mod reference;

mod batches;
mod cuts;
mod memory;
mod workers;

use common::{demo, run, shape, synth};
use pantheon::engine::EngineOptions;
use pantheon::gguf::Gguf;
use tempfile::NamedTempFile;

/// A model and the way it is run.
struct Case {
    name: &'static str,
    gguf: Gguf,
    options: EngineOptions,
    vocab: usize,
    _file: Option<NamedTempFile>,
}

/// K-quants and blocks of 32 in integers, and blocks of 32 in exact arithmetic: the three kinds of
/// sums there are.
fn cases() -> Vec<Case> {
    let case = |name, gguf, options, file| {
        let shape = if name == "super-blocks" { shape("tiny") } else { shape("odd") };
        Case { name, gguf, options, vocab: shape.n_vocab, _file: file }
    };
    let (file, odd) = synth::odd_blocks(shape("odd"));
    let again = common::open(file.path());
    vec![
        case("super-blocks", demo(), run::integer(), None),
        case("blocks", odd, run::integer(), None),
        case("floats", again, run::exact(), Some(file)),
    ]
}

impl Case {
    /// `n` token ids that depend on `name`.
    fn tokens(&self, name: &str, n: usize) -> Vec<u32> {
        synth::tokens(name, n, self.vocab)
    }

    /// Logits of a fresh engine, `options.chunk` tokens at a time.
    fn fresh(&self, options: &EngineOptions, tokens: &[u32]) -> Vec<f32> {
        run::fresh(&self.gguf, options, tokens)
    }
}
