//! Every intermediate value of the engine, stage by stage, against transformers and the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use pantheon::cpu::TraceEvent;
use pantheon::gguf::Gguf;
use pantheon::model::Shape;
use pantheon::quant::GgmlType;

use crate::common::{golden, mixed, run, shape, synth, weights};
use crate::oracle_stages::{STAGES, share, theirs};
use crate::reference::forward::Reference;
use crate::reference::{attention::split_gate, softmax};

/// Values by layer and name (the reference's), one row per token.
type Values = BTreeMap<(usize, &'static str), Vec<Vec<f64>>>;

/// What the reference calls a buffer after a stage, where the two hold the same.
const NAMES: &[(&str, &str, &str)] = &[
    ("embed", "x", "input"),
    ("gdn_project", "h", "attn_norm"),
    ("gdn_project", "qkv", "qkv"),
    ("gdn_project", "z", "z"),
    ("gdn_project", "alpha", "alpha"),
    ("gdn_project", "beta", "beta_input"),
    ("gdn_recur", "qkv", "conv"),
    ("gdn_recur", "alpha", "decay"),
    ("gdn_recur", "beta", "beta"),
    ("gdn_recur", "h", "gated"),
    ("gdn_output", "x", "mixer_residual"),
    ("attn_project", "h", "attn_norm"),
    ("attn_project", "k", "k"),
    ("attn_project", "v", "v"),
    ("attn_mix", "h", "gated"),
    ("attn_output", "x", "mixer_residual"),
    ("moe_route", "h", "post_norm"),
    ("moe_route", "router", "router"),
    ("moe_up", "ff", "ff"),
    ("moe_down", "x", "output"),
];

/// A traced buffer as the reference's values: `(layer, name, value)`.
fn translate(s: &Shape, e: &TraceEvent<'_>) -> Vec<(usize, &'static str, Vec<f64>)> {
    let row: Vec<f64> = e.values.iter().map(|&x| x.into()).collect();
    match (e.stage, e.name) {
        ("attn_project", "qg") => {
            let (q, gate) = split_gate(s, &row);
            vec![(e.layer, "q", q), (e.layer, "gate", gate)]
        }
        ("moe_route", "expert_weights") => {
            let (chosen, shared) = row.split_at(s.n_expert_used);
            let shared = shared.to_vec();
            vec![(e.layer, "expert_weights", chosen.to_vec()), (e.layer, "shared_gate", shared)]
        }
        ("head", "h") => vec![(s.n_layer, "final_norm", row)],
        (stage, name) => {
            let same = NAMES.iter().find(|(s, n, _)| (*s, *n) == (stage, name));
            same.map(|(_, _, ours)| (e.layer, *ours, row)).into_iter().collect()
        }
    }
}

/// What the engine computes on the way, with exact arithmetic.
fn engine_values(gguf: &Gguf, tokens: &[u32], chunk: usize) -> Values {
    let mut engine = run::engine(gguf, &run::exact());
    let s = engine.shape();
    let values = Arc::new(Mutex::new(Values::new()));
    let seen = Arc::clone(&values);
    engine.set_trace(Some(Box::new(move |event| {
        let mut values = seen.lock().unwrap();
        for (layer, name, row) in translate(s, event) {
            values.entry((layer, name)).or_default().push(row);
        }
    })));
    run::logits(&mut engine, 0, tokens, chunk);
    engine.set_trace(None);
    let values = values.lock().unwrap();
    values.clone()
}

/// What the reference computes on the way.
fn reference_values(gguf: &Gguf, s: &Shape, tokens: &[u32]) -> Values {
    let weights = weights(gguf);
    let mut reference = Reference::new(s, &weights);
    let mut values = Values::new();
    for &token in tokens {
        reference.watched(token, &mut |layer, name, value| {
            // The engine turns router logits into probabilities in place.
            let value = if name == "router" { softmax(value) } else { value.to_vec() };
            values.entry((layer, name)).or_default().push(value);
        });
    }
    values
}

#[test]
fn engine_gives_the_intermediate_tensors_of_transformers() {
    let tokens = golden::tokens("stages", "ids");
    let values = engine_values(&mixed(), &tokens, 32);
    let mut compared = BTreeSet::new();
    for &(layer, ours, name, map) in STAGES {
        let Some(rows) = values.get(&(layer, ours)) else { continue };
        let mut expected = theirs(name, map, tokens.len());
        if ours == "router" {
            expected.iter_mut().for_each(|row| *row = softmax(row));
        }
        let share = share(rows, &expected);
        assert!(share <= 1e-5, "{name}: {share:.2e}");
        compared.insert((layer, ours));
    }
    assert_eq!(compared.len(), 28, "{compared:?}");
}

#[test]
fn engine_gives_every_intermediate_value_of_the_reference() {
    let s = shape("odd");
    let tokens = synth::tokens("stages", 40, s.n_vocab);
    let (_file, gguf) = synth::uniform(s, GgmlType::F32);
    let expected = reference_values(&gguf, s, &tokens);
    let found = engine_values(&gguf, &tokens, 7);
    let names: BTreeSet<_> = found.keys().map(|(layer, name)| (*layer, *name)).collect();
    let per_layer = |layer| names.iter().filter(|(l, _)| *l == layer).count();
    assert_eq!((per_layer(1), per_layer(2), per_layer(s.n_layer)), (16, 13, 1), "{names:?}");
    for (key, rows) in &found {
        let share = share(rows, &expected[key]);
        assert!(share <= 2e-5, "layer {}, {}: {share:.2e}", key.0, key.1);
    }
}
