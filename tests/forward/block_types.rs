//! A whole model in every block type: exact against the reference, integers near exact.

use pantheon::quant::GgmlType;

use crate::common::golden::{assert_exact, distance};
use crate::common::{run, shape, synth, to_f32, weights};
use crate::reference::forward::Reference;

/// Every type that can hold weights, and how far (mean KL) integer arithmetic may be from exact on
/// random weights: two to five times what was seen; a wrong scale or sign gives more than 0.1.
/// Results are the same bits everywhere, so a bar is met everywhere or nowhere.
const TYPES: &[(GgmlType, f64)] = &[
    (GgmlType::F32, 1e-10),
    (GgmlType::F16, 1e-10),
    (GgmlType::Bf16, 1e-10),
    (GgmlType::Q4_0, 1e-4),
    (GgmlType::Q4_1, 1e-4),
    (GgmlType::Q5_0, 1e-4),
    (GgmlType::Q5_1, 1e-4),
    (GgmlType::Q8_0, 1e-4),
    (GgmlType::Q2K, 2e-4),
    (GgmlType::Q3K, 2e-4),
    (GgmlType::Q4K, 1e-4),
    (GgmlType::Q5K, 1e-4),
    (GgmlType::Q6K, 1e-4),
    (GgmlType::Iq2Xxs, 1e-3),
    (GgmlType::Iq2Xs, 2e-3),
    (GgmlType::Iq2S, 2e-3),
    (GgmlType::Iq3Xxs, 1e-4),
    (GgmlType::Iq3S, 1e-4),
    (GgmlType::Iq1S, 2e-3),
    (GgmlType::Iq1M, 2e-3),
    (GgmlType::Iq4Nl, 1e-4),
    (GgmlType::Iq4Xs, 1e-4),
    (GgmlType::Tq1_0, 5e-3),
    (GgmlType::Tq2_0, 1e-4),
    (GgmlType::Mxfp4, 2e-4),
    (GgmlType::Nvfp4, 1e-4),
    (GgmlType::Q1_0, 3e-3),
    (GgmlType::Q2_0, 1e-4),
];

#[test]
fn every_block_type_is_exact_and_its_integers_are_near() {
    let s = shape("tiny");
    let tokens = synth::tokens("types", 6, s.n_vocab);
    for &(ty, bar) in TYPES {
        let (_file, gguf) = synth::uniform(s, ty);
        let weights = weights(&gguf);
        let exact = to_f32(&Reference::new(s, &weights).tokens(&tokens).concat());
        let found = run::fresh(&gguf, &run::exact(), &tokens);
        assert_exact(ty.name(), &exact, &found, s.n_vocab);
        let d = distance(&exact, &run::fresh(&gguf, &run::integer(), &tokens), s.n_vocab);
        assert!(d.kl <= bar, "{}: {d:?}", ty.name());
    }
}
