//! A spec as text: the entry that [`super::parse`] reads back.

use std::fmt::Write;

use super::keys::{KEYS, MIXES};
use super::{ModelSpec, StageMix};

/// A commented `[[model]]` entry. Parsing it gives the same spec, or says what is wrong with it.
pub fn to_toml_entry(spec: &ModelSpec) -> String {
    let rows: Vec<(String, &str)> =
        KEYS.iter().map(|key| (format!("{} = {}", key.name, (key.show)(spec)), key.doc)).collect();
    let width = rows.iter().map(|(row, _)| row.len()).max().unwrap_or(0);
    let mut text = "[[model]]\n".to_owned();
    for (row, doc) in rows {
        let _ = writeln!(text, "{row:width$} # {doc}");
    }
    for group in spec.mixes.chunk_by(|a, b| a.stage == b.stage) {
        let combination = |mix: &StageMix| {
            let names: Vec<&str> = mix.types.iter().map(|ty| ty.name).collect();
            format!("{:?}", names.join("+"))
        };
        let all: Vec<String> = group.iter().map(combination).collect();
        let _ = writeln!(text, "{MIXES}{} = [{}]", group[0].stage.stem(), all.join(", "));
    }
    text
}
