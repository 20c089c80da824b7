//! Pantheon: one model family, `qwen35moe`, specialised at build time.
//!
//! The tour, in reading order:
//!
//! 1. [`model`]: the vocabulary that generated and hand-written code share, and [`generated`]: the models.
//! 2. [`gguf`], [`quant`], [`weights`]: a file into typed tensors, or an error that names what is wrong.
//! 3. [`state`], [`cpu`]: what a sequence remembers, and the stages that compute.
//! 4. [`engine`]: sequences and steps, the front door. `examples/complete.rs` uses it on one page.
//! 5. [`tokenizer`], [`chat`], [`sampling`]: text to ids, messages to prompts, logits to tokens.
//! 6. [`memory`], [`cli`]: what the machine has, and the commands.

pub mod chat;
pub mod cli;
pub mod cpu;
pub mod engine;
pub mod generated;
pub mod gguf;
pub mod memory;
pub mod model;
pub mod quant;
pub mod sampling;
pub mod state;
pub mod tokenizer;
pub mod weights;
