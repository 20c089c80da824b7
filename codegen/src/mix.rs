//! Type mixes: which type each class of tensors has in a kind of file.
//!
//! The rules are those of llama.cpp's quantiser and of the common publishers, as files in
//! circulation hold them. Norms, the router, the convolution and other small tensors are f32 in
//! every mix.

use crate::family::Tensor;
use crate::types::BlockType;

/// A kind of file.
#[derive(Debug)]
pub struct Mix {
    /// Name, lower case: `q4_k_m`.
    pub name: &'static str,
    /// `general.file_type` of such a file.
    pub file_type: u32,
    /// Type of whatever no rule names.
    base: &'static str,
    rules: &'static [&'static [Rule]],
}

/// Where a tensor is: what rules ask about.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Layer of the trunk; 0 for tensors of the whole model.
    pub layer: usize,
    /// Index among the layers of the same kind.
    pub slot: usize,
    /// Layers of the trunk.
    pub n_layer: usize,
    /// Routed experts per layer.
    pub n_expert: usize,
    /// Query heads per key/value head.
    pub group: usize,
    /// Values per row.
    pub inputs: usize,
}

/// Some classes of tensors have a type, if a condition holds. The first rule that applies counts.
#[derive(Debug)]
struct Rule {
    classes: &'static [&'static str],
    when: When,
    ty: &'static str,
}

#[derive(Debug)]
enum When {
    Always,
    /// The first and last eighth of the layers, and every third between.
    MoreBits,
    /// As `MoreBits`, by the number of the attention layer, yet against the number of all layers.
    MoreBitsBySlot,
    /// The first layers, this one out of all.
    FirstPart(usize),
    /// The first two attention layers.
    FirstTwoSlots,
    /// Four or more query heads per key/value head.
    Grouped,
    /// Exactly eight experts: then attention is small beside them.
    EightExperts,
}

impl When {
    fn holds(&self, at: &Site) -> bool {
        let more_bits = |i: usize| {
            let eighth = at.n_layer / 8;
            i < eighth || i >= 7 * at.n_layer / 8 || (i - eighth) % 3 == 2
        };
        match self {
            Self::Always => true,
            Self::MoreBits => more_bits(at.layer),
            Self::MoreBitsBySlot => more_bits(at.slot),
            Self::FirstPart(parts) => at.layer < at.n_layer / parts,
            Self::FirstTwoSlots => at.slot < 2,
            Self::Grouped => at.group >= 4,
            Self::EightExperts => at.n_expert == 8,
        }
    }
}

const fn all(classes: &'static [&'static str], ty: &'static str) -> Rule {
    Rule { classes, when: When::Always, ty }
}

const fn when(classes: &'static [&'static str], when: When, ty: &'static str) -> Rule {
    Rule { classes, when, ty }
}

const EMBED: &[&str] = &["token_embd"];
const HEAD: &[&str] = &["output"];
const QKV: &[&str] = &["attn_qkv"];
const VALUE: &[&str] = &["attn_v"];
const VALUES: &[&str] = &["attn_v", "attn_qkv"];
const OUT: &[&str] = &["attn_output"];
const EXPERTS: &[&str] = &["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
const SHARED: &[&str] = &["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"];
const GATE_UP: &[&str] = &["ffn_gate_exps", "ffn_up_exps"];
const DOWN: &[&str] = &["ffn_down_exps", "ffn_down_shexp"];
const GATES: &[&str] = &["ssm_alpha", "ssm_beta"];

/// With eight experts the quantiser spares the attention tensors.
const EIGHT: &[Rule] =
    &[when(VALUES, When::EightExperts, "q8_0"), when(&["attn_k"], When::EightExperts, "q8_0")];
const EIGHT_OUT: &[Rule] = &[when(OUT, When::EightExperts, "q5_K")];
/// The head of most mixes, and of those below three bits.
const HEAD_Q6: &[Rule] = &[all(HEAD, "q6_K")];
const HEAD_Q5: &[Rule] = &[all(HEAD, "q5_K")];
const Q2: &[Rule] =
    &[when(VALUE, When::Grouped, "q4_K"), all(VALUE, "q3_K"), all(DOWN, "q3_K"), all(OUT, "q3_K")];
const Q3: &[Rule] = &[
    when(VALUE, When::FirstTwoSlots, "q5_K"),
    all(&["attn_v", "attn_qkv", "attn_output"], "q4_K"),
    when(DOWN, When::FirstPart(16), "q5_K"),
    all(DOWN, "q4_K"),
];
const Q4: &[Rule] = &[
    when(VALUE, When::MoreBitsBySlot, "q6_K"),
    when(DOWN, When::MoreBits, "q6_K"),
    all(QKV, "q5_K"),
];
const Q5: &[Rule] = &[
    when(VALUE, When::MoreBitsBySlot, "q6_K"),
    when(DOWN, When::MoreBits, "q6_K"),
    all(QKV, "q6_K"),
];
const IQ4: &[Rule] = &[when(VALUES, When::Grouped, "q5_K")];
const IQ3: &[Rule] = &[when(VALUES, When::Grouped, "q4_K")];
const IQ3_XXS: &[Rule] = &[
    all(EMBED, "iq3_s"),
    when(VALUES, When::Grouped, "q4_K"),
    all(VALUES, "iq3_s"),
    all(&["attn_q", "attn_k"], "iq2_s"),
    all(OUT, "iq3_s"),
];
const IQ2_S: &[Rule] = &[
    all(EMBED, "iq3_s"),
    all(VALUES, "q4_K"),
    when(DOWN, When::FirstPart(16), "iq3_s"),
    all(OUT, "iq3_s"),
];
const IQ2: &[Rule] =
    &[all(EMBED, "q2_K"), all(VALUES, "q4_K"), when(DOWN, When::FirstPart(16), "q2_K")];
const IQ1: &[Rule] = &[
    all(EMBED, "q2_K"),
    all(VALUES, "q4_K"),
    when(DOWN, When::FirstPart(16), "q2_K"),
    all(OUT, "iq2_xxs"),
];
const MXFP4: &[Rule] = &[all(EXPERTS, "mxfp4")];
const NVFP4: &[Rule] = &[all(EXPERTS, "nvfp4"), all(SHARED, "nvfp4")];
const UD_Q4: &[Rule] =
    &[all(HEAD, "q6_K"), all(GATES, "f32"), all(GATE_UP, "q4_K"), all(&["ffn_down_exps"], "q5_K")];

const fn mix(
    name: &'static str,
    file_type: u32,
    base: &'static str,
    rules: &'static [&'static [Rule]],
) -> Mix {
    Mix { name, file_type, base, rules }
}

