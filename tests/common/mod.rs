//! What the test binaries share: golden files, distances between logits, synthetic models.

// Every test binary that includes this module uses a part of it, and nothing outside sees it.
#![allow(dead_code, unreachable_pub)]

pub mod golden;
pub mod run;
pub mod synth;

use std::path::{Path, PathBuf};

use pantheon::generated::REGISTRY;
use pantheon::gguf::Gguf;
use pantheon::model::Shape;
use pantheon::quant::dequantize;

use crate::reference::Weights;

/// A file of this repository.
pub fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Dimensions of the compiled-in model `name`.
pub fn shape(name: &str) -> &'static Shape {
    let shapes = REGISTRY.iter().map(|entry| &entry.shape);
    shapes.into_iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no model {name}"))
}

/// The trained demo model: K-quants.
pub fn demo() -> Gguf {
    open(&file("assets/tiny-q4_k_m.gguf"))
}

/// The trained model with layers 0 to 2 in F16 and many block types behind them.
pub fn mixed() -> Gguf {
    open(&file("tests/golden/tiny-mixed.gguf"))
}

/// Opens a model file that the test made or the repository holds.
pub fn open(path: &Path) -> Gguf {
    Gguf::open(path).unwrap_or_else(|e| panic!("{e}"))
}

/// All tensors as `f32`, for the reference.
pub fn weights(gguf: &Gguf) -> Weights {
    let mut weights = Weights::default();
    for tensor in gguf.tensors() {
        let mut values = vec![0.0; tensor.ne.iter().product::<u64>() as usize];
        dequantize(tensor.ty, &tensor.data, &mut values);
        weights.insert(&tensor.name, values);
    }
    weights
}

/// `x` rounded to `f32`, for comparing the reference with the engine.
pub fn to_f32(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}
