//! `arena.rs`: where every buffer of the CPU executor lies.

use proc_macro2::TokenStream;
use quote::quote;

use super::{doc, ident, int};
use crate::plan::{BufferPlan, MAX_COLUMNS, Plan};

pub(super) fn items(plan: &Plan) -> TokenStream {
    let fields = plan.arena.buffers.iter().map(|BufferPlan { name, offset, stride, .. }| {
        let (name, offset, stride) = (ident(name), int(*offset), int(*stride));
        quote! { #name: Buffer { offset: #offset, stride: #stride } }
    });
    let (bytes, columns) = (int(plan.arena.bytes), int(MAX_COLUMNS));
    let lives = plan
        .arena
        .buffers
        .iter()
        .map(|b| format!("- `{}`: {} to {}", b.name, b.first.stem(), b.last.stem()));
    let text = doc(&format!(
        "Buffers never needed in the same stage share memory. From first to last use:\n\n{}",
        lives.collect::<Vec<_>>().join("\n")
    ));
    quote! {
        use crate::model::{Arena, Buffer};
        #text
        pub const ARENA: Arena = Arena { bytes: #bytes, max_columns: #columns, #(#fields),* };
    }
}
