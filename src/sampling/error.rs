//! What can be wrong with sampling parameters and logits.

use crate::gguf::GgufError;

/// A parameter out of range, or logits that cannot be sampled from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A metadata key has the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A parameter is out of range.
    #[error("{name}: expected {expected}, found {found}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its range.
        expected: String,
        /// Its value.
        found: String,
    },
    /// The number of logits is not the model's number of rows.
    #[error("logits: expected {expected}, one per row of the head, found {found}")]
    Rows {
        /// Rows of the mask.
        expected: usize,
        /// Logits given.
        found: usize,
    },
    /// A logit is not a number, or infinite.
    #[error(
        "the logit of token {id} is {value}: expected a finite number; the weights may be damaged"
    )]
    NotFinite {
        /// The token.
        id: usize,
        /// Its logit.
        value: f32,
    },
    /// Every token is masked or impossible.
    #[error("no token can be drawn: all of them are masked")]
    AllMasked,
    /// A token that does not exist.
    #[error("token {id}: expected a named token among {rows} rows")]
    Token {
        /// The token.
        id: u32,
        /// Rows of the logits.
        rows: usize,
    },
}
