//! Golden vectors and the distances that the bars are stated in.

use std::fs;

use npyz::{Deserialize, Order, npz::NpzArchive};
use serde_json::Value;

use super::file;

/// Bars for exact arithmetic: mean KL and largest difference of a logit.
pub const EXACT_KL: f64 = 1e-9;
/// See [`EXACT_KL`].
pub const EXACT_DIFF: f64 = 5e-4;

/// One array of `tests/golden/{npz}.npz`, flat, in C order.
pub fn array<T: Deserialize>(npz: &str, name: &str) -> Vec<T> {
    let path = file(&format!("tests/golden/{npz}.npz"));
    let mut archive = NpzArchive::open(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let array = archive.by_name(name).unwrap().unwrap_or_else(|| panic!("{npz} has no {name}"));
    assert_eq!(array.order(), Order::C, "{npz}, {name}");
    array.into_vec().unwrap_or_else(|e| panic!("{npz}, {name}: {e}"))
}

/// Token ids of `tests/golden/{npz}.npz`.
pub fn tokens(npz: &str, name: &str) -> Vec<u32> {
    array::<i32>(npz, name).iter().map(|&t| u32::try_from(t).unwrap()).collect()
}

/// A JSON file of `tests/golden`.
pub fn json(name: &str) -> Value {
    let text = fs::read_to_string(file(&format!("tests/golden/{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The ids of the prompt `name`.
pub fn prompt(name: &str) -> Vec<u32> {
    let ids = &json("prompts")[name]["ids"];
    ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Distance of two `[n][vocab]` arrays of logits.
#[derive(Debug)]
pub struct Distance {
    /// Mean over the rows of `KL(softmax(exact) || softmax(other))`, in nats.
    pub kl: f64,
    /// Largest difference of two logits.
    pub max: f64,
}

/// Distance of `other` from `exact`; a value that is not finite is infinitely far.
pub fn distance(exact: &[f32], other: &[f32], vocab: usize) -> Distance {
    assert_eq!(exact.len(), other.len(), "numbers of logits");
    let rows = || exact.chunks_exact(vocab).zip(other.chunks_exact(vocab));
    let kl = rows().map(|(a, b)| kl(a, b)).sum::<f64>() / rows().count() as f64;
    let difference = |(&a, &b): (&f32, &f32)| (f64::from(a) - f64::from(b)).abs();
    let max = exact.iter().zip(other).map(difference).fold(0.0, farther);
    Distance { kl, max }
}

/// The larger of two distances, where NaN counts as infinity.
pub fn farther(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}

fn kl(a: &[f32], b: &[f32]) -> f64 {
    let (a, b) = (log_softmax(a), log_softmax(b));
    let kl: f64 = a.iter().zip(&b).map(|(a, b)| a.exp() * (a - b)).sum();
    if kl.is_nan() { f64::INFINITY } else { kl }
}

/// `x - ln(sum e^x)` in `f64`.
pub fn log_softmax(x: &[f32]) -> Vec<f64> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|&x| f64::from(x - max).exp()).sum();
    x.iter().map(|&x| f64::from(x - max) - sum.ln()).collect()
}

/// Index of the largest value, the lowest among equals.
pub fn argmax(x: &[f32]) -> u32 {
    let better = |best: usize, i: usize| if x[i] > x[best] { i } else { best };
    (1..x.len()).fold(0, better) as u32
}

/// Asserts that `other` is the exact result, up to rounding.
#[track_caller]
pub fn assert_exact(what: &str, exact: &[f32], other: &[f32], vocab: usize) {
    let d = distance(exact, other, vocab);
    assert!(d.kl <= EXACT_KL && d.max <= EXACT_DIFF, "{what}: {d:?}");
}
