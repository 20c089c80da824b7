//! Values and tensors that betray a wrong conversion: some stop the file, some are worth a warning.

use super::bind::{Binder, Form, LayerSet};
use super::error::Problem;
use super::matrix::Vector;
use crate::gguf::{Fault, Place};
use crate::model::LayerInfo;

/// `ssm_a` holds `-exp(A_log)`: negative and finite. A file with `A_log` itself gives itself away.
pub(super) fn check_decay(values: &Vector) -> Result<(), Fault> {
    match values.iter().find(|x| !(x.is_finite() && **x < 0.0)) {
        None => Ok(()),
        Some(bad) => Err(Fault::new(
            "negative finite values, -exp(A_log)",
            bad.to_string(),
            "the converter stored A_log itself; convert the model again with a current llama.cpp",
        )),
    }
}

/// Tensors that would change the result if they were used, in layers that are: biases, scales of
/// something that takes none. `n_layer` is the number of trunk layers.
pub(super) fn unsupported(binder: &Binder<'_>, n_layer: usize) -> Vec<Problem> {
    let changes_result = |name: &str| {
        [".bias", ".scale"].iter().any(|end| name.ends_with(end)) || name.contains("exp_probs_b")
    };
    let problem = |name: &str| Problem {
        place: Place::Tensor(name.to_owned()),
        fault: Fault::new(
            "no such tensor in this architecture",
            "one",
            "running without it would give other results; use a plain conversion of the model",
        ),
    };
    let names = binder.unused().into_iter().map(|t| t.name.as_str());
    names.filter(|n| belongs(n, n_layer) && changes_result(n)).map(problem).collect()
}

/// What is odd about a file whose tensors have all been bound.
pub(super) fn warnings(binder: &Binder<'_>, layers: &[LayerInfo]) -> Vec<String> {
    gains(binder, layers).into_iter().chain(left_over(binder, layers.len())).collect()
}

/// Norm gains average near 1. Near 2, the 1 that converters add was added twice; near 0, never.
/// (`ssm_norm` is stored as trained and is not looked at.)
fn gains(binder: &Binder<'_>, layers: &[LayerInfo]) -> Option<String> {
    let zero_centred = |name: &str| name.ends_with("norm.weight") && !name.contains("ssm_norm");
    let rows = binder.bindings().iter().filter(|b| b.form == Form::Vector && zero_centred(b.name));
    let (mut sum, mut count) = (0.0f64, 0usize);
    for row in rows {
        let indices = match row.layers {
            LayerSet::Global => vec![0],
            set => layers.iter().filter(|l| set.has(l)).map(|l| l.index).collect(),
        };
        for gain in indices.into_iter().filter_map(|layer| binder.vector(row.name, layer).ok()) {
            sum += gain.iter().map(|x| f64::from(*x)).sum::<f64>();
            count += gain.len();
        }
    }
    let mean = sum / count.max(1) as f64;
    match mean {
        1.75..=2.5 => Some(format!(
            "norm gains average {mean:.3}, near 2 instead of 1: perhaps 1 was added twice"
        )),
        -0.5..=0.25 if count > 0 => Some(format!(
            "norm gains average {mean:.3}, near 0 instead of 1: perhaps 1 was never added"
        )),
        _ => None,
    }
}

fn left_over(binder: &Binder<'_>, n_layer: usize) -> Option<String> {
    const LISTED: usize = 3;
    let unused = binder.unused();
    let names: Vec<&str> =
        unused.iter().map(|t| t.name.as_str()).filter(|n| belongs(n, n_layer)).collect();
    let more = if names.len() > LISTED { ", ..." } else { "" };
    let listed = names[..names.len().min(LISTED)].join(", ");
    (!names.is_empty()).then(|| format!("{} tensors are not used: {listed}{more}", names.len()))
}

/// Whether a tensor is meant for the language model's trunk. Vision and projector tensors, draft
/// blocks and the scales of quantised activations are not.
pub(super) fn belongs(name: &str, n_layer: usize) -> bool {
    let foreign = ["v.", "mm.", "mtp."].iter().any(|start| name.starts_with(start));
    !foreign && !name.ends_with(".input_scale") && block(name).is_none_or(|i| i < n_layer)
}

/// The block a tensor belongs to: 7 for `blk.7.attn_norm.weight`.
pub(super) fn block(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}
