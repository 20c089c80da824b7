//! What can be wrong with a file, an option or a step.

use super::{EngineOptions, MemoryShortage, Outputs, Run};
use crate::cpu::team::OutOfMemory;
use crate::gguf::GgufError;
use crate::memory::Bytes;
use crate::model::Shape;
use crate::weights::{BindError, ShapeMismatch};

/// A model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file itself.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Its architecture or dimensions.
    #[error(transparent)]
    Shape(#[from] ShapeMismatch),
    /// Its tensors.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An option.
    #[error("{option} is {found}; expected {expected}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        found: usize,
        /// What can be given.
        expected: String,
    },
    /// An instruction set that this processor does not have.
    #[error("instruction set {0} is not available on this processor")]
    Isa(crate::cpu::Isa),
    /// An instruction set that was asked for and computes wrongly.
    #[error("{0}; leave the instruction set open or take another")]
    Kernel(#[from] crate::cpu::WrongKernel),
    /// More memory than there is.
    #[error(transparent)]
    Memory(#[from] Box<MemoryShortage>),
    /// Memory that the system refused.
    #[error("the system refuses {} of memory; a smaller ctx or fewer sequences need less", Bytes(*.bytes))]
    Allocation {
        /// What was asked for.
        bytes: u64,
    },
    /// Threads.
    #[error("cannot start worker threads; try fewer with `-t`")]
    Threads(#[source] std::io::Error),
}

impl From<OutOfMemory> for LoadError {
    fn from(refused: OutOfMemory) -> Self {
        Self::Allocation { bytes: refused.bytes as u64 }
    }
}

/// A step that cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No run, or a run without a token.
    #[error("a step needs at least one token in every run")]
    Empty,
    /// A sequence that does not exist.
    #[error("sequence {found} does not exist; the engine was loaded with {sequences}")]
    Sequence {
        /// What was given.
        found: usize,
        /// How many there are.
        sequences: usize,
    },
    /// A sequence named twice in one step.
    #[error("sequence {0} appears twice in one step")]
    Twice(usize),
    /// A token that the vocabulary does not have.
    #[error("token id {found} is not in the vocabulary of {n_vocab} tokens")]
    Token {
        /// What was given.
        found: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// Too many tokens.
    #[error("a step of {found} tokens exceeds the {chunk} that the engine was loaded for")]
    Tokens {
        /// What was given.
        found: usize,
        /// What fits.
        chunk: usize,
    },
    /// Too many rows of logits.
    #[error("{found} rows of logits exceed the {max_outputs} that the engine was loaded for")]
    Outputs {
        /// What was asked for.
        found: usize,
        /// What fits.
        max_outputs: usize,
    },
}

/// Everything a step must satisfy before anything is computed.
pub(super) fn check_step(
    runs: &[Run<'_>],
    shape: &Shape,
    options: &EngineOptions,
) -> Result<(), StepError> {
    let (mut tokens, mut outputs) = (0, 0);
    for (i, run) in runs.iter().enumerate() {
        if run.sequence >= options.sequences {
            let (found, sequences) = (run.sequence, options.sequences);
            return Err(StepError::Sequence { found, sequences });
        }
        if runs[..i].iter().any(|other| other.sequence == run.sequence) {
            return Err(StepError::Twice(run.sequence));
        }
        if let Some(&found) = run.tokens.iter().find(|id| **id as usize >= shape.n_vocab) {
            return Err(StepError::Token { found, n_vocab: shape.n_vocab });
        }
        if run.tokens.is_empty() {
            return Err(StepError::Empty);
        }
        tokens += run.tokens.len();
        outputs += match run.outputs {
            Outputs::None => 0,
            Outputs::Last => 1,
            Outputs::All => run.tokens.len(),
        };
    }
    if runs.is_empty() {
        return Err(StepError::Empty);
    }
    if tokens > options.chunk {
        return Err(StepError::Tokens { found: tokens, chunk: options.chunk });
    }
    if outputs > options.max_outputs {
        return Err(StepError::Outputs { found: outputs, max_outputs: options.max_outputs });
    }
    Ok(())
}
