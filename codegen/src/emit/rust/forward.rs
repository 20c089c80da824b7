//! `forward.rs`: the unit type of the model, and the calls of all stages in order.

use proc_macro2::TokenStream;
use quote::quote;

use super::{doc, ident, int, names};
use crate::family::{LayerKind, Stage};
use crate::plan::{Layer, Plan};
use crate::spec::ModelSpec;

/// Most layers that one generated function calls, so that none is longer than a page.
const LAYERS_PER_FUNCTION: usize = 60;

pub(super) fn items(plan: &Plan) -> TokenStream {
    let runs: Vec<&[Layer]> = plan.layers.chunks(LAYERS_PER_FUNCTION).collect();
    let (model, forward) = (model(&plan.spec), forward(&runs));
    let functions = runs.iter().map(|run| layer_run(run));
    let (gdn, attention, moe) = (gdn_layer(&plan.spec), attn_layer(&plan.spec), moe(&plan.spec));
    quote! {
        use super::arena::ARENA;
        use super::dims::SHAPE;
        use super::layers::LAYERS;
        use super::weights::{BINDINGS, Weights};
        use crate::model::{Arena, LayerInfo, Model, Shape, Stages};
        use crate::weights::{BindError, Binder, Binding};
        #model
        #forward
        #(#functions)*
        #gdn
        #attention
        #moe
    }
}

fn model(s: &ModelSpec) -> TokenStream {
    let text = doc(&format!("The model `{}`.", s.name));
    let unit = ident(&names::unit_type(&s.name));
    quote! {
        #text
        #[derive(Clone, Copy, Debug)]
        pub struct #unit;

        impl Model for #unit {
            const SHAPE: Shape = SHAPE;
            const LAYERS: &'static [LayerInfo] = &LAYERS;
            const ARENA: Arena = ARENA;
            const BINDINGS: &'static [Binding] = BINDINGS;
            type Weights = Weights;
            fn bind(binder: &Binder<'_>) -> Result<Weights, BindError> {
                Weights::bind(binder)
            }
            fn forward<S: Stages>(stages: &mut S) {
                forward(stages);
            }
        }
    }
}

fn run_name(run: &[Layer]) -> proc_macro2::Ident {
    ident(&names::layer_run(run[0].index, run[run.len() - 1].index))
}

fn forward(runs: &[&[Layer]]) -> TokenStream {
    let runs = runs.iter().map(|run| run_name(run));
    quote! {
        /// All columns of a pass, from token ids to logits.
        ///
        /// tokens -> embed -> x -> every layer -> x -> head -> logits
        pub fn forward<S: Stages>(stages: &mut S) {
            stages.embed();
            #(#runs(stages);)*
            stages.head();
        }
    }
}

fn layer_run(run: &[Layer]) -> TokenStream {
    let (first, last) = (run[0].index, run[run.len() - 1].index);
    let text = doc(&format!("Layers {first} to {last}, in order."));
    let calls = run.iter().map(|layer| {
        let function = match layer.kind {
            LayerKind::Gdn => quote!(gdn_layer),
            LayerKind::Attention => quote!(attn_layer),
        };
        let index = int(layer.index);
        quote! { #function(stages, &LAYERS[#index]); }
    });
    let name = run_name(run);
    quote! {
        #text
        fn #name<S: Stages>(stages: &mut S) {
            #(#calls)*
        }
    }
}

/// Calls of stages with the layer's row.
fn calls<const N: usize>(stages: [Stage; N]) -> TokenStream {
    let methods = stages.map(|stage| ident(stage.stem()));
    quote! { #(stages.#methods(layer);)* }
}

fn gdn_layer(s: &ModelSpec) -> TokenStream {
    let text = doc(&format!(
        "A Gated DeltaNet layer.\n\n\
         x {x} -> norm -> qkv {qkv}, z {z}, alpha, beta {heads}\n  \
           -> conv + SiLU, L2 norms, gates, delta rule, gated norm -> h {z}\n  \
           -> projection, added to x {x} -> experts",
        x = s.n_embd,
        qkv = s.conv_dim(),
        z = s.value_dim(),
        heads = s.gdn_v_heads,
    ));
    let calls = calls([Stage::GdnProject, Stage::GdnRecur, Stage::GdnOutput]);
    quote! {
        #text
        fn gdn_layer<S: Stages>(stages: &mut S, layer: &'static LayerInfo) {
            #calls
            moe(stages, layer);
        }
    }
}

fn attn_layer(s: &ModelSpec) -> TokenStream {
    let text = doc(&format!(
        "An attention layer.\n\n\
         x {x} -> norm -> q + gate {qg}, k, v {kv} -> head norms, RoPE, append to the ring\n  \
           -> scores, softmax, values, gate -> h {q}\n  \
           -> projection, added to x {x} -> experts",
        x = s.n_embd,
        qg = 2 * s.q_dim(),
        kv = s.kv_dim(),
        q = s.q_dim(),
    ));
    let calls = calls([Stage::AttnProject, Stage::AttnMix, Stage::AttnOutput]);
    quote! {
        #text
        fn attn_layer<S: Stages>(stages: &mut S, layer: &'static LayerInfo) {
            #calls
            moe(stages, layer);
        }
    }
}

fn moe(s: &ModelSpec) -> TokenStream {
    let text = doc(&format!(
        "The experts of a layer.\n\n\
         x {x} -> norm -> router {experts} -> {used} experts with weights\n  \
           -> gate, up, SwiGLU {used} x {ff} and shared {shared}\n  \
           -> down, weighted sum in rank order, added to x {x}",
        x = s.n_embd,
        experts = s.n_expert,
        used = s.n_expert_used,
        ff = s.expert_ff,
        shared = s.shared_ff,
    ));
    let calls = calls([Stage::MoeRoute, Stage::MoeUp, Stage::MoeDown]);
    quote! {
        #text
        fn moe<S: Stages>(stages: &mut S, layer: &'static LayerInfo) {
            #calls
        }
    }
}
