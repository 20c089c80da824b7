//! `layers.rs`: the layer table, one constant per row.

use proc_macro2::TokenStream;
use quote::quote;

use super::{doc, ident, int, names};
use crate::family::LayerKind;
use crate::plan::{Layer, Plan};

pub(super) fn items(plan: &Plan) -> TokenStream {
    let rows = plan.layers.iter().map(row);
    let all = plan.layers.iter().map(|layer| ident(&names::layer_row(layer.index)));
    let of_kind = |kind| {
        let layers = plan.layers.iter().filter(move |layer| layer.kind == kind);
        let indices = layers.map(|layer| int(layer.index));
        quote! { [#(&LAYERS[#indices]),*] }
    };
    let (gdn, attention) = (of_kind(LayerKind::Gdn), of_kind(LayerKind::Attention));
    quote! {
        use super::dims::{N_ATTN, N_GDN, N_LAYER};
        use crate::model::{LayerInfo, LayerKind};
        #(#rows)*
        /// All layers, in order.
        pub static LAYERS: [LayerInfo; N_LAYER] = [#(#all),*];
        /// The GDN layers, in order.
        pub static GDN_LAYERS: [&LayerInfo; N_GDN] = #gdn;
        /// The attention layers, in order.
        pub static ATTN_LAYERS: [&LayerInfo; N_ATTN] = #attention;
    }
}

fn row(layer: &Layer) -> TokenStream {
    let (kind, long) = match layer.kind {
        LayerKind::Gdn => (quote!(LayerKind::Gdn), "Gated DeltaNet"),
        LayerKind::Attention => (quote!(LayerKind::Attention), "attention"),
    };
    let text = doc(&format!("Layer {}: {long} {}, then experts.", layer.index, layer.slot));
    let name = ident(&names::layer_row(layer.index));
    let (index, slot) = (int(layer.index), int(layer.slot));
    quote! {
        #text
        pub const #name: LayerInfo = LayerInfo { index: #index, kind: #kind, slot: #slot };
    }
}
