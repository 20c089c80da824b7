//! The code made from `model.toml` at build time: one module per model, and [`REGISTRY`] of all.
//!
//! A model's module holds `dims` (its dimensions as constants), `layers` (the layer table), `arena`
//! (the buffers), `weights` (the typed weights) and `forward` (the calls of all stages in order).
//! `pantheon plan` prints what was decided; the text itself is in
//! `target/*/build/pantheon-*/out/models/`, to be read from its `plan.txt` on. Nothing of it is
//! edited: change `model.toml` or the `codegen` crate and build again.

include!(concat!(env!("OUT_DIR"), "/models/models.rs"));
