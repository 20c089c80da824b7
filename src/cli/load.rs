//! Opening files and loading engines, with what is worth saying on the way.

use super::args::{ComputeArgs, ModelArgs, PreArgs};
use super::{demo, output, usage};
use crate::engine::{Engine, EngineOptions, Fix, LoadError, MemoryUse};
use crate::gguf::Gguf;
use crate::memory::{Bytes, HostMemory};
use crate::state::KvFormat;
use crate::tokenizer::Tokenizer;

impl ModelArgs {
    /// Opens the file, or the demo model if none is given.
    pub(super) fn open(&self) -> anyhow::Result<Gguf> {
        Ok(match &self.model {
            Some(path) => Gguf::open(path)?,
            None => Gguf::from_static(demo::NAME, demo::bytes())?,
        })
    }

    /// Whether the demo model is meant.
    pub(super) fn is_demo(&self) -> bool {
        self.model.is_none()
    }
}

impl ComputeArgs {
    /// Engine options: `base` with what was asked for.
    pub(super) fn options(&self, kv: KvFormat, base: EngineOptions) -> EngineOptions {
        EngineOptions {
            threads: self.threads,
            kv: self.kv.unwrap_or(kv),
            exact: self.exact,
            isa: self.isa,
            memory: self.force.then_some(u64::MAX),
            ..base
        }
    }
}

/// The tokenizer of `gguf`; its remarks go to stderr.
pub(super) fn tokenizer(gguf: &Gguf, pre: &PreArgs) -> anyhow::Result<Tokenizer> {
    let tokenizer = Tokenizer::from_gguf(gguf, pre.pre.as_deref())?;
    const TYPES: &str = "tokenizer.ggml.token_type";
    if gguf.get(TYPES).is_none() {
        output::note(format_args!(
            "warning: no `{TYPES}`: all tokens but those that end an answer are taken for text"
        ));
    }
    warn(tokenizer.warnings());
    Ok(tokenizer)
}

/// Loads the engine; its remarks go to stderr.
pub(super) fn engine(gguf: Gguf, options: &EngineOptions) -> anyhow::Result<Engine> {
    engine_with(gguf, options, "--ctx")
}

/// As [`engine`], for a command whose context is given by the flags `ctx`.
pub(super) fn engine_with(
    gguf: Gguf,
    options: &EngineOptions,
    ctx: &str,
) -> anyhow::Result<Engine> {
    let is_demo = gguf.name() == demo::NAME;
    let loaded = Engine::needs(&gguf, options).and_then(|needed| {
        warn_of_paging(&needed);
        let spinner = output::spinner("loading");
        let loaded = Engine::load(gguf, options);
        spinner.finish_and_clear();
        loaded
    });
    let engine = match loaded {
        Err(LoadError::Option { option, found, expected }) => {
            let flag = if option == "sequences" { "batch" } else { option };
            return usage(format!("--{flag} {found}: expected {expected}"));
        }
        Err(LoadError::Shape(_)) if is_demo => anyhow::bail!(
            "this build does not include the shape of the demo model; give a model with -m FILE"
        ),
        Err(LoadError::Memory(shortage)) => anyhow::bail!(
            "{}; {}--force loads it all the same",
            shortage.figures(),
            fixes(&shortage.fixes, ctx)
        ),
        loaded => loaded?,
    };
    warn(engine.warnings());
    Ok(engine)
}

/// What makes an engine fit, as flags.
fn fixes(fixes: &[Fix], ctx: &str) -> String {
    let flags: Vec<String> = fixes
        .iter()
        .filter_map(|fix| match fix {
            Fix::Ctx(n) => Some(format!("{ctx} {n}")),
            Fix::Sequences(n) => Some(format!("--batch {n}")),
            Fix::Kv(format) => Some(format!("--kv {format}")),
            // Commands choose it themselves.
            Fix::Outputs(_) => None,
        })
        .collect();
    if flags.is_empty() { String::new() } else { format!("it fits with {}; ", flags.join(" or ")) }
}

/// Rows of the head, before anything is loaded: the second dimension of its tensor.
pub(super) fn vocabulary_rows(gguf: &Gguf) -> usize {
    let rows = gguf.tensor("token_embd.weight").map_or(0, crate::gguf::Tensor::rows);
    usize::try_from(rows).unwrap_or(usize::MAX)
}

/// Rows of logits that fit into a sensible buffer, at most `wanted`.
pub(super) fn output_rows(gguf: &Gguf, wanted: usize) -> usize {
    const BUFFER: usize = 64 << 20;
    let row = vocabulary_rows(gguf).max(1).saturating_mul(size_of::<f32>());
    (BUFFER / row).clamp(16, 512).min(wanted).max(1)
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        output::note(format_args!("warning: {warning}"));
    }
}

fn warn_of_paging(needed: &MemoryUse) {
    let total = needed.weights + needed.allocated();
    let host = HostMemory::read();
    // What is already resident has been counted as used.
    let free = host.free().map(|free| free + host.resident.unwrap_or(0));
    if let Some(free) = free.filter(|free| *free < total) {
        output::note(format_args!(
            "warning: the model needs {} (weights {}, KV {}, states {}, buffers {}), {} is free: \
             weights will be read from disk again and again; a smaller --ctx or file helps",
            Bytes(total),
            Bytes(needed.weights),
            Bytes(needed.kv),
            Bytes(needed.states),
            Bytes(needed.arena),
            Bytes(free)
        ));
    }
}
