//! Byte pair merging of long pieces, with little memory.
//!
//! The `tokenizers` crate makes an offset and a text for every token, which is nothing for a word
//! and gigabytes for a piece of millions of bytes without a blank. The ids here are the same: the
//! pair of lowest rank is merged first, of equal ones the leftmost, until no pair is left. A byte
//! of the piece costs three numbers and a place in the queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::{TokenizerError, Vocabulary, bytes};

/// Ends a list of symbols, and stands for a symbol that was merged into its left neighbour.
const NONE: u32 = u32::MAX;

/// All merges, by pair of ids.
pub(super) struct Merges {
    /// Rank of the merge, and the id it makes.
    pairs: HashMap<(u32, u32), (u32, u32)>,
    /// Id of each byte's own token.
    bytes: [u32; 256],
}

impl Merges {
    /// Most bytes of a piece: positions are 32 bits.
    pub(super) const LONGEST: usize = 1 << 31;

    /// The merges of a vocabulary whose texts have these ids.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        ids: &HashMap<&str, u32>,
    ) -> Result<Self, TokenizerError> {
        let mut utf8 = [0; 4];
        // A byte without a token is refused before anything is merged.
        let bytes =
            bytes::ALPHABET.map(|c| ids.get(&*c.encode_utf8(&mut utf8)).copied().unwrap_or(NONE));
        let mut pairs = HashMap::with_capacity(vocabulary.merges.len());
        for (rank, (left, right)) in (0..).zip(vocabulary.merge_pairs(ids)?) {
            let id = |text: &str| ids.get(text).copied().unwrap_or(NONE);
            // Of two merges of the same pair, the later counts, as in the crate.
            pairs.insert((id(&left), id(&right)), (rank, id(&(left + &right))));
        }
        Ok(Self { pairs, bytes })
    }

    /// Appends the ids of a piece of at most [`Merges::LONGEST`] bytes.
    pub(super) fn encode(&self, piece: &[u8], ids: &mut Vec<u32>) {
        let mut symbols = Symbols::new(piece.iter().map(|&byte| self.bytes[usize::from(byte)]));
        let mut queue = BinaryHeap::with_capacity(piece.len());
        let candidate = |symbols: &Symbols, at: u32| {
            let (rank, _) = *self.pairs.get(&symbols.pair(at)?)?;
            Some(Reverse((rank, at)))
        };
        queue.extend((0..piece.len() as u32).filter_map(|at| candidate(&symbols, at)));
        while let Some(Reverse((rank, at))) = queue.pop() {
            let Some(pair) = symbols.pair(at) else { continue };
            match self.pairs.get(&pair) {
                // The pair is still the one that was queued.
                Some(&(now, made)) if now == rank => symbols.merge(at, made),
                _ => continue,
            }
            queue.extend(symbols.before(at).and_then(|before| candidate(&symbols, before)));
            queue.extend(candidate(&symbols, at));
        }
        ids.extend(symbols.ids.iter().filter(|&&id| id != NONE));
    }
}

/// The symbols of a piece, a list whose elements know their neighbours.
struct Symbols {
    ids: Vec<u32>,
    next: Vec<u32>,
    before: Vec<u32>,
}

impl Symbols {
    fn new(ids: impl ExactSizeIterator<Item = u32>) -> Self {
        let count = ids.len() as u32;
        let next = (1..count).chain([NONE]).take(count as usize).collect();
        let before = [NONE].into_iter().chain(0..count).take(count as usize).collect();
        Self { ids: ids.collect(), next, before }
    }

    /// The ids of a symbol and of its right neighbour.
    fn pair(&self, at: u32) -> Option<(u32, u32)> {
        let (id, next) = (self.ids[at as usize], self.next[at as usize]);
        (id != NONE && next != NONE).then(|| (id, self.ids[next as usize]))
    }

    fn before(&self, at: u32) -> Option<u32> {
        Some(self.before[at as usize]).filter(|&before| before != NONE)
    }

    /// Makes one symbol of two.
    fn merge(&mut self, at: u32, made: u32) {
        let gone = self.next[at as usize];
        let after = self.next[gone as usize];
        self.ids[at as usize] = made;
        self.ids[gone as usize] = NONE;
        self.next[at as usize] = after;
        if after != NONE {
            self.before[after as usize] = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by the book: look for the best pair, merge it, look again.
    fn plainly(merges: &[[u32; 3]], piece: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = piece.iter().map(|&byte| u32::from(byte)).collect();
        loop {
            let rank = |at: usize| {
                merges.iter().position(|merge| merge[..2] == ids[at..at + 2]).unwrap_or(usize::MAX)
            };
            let best = (0..ids.len().saturating_sub(1)).min_by_key(|&at| rank(at));
            match best.filter(|&at| rank(at) < usize::MAX) {
                Some(at) => {
                    ids[at] = merges[rank(at)][2];
                    ids.remove(at + 1);
                }
                None => return ids,
            }
        }
    }

    #[test]
    fn merges_come_in_order_of_rank_then_place() {
        let bytes = std::array::from_fn(|byte| byte as u32);
        let (a, b) = (u32::from(b'a'), u32::from(b'b'));
        let merges = [
            [a, a, 300],
            [a, b, 301],
            [300, a, 302],
            [301, 301, 303],
            [300, 300, 304],
            [302, b, 305],
        ];
        let pairs =
            (0..).zip(merges).map(|(rank, [left, right, made])| ((left, right), (rank, made)));
        let all = Merges { pairs: pairs.collect(), bytes };
        let mut seed = 1u32;
        for length in 0..300 {
            let piece: Vec<u8> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"aaabbc"[(seed >> 16) as usize % 6]
                })
                .collect();
            let mut ids = Vec::new();
            all.encode(&piece, &mut ids);
            assert_eq!(ids, plainly(&merges, &piece), "{:?}", String::from_utf8(piece));
        }
    }
}
