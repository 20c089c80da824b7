//! `models.rs`: a module per model, the registry of all, and the list they were generated from.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Source, doc, ident, names};
use crate::plan::Plan;

pub(super) fn items(plans: &[Plan], source: &Source<'_>) -> TokenStream {
    let modules = plans.iter().map(module);
    let units = plans.iter().map(|plan| {
        let name = &plan.spec.name;
        let (module, unit) = (ident(&names::module(name)), ident(&names::unit_type(name)));
        quote! { crate::engine::Compiled::of::<#module::#unit>() }
    });
    let file = source.file;
    quote! {
        #(#modules)*
        /// Every compiled-in model, in the order of the list.
        pub const REGISTRY: &[crate::engine::Compiled] = &[#(#units),*];
        /// Name of the list that the models were generated from.
        pub const SOURCE_FILE: &str = #file;
        /// That list.
        pub const SOURCE: &str = include_str!("source.toml");
    }
}

fn module(plan: &Plan) -> TokenStream {
    let s = &plan.spec;
    let folder = names::module(&s.name);
    let (name, unit) = (ident(&folder), ident(&names::unit_type(&s.name)));
    let text = doc(&format!(
        "`{}`: {} layers, {} GDN and {} attention, each with {} experts.",
        s.name,
        s.n_layer,
        s.n_gdn(),
        s.n_attn(),
        s.n_expert
    ));
    let file = |name: &str| format!("{folder}/{name}");
    let files = ["dims.rs", "layers.rs", "arena.rs", "weights.rs", "forward.rs", "plan.txt"];
    let [dims, layers, arena, weights, forward, table] = files.map(file);
    quote! {
        #text
        pub mod #name {
            pub use forward::#unit;

            /// Dimensions as constants.
            pub mod dims {
                include!(#dims);
            }
            /// The layer table.
            pub mod layers {
                include!(#layers);
            }
            /// The CPU executor's buffers.
            pub mod arena {
                include!(#arena);
            }
            /// The typed weights and their binding table.
            pub mod weights {
                include!(#weights);
            }
            /// The model's type and its forward pass.
            pub mod forward {
                include!(#forward);
            }

            /// The printed plan.
            pub const PLAN: &str = include_str!(#table);
        }
    }
}
