//! Every generated identifier is made here and nowhere else.

use crate::family::Dim;

/// Module and folder of a model: `nex-n2-mini` is `nex_n2_mini`.
pub fn module(model: &str) -> String {
    model.replace(['-', '.'], "_")
}

/// Unit type of a model: `nex-n2-mini` is `NexN2Mini`.
pub fn unit_type(model: &str) -> String {
    let capital = |part: &str| {
        let mut chars = part.chars();
        chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    };
    module(model).split('_').map(capital).collect()
}

/// Row of a layer in the layer table: `L07`.
pub fn layer_row(index: usize) -> String {
    format!("L{index:02}")
}

/// The function that calls a run of layers.
pub fn layer_run(first: usize, last: usize) -> String {
    format!("layers_{first:02}_to_{last:02}")
}

/// The constant of a dimension.
pub const fn dim(dim: Dim) -> &'static str {
    match dim {
        Dim::Embd => "N_EMBD",
        Dim::Vocab => "N_VOCAB",
        Dim::Conv => "CONV_DIM",
        Dim::ConvTaps => "CONV_TAPS",
        Dim::Value => "VALUE_DIM",
        Dim::GdnVHeads => "GDN_V_HEADS",
        Dim::GdnHead => "GDN_HEAD_DIM",
        Dim::QueryGate => "QG_DIM",
        Dim::Query => "Q_DIM",
        Dim::KeyValue => "KV_DIM",
        Dim::Head => "HEAD_DIM",
        Dim::Experts => "N_EXPERT",
        Dim::ExpertFf => "EXPERT_FF",
        Dim::SharedFf => "SHARED_FF",
        Dim::One => "1",
    }
}

/// A kernel: its stem, then the sizes that shaped it, `gdn_recur_hk16_hv32_d128`.
pub fn kernel(stem: &str, sizes: &[(&str, usize)]) -> String {
    let part = |(what, size): &(&str, usize)| format!("_{what}{size}");
    std::iter::once(stem.to_owned()).chain(sizes.iter().map(part)).collect()
}
