//! A small model as the generator would write it: all dimensions unequal, so that swapped ones
//! show.

use pantheon::model::{Arena, Buffer, LayerInfo, LayerKind, Model, Shape, Stages};
use pantheon::weights::{
    AttnWeights, BindError, Binder, Binding, Form, GdnWeights, LayerSet, Matrix, ModelWeights,
    MoeWeights, Vector,
};

/// The test model.
#[derive(Clone, Copy)]
pub(crate) struct Small;

pub(crate) const SHAPE: Shape = Shape {
    name: "small",
    n_layer: 4,
    full_attention_interval: 4,
    n_embd: 64,
    n_vocab: 270,
    n_head: 2,
    n_head_kv: 1,
    head_dim: 32,
    rope_dim: 8,
    rope_sections: [2, 1, 1, 0],
    rope_base: 1e7,
    rms_eps: 1e-6,
    n_expert: 6,
    n_expert_used: 2,
    expert_ff: 24,
    shared_ff: 40,
    gdn_k_heads: 2,
    gdn_v_heads: 4,
    gdn_head_dim: 16,
    conv_taps: 3,
};

const fn layer(index: usize, kind: LayerKind, slot: usize) -> LayerInfo {
    LayerInfo { index, kind, slot }
}

pub(crate) const LAYERS: [LayerInfo; 4] = [
    layer(0, LayerKind::Gdn, 0),
    layer(1, LayerKind::Gdn, 1),
    layer(2, LayerKind::Gdn, 2),
    layer(3, LayerKind::Attention, 0),
];

const fn row(name: &'static str, shape: &'static [u64], layers: LayerSet, form: Form) -> Binding {
    Binding { name, shape, layers, form }
}

use Form::{Experts as E, Matrix as M, Vector as V};
use LayerSet::{Attention as A, Every, Gdn as G, Global};

#[rustfmt::skip]
pub(crate) const BINDINGS: &[Binding] = &[
    row("token_embd.weight",                &[64, 270],     Global, M),
    row("output_norm.weight",               &[64],          Global, V),
    row("output.weight",                    &[64, 270],     Global, M),
    row("blk.{}.attn_norm.weight",          &[64],          Every,  V),
    row("blk.{}.post_attention_norm.weight",&[64],          Every,  V),
    row("blk.{}.ffn_gate_inp.weight",       &[64, 6],       Every,  M),
    row("blk.{}.ffn_gate_inp_shexp.weight", &[64, 1],       Every,  M),
    row("blk.{}.ffn_gate_exps.weight",      &[64, 24, 6],   Every,  E),
    row("blk.{}.ffn_up_exps.weight",        &[64, 24, 6],   Every,  E),
    row("blk.{}.ffn_down_exps.weight",      &[24, 64, 6],   Every,  E),
    row("blk.{}.ffn_gate_shexp.weight",     &[64, 40],      Every,  M),
    row("blk.{}.ffn_up_shexp.weight",       &[64, 40],      Every,  M),
    row("blk.{}.ffn_down_shexp.weight",     &[40, 64],      Every,  M),
    row("blk.{}.attn_qkv.weight",           &[64, 128],     G,      M),
    row("blk.{}.attn_gate.weight",          &[64, 64],      G,      M),
    row("blk.{}.ssm_conv1d.weight",         &[3, 128],      G,      V),
    row("blk.{}.ssm_dt.bias",               &[4],           G,      V),
    row("blk.{}.ssm_a",                     &[4],           G,      V),
    row("blk.{}.ssm_alpha.weight",          &[64, 4],       G,      M),
    row("blk.{}.ssm_beta.weight",           &[64, 4],       G,      M),
    row("blk.{}.ssm_norm.weight",           &[16],          G,      V),
    row("blk.{}.ssm_out.weight",            &[64, 64],      G,      M),
    row("blk.{}.attn_q.weight",             &[64, 128],     A,      M),
    row("blk.{}.attn_k.weight",             &[64, 32],      A,      M),
    row("blk.{}.attn_v.weight",             &[64, 32],      A,      M),
    row("blk.{}.attn_q_norm.weight",        &[32],          A,      V),
    row("blk.{}.attn_k_norm.weight",        &[32],          A,      V),
    row("blk.{}.attn_output.weight",        &[64, 64],      A,      M),
];

