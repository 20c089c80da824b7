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
pub(super) fn render(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    messages: &[Message],
    think: Option<OnOff>,
) -> anyhow::Result<Prompt> {
    let thinking = think.map(|think| think == OnOff::On);
    let options = RenderOptions { thinking, ..RenderOptions::default() };
    let rendered = template.render(messages, &[], &options)?;
    let reasoning =
        if rendered.opens_reasoning() { Reasoning::Opened } else { Reasoning::Possible };
    Ok(Prompt { ids: rendered.encode(tokenizer)?, reasoning })
}

/// Text as it is, with its special tokens recognised.
pub(super) fn raw(tokenizer: &Tokenizer, text: &str) -> anyhow::Result<Prompt> {
    let ids = tokenizer.encode(text, Parse::Special)?;
    Ok(Prompt { ids, reasoning: Reasoning::None })
}
