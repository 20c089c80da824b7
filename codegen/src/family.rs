//! What every model of the family has: its stages, its tensors, and which tensor a stage reads.
//!
//! This is the one list of tensors. The binding table, the type mixes and the bytes per token all
//! follow from it.

/// Mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Gated DeltaNet: linear attention with a recurrent state.
    Gdn,
    /// Gated attention over the KV ring.
    Attention,
}

/// Which layers have a tensor or run a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSet {
    /// None: it is there once for the whole model.
    Global,
    /// Gated DeltaNet layers.
    Gdn,
    /// Attention layers.
    Attention,
    /// Every layer.
    Every,
}

impl LayerSet {
    /// Whether a layer of this kind is in the set.
    pub const fn has(self, kind: LayerKind) -> bool {
        match self {
            Self::Global => false,
            Self::Gdn => matches!(kind, LayerKind::Gdn),
            Self::Attention => matches!(kind, LayerKind::Attention),
            Self::Every => true,
        }
    }
}

/// The eleven stages, in the order in which a layer of either kind meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Token ids to `x`.
    Embed,
    /// GDN: norm; q/k/v, z, alpha and beta projections.
    GdnProject,
    /// GDN: convolution, norms, gates, delta rule, gated norm.
    GdnRecur,
    /// GDN: output projection.
    GdnOutput,
    /// Attention: norm; q+gate, k, v projections.
    AttnProject,
    /// Attention: scores, softmax, values, output gate.
    AttnMix,
    /// Attention: output projection.
    AttnOutput,
    /// MoE: norm, router, top-k, the shared expert's gate.
    MoeRoute,
    /// MoE: gate, up and SwiGLU of the chosen experts and the shared one.
    MoeUp,
    /// MoE: down projections and their weighted sum.
    MoeDown,
    /// Final norm and logits.
    Head,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 11] = [
        Self::Embed,
        Self::GdnProject,
        Self::GdnRecur,
        Self::GdnOutput,
        Self::AttnProject,
        Self::AttnMix,
        Self::AttnOutput,
        Self::MoeRoute,
        Self::MoeUp,
        Self::MoeDown,
        Self::Head,
    ];

    /// The stem that a stage's method, kernel template, reference, test and bench share.
    pub const fn stem(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::GdnProject => "gdn_project",
            Self::GdnRecur => "gdn_recur",
            Self::GdnOutput => "gdn_output",
            Self::AttnProject => "attn_project",
            Self::AttnMix => "attn_mix",
            Self::AttnOutput => "attn_output",
            Self::MoeRoute => "moe_route",
            Self::MoeUp => "moe_up",
            Self::MoeDown => "moe_down",
            Self::Head => "head",
        }
    }

    /// Which layers run it.
    pub const fn layers(self) -> LayerSet {
        match self {
            Self::Embed | Self::Head => LayerSet::Global,
            Self::GdnProject | Self::GdnRecur | Self::GdnOutput => LayerSet::Gdn,
            Self::AttnProject | Self::AttnMix | Self::AttnOutput => LayerSet::Attention,
            Self::MoeRoute | Self::MoeUp | Self::MoeDown => LayerSet::Every,
        }
    }

    /// The matrices it multiplies by, in the order of [`TENSORS`].
    pub fn matrices(self) -> impl Iterator<Item = &'static Tensor> {
        TENSORS.iter().filter(move |t| t.stage == self && t.form != Form::Vector)
    }
}

/// What a tensor becomes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Rows in the file's own format.
    Matrix,
    /// f32 values.
    Vector,
    /// One matrix per expert; the last dimension counts experts.
    Experts,
}

/// A dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Width of the residual stream.
    Embd,
    /// Rows of the embedding and of the head.
    Vocab,
    /// Channels of the convolution.
    Conv,
    /// Taps of the convolution.
    ConvTaps,
    /// Width of all GDN values.
    Value,
    /// GDN value heads.
    GdnVHeads,
    /// Size of a GDN head.
    GdnHead,
    /// Width of all queries with their gates.
    QueryGate,
    /// Width of all queries.
    Query,
    /// Width of all keys, and of all values.
    KeyValue,
    /// Size of an attention head.
    Head,
    /// Routed experts.
    Experts,
    /// Inner width of a routed expert.
    ExpertFf,
    /// Inner width of the shared expert.
    SharedFf,
    /// One.
    One,
}

/// A tensor of the family.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Name in the file, `{}` for the layer.
    pub pattern: &'static str,
    /// Shape as in the file, the contiguous dimension first.
    pub ne: &'static [Dim],
    /// Which layers have it.
    pub layers: LayerSet,
    /// What it becomes.
    pub form: Form,
    /// Whether quantising tools leave it in f32.
    pub float: bool,
    /// The stage that reads it.
    pub stage: Stage,
}

