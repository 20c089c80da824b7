//! The typed weights of each layer kind, and what a generated weights struct offers the executors.

use super::{BindError, Binder, Matrix, Vector};
use crate::model::LayerInfo;

/// Weights of a Gated DeltaNet mixer. Shapes are `[inputs, rows]`, as in the file.
#[derive(Debug)]
pub struct GdnWeights {
    /// Gain of the norm before the mixer, `[n_embd]`.
    pub attn_norm: Vector,
    /// Query, key and value rows, `[n_embd, conv_dim]`.
    pub attn_qkv: Matrix,
    /// Output gate rows, `[n_embd, value_dim]`.
    pub attn_gate: Matrix,
    /// Decay input, `[n_embd, gdn_v_heads]`.
    pub ssm_alpha: Matrix,
    /// Write strength, `[n_embd, gdn_v_heads]`.
    pub ssm_beta: Matrix,
    /// Convolution taps, oldest first, `[conv_taps, conv_dim]`.
    pub ssm_conv1d: Vector,
    /// Bias of the decay input, `[gdn_v_heads]`.
    pub ssm_dt: Vector,
    /// `-exp(A_log)`: negative, `[gdn_v_heads]`.
    pub ssm_a: Vector,
    /// Gain of the gated norm, shared by all value heads, `[gdn_head_dim]`.
    pub ssm_norm: Vector,
    /// Output projection, `[value_dim, n_embd]`.
    pub ssm_out: Matrix,
}

impl GdnWeights {
    /// Binds one layer.
    pub fn bind(b: &Binder<'_>, layer: &LayerInfo) -> Result<Self, BindError> {
        let l = layer.index;
        Ok(Self {
            attn_norm: b.vector("blk.{}.attn_norm.weight", l)?,
            attn_qkv: b.matrix("blk.{}.attn_qkv.weight", l)?,
            attn_gate: b.matrix("blk.{}.attn_gate.weight", l)?,
            ssm_alpha: b.matrix("blk.{}.ssm_alpha.weight", l)?,
            ssm_beta: b.matrix("blk.{}.ssm_beta.weight", l)?,
            ssm_conv1d: b.vector("blk.{}.ssm_conv1d.weight", l)?,
            ssm_dt: b.vector("blk.{}.ssm_dt.bias", l)?,
            ssm_a: b.vector("blk.{}.ssm_a", l)?,
            ssm_norm: b.vector("blk.{}.ssm_norm.weight", l)?,
            ssm_out: b.matrix("blk.{}.ssm_out.weight", l)?,
        })
    }
}

/// Weights of a gated attention mixer.
#[derive(Debug)]
pub struct AttnWeights {
    /// Gain of the norm before the mixer, `[n_embd]`.
    pub attn_norm: Vector,
    /// Query and gate rows, interleaved per head, `[n_embd, 2 * q_dim]`.
    pub attn_q: Matrix,
    /// Key rows, `[n_embd, kv_dim]`.
    pub attn_k: Matrix,
    /// Value rows, `[n_embd, kv_dim]`.
    pub attn_v: Matrix,
    /// Gain of the query norm, `[head_dim]`.
    pub attn_q_norm: Vector,
    /// Gain of the key norm, `[head_dim]`.
    pub attn_k_norm: Vector,
    /// Output projection, `[q_dim, n_embd]`.
    pub attn_output: Matrix,
}

impl AttnWeights {
    /// Binds one layer; a fused `attn_qkv` is cut into its three parts.
    pub fn bind(b: &Binder<'_>, layer: &LayerInfo) -> Result<Self, BindError> {
        let l = layer.index;
        let [attn_q, attn_k, attn_v] = b.attention_qkv(l)?;
        Ok(Self {
            attn_norm: b.vector("blk.{}.attn_norm.weight", l)?,
            attn_q,
            attn_k,
            attn_v,
            attn_q_norm: b.vector("blk.{}.attn_q_norm.weight", l)?,
            attn_k_norm: b.vector("blk.{}.attn_k_norm.weight", l)?,
            attn_output: b.matrix("blk.{}.attn_output.weight", l)?,
        })
    }
}

/// One of the three merged expert tensors: all experts' rows, as views.
#[derive(Debug)]
pub struct ExpertMatrix {
    /// One view per expert, `[inputs, rows]`, with the expert's own output scale.
    pub experts: Vec<Matrix>,
}

/// Weights of a layer's mixture of experts.
#[derive(Debug)]
pub struct MoeWeights {
    /// Gain of the norm before the experts, `[n_embd]`.
    pub post_attention_norm: Vector,
    /// Router, `[n_embd, n_expert]`.
    pub ffn_gate_inp: Matrix,
    /// The shared expert's gate, a matrix of one row, `[n_embd, 1]`.
    pub ffn_gate_inp_shexp: Matrix,
    /// Routed experts' gate rows, `[n_embd, expert_ff]` each.
    pub ffn_gate_exps: ExpertMatrix,
    /// Routed experts' up rows, `[n_embd, expert_ff]` each.
    pub ffn_up_exps: ExpertMatrix,
    /// Routed experts' down rows, `[expert_ff, n_embd]` each.
    pub ffn_down_exps: ExpertMatrix,
    /// The shared expert's gate rows, `[n_embd, shared_ff]`.
    pub ffn_gate_shexp: Matrix,
    /// The shared expert's up rows, `[n_embd, shared_ff]`.
    pub ffn_up_shexp: Matrix,
    /// The shared expert's down rows, `[shared_ff, n_embd]`.
    pub ffn_down_shexp: Matrix,
}

impl MoeWeights {
    /// Binds one layer; a fused `ffn_gate_up_exps` is cut into gate and up per expert.
    pub fn bind(b: &Binder<'_>, layer: &LayerInfo) -> Result<Self, BindError> {
        let l = layer.index;
        let [ffn_gate_exps, ffn_up_exps] = b.gate_up_experts(l)?;
        Ok(Self {
            post_attention_norm: b.vector("blk.{}.post_attention_norm.weight", l)?,
            ffn_gate_inp: b.matrix("blk.{}.ffn_gate_inp.weight", l)?,
            ffn_gate_inp_shexp: b.matrix("blk.{}.ffn_gate_inp_shexp.weight", l)?,
            ffn_gate_exps,
            ffn_up_exps,
            ffn_down_exps: b.experts("blk.{}.ffn_down_exps.weight", l)?,
            ffn_gate_shexp: b.matrix("blk.{}.ffn_gate_shexp.weight", l)?,
            ffn_up_shexp: b.matrix("blk.{}.ffn_up_shexp.weight", l)?,
            ffn_down_shexp: b.matrix("blk.{}.ffn_down_shexp.weight", l)?,
        })
    }
}

/// What executors ask of a generated weights struct.
pub trait ModelWeights: Send + Sync + 'static {
    /// Embedding table, `[n_embd, n_vocab]`.
    fn token_embd(&self) -> &Matrix;
    /// Gain of the final norm, `[n_embd]`.
    fn output_norm(&self) -> &Vector;
    /// Head, `[n_embd, n_vocab]`; the embedding table itself where the file ties them.
    fn output(&self) -> &Matrix;
    /// The mixer of the `slot`-th GDN layer.
    fn gdn(&self, slot: usize) -> &GdnWeights;
    /// The mixer of the `slot`-th attention layer.
    fn attn(&self, slot: usize) -> &AttnWeights;
    /// The experts of trunk layer `index`.
    fn moe(&self, index: usize) -> &MoeWeights;
}
