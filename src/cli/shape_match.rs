//! A file's shape beside the shapes that are compiled in.

use std::fmt;

use serde_json::{Map, Value as Json, json};

use super::table::Facts;
use crate::generated::REGISTRY;
use crate::gguf::{Gguf, GgufError};
use crate::model::Shape;
use crate::weights::{FileShape, ShapeMismatch, shape_fields};

/// The shapes that are compiled in.
pub(super) fn compiled_shapes() -> Vec<Shape> {
    REGISTRY.iter().map(|entry| entry.shape).collect()
}

/// What a file's shape is and which compiled-in model it fits.
pub(super) enum ShapeMatch {
    /// It is no language model of this family, or its shape cannot be read.
    Unreadable(GgufError),
    /// It has a shape; the result names the compiled-in model or says how the nearest ones differ.
    Shape(Box<FileShape>, Result<&'static str, ShapeMismatch>),
}

impl ShapeMatch {
    /// Compares a file with the compiled-in models.
    pub(super) fn of(gguf: &Gguf) -> Self {
        match FileShape::read(gguf) {
            Err(error) => Self::Unreadable(error),
            Ok(file) => {
                let compiled = compiled_shapes();
                let fit = file.choose(gguf.name(), &compiled).map(|index| compiled[index].name);
                Self::Shape(Box::new(file), fit)
            }
        }
    }

    /// Keys `shape`, `model`, `differences`, `warnings`, `shape_error`.
    pub(super) fn to_json(&self) -> Map<String, Json> {
        let (shape, model, differences, warnings, error) = match self {
            Self::Unreadable(error) => {
                (Json::Null, Json::Null, Json::Null, json!([]), json!(error.to_string()))
            }
            Self::Shape(file, fit) => {
                let shape: Map<String, Json> = shape_fields(&file.shape)
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), field(&v)))
                    .collect();
                let model = fit.as_ref().map_or(Json::Null, |name| json!(name));
                let differences = fit.as_ref().err().map_or(Json::Null, differences);
                (shape.into(), model, differences, json!(file.warnings), Json::Null)
            }
        };
        Map::from_iter([
            ("shape".to_owned(), shape),
            ("model".to_owned(), model),
            ("differences".to_owned(), differences),
            ("warnings".to_owned(), warnings),
            ("shape_error".to_owned(), error),
        ])
    }
}

/// A printed field as JSON: numbers and lists of numbers are printed as JSON already.
fn field(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn differences(mismatch: &ShapeMismatch) -> Json {
    let entries = mismatch.entries.iter().map(|(name, diffs)| {
        let diffs = diffs.iter().map(
            |d| json!({ "field": d.field, "file": field(&d.file), "compiled": field(&d.compiled) }),
        );
        (name.clone(), diffs.collect())
    });
    Json::Object(entries.collect())
}

impl fmt::Display for ShapeMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, fit) = match self {
            Self::Unreadable(error) => return writeln!(f, "not usable: {error}"),
            Self::Shape(file, fit) => (file, fit),
        };
        let mut facts = Facts::default();
        shape_fields(&file.shape).into_iter().for_each(|(name, value)| facts.add(name, value));
        write!(f, "{facts}")?;
        file.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        match fit {
            Ok(name) => writeln!(f, "fits the compiled-in model {name}"),
            Err(mismatch) => writeln!(f, "{mismatch}"),
        }
    }
}
