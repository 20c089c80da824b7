//! Messages to prompt text through the file's chat template, and answers back into their parts.
//!
//! [`ChatTemplate::render`] brings messages into form, runs the file's own Jinja template and
//! returns a [`Rendered`] prompt, whose tokens never take a message's text for structure.
//! [`ReasoningSplitter`] and [`StopMatcher`] work on the streamed answer.

mod error;
mod guard;
mod jinja;
mod json;
mod message;
mod normalise;
mod reasoning;
mod stop;
mod template;
mod time;

pub use error::ChatError;
pub use message::{Content, FunctionCall, Message, Part, ToolCall};
pub use reasoning::{Delta, ReasoningSplitter};
pub use stop::{StopMatcher, Stopped};
pub use template::{ChatTemplate, RenderOptions, Rendered};

/// Opens an assistant's reasoning.
pub(crate) const THINK_START: &str = "<think>";
/// Closes an assistant's reasoning.
pub(crate) const THINK_END: &str = "</think>";

/// Bytes of the longest suffix of `text` that is a proper prefix of `pattern`: what must be held
/// back until it is known whether the pattern follows.
pub(crate) fn held_back(text: &str, pattern: &str) -> usize {
    let cuts = pattern.char_indices().skip(1).map(|(at, _)| at);
    cuts.filter(|&at| text.ends_with(&pattern[..at])).max().unwrap_or(0)
}
