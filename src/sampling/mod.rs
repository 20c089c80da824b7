//! Logits to a token.
//!
//! The order is: mask, penalties, temperature, top-k, top-p, min-p, draw. Masked are rows that are
//! no tokens and what the file suppresses ([`LogitMask`]); penalties count generated tokens only.
//! At temperature 0 the largest logit wins, of equal ones the lowest id. [`logprobs`] looks at the
//! model's own logits, before any of this.

mod error;
mod logprobs;
mod mask;
mod params;
mod sampler;

pub use error::SamplingError;
pub use logprobs::{Logprobs, MAX_TOP_LOGPROBS, TokenLogprob, logprobs};
pub use mask::LogitMask;
pub use params::{Bounds, FileSampling, Mode, SamplerFlags, SamplerParams};
pub use sampler::Sampler;
