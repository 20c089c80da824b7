//! Facts that are not compiled in.

use pantheon::gguf::Value;
use pantheon::weights::RopeScaling;

use crate::file::ModelFile;

#[test]
fn the_scale_of_expert_weights() {
    let scale = |value: Option<Value>| {
        let mut file = ModelFile::plain();
        if let Some(value) = value {
            file.set("expert_weights_scale", value);
        }
        file.shape().unwrap().facts.expert_weights_scale
    };
    assert_eq!(scale(None), 1.0);
    assert_eq!(scale(Some(0f32.into())), 1.0, "0 means that there is none");
    assert_eq!(scale(Some((-0f32).into())), 1.0);
    assert_eq!(scale(Some(2.5f32.into())), 2.5);
    assert_eq!(scale(Some(2.5f64.into())), 2.5);
    for bad in [Value::from(f32::NAN), f32::INFINITY.into(), f64::MAX.into(), "1".into()] {
        let mut file = ModelFile::plain();
        file.set("expert_weights_scale", bad).shape_refusal(&["expert_weights_scale"]);
    }
}

fn scaling(keys: &[(&str, Value)]) -> RopeScaling {
    with(keys).shape().unwrap().facts.rope_scaling
}

fn with(keys: &[(&str, Value)]) -> ModelFile {
    let mut file = ModelFile::plain();
    for (key, value) in keys {
        file.set(&format!("rope.scaling.{key}"), value.clone());
    }
    file
}

#[test]
fn positions_unscaled() {
    assert_eq!(scaling(&[]), RopeScaling::None);
    assert_eq!(scaling(&[("type", "none".into()), ("factor", 4f32.into())]), RopeScaling::None);
    for kind in ["linear", "yarn"] {
        for factor in [0f32, 1.0] {
            let keys = [("type", kind.into()), ("factor", factor.into())];
            assert_eq!(scaling(&keys), RopeScaling::None);
        }
        assert_eq!(scaling(&[("type", kind.into())]), RopeScaling::None);
    }
}

#[test]
fn positions_scaled() {
    let linear = RopeScaling::Linear { factor: 4.0 };
    assert_eq!(scaling(&[("type", "linear".into()), ("factor", 4f32.into())]), linear);
    assert_eq!(scaling(&[("factor", 4u32.into())]), linear, "linear is the default");

    let yarn = [("type", Value::from("yarn")), ("factor", 4f32.into())];
    let plain = RopeScaling::Yarn {
        factor: 4.0,
        original_context: 512,
        attn_factor: 1.0,
        ext_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        log_multiplier: 0.0,
    };
    assert_eq!(scaling(&yarn), plain);
    let all = [
        ("original_context_length", Value::from(128u32)),
        ("attn_factor", 1.5f32.into()),
        ("yarn_ext_factor", 0.5f32.into()),
        ("yarn_beta_fast", 16f32.into()),
        ("yarn_beta_slow", 2f32.into()),
        ("yarn_log_multiplier", 0.25f32.into()),
    ];
    let full = RopeScaling::Yarn {
        factor: 4.0,
        original_context: 128,
        attn_factor: 1.5,
        ext_factor: 0.5,
        beta_fast: 16.0,
        beta_slow: 2.0,
        log_multiplier: 0.25,
    };
    assert_eq!(scaling(&[&yarn[..], &all[..]].concat()), full);
}

#[test]
fn scaling_that_cannot_be_done() {
    let longrope = with(&[("type", "longrope".into()), ("factor", 4f32.into())]);
    longrope.shape_refusal(&["rope.scaling.type", "none, linear or yarn", "longrope"]);
    with(&[("factor", (-1f32).into())]).shape_refusal(&["rope.scaling.factor", "positive"]);
    with(&[("factor", f32::NAN.into())]).shape_refusal(&["rope.scaling.factor", "finite"]);
    let yarn = [("type", Value::from("yarn")), ("factor", 4f32.into())];
    let bad = [&yarn[..], &[("yarn_beta_slow", f32::INFINITY.into())]].concat();
    with(&bad).shape_refusal(&["rope.scaling.yarn_beta_slow", "finite"]);
}

#[test]
fn variants_that_would_run_wrongly() {
    let mut file = ModelFile::plain();
    file.set("attention.causal", true).set("expert_group_count", 1u32);
    // Keys this architecture does not read.
    file.set("expert_gating_func", 2u32).set("attention.scale", 0.5f32);
    file.is_like_plain();
    file.set("attention.causal", false).shape_refusal(&["attention.causal", "found false"]);
    file.set("attention.causal", true);
    file.set("expert_group_count", 8u32).shape_refusal(&["expert_group_count", "found 8"]);
}

#[test]
fn name_and_context() {
    let mut file = ModelFile::plain();
    assert_eq!(file.shape().unwrap().facts.name, None);
    file.set("general.name", "Nex").set("context_length", 262_144u64);
    let facts = file.shape().unwrap().facts;
    assert_eq!((facts.name.as_deref(), facts.context_length), (Some("Nex"), 262_144));
    for bad in [0u64, 1 << 32, u64::MAX] {
        file.set("context_length", bad).shape_refusal(&["context_length", &bad.to_string()]);
    }
}
