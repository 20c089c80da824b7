//! `model.toml` to validated model specs, all problems of a file reported together.
//!
//! `keys` is the list of keys with their meaning and range, `raw` reads text into entries of such
//! keys, `validate` checks what must hold between them, `write` turns a spec back into an entry.

mod error;
mod keys;
mod raw;
mod validate;
mod write;

pub use error::{Problem, SpecErrors};
pub use validate::{NAME_RULE, is_name};
pub use write::to_toml_entry;

use crate::family::{Dim, LayerKind, Stage};
use crate::types::BlockType;

/// A validated model: every dimension once. Names follow the GGUF keys; see `Shape` in the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Name of the entry: letters, digits, `-` and `.`.
    pub name: String,
    /// Type mix (see [`crate::mix`]) that the plan's figures assume.
    pub reference_mix: String,
    /// Trunk layers.
    pub n_layer: usize,
    /// Every how many layers a layer is full attention.
    pub full_attention_interval: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Rows of the embedding and of the head.
    pub n_vocab: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Size of an attention head.
    pub head_dim: usize,
    /// Epsilon of every norm.
    pub rms_eps: f32,
    /// Rotated dimensions of a head.
    pub rope_dim: usize,
    /// Rotary pairs per position axis.
    pub rope_sections: [u32; 4],
    /// RoPE base frequency.
    pub rope_base: f32,
    /// Routed experts per layer.
    pub n_expert: usize,
    /// Routed experts used per token.
    pub n_expert_used: usize,
    /// Inner width of a routed expert.
    pub expert_ff: usize,
    /// Inner width of the shared expert.
    pub shared_ff: usize,
    /// GDN key heads.
    pub gdn_k_heads: usize,
    /// GDN value heads.
    pub gdn_v_heads: usize,
    /// Size of a GDN head.
    pub gdn_head_dim: usize,
    /// Taps of the convolution.
    pub conv_taps: usize,
    /// Type combinations to have fast kernels for; none listed: every combination is served alike.
    pub mixes: Vec<StageMix>,
}

/// One combination of types of a stage's matrices, in the order of [`Stage::matrices`].
#[derive(Clone, Debug, PartialEq)]
pub struct StageMix {
    /// The stage.
    pub stage: Stage,
    /// One type per matrix.
    pub types: Vec<&'static BlockType>,
}

impl ModelSpec {
    /// Width of all GDN keys.
    pub const fn key_dim(&self) -> usize {
        self.gdn_k_heads * self.gdn_head_dim
    }
    /// Width of all GDN values.
    pub const fn value_dim(&self) -> usize {
        self.gdn_v_heads * self.gdn_head_dim
    }
    /// Channels of the convolution.
    pub const fn conv_dim(&self) -> usize {
        2 * self.key_dim() + self.value_dim()
    }
    /// Width of all queries.
    pub const fn q_dim(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Width of all keys, and of all values.
    pub const fn kv_dim(&self) -> usize {
        self.n_head_kv * self.head_dim
    }
    /// Attention layers.
    pub const fn n_attn(&self) -> usize {
        self.n_layer / self.full_attention_interval
    }
    /// GDN layers.
    pub const fn n_gdn(&self) -> usize {
        self.n_layer - self.n_attn()
    }
    /// Elements of one layer's delta-rule state.
    pub const fn delta_len(&self) -> usize {
        self.value_dim() * self.gdn_head_dim
    }
    /// Elements of one layer's convolution state.
    pub const fn conv_len(&self) -> usize {
        self.conv_dim() * (self.conv_taps - 1)
    }

    /// Mixer of a layer.
    pub const fn kind(&self, layer: usize) -> LayerKind {
        match (layer + 1).is_multiple_of(self.full_attention_interval) {
            true => LayerKind::Attention,
            false => LayerKind::Gdn,
        }
    }

    /// Size of a tensor's dimension.
    pub const fn dim(&self, dim: Dim) -> usize {
        match dim {
            Dim::Embd => self.n_embd,
            Dim::Vocab => self.n_vocab,
            Dim::Conv => self.conv_dim(),
            Dim::ConvTaps => self.conv_taps,
            Dim::Value => self.value_dim(),
            Dim::GdnVHeads => self.gdn_v_heads,
            Dim::GdnHead => self.gdn_head_dim,
            Dim::QueryGate => 2 * self.q_dim(),
            Dim::Query => self.q_dim(),
            Dim::KeyValue => self.kv_dim(),
            Dim::Head => self.head_dim,
            Dim::Experts => self.n_expert,
            Dim::ExpertFf => self.expert_ff,
            Dim::SharedFf => self.shared_ff,
            Dim::One => 1,
        }
    }
}

/// Reads and validates a list of models. `file` names the text in messages.
///
/// # Errors
/// All problems of the text: bad syntax, unknown, missing and mistyped keys, values out of range,
/// dimensions that do not fit each other.
pub fn parse(text: &str, file: &str) -> Result<Vec<ModelSpec>, SpecErrors> {
    let mut problems = Vec::new();
    let entries = raw::read(text, &mut problems);
    let specs = validate::all(&entries, &mut problems);
    if problems.is_empty() {
        return Ok(specs);
    }
    problems.sort_by_key(|problem| problem.line);
    Err(SpecErrors { file: file.to_owned(), problems })
}
