//! Pantheon: one model family, `qwen35moe`, specialised at build time.

pub mod chat;
pub mod cpu;
pub mod gguf;
pub mod quant;
pub mod sampling;
pub mod tokenizer;
