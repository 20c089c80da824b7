//! Every tensor of a model as a mix stores it, and what random values suit it.

use pantheon_codegen::plan::Stored;
use pantheon_codegen::{ModelSpec, Plan};

use pantheon_codegen::mix::Mix;

/// What a tensor is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// Ones: gains of norms.
    Ones,
    /// Even values between two bounds, stored as f32.
    Between(f32, f32),
    /// Values of standard deviation `1 / sqrt(inputs)` times this, so that outputs are about as
    /// large as inputs.
    Matrix(f32),
}

/// Decay rates of trained models lie in this range (`ssm_a` is `-exp(A_log)`).
const DECAY: Fill = Fill::Between(-8.0, -0.5);
/// `softplus` of these biases is a step of 0.01 to 0.13, as in trained models.
const STEP: Fill = Fill::Between(-4.5, -2.0);
/// Outputs added to the residual stream are small beside it, so that it grows slowly with depth.
const RESIDUAL: Fill = Fill::Matrix(0.5);
const PLAIN: Fill = Fill::Matrix(1.0);

/// The tensors of a model with what fills them, in the order in which a step reads them.
pub(super) fn list(model: &ModelSpec, mix: &Mix) -> Vec<(Stored, Fill)> {
    let tensors = Plan::new(model).stored(mix).into_iter();
    tensors.map(|tensor| (fill(&tensor.name, model), tensor)).map(|(f, t)| (t, f)).collect()
}

/// What suits a tensor of this name.
fn fill(name: &str, model: &ModelSpec) -> Fill {
    let class = name.strip_suffix(".weight").unwrap_or(name);
    let class = class
        .rsplit_once("blk.")
        .map_or(class, |(_, rest)| rest.split_once('.').map_or(rest, |(_, class)| class));
    match class {
        // Its rows are looked up, not multiplied: they are the residual stream's values.
        "token_embd" => Fill::Matrix((model.n_embd as f32).sqrt() * 0.5),
        "ssm_a" => DECAY,
        "ssm_dt.bias" => STEP,
        "ssm_out" | "attn_output" | "ffn_down_exps" | "ffn_down_shexp" => RESIDUAL,
        class if class.ends_with("norm") => Fill::Ones,
        _ => PLAIN,
    }
}
