//! The slow, obvious reference: one token at a time, `f64` throughout, one function per stage.
//!
//! It states what the engine must compute and is never optimised. Of the engine it knows only the
//! dimensions ([`Shape`]); weights come in as a map from GGUF tensor name to `f32` values.
//! Vectors are `[n]`; a matrix is `[rows][inputs]`, inputs contiguous, as a GGUF stores it.

// Every test binary that includes this module uses a part of it, and nothing outside sees it.
#![allow(dead_code, unreachable_pub)]

pub mod attention;
pub mod forward;
pub mod gdn;
pub mod head;
pub mod moe;
pub mod norm;

use std::collections::HashMap;

pub use pantheon::model::Shape;

/// All tensors of a model, dequantised: GGUF name to values in file order.
#[derive(Default)]
pub struct Weights {
    tensors: HashMap<String, Vec<f32>>,
}

impl Weights {
    /// Adds or replaces a tensor.
    pub fn insert(&mut self, name: &str, values: Vec<f32>) {
        self.tensors.insert(name.to_owned(), values);
    }

    /// The tensor called `name`; the test that asks for one that is not there is wrong.
    pub fn get(&self, name: &str) -> &[f32] {
        self.tensors.get(name).unwrap_or_else(|| panic!("the reference needs tensor {name}"))
    }

    /// The tensor called `name`, where the file has one.
    pub fn find(&self, name: &str) -> Option<&[f32]> {
        self.tensors.get(name).map(Vec::as_slice)
    }

    /// The tensors of one layer.
    pub fn layer(&self, index: usize) -> Layer<'_> {
        Layer { weights: self, index }
    }
}

/// The tensors of layer `blk.{index}`.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    weights: &'a Weights,
    /// Index in the trunk.
    pub index: usize,
}

impl<'a> Layer<'a> {
    /// The tensor `blk.{index}.{name}`.
    pub fn get(&self, name: &str) -> &'a [f32] {
        self.weights.get(&format!("blk.{}.{name}", self.index))
    }
}

/// `y[n] = sum_k w[n][k] x[k]` for `w: [rows][x.len()]`.
pub fn matvec(w: &[f32], x: &[f64]) -> Vec<f64> {
    assert_eq!(w.len() % x.len(), 0, "{} weights for {} inputs", w.len(), x.len());
    w.chunks_exact(x.len()).map(|row| dot(row, x)).collect()
}

fn dot(w: &[f32], x: &[f64]) -> f64 {
    w.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum()
}

/// `x += y`.
pub fn add(x: &mut [f64], y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `x sigmoid(x)`.
pub fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// `ln(1 + e^x)`.
pub fn softplus(x: f64) -> f64 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// `e^x / sum e^x`.
pub fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}
