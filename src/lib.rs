//! Pantheon: one model family, `qwen35moe`, specialised at build time.

pub mod chat;
pub mod cpu;
pub mod engine;
pub mod generated;
pub mod gguf;
pub mod model;
pub mod quant;
pub mod sampling;
pub mod state;
pub mod tokenizer;
pub mod weights;
