//! Entries to specs: what must hold between keys.

use super::error::Problem;
use super::keys::MIXES;
use super::raw::Entry;
use super::{ModelSpec, StageMix};
use crate::emit::names;
use crate::family::{Stage, Tensor};
use crate::mix;
use crate::types::{BlockType, TYPES};

/// Most query heads that can share a key/value head: executors keep a group's scores at once.
const MAX_GROUP: u64 = 64;
/// Activations are quantised in blocks of this many values.
const BLOCK: u64 = 32;
/// Types that the generated code beside a model's own type uses.
const RESERVED: [&str; 9] =
    ["Arena", "BindError", "Binder", "Binding", "LayerInfo", "Model", "Shape", "Stages", "Weights"];

/// What a model can be called, in words.
pub const NAME_RULE: &str =
    "1 to 64 of a-z, 0-9, `-` and `.`, a letter first, no word of Rust or of the engine";

/// Whether a model can be called that: the name of an entry is a module, a folder and a type.
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '.');
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(allowed)
        && name.len() <= 64
        && syn::parse_str::<syn::Ident>(&names::module(name)).is_ok()
        && !RESERVED.contains(&names::unit_type(name).as_str())
}

/// Checks all entries and turns those without problems into specs.
pub(super) fn all(entries: &[Entry], problems: &mut Vec<Problem>) -> Vec<ModelSpec> {
    let mut specs = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let mut check = Check { entry, problems };
        check.name(&entries[..i]);
        check.reference_mix();
        check.attention();
        check.rope();
        check.gdn();
        check.layers();
        let mixes = check.mixes();
        specs.extend(build(entry, mixes));
    }
    specs
}

/// The spec, if every key has a value.
fn build(entry: &Entry, mixes: Vec<StageMix>) -> Option<ModelSpec> {
    let n = |key| entry.count(key).map(|n| n as usize);
    let section = |i: usize| entry.list("rope.dimension_sections")?.get(i).map(|n| *n as u32);
    Some(ModelSpec {
        name: entry.text("name")?.to_owned(),
        reference_mix: entry.text("reference_mix")?.to_owned(),
        n_layer: n("block_count")?,
        full_attention_interval: n("full_attention_interval")?,
        n_embd: n("embedding_length")?,
        n_vocab: n("vocab_size")?,
        n_head: n("attention.head_count")?,
        n_head_kv: n("attention.head_count_kv")?,
        head_dim: n("attention.key_length")?,
        rms_eps: entry.number("attention.layer_norm_rms_epsilon")? as f32,
        rope_dim: n("rope.dimension_count")?,
        rope_sections: [section(0)?, section(1)?, section(2)?, section(3)?],
        rope_base: entry.number("rope.freq_base")? as f32,
        n_expert: n("expert_count")?,
        n_expert_used: n("expert_used_count")?,
        expert_ff: n("expert_feed_forward_length")?,
        shared_ff: n("expert_shared_feed_forward_length")?,
        gdn_k_heads: n("ssm.group_count")?,
        gdn_v_heads: n("ssm.time_step_rank")?,
        gdn_head_dim: n("ssm.state_size")?,
        conv_taps: n("ssm.conv_kernel")?,
        mixes,
    })
}

