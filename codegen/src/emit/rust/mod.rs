//! A plan to Rust: one function per file, each a list of items, printed item by item.

mod arena;
mod dims;
mod forward;
mod layers;
mod registry;
mod weights;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

use super::{Source, names};
use crate::plan::Plan;

/// The files of a model: stem and text, in reading order.
pub(super) fn model(plan: &Plan, source: &Source<'_>) -> Vec<(&'static str, String)> {
    let first = format!("Read {}/plan.txt first.", names::module(&plan.spec.name));
    let file = |stem, tokens| (stem, print(&[&source.header(), &first], tokens));
    vec![
        file("dims", dims::items(plan)),
        file("layers", layers::items(plan)),
        file("arena", arena::items(plan)),
        file("weights", weights::items(plan)),
        file("forward", forward::items(plan)),
    ]
}

/// The file that declares all models.
pub(super) fn registry(plans: &[Plan], source: &Source<'_>) -> String {
    print(&[&source.header()], registry::items(plans, source))
}

/// Prints items with a blank line between them, below comment lines.
///
/// The header is no inner doc comment because the file is `include!`d, where none can stand.
fn print(header: &[&str], tokens: TokenStream) -> String {
    let file: syn::File = syn::parse2(tokens).expect("emitted tokens are Rust items");
    let mut text: String = header.iter().map(|line| format!("// {line}\n")).collect();
    let mut imports = false;
    for item in file.items {
        let import = matches!(item, syn::Item::Use(_));
        if !(imports && import) {
            text.push('\n');
        }
        imports = import;
        text +=
            &prettyplease::unparse(&syn::File { shebang: None, attrs: vec![], items: vec![item] });
    }
    text
}

/// Doc comment lines, as attributes.
fn doc(text: &str) -> TokenStream {
    let lines = text.lines().map(|line| match line.is_empty() {
        true => String::new(),
        false => format!(" {line}"),
    });
    quote! { #(#[doc = #lines])* }
}

fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

/// A whole number without a type suffix.
fn int(n: usize) -> Literal {
    Literal::usize_unsuffixed(n)
}
