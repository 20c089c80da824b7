//! The numbers of the forward pass: reference against transformers and llama.cpp, engine against all.

#[path = "../common/mod.rs"]
mod common;
#[path = "../reference/mod.rs"]
mod reference;

mod block_types;
mod engine_logits;
mod engine_stages;
mod engine_traps;
mod file_variants;
mod oracle_logits;
mod oracle_stages;
mod traps;
