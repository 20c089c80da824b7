//! What a compiled-in model is: the vocabulary that generated code and hand-written code share.
//!
//! Generated code (see [`crate::generated`]) names these types by path and fills them with literals.
//! Hand-written stages are generic over [`Model`] and see every dimension as a constant.

use crate::weights::{BindError, Binder, Binding, ModelWeights};

/// Every dimension that specialises a model. One constant value per compiled-in model.
///
/// Names follow the GGUF keys of architecture `qwen35moe`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Name of the `[[model]]` entry in `model.toml`.
    pub name: &'static str,
    /// Trunk layers (a draft block is not counted).
    pub n_layer: usize,
    /// Every `full_attention_interval`-th layer is full attention, the others are Gated DeltaNet.
    pub full_attention_interval: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Rows of the embedding and of the head.
    pub n_vocab: usize,
    /// Query heads of an attention layer.
    pub n_head: usize,
    /// Key/value heads of an attention layer.
    pub n_head_kv: usize,
    /// Size of an attention head.
    pub head_dim: usize,
    /// Rotated dimensions of an attention head, counted from its start.
    pub rope_dim: usize,
    /// Position sections of multi-section RoPE (time, height, width, extra), in rotary pairs.
    pub rope_sections: [u32; 4],
    /// RoPE base frequency.
    pub rope_base: f32,
    /// Epsilon of every RMS norm and of the L2 norms of the delta rule.
    pub rms_eps: f32,
    /// Routed experts per layer.
    pub n_expert: usize,
    /// Routed experts used per token.
    pub n_expert_used: usize,
    /// Inner width of a routed expert.
    pub expert_ff: usize,
    /// Inner width of the shared expert.
    pub shared_ff: usize,
    /// Key heads of a Gated DeltaNet layer (`ssm.group_count`).
    pub gdn_k_heads: usize,
    /// Value heads of a Gated DeltaNet layer (`ssm.time_step_rank`).
    pub gdn_v_heads: usize,
    /// Size of a key head and of a value head (`ssm.state_size`).
    pub gdn_head_dim: usize,
    /// Taps of the causal convolution (`ssm.conv_kernel`).
    pub conv_taps: usize,
}

impl Shape {
    /// Width of all GDN keys (and of all GDN queries).
    pub const fn key_dim(&self) -> usize {
        self.gdn_k_heads * self.gdn_head_dim
    }
    /// Width of all GDN values (`ssm.inner_size`).
    pub const fn value_dim(&self) -> usize {
        self.gdn_v_heads * self.gdn_head_dim
    }
    /// Channels of the convolution: queries, keys, values.
    pub const fn conv_dim(&self) -> usize {
        2 * self.key_dim() + self.value_dim()
    }
    /// Width of all attention queries.
    pub const fn q_dim(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Width of all attention keys (and of all values).
    pub const fn kv_dim(&self) -> usize {
        self.n_head_kv * self.head_dim
    }
    /// Full-attention layers.
    pub const fn n_attn(&self) -> usize {
        self.n_layer / self.full_attention_interval
    }
    /// Gated DeltaNet layers.
    pub const fn n_gdn(&self) -> usize {
        self.n_layer - self.n_attn()
    }
    /// Elements of one layer's delta-rule state.
    pub const fn delta_len(&self) -> usize {
        self.gdn_v_heads * self.gdn_head_dim * self.gdn_head_dim
    }
    /// Elements of one layer's convolution state.
    pub const fn conv_len(&self) -> usize {
        self.conv_dim() * (self.conv_taps - 1)
    }
}

/// Which mixer a layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Gated DeltaNet: linear attention with a recurrent state.
    Gdn,
    /// Gated grouped-query attention over the KV ring.
    Attention,
}

/// One row of the static layer table; all that is ever consulted to dispatch a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// Index in the trunk.
    pub index: usize,
    /// Mixer kind.
    pub kind: LayerKind,
    /// Index among the layers of the same kind.
    pub slot: usize,
}

/// A buffer of the static arena: `[max_columns][len]` elements of four bytes, or of one byte for the
/// quantised activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Byte offset in the arena, a multiple of 64.
    pub offset: usize,
    /// Bytes of one column, a multiple of 64.
    pub stride: usize,
}