#[derive(Debug)]
pub(crate) struct SmallWeights {
    pub(crate) token_embd: Matrix,
    pub(crate) output_norm: Vector,
    pub(crate) output: Matrix,
    pub(crate) gdn: Vec<GdnWeights>,
    pub(crate) attn: Vec<AttnWeights>,
    pub(crate) moe: Vec<MoeWeights>,
}

impl ModelWeights for SmallWeights {
    fn token_embd(&self) -> &Matrix {
        &self.token_embd
    }
    fn output_norm(&self) -> &Vector {
        &self.output_norm
    }
    fn output(&self) -> &Matrix {
        &self.output
    }
    fn gdn(&self, slot: usize) -> &GdnWeights {
        &self.gdn[slot]
    }
    fn attn(&self, slot: usize) -> &AttnWeights {
        &self.attn[slot]
    }
    fn moe(&self, index: usize) -> &MoeWeights {
        &self.moe[index]
    }
}

const NOTHING: Buffer = Buffer { offset: 0, stride: 0 };

impl Model for Small {
    const SHAPE: Shape = SHAPE;
    const LAYERS: &'static [LayerInfo] = &LAYERS;
    const ARENA: Arena = Arena {
        bytes: 0,
        max_columns: 0,
        x: NOTHING,
        h: NOTHING,
        h_q8k: NOTHING,
        h_q80: NOTHING,
        qkv: NOTHING,
        z: NOTHING,
        alpha: NOTHING,
        beta: NOTHING,
        qg: NOTHING,
        k: NOTHING,
        v: NOTHING,
        router: NOTHING,
        expert_ids: NOTHING,
        expert_weights: NOTHING,
        ff: NOTHING,
        ff_q8k: NOTHING,
        ff_q80: NOTHING,
        down: NOTHING,
    };
    const BINDINGS: &'static [Binding] = BINDINGS;
    type Weights = SmallWeights;

    fn bind(b: &Binder<'_>) -> Result<SmallWeights, BindError> {
        let of = |kind: LayerKind| LAYERS.iter().filter(move |l| l.kind == kind);
        Ok(SmallWeights {
            token_embd: b.global_matrix("token_embd.weight")?,
            output_norm: b.global_vector("output_norm.weight")?,
            output: b.head()?,
            gdn: of(LayerKind::Gdn).map(|l| GdnWeights::bind(b, l)).collect::<Result<_, _>>()?,
            attn: of(LayerKind::Attention)
                .map(|l| AttnWeights::bind(b, l))
                .collect::<Result<_, _>>()?,
            moe: LAYERS.iter().map(|l| MoeWeights::bind(b, l)).collect::<Result<_, _>>()?,
        })
    }

    fn forward<S: Stages>(_: &mut S) {}
}

/// A matrix as everything that computing with it depends on.
fn matrix(m: &Matrix) -> (String, Vec<u8>) {
    (format!("{} {} {} {}", m.ty(), m.k(), m.rows(), m.scale()), m.bytes().to_vec())
}

/// Everything that running the model depends on, for comparing two files.
pub(crate) fn contents(w: &SmallWeights) -> Vec<(String, Vec<u8>)> {
    let vector = |v: &Vector| {
        (format!("vector {}", v.len()), v.iter().flat_map(|x| x.to_le_bytes()).collect())
    };
    let mut out = vec![matrix(&w.token_embd), vector(&w.output_norm), matrix(&w.output)];
    for g in &w.gdn {
        let vectors = [&g.attn_norm, &g.ssm_conv1d, &g.ssm_dt, &g.ssm_a, &g.ssm_norm];
        out.extend(vectors.map(vector));
        let rows = [&g.attn_qkv, &g.attn_gate, &g.ssm_alpha, &g.ssm_beta, &g.ssm_out];
        out.extend(rows.map(matrix));
    }
    for a in &w.attn {
        out.extend([&a.attn_norm, &a.attn_q_norm, &a.attn_k_norm].map(vector));
        out.extend([&a.attn_q, &a.attn_k, &a.attn_v, &a.attn_output].map(matrix));
    }
    for m in &w.moe {
        out.push(vector(&m.post_attention_norm));
        out.extend([&m.ffn_gate_inp, &m.ffn_gate_inp_shexp].map(matrix));
        for e in [&m.ffn_gate_exps, &m.ffn_up_exps, &m.ffn_down_exps] {
            out.extend(e.experts.iter().map(matrix));
        }
        out.extend([&m.ffn_gate_shexp, &m.ffn_up_shexp, &m.ffn_down_shexp].map(matrix));
    }
    out
}
