//! Which compiled-in model a file's shape fits, and a text that helps where none does.

use std::fmt;

use super::shape::FileShape;
use crate::model::Shape;

/// A field in which a file differs from a compiled-in model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDiff {
    /// Key of the dimension in `model.toml`: that of the file, without the architecture's prefix.
    pub field: &'static str,
    /// The file's value.
    pub file: String,
    /// The compiled model's value.
    pub compiled: String,
}

/// A shape's dimensions by their keys in `model.toml`, in the order of their declaration.
pub fn shape_fields(shape: &Shape) -> Vec<(&'static str, String)> {
    // Taken apart field by field, so that a new field cannot be forgotten here.
    macro_rules! fields {
        ($($key:literal: $field:ident),*,) => {{
            let Shape { name: _, $($field),* } = shape;
            vec![$(($key, format!("{:?}", $field))),*]
        }};
    }
    fields![
        "block_count": n_layer,
        "full_attention_interval": full_attention_interval,
        "embedding_length": n_embd,
        "vocab_size": n_vocab,
        "attention.head_count": n_head,
        "attention.head_count_kv": n_head_kv,
        "attention.key_length": head_dim,
        "rope.dimension_count": rope_dim,
        "rope.dimension_sections": rope_sections,
        "rope.freq_base": rope_base,
        "attention.layer_norm_rms_epsilon": rms_eps,
        "expert_count": n_expert,
        "expert_used_count": n_expert_used,
        "expert_feed_forward_length": expert_ff,
        "expert_shared_feed_forward_length": shared_ff,
        "ssm.group_count": gdn_k_heads,
        "ssm.time_step_rank": gdn_v_heads,
        "ssm.state_size": gdn_head_dim,
        "ssm.conv_kernel": conv_taps,
    ]
}

impl FileShape {
    /// The fields in which the file differs from a compiled-in model; none where it fits.
    pub fn diff(&self, compiled: &Shape) -> Vec<FieldDiff> {
        let pairs = shape_fields(&self.shape).into_iter().zip(shape_fields(compiled));
        pairs
            .filter(|((_, file), (_, compiled))| file != compiled)
            .map(|((field, file), (_, compiled))| FieldDiff { field, file, compiled })
            .collect()
    }

    /// Index of the compiled-in model that the file fits. `file` is its path, for the message.
    ///
    /// # Errors
    /// If none fits: the differing fields of the nearest ones, and what to do.
    pub fn choose(&self, file: &str, compiled: &[Shape]) -> Result<usize, ShapeMismatch> {
        let diffs: Vec<Vec<FieldDiff>> = compiled.iter().map(|shape| self.diff(shape)).collect();
        diffs.iter().position(Vec::is_empty).ok_or_else(|| ShapeMismatch {
            file: file.to_owned(),
            entries: compiled.iter().map(|s| s.name.to_owned()).zip(diffs).collect(),
            warnings: self.warnings.clone(),
        })
    }
}

/// No compiled-in model has the file's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeMismatch {
    /// Path of the file.
    pub file: String,
    /// Every compiled-in model with the fields in which it differs.
    pub entries: Vec<(String, Vec<FieldDiff>)>,
    /// What is odd about the file's header: it may explain the difference.
    pub warnings: Vec<String>,
}

impl fmt::Display for ShapeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no model of this shape is compiled in.", self.file)?;
        let least = self.entries.iter().map(|(_, diffs)| diffs.len()).min().unwrap_or(0);
        let (nearest, others): (Vec<_>, Vec<_>) =
            self.entries.iter().partition(|(_, diffs)| diffs.len() == least);
        for (name, diffs) in nearest {
            write!(f, "\nThe nearest, {name}, differs in:")?;
            for FieldDiff { field, file, compiled } in diffs {
                write!(f, "\n  {field}: file {file}, compiled {compiled}")?;
            }
        }
        for (name, diffs) in others {
            write!(f, "\n{name} differs in {} fields.", diffs.len())?;
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\nNote: {warning}."))?;
        write!(
            f,
            "\nTo build for this file:\n  pantheon configure {} --write\n  cargo build --release",
            shell_word(&self.file)
        )
    }
}

impl std::error::Error for ShapeMismatch {}

/// A path as it can be pasted into a shell.
fn shell_word(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%~".contains(c);
    match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}
