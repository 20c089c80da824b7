//! Groups of flags that several commands share.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;

use crate::cpu::{self, Isa};
use crate::sampling::Bounds;
use crate::state::KvFormat;
use crate::tokenizer::PreTokenizer;

/// Which model file.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ModelArgs {
    /// GGUF file (the first part, if there are several) [default: the built-in demo model]
    #[arg(short, long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
}

/// How text is split before it is tokenised.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct PreArgs {
    /// Splitting rule of the tokenizer [default: what the file says]
    #[arg(long, value_name = "NAME", value_parser = splitting_rules())]
    pub(super) pre: Option<String>,
}

/// How the model is computed.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ComputeArgs {
    /// Threads, at most four for each core [default: the physical cores available]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub(super) threads: Option<usize>,

    /// Storage of keys and values, f16 or f32 [default: f16; for logits and perplexity f32]
    #[arg(long, value_name = "TYPE")]
    pub(super) kv: Option<KvFormat>,

    /// Compute with f32 activations and dequantised weights: slow, for checking
    #[arg(long)]
    pub(super) exact: bool,

    /// Instruction set, such as scalar or avx2 [default: the best one here; see `pantheon doctor`]
    #[arg(long, value_name = "NAME", value_parser = isa)]
    pub(super) isa: Option<Isa>,

    /// Load even if there is less memory than that needs
    #[arg(long)]
    pub(super) force: bool,
}

/// How tokens are drawn. What is not given comes from the file's `general.sampling.*`, else from
/// the model card.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(
    next_help_heading = "Sampling [default: the file's general.sampling.*, else the model card's]"
)]
pub(super) struct SamplingArgs {
    /// Temperature, up to 1000; 0 always takes the most likely token
    #[arg(long, value_name = "T", alias = "temperature")]
    #[arg(value_parser = real(Bounds::TEMPERATURE))]
    pub(super) temp: Option<f32>,

    /// Keep the K most likely tokens; 0 keeps all
    #[arg(long, value_name = "K", value_parser = whole_of::<i64>(..))]
    pub(super) top_k: Option<i64>,

    /// Keep the most likely tokens whose probabilities reach this sum; 1 keeps all
    #[arg(long, value_name = "P", value_parser = real(Bounds::TOP_P))]
    pub(super) top_p: Option<f32>,

    /// Keep tokens at least this likely, relative to the most likely one; 0 keeps all
    #[arg(long, value_name = "P", value_parser = real(Bounds::MIN_P))]
    pub(super) min_p: Option<f32>,

    /// Subtract this, -2 to 2, from the logit of every token generated so far; 0 does nothing
    #[arg(long, value_name = "X", value_parser = real(Bounds::PRESENCE_PENALTY))]
    pub(super) presence_penalty: Option<f32>,

    /// Weaken every token generated so far, 0.01 to 100; 1 does nothing
    #[arg(long, value_name = "X", value_parser = real(Bounds::REPEAT_PENALTY))]
    pub(super) repeat_penalty: Option<f32>,

    /// Seed of the random numbers; -1 takes a new one. The seed in use is printed [default: -1]
    #[arg(short, long, value_name = "N")]
    pub(super) seed: Option<Seed>,
}

/// A parser of counts in a range.
pub(super) fn whole(
    range: impl RangeBounds<usize> + Clone,
) -> impl Fn(&str) -> Result<usize, String> + Clone {
    whole_of::<usize>(range)
}

/// A parser of whole numbers in a range. The type is that of the flag.
pub(super) fn whole_of<T: FromStr + PartialOrd + Display>(
    range: impl RangeBounds<T> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => {
                format!("expected a whole number from {least} to {most}")
            }
            (Bound::Included(least), _) => format!("expected a whole number of at least {least}"),
            _ => "expected a whole number".to_owned(),
        }),
    }
}

/// A parser of a sampling parameter.
fn real(bounds: Bounds) -> impl Fn(&str) -> Result<f32, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if bounds.contain(number) => Ok(number),
        _ => Err(format!("expected {}", bounds.expected())),
    }
}

/// A number of threads. A few more than there are cores only slow each other down; many more are a
/// mistake.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    const PER_CORE: usize = 4;
    let cores = cpu::default_threads();
    let parsed = whole(1..=PER_CORE * cores)(text);
    parsed.map_err(|expected| format!("{expected}, {PER_CORE} for each core available"))
}

fn splitting_rules() -> PossibleValuesParser {
    PreTokenizer::ALL.map(|(name, _)| name).into()
}

/// An instruction set by its name, or by the first part of it.
fn isa(text: &str) -> Result<Isa, String> {
    let short = |isa: &Isa| isa.name().split('+').next().unwrap_or_default();
    let found = Isa::ALL.into_iter().find(|isa| isa.name() == text || short(isa) == text);
    found.ok_or_else(|| {
        let known: Vec<&str> = Isa::ALL.iter().map(short).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// A seed, or none for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seed(pub(super) Option<u64>);

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seed) => Ok(Self(Some(seed))),
            Err(_) if text == "-1" => Ok(Self(None)),
            Err(_) => Err("expected a number from 0 to 2^64 - 1, or -1 for a new seed".to_owned()),
        }
    }
}

/// A switch that is said out loud.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}
