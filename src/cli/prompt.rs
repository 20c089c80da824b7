//! From text or messages to the ids a model reads.

use super::answer::Reasoning;
use super::args::OnOff;
use crate::chat::{ChatTemplate, Message, RenderOptions};
use crate::tokenizer::{Parse, Tokenizer};

/// A prompt, and what the answer to it may begin with.
pub(super) struct Prompt {
    pub(super) ids: Vec<u32>,
    pub(super) reasoning: Reasoning,
}

/// Renders a conversation through the file's template, up to where the answer begins.
///
/// # Errors
/// Also if it cannot fit into `ctx` tokens, before it is tokenised.
pub(super) fn render(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    messages: &[Message],
    think: Option<OnOff>,
    ctx: usize,
) -> anyhow::Result<Prompt> {
    let thinking = think.map(|think| think == OnOff::On);
    let options = RenderOptions { thinking, ..RenderOptions::default() };
    let rendered = template.render(messages, &[], &options)?;
    check_length(tokenizer, rendered.text(), ctx)?;
    let reasoning =
        if rendered.opens_reasoning() { Reasoning::Opened } else { Reasoning::Possible };
    Ok(Prompt { ids: rendered.encode(tokenizer)?, reasoning })
}

/// Text as it is, with its special tokens recognised.
///
/// # Errors
/// Also if it cannot fit into `ctx` tokens, before it is tokenised.
pub(super) fn raw(tokenizer: &Tokenizer, text: &str, ctx: usize) -> anyhow::Result<Prompt> {
    check_length(tokenizer, text, ctx)?;
    let ids = tokenizer.encode(text, Parse::Special)?;
    Ok(Prompt { ids, reasoning: Reasoning::None })
}

/// Refuses a text that is too long whatever its tokens are.
fn check_length(tokenizer: &Tokenizer, text: &str, ctx: usize) -> anyhow::Result<()> {
    let fewest = tokenizer.fewest(text.len());
    if fewest < ctx { Ok(()) } else { too_long(&format!("at least {fewest}"), ctx) }
}

/// Refuses a prompt of `tokens` tokens.
pub(super) fn too_long<T>(tokens: &str, ctx: usize) -> anyhow::Result<T> {
    anyhow::bail!(
        "the prompt has {tokens} tokens, but the context holds {ctx} and the answer needs room \
         too: give a larger --ctx or a shorter prompt"
    )
}
