//! The model's own log-probabilities.

use super::{LogitMask, SamplingError};

/// Most alternatives that can be asked for.
pub const MAX_TOP_LOGPROBS: usize = 20;

/// What an impossible token's log-probability is given as, since JSON knows no infinity.
const IMPOSSIBLE: f64 = -9999.0;

/// A token and its natural log-probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: u32,
    /// At most 0 and finite.
    pub logprob: f64,
}

/// Log-probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The chosen token, whether or not it is among the most likely ones.
    pub chosen: TokenLogprob,
    /// The most likely tokens, descending; of equal ones the lowest id first. Impossible ones are
    /// left out.
    pub top: Vec<TokenLogprob>,
}

/// Log-probabilities of the chosen token and the `top_n` most likely ones, from the model's logits:
/// temperature, penalties and cuts play no part. Padding rows are no tokens: they are neither
/// counted nor listed.
///
/// The logarithm of the sum of exponentials is taken in `f64`, relative to the largest logit.
///
/// # Errors
/// If `top_n` is above [`MAX_TOP_LOGPROBS`], the number of logits is wrong, a logit is not a number
/// or +infinite, or `chosen` is no token.
pub fn logprobs(
    logits: &[f32],
    chosen: u32,
    top_n: usize,
    mask: &LogitMask,
) -> Result<Logprobs, SamplingError> {
    if top_n > MAX_TOP_LOGPROBS {
        let (name, expected) = ("top_logprobs", "at most 20");
        let (expected, found) = (expected.to_owned(), top_n.to_string());
        return Err(SamplingError::Parameter { name, expected, found });
    }
    if logits.len() != mask.rows() {
        return Err(SamplingError::Rows { expected: mask.rows(), found: logits.len() });
    }
    if mask.is_padding(chosen) {
        return Err(SamplingError::Token { id: chosen, rows: mask.rows() });
    }
    let mut padding = mask.padding().iter().copied().peekable();
    let tokens: Vec<(u32, f32)> = (0..)
        .zip(logits)
        .filter(|(id, _)| padding.next_if_eq(id).is_none())
        .map(|(id, logit)| (id, *logit))
        .collect();
    if let Some(&(id, value)) = tokens.iter().find(|(_, l)| l.is_nan() || *l == f32::INFINITY) {
        return Err(SamplingError::NotFinite { id: id as usize, value });
    }
    let max = tokens.iter().fold(f32::NEG_INFINITY, |max, (_, logit)| max.max(*logit));
    if max == f32::NEG_INFINITY {
        return Err(SamplingError::AllMasked);
    }
    let sum: f64 = tokens.iter().map(|(_, logit)| f64::from(logit - max).exp()).sum();
    let log_sum = f64::from(max) + sum.ln();
    let logprob =
        |id: u32, logit: f32| TokenLogprob { id, logprob: (f64::from(logit) - log_sum).min(0.0) };

    let mut top = tokens;
    let rank = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if top_n == 0 {
        top.clear();
    } else if top_n < top.len() {
        top.select_nth_unstable_by(top_n - 1, rank);
        top.truncate(top_n);
    }
    top.sort_unstable_by(rank);
    let top = top.into_iter().map(|(id, logit)| logprob(id, logit));
    let mut chosen = logprob(chosen, logits[chosen as usize]);
    chosen.logprob = chosen.logprob.max(IMPOSSIBLE);
    Ok(Logprobs { chosen, top: top.filter(|token| token.logprob.is_finite()).collect() })
}