/// Every mix.
#[rustfmt::skip]
pub const MIXES: [Mix; 25] = [
    mix("f32", 0, "f32", &[]),
    mix("f16", 1, "f16", &[]),
    mix("bf16", 32, "bf16", &[]),
    mix("q8_0", 7, "q8_0", &[]),
    mix("q4_0", 2, "q4_0", &[HEAD_Q6, EIGHT]),
    mix("q4_1", 3, "q4_1", &[HEAD_Q6, EIGHT]),
    mix("q5_0", 8, "q5_0", &[HEAD_Q6, EIGHT]),
    mix("q5_1", 9, "q5_1", &[HEAD_Q6, EIGHT]),
    mix("q2_k", 10, "q2_K", &[HEAD_Q6, EIGHT, EIGHT_OUT, Q2]),
    mix("q3_k_m", 12, "q3_K", &[HEAD_Q6, EIGHT, EIGHT_OUT, Q3]),
    mix("q4_k_m", 15, "q4_K", &[HEAD_Q6, EIGHT, EIGHT_OUT, Q4]),
    mix("q5_k_m", 17, "q5_K", &[HEAD_Q6, EIGHT, Q5]),
    mix("q6_k", 18, "q6_K", &[EIGHT]),
    mix("iq4_xs", 30, "iq4_xs", &[HEAD_Q6, EIGHT, EIGHT_OUT, IQ4]),
    mix("iq4_nl", 25, "iq4_nl", &[HEAD_Q6, EIGHT, EIGHT_OUT, IQ4]),
    mix("iq3_s", 26, "iq3_s", &[HEAD_Q6, EIGHT, EIGHT_OUT, IQ3]),
    mix("iq3_xxs", 23, "iq3_xxs", &[HEAD_Q5, EIGHT, EIGHT_OUT, IQ3_XXS]),
    mix("iq2_xs", 20, "iq2_xs", &[HEAD_Q5, EIGHT_OUT, IQ2]),
    mix("iq2_xxs", 19, "iq2_xxs", &[HEAD_Q5, EIGHT_OUT, IQ2]),
    mix("iq2_s", 28, "iq2_s", &[HEAD_Q5, EIGHT_OUT, IQ2_S]),
    mix("iq1_s", 24, "iq1_s", &[HEAD_Q5, EIGHT_OUT, IQ1]),
    mix("iq1_m", 31, "iq1_m", &[HEAD_Q5, EIGHT_OUT, IQ1]),
    mix("mxfp4_moe", 38, "q8_0", &[MXFP4]),
    mix("nvfp4", 39, "q8_0", &[NVFP4]),
    mix("ud-q4_k_m", 15, "q8_0", &[UD_Q4]),
];

/// The mix of a name.
pub fn lookup(name: &str) -> Option<&'static Mix> {
    MIXES.iter().find(|mix| mix.name == name)
}

/// All names, in the order of [`MIXES`].
pub fn names() -> impl Iterator<Item = &'static str> {
    MIXES.iter().map(|mix| mix.name)
}

impl Mix {
    /// The type of a tensor at a place. Rows that are not whole blocks of the mix's type get a type
    /// with smaller blocks, as the quantiser does it.
    pub fn tensor_type(&self, tensor: &Tensor, at: &Site) -> &'static BlockType {
        let class = tensor.class();
        let applies = |rule: &&Rule| rule.classes.contains(&class) && rule.when.holds(at);
        let rule = self.rules.iter().copied().flatten().find(applies);
        let wanted = match tensor.float {
            true => "f32",
            false => rule.map_or(self.base, |rule| rule.ty),
        };
        let ty = |name| BlockType::lookup(name).expect("mixes name types of the table only");
        [wanted, smaller(wanted), "f16"]
            .into_iter()
            .map(ty)
            .find(|ty| at.inputs.is_multiple_of(ty.values))
            .expect("f16 has blocks of one value")
    }
}

/// What the quantiser takes where rows are not a multiple of 256 values.
fn smaller(ty: &str) -> &'static str {
    match ty {
        "q4_K" => "q5_0",
        "q5_K" => "q5_1",
        "q6_K" | "nvfp4" | "mxfp4" => "q8_0",
        _ => "iq4_nl",
    }
}
