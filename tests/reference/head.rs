//! Both ends of the model.

use super::norm::rms;
use super::{Shape, Weights, matvec};

/// Stage `embed`: row `token` of the embedding table, `[n_embd]`.
pub fn embed(s: &Shape, w: &Weights, token: u32) -> Vec<f64> {
    let start = token as usize * s.n_embd;
    let row = &w.get("token_embd.weight")[start..start + s.n_embd];
    row.iter().map(|&x| x.into()).collect()
}

/// Stage `head`: the final norm `[n_embd]` and the logits `[n_vocab]`; a file without a head of
/// its own uses the embedding table.
pub fn head(s: &Shape, w: &Weights, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let h = rms(x, w.get("output_norm.weight"), s.rms_eps.into());
    let table = w.find("output.weight").unwrap_or_else(|| w.get("token_embd.weight"));
    let logits = matvec(table, &h);
    (h, logits)
}
