//! The generator: what it refuses, what it decides, what it prints.
//!
//! Snapshots hold the plan and the Rust of five models: the three real shapes, the demo model and
//! one whose dimensions are all unequal. `INSTA_UPDATE=always cargo test -p pantheon-codegen`
//! rewrites them; the diff of the plans is what to read first.

mod mixes;
mod plans;
mod refusals;
mod snapshots;
mod sound;

use std::path::{Path, PathBuf};

use pantheon_codegen::{ModelSpec, Plan, parse};

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("codegen lies in the workspace")
        .to_owned()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The lists of models in the repository.
const LISTS: [&str; 4] = [
    "model.toml",
    "benches/shapes.toml",
    "codegen/models/qwen3.5-122b-a10b.toml",
    "codegen/models/qwen3.5-397b-a17b.toml",
];

/// Every model of the repository.
fn models() -> Vec<ModelSpec> {
    LISTS
        .iter()
        .flat_map(|list| parse(&read(list), list).expect("shipped lists are valid"))
        .collect()
}

fn model(name: &str) -> ModelSpec {
    models().into_iter().find(|model| model.name == name).expect("a model of the repository")
}

fn plan(name: &str) -> Plan {
    Plan::new(&model(name))
}
