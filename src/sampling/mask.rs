//! Which rows of the logits can be drawn.

use crate::tokenizer::Tokenizer;

/// The rows of a model's head that are never drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogitMask {
    rows: usize,
    /// Padding rows: no tokens at all.
    padding: Vec<u32>,
    /// Tokens the file wants never drawn.
    suppressed: Vec<u32>,
}

impl LogitMask {
    /// The mask for a head of `rows` rows: rows beyond the vocabulary and unused ones are padding.
    pub fn new(tokenizer: &Tokenizer, rows: usize) -> LogitMask {
        let all = 0..u32::try_from(rows).unwrap_or(u32::MAX);
        LogitMask {
            rows,
            padding: all.filter(|&id| !tokenizer.is_named(id)).collect(),
            suppressed: within(rows, tokenizer.suppressed()),
        }
    }

    /// A mask from lists of ids; ids beyond `rows` are ignored.
    pub fn from_ids(rows: usize, padding: &[u32], suppressed: &[u32]) -> LogitMask {
        LogitMask { rows, padding: within(rows, padding), suppressed: within(rows, suppressed) }
    }

    /// Rows of the head.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are no tokens, in order.
    pub fn padding(&self) -> &[u32] {
        &self.padding
    }

    /// Every row that is never drawn.
    pub(super) fn masked(&self) -> impl Iterator<Item = u32> {
        self.padding.iter().chain(&self.suppressed).copied()
    }

    /// Whether the row is no token.
    pub(super) fn is_padding(&self, id: u32) -> bool {
        id as usize >= self.rows || self.padding.binary_search(&id).is_ok()
    }
}

fn within(rows: usize, ids: &[u32]) -> Vec<u32> {
    let mut ids: Vec<u32> = ids.iter().copied().filter(|id| (*id as usize) < rows).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
