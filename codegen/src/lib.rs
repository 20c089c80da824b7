//! The generator: `model.toml` to a plan to shape-specialised text.
//!
//! ```text
//! model.toml ── spec ──► ModelSpec ── plan ──► Plan ── emit ──► plan.txt, *.rs
//! ```
//!
//! [`spec`] refuses what is wrong, [`plan`] decides, [`emit`] prints. [`family`] says what all
//! models have in common, [`mix`] and [`types`] what files of a kind hold. Nothing here does IO,
//! and nothing here knows the engine: generated Rust names the engine's types by path, so that a
//! mismatch is a compile error there.

pub mod emit;
pub mod family;
pub mod mix;
pub mod plan;
pub mod spec;
pub mod types;

pub use emit::GeneratedFile;
pub use plan::Plan;
pub use spec::{ModelSpec, SpecErrors, parse, to_toml_entry};

/// Everything generated for a list of models: `text` is that list, `file` its name without folders.
///
/// # Errors
/// All problems of the list. A list without problems always generates.
pub fn generate(text: &str, file: &str) -> Result<Vec<GeneratedFile>, SpecErrors> {
    let plans: Vec<Plan> = parse(text, file)?.iter().map(Plan::new).collect();
    Ok(emit::all(&plans, &emit::Source::new(text, file)))
}
