//! `weights.rs`: the typed weights, the table of tensors they are bound from, and the binding.

use proc_macro2::TokenStream;
use quote::quote;

use super::{ident, int, names};
use crate::family::{Dim, Form, LayerSet, TENSORS, Tensor};
use crate::plan::Plan;

pub(super) fn items(_plan: &Plan) -> TokenStream {
    let (imports, rows) = (imports(), TENSORS.iter().map(row));
    let (weights, accessors) = (weights(), accessors());
    quote! {
        #imports
        /// Every tensor: name, shape, which layers have it, what it becomes.
        pub const BINDINGS: &[Binding] = &[#(#rows),*];
        #weights
        #accessors
        /// Binds one value per layer of a list.
        fn each<T, const N: usize>(
            layers: [&LayerInfo; N],
            bind: impl Fn(&LayerInfo) -> Result<T, BindError>,
        ) -> Result<[T; N], BindError> {
            let bound = layers.into_iter().map(bind).collect::<Result<Vec<T>, _>>()?;
            let Ok(bound) = bound.try_into() else { unreachable!("one value per layer") };
            Ok(bound)
        }
    }
}

fn imports() -> TokenStream {
    let mut used: Vec<&str> = vec!["N_ATTN", "N_GDN", "N_LAYER"];
    used.extend(
        TENSORS.iter().flat_map(|t| t.ne).filter(|d| **d != Dim::One).map(|d| names::dim(*d)),
    );
    used.sort_unstable();
    used.dedup();
    let used = used.into_iter().map(ident);
    quote! {
        use super::dims::{#(#used),*};
        use super::layers::{ATTN_LAYERS, GDN_LAYERS, LAYERS};
        use crate::model::LayerInfo;
        use crate::weights::{
            AttnWeights, BindError, Binder, Binding, Form, GdnWeights, LayerSet, Matrix,
            ModelWeights, MoeWeights, Vector,
        };
    }
}

fn row(tensor: &Tensor) -> TokenStream {
    let name = tensor.pattern;
    let shape = tensor.ne.iter().map(|dim| match dim {
        Dim::One => {
            let one = int(1);
            quote!(#one)
        }
        dim => {
            let name = ident(names::dim(*dim));
            quote!(#name as u64)
        }
    });
    let layers = ident(match tensor.layers {
        LayerSet::Global => "Global",
        LayerSet::Gdn => "Gdn",
        LayerSet::Attention => "Attention",
        LayerSet::Every => "Every",
    });
    let form = ident(match tensor.form {
        Form::Matrix => "Matrix",
        Form::Vector => "Vector",
        Form::Experts => "Experts",
    });
    quote! {
        Binding {
            name: #name, shape: &[#(#shape),*], layers: LayerSet::#layers, form: Form::#form
        }
    }
}

fn weights() -> TokenStream {
    quote! {
        /// All weights of the model, bound and checked.
        #[derive(Debug)]
        pub struct Weights {
            /// Embedding table, `[N_EMBD, N_VOCAB]`.
            pub token_embd: Matrix,
            /// Gain of the final norm, `[N_EMBD]`.
            pub output_norm: Vector,
            /// Head, `[N_EMBD, N_VOCAB]`; the embedding table itself where the file ties them.
            pub output: Matrix,
            /// Mixers of the GDN layers.
            pub gdn: [GdnWeights; N_GDN],
            /// Mixers of the attention layers.
            pub attn: [AttnWeights; N_ATTN],
            /// Experts of all layers.
            pub moe: [MoeWeights; N_LAYER],
        }

        impl Weights {
            /// Binds every tensor of [`BINDINGS`] to its field.
            ///
            /// # Errors
            /// If a tensor is missing or has another shape.
            pub fn bind(binder: &Binder<'_>) -> Result<Self, BindError> {
                Ok(Self {
                    token_embd: binder.global_matrix("token_embd.weight")?,
                    output_norm: binder.global_vector("output_norm.weight")?,
                    output: binder.head()?,
                    gdn: each(GDN_LAYERS, |layer| GdnWeights::bind(binder, layer))?,
                    attn: each(ATTN_LAYERS, |layer| AttnWeights::bind(binder, layer))?,
                    moe: each(LAYERS.each_ref(), |layer| MoeWeights::bind(binder, layer))?,
                })
            }
        }
    }
}

fn accessors() -> TokenStream {
    quote! {
        impl ModelWeights for Weights {
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
    }
}