impl Tensor {
    /// Its class in the type mixes: the name without layer and ending, `attn_qkv`.
    pub fn class(&self) -> &'static str {
        let name = self.pattern.strip_prefix("blk.{}.").unwrap_or(self.pattern);
        name.strip_suffix(".weight").unwrap_or(name)
    }

    /// Its name in a layer.
    pub fn name(&self, layer: usize) -> String {
        self.pattern.replace("{}", &layer.to_string())
    }
}

const fn matrix(
    pattern: &'static str,
    ne: &'static [Dim],
    layers: LayerSet,
    stage: Stage,
) -> Tensor {
    Tensor { pattern, ne, layers, form: Form::Matrix, float: false, stage }
}

const fn vector(
    pattern: &'static str,
    ne: &'static [Dim],
    layers: LayerSet,
    stage: Stage,
) -> Tensor {
    Tensor { pattern, ne, layers, form: Form::Vector, float: true, stage }
}

const fn float_matrix(pattern: &'static str, ne: &'static [Dim], stage: Stage) -> Tensor {
    Tensor { float: true, ..matrix(pattern, ne, LayerSet::Every, stage) }
}

const fn experts(pattern: &'static str, ne: &'static [Dim], stage: Stage) -> Tensor {
    Tensor { form: Form::Experts, ..matrix(pattern, ne, LayerSet::Every, stage) }
}

use {Dim as D, LayerSet as L, Stage as S};

/// Every tensor of a model, in reading order.
#[rustfmt::skip]
pub const TENSORS: [Tensor; 28] = [
    matrix("token_embd.weight", &[D::Embd, D::Vocab], L::Global, S::Embed),
    vector("output_norm.weight", &[D::Embd], L::Global, S::Head),
    matrix("output.weight", &[D::Embd, D::Vocab], L::Global, S::Head),
    // The norm before the mixer is read by the projection of whichever mixer follows.
    vector("blk.{}.attn_norm.weight", &[D::Embd], L::Every, S::GdnProject),
    matrix("blk.{}.attn_qkv.weight", &[D::Embd, D::Conv], L::Gdn, S::GdnProject),
    matrix("blk.{}.attn_gate.weight", &[D::Embd, D::Value], L::Gdn, S::GdnProject),
    matrix("blk.{}.ssm_alpha.weight", &[D::Embd, D::GdnVHeads], L::Gdn, S::GdnProject),
    matrix("blk.{}.ssm_beta.weight", &[D::Embd, D::GdnVHeads], L::Gdn, S::GdnProject),
    vector("blk.{}.ssm_conv1d.weight", &[D::ConvTaps, D::Conv], L::Gdn, S::GdnRecur),
    vector("blk.{}.ssm_dt.bias", &[D::GdnVHeads], L::Gdn, S::GdnRecur),
    vector("blk.{}.ssm_a", &[D::GdnVHeads], L::Gdn, S::GdnRecur),
    vector("blk.{}.ssm_norm.weight", &[D::GdnHead], L::Gdn, S::GdnRecur),
    matrix("blk.{}.ssm_out.weight", &[D::Value, D::Embd], L::Gdn, S::GdnOutput),
    matrix("blk.{}.attn_q.weight", &[D::Embd, D::QueryGate], L::Attention, S::AttnProject),
    matrix("blk.{}.attn_k.weight", &[D::Embd, D::KeyValue], L::Attention, S::AttnProject),
    matrix("blk.{}.attn_v.weight", &[D::Embd, D::KeyValue], L::Attention, S::AttnProject),
    vector("blk.{}.attn_q_norm.weight", &[D::Head], L::Attention, S::AttnProject),
    vector("blk.{}.attn_k_norm.weight", &[D::Head], L::Attention, S::AttnProject),
    matrix("blk.{}.attn_output.weight", &[D::Query, D::Embd], L::Attention, S::AttnOutput),
    vector("blk.{}.post_attention_norm.weight", &[D::Embd], L::Every, S::MoeRoute),
    float_matrix("blk.{}.ffn_gate_inp.weight", &[D::Embd, D::Experts], S::MoeRoute),
    float_matrix("blk.{}.ffn_gate_inp_shexp.weight", &[D::Embd, D::One], S::MoeRoute),
    experts("blk.{}.ffn_gate_exps.weight", &[D::Embd, D::ExpertFf, D::Experts], S::MoeUp),
    experts("blk.{}.ffn_up_exps.weight", &[D::Embd, D::ExpertFf, D::Experts], S::MoeUp),
    matrix("blk.{}.ffn_gate_shexp.weight", &[D::Embd, D::SharedFf], L::Every, S::MoeUp),
    matrix("blk.{}.ffn_up_shexp.weight", &[D::Embd, D::SharedFf], L::Every, S::MoeUp),
    experts("blk.{}.ffn_down_exps.weight", &[D::ExpertFf, D::Embd, D::Experts], S::MoeDown),
    matrix("blk.{}.ffn_down_shexp.weight", &[D::SharedFf, D::Embd], L::Every, S::MoeDown),
];
