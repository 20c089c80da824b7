//! Whether what an engine allocates fits into memory, and what would.

use std::fmt;

use super::{EngineOptions, LoadError, MemoryUse};
use crate::cpu;
use crate::memory::{Bytes, HostMemory};
use crate::model::{Arena, Shape};
use crate::state::KvFormat;

/// A change of one option that makes everything fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// At most this [`EngineOptions::ctx`].
    Ctx(usize),
    /// At most this many [`EngineOptions::sequences`].
    Sequences(usize),
    /// This [`EngineOptions::kv`].
    Kv(KvFormat),
    /// At most this many [`EngineOptions::max_outputs`].
    Outputs(usize),
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ctx(n) => write!(f, "ctx {n}"),
            Self::Sequences(n) => write!(f, "sequences {n}"),
            Self::Kv(format) => write!(f, "kv {format}"),
            Self::Outputs(n) => write!(f, "max_outputs {n}"),
        }
    }
}

/// An engine that would take more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShortage {
    /// What it would allocate.
    pub needed: MemoryUse,
    /// What there is.
    pub available: u64,
    /// Changes of which any one makes it fit; none if no single one does.
    pub fixes: Vec<Fix>,
}

impl MemoryShortage {
    /// The figures without what to do.
    pub fn figures(&self) -> String {
        let MemoryUse { kv, states, arena, .. } = self.needed;
        let needed = self.needed.allocated();
        format!(
            "expected at most {} of memory to be needed beside the weights, found {} (KV {}, states \
             {}, buffers {}): {} too much",
            Bytes(self.available),
            Bytes(needed),
            Bytes(kv),
            Bytes(states),
            Bytes(arena),
            Bytes(needed.saturating_sub(self.available))
        )
    }
}

impl fmt::Display for MemoryShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.figures())?;
        let fixes: Vec<String> = self.fixes.iter().map(Fix::to_string).collect();
        match fixes.is_empty() {
            true => f.write_str("; no change of a single option makes it fit"),
            false => write!(f, "; it fits with {}", fixes.join(", or ")),
        }
    }
}

impl std::error::Error for MemoryShortage {}

/// Refuses options that need more memory than there is.
pub(super) fn check(
    shape: &Shape,
    arena: &Arena,
    options: &EngineOptions,
) -> Result<(), LoadError> {
    // Where nothing is known, the system is left to refuse.
    let Some(available) = options.memory.or_else(|| HostMemory::read().free()) else {
        return Ok(());
    };
    let needed = |options: &EngineOptions| cpu::needed(shape, arena, options);
    if needed(options).allocated() <= available {
        return Ok(());
    }
    let fits = |options: &EngineOptions| needed(options).allocated() <= available;
    let largest = |range: std::ops::Range<usize>, set: fn(&mut EngineOptions, usize)| {
        largest(range, |n| {
            let mut changed = options.clone();
            set(&mut changed, n);
            fits(&changed)
        })
    };
    let smaller = EngineOptions { kv: KvFormat::F16, ..options.clone() };
    let half = options.kv != smaller.kv && fits(&smaller);
    let fixes = [
        largest(*EngineOptions::CTX.start()..options.ctx, |o, n| o.ctx = n).map(Fix::Ctx),
        largest(1..options.sequences, |o, n| o.sequences = n).map(Fix::Sequences),
        half.then_some(Fix::Kv(smaller.kv)),
        largest(1..options.max_outputs, |o, n| o.max_outputs = n).map(Fix::Outputs),
    ];
    let fixes = fixes.into_iter().flatten().collect();
    Err(Box::new(MemoryShortage { needed: needed(options), available, fixes }).into())
}

/// The largest number of a range that is good, where all below a good one are good.
fn largest(range: std::ops::Range<usize>, good: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if good(middle) { low = middle + 1 } else { high = middle }
    }
    (low > range.start).then(|| low - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::REGISTRY;

    fn shortage(options: &EngineOptions) -> Box<MemoryShortage> {
        let entry = &REGISTRY[0];
        match check(&entry.shape, &entry.arena, options) {
            Err(LoadError::Memory(shortage)) => shortage,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fixes_are_the_largest_that_fit() {
        let entry = &REGISTRY[0];
        let (shape, arena) = (&entry.shape, &entry.arena);
        let small = EngineOptions { ctx: 1024, sequences: 4, ..EngineOptions::default() };
        let available = cpu::needed(shape, arena, &small).allocated();
        let fitting = EngineOptions { memory: Some(available), ..small.clone() };
        check(shape, arena, &fitting).unwrap();

        let long = EngineOptions { ctx: 100_000, ..fitting.clone() };
        let found = shortage(&long);
        let Fix::Ctx(ctx) = found.fixes[0] else { panic!("{found}") };
        assert!((1024..1024 + 64).contains(&ctx), "{ctx}");
        for (ctx, fits) in [(ctx, true), (ctx + 1, false)] {
            assert_eq!(check(shape, arena, &EngineOptions { ctx, ..long.clone() }).is_ok(), fits);
        }
        assert_eq!(found.needed, cpu::needed(shape, arena, &long));

        let many = EngineOptions { sequences: 9, ..fitting.clone() };
        assert!(shortage(&many).fixes.contains(&Fix::Sequences(4)));
        let wide = EngineOptions { kv: KvFormat::F32, ..fitting.clone() };
        assert!(shortage(&wide).fixes.contains(&Fix::Kv(KvFormat::F16)));
        let rows = EngineOptions { max_outputs: 64, ..fitting };
        assert!(shortage(&rows).fixes.contains(&Fix::Outputs(1)));
    }

    #[test]
    fn words_say_needed_available_excess_and_what_fits() {
        let options = EngineOptions { memory: Some(1 << 20), ..EngineOptions::default() };
        let shortage = shortage(&options);
        let said = shortage.to_string();
        let needed = shortage.needed.allocated();
        for words in ["1.00 MiB", &Bytes(needed).to_string(), "too much", "no change"] {
            assert!(said.contains(words), "{said}");
        }
        let entry = &REGISTRY[0];
        for memory in [u64::MAX, needed] {
            let forced = EngineOptions { memory: Some(memory), ..options.clone() };
            check(&entry.shape, &entry.arena, &forced).unwrap();
        }
    }
}
