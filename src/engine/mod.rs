//! Sequences and steps: the library's front door.
//!
//! An [`Engine`] holds a model and a fixed number of sequences. [`Engine::step`] computes some tokens of
//! some sequences in one pass over the weights; everything else is built on it.

mod compiled;
mod error;
mod fit;

pub use compiled::Compiled;
pub use error::{LoadError, StepError};
pub use fit::{Fix, MemoryShortage};

use crate::cpu::{Isa, Trace};
use crate::gguf::Gguf;
use crate::model::Shape;
use crate::state::KvFormat;

/// What an engine is made for. Fixed at load: nothing is allocated afterwards.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Worker threads; the physical cores available to the process if not given.
    pub threads: Option<usize>,
    /// Tokens that attention can look back on, per sequence.
    pub ctx: usize,
    /// Independent sequences.
    pub sequences: usize,
    /// Most tokens in one step.
    pub chunk: usize,
    /// Most rows of logits in one step.
    pub max_outputs: usize,
    /// Storage of keys and values.
    pub kv: KvFormat,
    /// f32 activations and dequantised weights instead of integer dot products: slow, for checking.
    pub exact: bool,
    /// Instruction set; the best one available if not given.
    pub isa: Option<Isa>,
    /// Most bytes that may be allocated; what the system says is available if not given. With
    /// `u64::MAX` everything goes, until the system refuses or ends the process.
    pub memory: Option<u64>,
}

impl EngineOptions {
    /// What [`EngineOptions::ctx`] can be, in tokens.
    pub const CTX: std::ops::RangeInclusive<usize> = 16..=262_144;
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: None,
            ctx: 4096,
            sequences: 1,
            chunk: 512,
            max_outputs: 1,
            kv: KvFormat::F16,
            exact: false,
            isa: None,
            memory: None,
        }
    }
}

/// Which tokens of a run produce logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None of them.
    None,
    /// The last one.
    Last,
    /// Every one.
    All,
}

/// The next tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The sequence, `0..sequences`.
    pub sequence: usize,
    /// Its next tokens, at least one.
    pub tokens: &'a [u32],
    /// Which of them produce logits.
    pub outputs: Outputs,
}

/// Memory of a loaded engine, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Weights that the model reads, mapped from the file.
    pub weights: u64,
    /// KV rings of all sequences.
    pub kv: u64,
    /// Recurrent states of all sequences.
    pub states: u64,
    /// Intermediates, logits and what each thread needs for itself.
    pub arena: u64,
}

impl MemoryUse {
    /// Bytes that were allocated: all but the weights, which are mapped.
    pub fn allocated(&self) -> u64 {
        self.kv.saturating_add(self.states).saturating_add(self.arena)
    }
}

/// What runs a compiled-in model. One implementation per kind of device.
pub(crate) trait Executor: Send {
    /// Computes checked runs.
    fn step(&mut self, runs: &[Run<'_>]);
    fn logits(&self, row: usize) -> &[f32];
    fn outputs(&self) -> usize;
    fn position(&self, sequence: usize) -> usize;
    fn reset(&mut self, sequence: usize);
    fn isa(&self) -> Isa;
    fn threads(&self) -> usize;
    fn memory(&self) -> MemoryUse;
    fn set_trace(&mut self, trace: Option<Trace>);
    fn poison(&mut self);
}

/// A model ready to run.
pub struct Engine {
    gguf: Gguf,
    shape: &'static Shape,
    options: EngineOptions,
    warnings: Vec<String>,
    executor: Box<dyn Executor>,
}

impl Engine {
    /// Binds a file to the compiled-in model of its shape and allocates everything.
    ///
    /// # Errors
    /// The file is not a `qwen35moe` model, its shape is not compiled in, a tensor is missing or wrong,
    /// an option is out of range, or there is less memory than all this takes.
    pub fn load(gguf: Gguf, options: &EngineOptions) -> Result<Self, LoadError> {
        let loaded = compiled::load(&gguf, options)?;
        Ok(Self {
            gguf,
            shape: loaded.shape,
            options: options.clone(),
            warnings: loaded.warnings,
            executor: loaded.executor,
        })
    }

    /// About what an engine will hold: to be known before it is loaded, since loading takes it.
    ///
    /// # Errors
    /// As [`Engine::load`], as far as header and options tell.
    pub fn needs(gguf: &Gguf, options: &EngineOptions) -> Result<MemoryUse, LoadError> {
        compiled::needs(gguf, options)
    }

    /// What is odd about the file but can be lived with.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Dimensions of the model.
    pub fn shape(&self) -> &'static Shape {
        self.shape
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// The options it was loaded with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Worker threads in use.
    pub fn threads(&self) -> usize {
        self.executor.threads()
    }

    /// Instruction set in use.
    pub fn isa(&self) -> Isa {
        self.executor.isa()
    }

    /// Memory held.
    pub fn memory(&self) -> MemoryUse {
        self.executor.memory()
    }

    /// Tokens that a sequence has seen since its last reset.
    ///
    /// # Panics
    /// There is no such sequence.
    pub fn position(&self, sequence: usize) -> usize {
        self.executor.position(sequence)
    }

    /// Starts a sequence anew.
    ///
    /// # Panics
    /// There is no such sequence.
    pub fn reset(&mut self, sequence: usize) {
        self.executor.reset(sequence);
    }

    /// Computes the next tokens of one or more sequences in one pass over the weights.
    ///
    /// Results do not depend on how tokens are cut into steps or which sequences share one.
    ///
    /// # Errors
    /// A run names no token, an unknown token or sequence, or there is more than the engine was made
    /// for. Nothing has been computed then.
    pub fn step(&mut self, runs: &[Run<'_>]) -> Result<(), StepError> {
        error::check_step(runs, self.shape, &self.options)?;
        self.executor.step(runs);
        Ok(())
    }

    /// Logits `[n_vocab]` of the `row`-th output of the last step, in the order of its runs.
    ///
    /// # Panics
    /// The last step had fewer outputs.
    pub fn logits(&self, row: usize) -> &[f32] {
        self.executor.logits(row)
    }

    /// Rows of logits that the last step produced.
    pub fn outputs(&self) -> usize {
        self.executor.outputs()
    }

    /// Computes a sequence's next tokens in chunks, with the logits of the last one; `progress` gets the
    /// number of tokens done after each chunk and may stop the work by returning `false`.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn prefill(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        mut progress: impl FnMut(usize) -> bool,
    ) -> Result<(), StepError> {
        let mut done = 0;
        for chunk in tokens.chunks(self.options.chunk) {
            done += chunk.len();
            let outputs = if done == tokens.len() { Outputs::Last } else { Outputs::None };
            self.step(&[Run { sequence, tokens: chunk, outputs }])?;
            if !progress(done) {
                break;
            }
        }
        Ok(())
    }

    /// Watches every intermediate of the following steps; for tests.
    #[doc(hidden)]
    pub fn set_trace(&mut self, trace: Option<Trace>) {
        self.executor.set_trace(trace);
    }

    /// Resets all sequences and overwrites all working memory with NaN patterns; for tests.
    #[doc(hidden)]
    pub fn poison(&mut self) {
        self.executor.poison();
    }
}
