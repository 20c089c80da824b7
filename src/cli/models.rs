//! Lists of models: the one this program was built from, those in files, and the shapes in them.

use std::path::Path;

use anyhow::Context;
use pantheon_codegen::{ModelSpec, spec};

use super::usage;
use crate::generated::SOURCE;
use crate::model::Shape;

/// The models of a file in the form of `model.toml`; without a file, those that are compiled in.
pub(super) fn list(file: Option<&Path>) -> anyhow::Result<Vec<ModelSpec>> {
    let Some(path) = file else { return Ok(spec::parse(SOURCE, "the built-in model list")?) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the model list {}", path.display()))?;
    Ok(spec::parse(&text, &path.display().to_string())?)
}

/// The model of a name; without a name, the first.
pub(super) fn find(models: Vec<ModelSpec>, name: Option<&str>) -> anyhow::Result<ModelSpec> {
    let known = models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut models = models.into_iter();
    let found = match name {
        Some(name) => models.find(|model| model.name == name),
        None => models.next(),
    };
    match found {
        Some(model) => Ok(model),
        None => {
            usage(format!("no model is called {:?}; expected one of {known}", name.unwrap_or("")))
        }
    }
}

/// The dimensions of a spec. The name stays behind: a shape's is that of a compiled-in model.
pub(super) fn shape_of(spec: &ModelSpec) -> Shape {
    Shape {
        name: "",
        n_layer: spec.n_layer,
        full_attention_interval: spec.full_attention_interval,
        n_embd: spec.n_embd,
        n_vocab: spec.n_vocab,
        n_head: spec.n_head,
        n_head_kv: spec.n_head_kv,
        head_dim: spec.head_dim,
        rope_dim: spec.rope_dim,
        rope_sections: spec.rope_sections,
        rope_base: spec.rope_base,
        rms_eps: spec.rms_eps,
        n_expert: spec.n_expert,
        n_expert_used: spec.n_expert_used,
        expert_ff: spec.expert_ff,
        shared_ff: spec.shared_ff,
        gdn_k_heads: spec.gdn_k_heads,
        gdn_v_heads: spec.gdn_v_heads,
        gdn_head_dim: spec.gdn_head_dim,
        conv_taps: spec.conv_taps,
    }
}

/// A spec of these dimensions. Not validated: [`spec::parse`] of its text does that.
///
/// Its type mixes are those of a file that is to be built for; they are filled in from it.
pub(super) fn spec_of(shape: &Shape, name: &str) -> ModelSpec {
    ModelSpec {
        name: name.to_owned(),
        reference_mix: "f32".to_owned(),
        mixes: Vec::new(),
        n_layer: shape.n_layer,
        full_attention_interval: shape.full_attention_interval,
        n_embd: shape.n_embd,
        n_vocab: shape.n_vocab,
        n_head: shape.n_head,
        n_head_kv: shape.n_head_kv,
        head_dim: shape.head_dim,
        rope_dim: shape.rope_dim,
        rope_sections: shape.rope_sections,
        rope_base: shape.rope_base,
        rms_eps: shape.rms_eps,
        n_expert: shape.n_expert,
        n_expert_used: shape.n_expert_used,
        expert_ff: shape.expert_ff,
        shared_ff: shape.shared_ff,
        gdn_k_heads: shape.gdn_k_heads,
        gdn_v_heads: shape.gdn_v_heads,
        gdn_head_dim: shape.gdn_head_dim,
        conv_taps: shape.conv_taps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::REGISTRY;
    use crate::weights::shape_fields;
    use std::collections::BTreeSet;

    #[test]
    fn the_built_in_list_is_what_is_compiled_in() {
        let listed: Vec<Shape> = list(None).unwrap().iter().map(shape_of).collect();
        let compiled: Vec<Shape> =
            REGISTRY.iter().map(|entry| Shape { name: "", ..entry.shape }).collect();
        assert_eq!(listed, compiled);
    }

    #[test]
    fn dimensions_are_called_alike_in_lists_and_in_messages() {
        let model = &list(None).unwrap()[0];
        let text = pantheon_codegen::to_toml_entry(model);
        let keys = text.lines().filter_map(|line| line.split_once(" = "));
        let keys: BTreeSet<&str> = keys.map(|(key, _)| key.trim()).collect();
        let fields = shape_fields(&shape_of(model)).into_iter().map(|(key, _)| key);
        assert_eq!(fields.chain(["name", "reference_mix"]).collect::<BTreeSet<_>>(), keys);
    }

    #[test]
    fn a_shape_survives_its_spec_and_its_text() {
        for model in list(None).unwrap() {
            let (reference_mix, mixes) = (model.reference_mix.clone(), model.mixes.clone());
            let spec =
                ModelSpec { reference_mix, mixes, ..spec_of(&shape_of(&model), &model.name) };
            assert_eq!(spec, model);
            assert_eq!(
                spec::parse(&pantheon_codegen::to_toml_entry(&spec), "text").unwrap(),
                [model]
            );
        }
    }
}
