//! The keys of a `[[model]]` entry: what each means, what it may be, and where a spec keeps it.

use super::ModelSpec;

/// A key of an entry.
pub(super) struct Key {
    /// Name, as in a GGUF file without the architecture's prefix.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Meaning and unit, as written behind the key.
    pub(super) doc: &'static str,
    /// The value as text.
    pub(super) show: fn(&ModelSpec) -> String,
}

/// What values a key takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A text; its own rules are checked where it is used.
    Text,
    /// A whole number in a range, a multiple of something.
    Count { min: u64, max: u64, multiple: u64 },
    /// A number in an open range.
    Number { above: f64, below: f64 },
    /// A list of whole numbers.
    List,
}

const fn text(name: &'static str, doc: &'static str, show: fn(&ModelSpec) -> String) -> Key {
    Key { name, kind: Kind::Text, doc, show }
}

const fn count(
    name: &'static str,
    (min, max, multiple): (u64, u64, u64),
    doc: &'static str,
    show: fn(&ModelSpec) -> String,
) -> Key {
    Key { name, kind: Kind::Count { min, max, multiple }, doc, show }
}

const fn number(
    name: &'static str,
    (above, below): (f64, f64),
    doc: &'static str,
    show: fn(&ModelSpec) -> String,
) -> Key {
    Key { name, kind: Kind::Number { above, below }, doc, show }
}

/// Widths are multiples of 32 (a block of quantised activations), head sizes of 16 (a vector
/// register).
const WIDTH: (u64, u64, u64) = (32, 1 << 17, 32);
const HEAD: (u64, u64, u64) = (16, 1024, 16);
const HEADS: (u64, u64, u64) = (1, 1024, 1);

/// Every key, in the order in which entries list them. Values are shown as TOML writes them.
pub(super) const KEYS: [Key; 21] = [
    text("name", "name in commands, and of the generated module", |s| format!("{:?}", s.name)),
    text("reference_mix", "type mix that the plan's figures assume", |s| {
        format!("{:?}", s.reference_mix)
    }),
    count("block_count", (1, 512, 1), "trunk layers; a draft block is not counted", |s| {
        s.n_layer.to_string()
    }),
    count(
        "full_attention_interval",
        (2, 512, 1),
        "every n-th layer is attention, the others Gated DeltaNet",
        |s| s.full_attention_interval.to_string(),
    ),
    count("embedding_length", WIDTH, "width of the residual stream", |s| s.n_embd.to_string()),
    count(
        "vocab_size",
        (1, 1 << 24, 1),
        "rows of the embedding and of the head, padding included",
        |s| s.n_vocab.to_string(),
    ),
    count("attention.head_count", HEADS, "query heads", |s| s.n_head.to_string()),
    count("attention.head_count_kv", HEADS, "key/value heads", |s| s.n_head_kv.to_string()),
    count("attention.key_length", HEAD, "values per head, of queries, keys and values", |s| {
        s.head_dim.to_string()
    }),
    number(
        "attention.layer_norm_rms_epsilon",
        (0.0, 0.1),
        "added to the mean square in every norm",
        |s| format!("{:e}", s.rms_eps),
    ),
    count("rope.dimension_count", (2, 1024, 2), "rotated values per head, from its start", |s| {
        s.rope_dim.to_string()
    }),
    Key {
        name: "rope.dimension_sections",
        kind: Kind::List,
        doc: "rotary pairs per axis: time, height, width, extra",
        show: |s| format!("{:?}", s.rope_sections),
    },
    number("rope.freq_base", (1.0, 1e12), "base of the rotary frequencies", |s| {
        format!("{:e}", s.rope_base)
    }),
    count("expert_count", (1, 512, 1), "routed experts per layer", |s| s.n_expert.to_string()),
    count("expert_used_count", (1, 64, 1), "routed experts per token", |s| {
        s.n_expert_used.to_string()
    }),
    count("expert_feed_forward_length", WIDTH, "inner width of a routed expert", |s| {
        s.expert_ff.to_string()
    }),
    count("expert_shared_feed_forward_length", WIDTH, "inner width of the shared expert", |s| {
        s.shared_ff.to_string()
    }),
    count("ssm.group_count", HEADS, "Gated DeltaNet key heads", |s| s.gdn_k_heads.to_string()),
    count("ssm.time_step_rank", HEADS, "Gated DeltaNet value heads", |s| s.gdn_v_heads.to_string()),
    count("ssm.state_size", HEAD, "values per Gated DeltaNet head, of keys and values", |s| {
        s.gdn_head_dim.to_string()
    }),
    count("ssm.conv_kernel", (2, 8, 1), "taps of the causal convolution, in tokens", |s| {
        s.conv_taps.to_string()
    }),
];

/// Prefix of the optional keys that list a stage's type combinations.
pub(super) const MIXES: &str = "mixes.";
