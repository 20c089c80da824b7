//! A conversation's sequence: the engine, and which tokens it has seen.

use super::{interrupt, output, prompt, usage};
use crate::engine::{Engine, Outputs, Run};
use crate::tokenizer::Tokenizer;

/// The sequence that everything runs in.
const SEQUENCE: usize = 0;
/// A prompt of fewer tokens is read so quickly that a bar would only flicker.
const WORTH_A_BAR: usize = 64;

/// An engine with one sequence.
pub(super) struct Session {
    engine: Engine,
    tokenizer: Tokenizer,
    /// What the sequence has seen since its reset.
    seen: Vec<u32>,
}

/// How far a prompt was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Tokens that were computed.
    pub(super) computed: usize,
    /// Whether that was all; if not, Ctrl-C came.
    pub(super) complete: bool,
}

impl Session {
    /// A session of an engine that has seen nothing.
    pub(super) fn new(engine: Engine, tokenizer: Tokenizer) -> Self {
        Self { engine, tokenizer, seen: Vec::new() }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.engine.reset(SEQUENCE);
        self.seen.clear();
    }

    /// Tokens seen.
    pub(super) fn position(&self) -> usize {
        self.seen.len()
    }

    /// Brings the sequence to the end of `ids`. Only the new tokens are computed where the
    /// prompt continues what was seen, else all of them.
    ///
    /// # Errors If the prompt is empty, or leaves no room in the context.
    pub(super) fn read(&mut self, ids: &[u32]) -> anyhow::Result<Read> {
        let ctx = self.engine.options().ctx;
        if ids.is_empty() {
            return usage("the prompt is empty: expected at least one token");
        }
        if ids.len() >= ctx {
            return prompt::too_long(&ids.len().to_string(), ctx);
        }
        // A recurrent state cannot be taken back, so anything but a true continuation starts anew.
        let known = match ids.strip_prefix(self.seen.as_slice()) {
            Some(rest) if !rest.is_empty() => self.seen.len(),
            _ => 0,
        };
        if known == 0 {
            self.reset();
        }
        let new = &ids[known..];
        let bar = (new.len() >= WORTH_A_BAR).then(|| output::bar("reading", new.len()));
        let mut computed = 0;
        self.engine.prefill(SEQUENCE, new, |done| {
            computed = done;
            bar.iter().for_each(|bar| bar.set_position(done as u64));
            !interrupt::requested()
        })?;
        self.seen.extend_from_slice(&new[..computed]);
        Ok(Read { computed, complete: computed == new.len() })
    }

    /// Logits after the last token. Only for a sequence that has been read to its end.
    pub(super) fn logits(&self) -> &[f32] {
        self.engine.logits(0)
    }

    /// Adds a generated token.
    pub(super) fn push(&mut self, id: u32) -> anyhow::Result<()> {
        let tokens = &[id];
        self.engine.step(&[Run { sequence: SEQUENCE, tokens, outputs: Outputs::Last }])?;
        self.seen.push(id);
        Ok(())
    }
}