/// The checks of one entry. A check whose keys are missing or wrong by themselves says nothing
/// more.
struct Check<'a> {
    entry: &'a Entry,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    fn need(&mut self, holds: bool, key: &str, expected: String, found: impl ToString) {
        if !holds {
            self.problems.push(self.entry.problem(key, expected, found.to_string()));
        }
    }

    fn counts<const N: usize>(&self, keys: [&str; N]) -> Option<[u64; N]> {
        let values: Vec<u64> = keys.iter().filter_map(|key| self.entry.count(key)).collect();
        values.try_into().ok()
    }

    /// A name is possible, and no other entry's.
    fn name(&mut self, before: &[Entry]) {
        let Some(name) = self.entry.text("name") else { return };
        let module = names::module(name);
        self.need(is_name(name), "name", NAME_RULE.to_owned(), format_args!("{name:?}"));
        let same = |other: &&Entry| other.text("name").is_some_and(|n| names::module(n) == module);
        if let Some(other) = before.iter().find(same) {
            let rule = format!("a name whose module {module} is not that of line {}", other.line);
            self.need(false, "name", rule, format_args!("{name:?}"));
        }
    }

    fn reference_mix(&mut self) {
        let Some(name) = self.entry.text("reference_mix") else { return };
        let known = mix::names().collect::<Vec<_>>().join(", ");
        let found = format!("{name:?}");
        self.need(mix::lookup(name).is_some(), "reference_mix", format!("one of {known}"), found);
    }

    fn attention(&mut self) {
        let keys = ["attention.head_count", "attention.head_count_kv", "attention.key_length"];
        if let Some([heads, kv_heads]) = self.counts([keys[0], keys[1]]) {
            let divides = heads.is_multiple_of(kv_heads);
            self.need(divides, keys[1], format!("a divisor of {} = {heads}", keys[0]), kv_heads);
            let least = heads.div_ceil(MAX_GROUP);
            let rule = format!("at least {least}: at most {MAX_GROUP} query heads share one");
            self.need(heads <= MAX_GROUP * kv_heads, keys[1], rule, kv_heads);
        }
        if let Some([heads, size]) = self.counts([keys[0], keys[2]]) {
            let rule = format!("{} = {heads} times this to be a multiple of {BLOCK}", keys[0]);
            self.need((heads * size).is_multiple_of(BLOCK), keys[2], rule, size);
        }
    }

    fn rope(&mut self) {
        let (key, head) = ("rope.dimension_count", "attention.key_length");
        let Some(rotated) = self.entry.count(key) else { return };
        if let Some(size) = self.entry.count(head) {
            self.need(rotated <= size, key, format!("at most {head} = {size}"), rotated);
        }
        let Some(sections) = self.entry.list("rope.dimension_sections") else { return };
        let sum: u64 = sections.iter().fold(0, |sum, n| sum.saturating_add(*n));
        let fits = sections.len() == 4 && sum == rotated / 2;
        let rule = format!("four numbers with sum {key} / 2 = {}", rotated / 2);
        let found = format!("{sections:?}, sum {sum}");
        self.need(fits, "rope.dimension_sections", rule, found);
    }

    fn gdn(&mut self) {
        let keys = ["ssm.group_count", "ssm.time_step_rank", "ssm.state_size"];
        if let Some([k_heads, v_heads]) = self.counts([keys[0], keys[1]]) {
            let tiles = v_heads.is_multiple_of(k_heads);
            self.need(tiles, keys[1], format!("a multiple of {} = {k_heads}", keys[0]), v_heads);
        }
        if let Some([v_heads, size]) = self.counts([keys[1], keys[2]]) {
            let rule = format!("{} = {v_heads} times this to be a multiple of {BLOCK}", keys[1]);
            self.need((v_heads * size).is_multiple_of(BLOCK), keys[2], rule, size);
        }
    }

    fn layers(&mut self) {
        let keys = ["block_count", "full_attention_interval", "expert_count", "expert_used_count"];
        if let Some([layers, interval]) = self.counts([keys[0], keys[1]]) {
            let rule = format!("at most {} = {layers}, else no layer is attention", keys[0]);
            self.need(interval <= layers, keys[1], rule, interval);
        }
        if let Some([experts, used]) = self.counts([keys[2], keys[3]]) {
            self.need(used <= experts, keys[3], format!("at most {} = {experts}", keys[2]), used);
        }
    }

    fn mixes(&mut self) -> Vec<StageMix> {
        let mut mixes = Vec::new();
        for (key, texts) in self.entry.mixes() {
            let stem = key.strip_prefix(MIXES).unwrap_or(key);
            let stage = |s: &Stage| s.stem() == stem && s.matrices().next().is_some();
            let Some(stage) = Stage::ALL.into_iter().find(stage) else {
                let with_matrices = Stage::ALL.iter().filter(|s| s.matrices().next().is_some());
                let stems: Vec<_> = with_matrices.map(|s| s.stem()).collect();
                let rule = format!("a stage with matrices, one of {}", stems.join(", "));
                self.need(false, key, rule, "another name");
                continue;
            };
            for text in texts {
                match combination(stage, text) {
                    Ok(types) if mixes.contains(&StageMix { stage, types: types.clone() }) => {
                        let rule = "each combination once".to_owned();
                        self.need(false, key, rule, format_args!("{text:?} twice"));
                    }
                    Ok(types) => mixes.push(StageMix { stage, types }),
                    Err(expected) => self.need(false, key, expected, format_args!("{text:?}")),
                }
            }
        }
        mixes
    }
}

/// Types joined by `+`, one per matrix of the stage.
fn combination(stage: Stage, text: &str) -> Result<Vec<&'static BlockType>, String> {
    let names: Vec<&str> = text.split('+').collect();
    let wanted: Vec<&str> = stage.matrices().map(Tensor::class).collect();
    if names.len() != wanted.len() {
        return Err(format!("{} types joined by `+`: {}", wanted.len(), wanted.join("+")));
    }
    names.into_iter().map(BlockType::lookup).collect::<Option<_>>().ok_or_else(|| {
        let known: Vec<&str> = TYPES.iter().map(|ty| ty.name).collect();
        format!("types of {}", known.join(", "))
    })
}
