//! From flags to a sampler.

use super::args::SamplingArgs;
use super::session::Session;
use crate::sampling::{FileSampling, LogitMask, Mode, Sampler, SamplerFlags, SamplerParams};

/// A sampler for one answer. What `args` leaves open comes from the file, else from the model
/// card's row for answers with or without thinking.
pub(super) fn sampler(
    args: &SamplingArgs,
    session: &Session,
    thinking: bool,
) -> anyhow::Result<Sampler> {
    let flags = SamplerFlags {
        temperature: args.temp,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        presence_penalty: args.presence_penalty,
        repeat_penalty: args.repeat_penalty,
        seed: args.seed.and_then(|seed| seed.0),
        ..SamplerFlags::default()
    };
    let file = FileSampling::from_gguf(session.engine().gguf())?;
    let mode = if thinking { Mode::Thinking } else { Mode::NonThinking };
    let params = SamplerParams::resolve(&flags, &file, mode)?;
    let rows = session.engine().shape().n_vocab;
    Ok(Sampler::new(params, LogitMask::new(session.tokenizer(), rows))?)
}
