//! `dims.rs`: every dimension as a named constant, what must hold between them, and the shape.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{doc, ident, int};
use crate::plan::Plan;
use crate::spec::ModelSpec;

/// Constants that are stated: name, value, meaning.
fn stated(s: &ModelSpec) -> [(&'static str, usize, &'static str); 16] {
    [
        ("N_LAYER", s.n_layer, "Trunk layers."),
        ("FULL_ATTENTION_INTERVAL", s.full_attention_interval, "Every n-th layer is attention."),
        ("N_EMBD", s.n_embd, "Width of the residual stream."),
        ("N_VOCAB", s.n_vocab, "Rows of the embedding and of the head."),
        ("N_HEAD", s.n_head, "Query heads."),
        (
            "N_HEAD_KV",
            s.n_head_kv,
            "Key/value heads; each serves `N_HEAD / N_HEAD_KV` query heads.",
        ),
        ("HEAD_DIM", s.head_dim, "Size of an attention head."),
        ("ROPE_DIM", s.rope_dim, "Rotated dimensions of a head, from its start."),
        ("N_EXPERT", s.n_expert, "Routed experts per layer."),
        ("N_EXPERT_USED", s.n_expert_used, "Routed experts per token."),
        ("EXPERT_FF", s.expert_ff, "Inner width of a routed expert."),
        ("SHARED_FF", s.shared_ff, "Inner width of the shared expert."),
        ("GDN_K_HEADS", s.gdn_k_heads, "GDN key heads."),
        (
            "GDN_V_HEADS",
            s.gdn_v_heads,
            "GDN value heads; value head h uses key head `h % GDN_K_HEADS`.",
        ),
        ("GDN_HEAD_DIM", s.gdn_head_dim, "Size of a GDN head, key and value."),
        ("CONV_TAPS", s.conv_taps, "Taps of the convolution."),
    ]
}

/// Constants that follow from others: name, formula, meaning.
fn derived() -> [(&'static str, TokenStream, &'static str); 8] {
    [
        ("N_ATTN", quote!(N_LAYER / FULL_ATTENTION_INTERVAL), "Attention layers."),
        ("N_GDN", quote!(N_LAYER - N_ATTN), "GDN layers."),
        (
            "KEY_DIM",
            quote!(GDN_K_HEADS * GDN_HEAD_DIM),
            "Width of all GDN keys, and of all queries.",
        ),
        ("VALUE_DIM", quote!(GDN_V_HEADS * GDN_HEAD_DIM), "Width of all GDN values."),
        ("CONV_DIM", quote!(2 * KEY_DIM + VALUE_DIM), "Channels of the convolution."),
        ("Q_DIM", quote!(N_HEAD * HEAD_DIM), "Width of all queries."),
        ("QG_DIM", quote!(2 * Q_DIM), "Width of all queries with their gates."),
        ("KV_DIM", quote!(N_HEAD_KV * HEAD_DIM), "Width of all keys, and of all values."),
    ]
}

/// Relations that hand-written stages rely on, with what each one means.
fn relations(s: &ModelSpec) -> [(TokenStream, &'static str); 9] {
    let values = [s.key_dim(), s.value_dim(), s.conv_dim(), s.q_dim(), s.kv_dim()].map(int);
    let [key, value, conv, q, kv] = values;
    [
        (quote!(N_HEAD.is_multiple_of(N_HEAD_KV)), "query heads split evenly over key/value heads"),
        (quote!(GDN_V_HEADS.is_multiple_of(GDN_K_HEADS)), "value heads tile evenly over key heads"),
        (
            quote!(ROPE_DIM.is_multiple_of(2) && ROPE_DIM <= HEAD_DIM),
            "rotated values come in pairs of a head",
        ),
        (quote!(N_EXPERT_USED <= N_EXPERT), "no more experts are used than there are"),
        (quote!(N_EMBD.is_multiple_of(32)), "rows are whole blocks"),
        (
            quote!(EXPERT_FF.is_multiple_of(32) && SHARED_FF.is_multiple_of(32)),
            "experts' rows are whole blocks",
        ),
        (quote!(KEY_DIM == #key && VALUE_DIM == #value), "GDN widths are as planned"),
        (quote!(CONV_DIM == #conv), "the convolution's width is as planned"),
        (quote!(Q_DIM == #q && KV_DIM == #kv), "attention widths are as planned"),
    ]
}

pub(super) fn items(plan: &Plan) -> TokenStream {
    let s = &plan.spec;
    let stated = stated(s).into_iter().map(|(name, value, text)| {
        let (doc, name, value) = (doc(text), ident(name), int(value));
        quote! { #doc pub const #name: usize = #value; }
    });
    let derived = derived().into_iter().map(|(name, value, text)| {
        let (doc, name) = (doc(text), ident(name));
        quote! { #doc pub const #name: usize = #value; }
    });
    let asserts = relations(s).into_iter().map(|(relation, text)| {
        quote! { const _: () = assert!(#relation, #text); }
    });
    let [base, eps] = [s.rope_base, s.rms_eps].map(Literal::f32_unsuffixed);
    let sections = s.rope_sections.map(Literal::u32_unsuffixed);
    let shape = shape(s);
    quote! {
        use crate::model::Shape;
        #(#stated)*
        /// Rotary pairs per position axis: time, height, width, extra.
        pub const ROPE_SECTIONS: [u32; 4] = [#(#sections),*];
        /// Base frequency of RoPE.
        pub const ROPE_BASE: f32 = #base;
        /// Epsilon of every norm.
        pub const RMS_EPS: f32 = #eps;
        #(#derived)*
        #(#asserts)*
        #shape
    }
}

fn shape(s: &ModelSpec) -> TokenStream {
    let name = &s.name;
    quote! {
        /// All dimensions as one value.
        pub const SHAPE: Shape = Shape {
            name: #name,
            n_layer: N_LAYER,
            full_attention_interval: FULL_ATTENTION_INTERVAL,
            n_embd: N_EMBD,
            n_vocab: N_VOCAB,
            n_head: N_HEAD,
            n_head_kv: N_HEAD_KV,
            head_dim: HEAD_DIM,
            rope_dim: ROPE_DIM,
            rope_sections: ROPE_SECTIONS,
            rope_base: ROPE_BASE,
            rms_eps: RMS_EPS,
            n_expert: N_EXPERT,
            n_expert_used: N_EXPERT_USED,
            expert_ff: EXPERT_FF,
            shared_ff: SHARED_FF,
            gdn_k_heads: GDN_K_HEADS,
            gdn_v_heads: GDN_V_HEADS,
            gdn_head_dim: GDN_HEAD_DIM,
            conv_taps: CONV_TAPS,
        };
    }
}