/// The static arena: where every intermediate of the CPU forward lives, for `max_columns` tokens at once.
///
/// A buffer's name says what it holds; sizes are in elements per column. `f32` unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Bytes of the whole arena.
    pub bytes: usize,
    /// Largest number of tokens in one pass.
    pub max_columns: usize,
    /// Residual stream, `[n_embd]`.
    pub x: Buffer,
    /// The stage's input as f32: normed `x`, the mixer's output, `[max(n_embd, value_dim, q_dim)]`.
    pub h: Buffer,
    /// `h` quantised to Q8_K super-blocks (292 bytes each).
    pub h_q8k: Buffer,
    /// `h` quantised to Q8_0-like blocks (40 bytes each).
    pub h_q80: Buffer,
    /// GDN: projected q, k, v, convolved in place, `[conv_dim]`.
    pub qkv: Buffer,
    /// GDN: output gate, `[value_dim]`.
    pub z: Buffer,
    /// GDN: decay input then decay, `[gdn_v_heads]`.
    pub alpha: Buffer,
    /// GDN: write strength, `[gdn_v_heads]`.
    pub beta: Buffer,
    /// Attention: query and gate rows, interleaved per head, `[2 * q_dim]`.
    pub qg: Buffer,
    /// Attention: keys, `[kv_dim]`.
    pub k: Buffer,
    /// Attention: values, `[kv_dim]`.
    pub v: Buffer,
    /// Router logits, `[n_expert]`.
    pub router: Buffer,
    /// Chosen experts, `u32 [n_expert_used]`, descending weight.
    pub expert_ids: Buffer,
    /// Weights of the chosen experts, then the shared expert's gate, `[n_expert_used + 1]`.
    pub expert_weights: Buffer,
    /// SwiGLU activations: `[n_expert_used][expert_ff]`, then the shared expert's `[shared_ff]`.
    pub ff: Buffer,
    /// `ff` quantised to Q8_K, one run of super-blocks per expert.
    pub ff_q8k: Buffer,
    /// `ff` quantised to Q8_0-like blocks, one run per expert.
    pub ff_q80: Buffer,
    /// Outputs of the chosen experts and of the shared one, `[n_expert_used + 1][n_embd]`.
    pub down: Buffer,
}

/// The eleven stages, as an executor implements them. The generated forward is a list of calls of these.
pub trait Stages {
    /// Token ids to `x`.
    fn embed(&mut self);
    /// GDN: norm; q/k/v, z, alpha and beta projections.
    fn gdn_project(&mut self, layer: &'static LayerInfo);
    /// GDN: convolution, L2 norms, gates, delta rule, gated norm.
    fn gdn_recur(&mut self, layer: &'static LayerInfo);
    /// GDN: output projection, added to `x`.
    fn gdn_output(&mut self, layer: &'static LayerInfo);
    /// Attention: norm; q+gate, k, v projections; q/k norms; RoPE; append to the KV ring.
    fn attn_project(&mut self, layer: &'static LayerInfo);
    /// Attention: scores, softmax, values, output gate.
    fn attn_mix(&mut self, layer: &'static LayerInfo);
    /// Attention: output projection, added to `x`.
    fn attn_output(&mut self, layer: &'static LayerInfo);
    /// MoE: norm; router; top-k; shared expert's gate.
    fn moe_route(&mut self, layer: &'static LayerInfo);
    /// MoE: gate, up and SwiGLU of the chosen experts and the shared one.
    fn moe_up(&mut self, layer: &'static LayerInfo);
    /// MoE: down projections, weighted sum in rank order, added to `x`.
    fn moe_down(&mut self, layer: &'static LayerInfo);
    /// Final norm and logits.
    fn head(&mut self);
}

/// A compiled-in model. Implemented by generated unit types only.
pub trait Model: Copy + Send + Sync + 'static {
    /// Dimensions, as constants.
    const SHAPE: Shape;
    /// One row per trunk layer.
    const LAYERS: &'static [LayerInfo];
    /// The CPU executor's buffers.
    const ARENA: Arena;
    /// Every tensor the model binds: name, shape, which layers.
    const BINDINGS: &'static [Binding];
    /// The typed weights.
    type Weights: ModelWeights;

    /// Binds every tensor of [`Model::BINDINGS`] to its typed field, or says which ones are wrong.
    fn bind(binder: &Binder<'_>) -> Result<Self::Weights, BindError>;

    /// Calls the stages of all layers in order.
    fn forward<S: Stages>(stages: &mut S);
}
