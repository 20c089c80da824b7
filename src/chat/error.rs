//! What can go wrong between a list of messages and a prompt.

use crate::gguf::GgufError;
use crate::tokenizer::TokenizerError;

/// A conversation or a template that cannot be rendered. Messages are numbered from 0, as in the
/// request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// A metadata key has the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The prompt cannot be tokenised.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The template is not valid Jinja.
    #[error("`{key}`: expected a Jinja template, found {reason}; use --raw to do without it")]
    Template {
        /// The metadata key.
        key: String,
        /// What the parser says.
        reason: String,
    },
    /// There is nothing to render.
    #[error("messages: expected at least one message, found none")]
    NoMessages,
    /// The template refused the conversation, in its own words.
    #[error("the chat template refuses these messages: {0}")]
    Refused(String),
    /// The template failed.
    #[error("the chat template failed: {0}")]
    Render(String),
    /// The template makes more than any prompt needs.
    #[error(
        "`{key}`: the chat template does not end in a prompt of sensible size: {excess}; use --raw \
         to do without it, or a file with another template"
    )]
    TooLarge {
        /// The metadata key.
        key: String,
        /// What there is too much of.
        excess: String,
    },
    /// A content part that is not text.
    #[error(
        "messages[{index}].content: expected text, found a part of type `{found}`: only text can \
         be read"
    )]
    Part {
        /// The message.
        index: usize,
        /// The part's type.
        found: String,
    },
    /// The arguments of a tool call are not a JSON object.
    #[error(
        "messages[{index}].tool_calls[{call}].function.arguments: expected a JSON object, \
         found {found}"
    )]
    Arguments {
        /// The message.
        index: usize,
        /// The call in it.
        call: usize,
        /// What is there, or what the parser says.
        found: String,
    },
    /// The last message is a finished tool call.
    #[error(
        "messages[{index}]: the last message is an assistant's tool call, which has to be answered \
         by a message of role `tool` before the conversation can go on"
    )]
    OpenToolCall {
        /// The message.
        index: usize,
    },
    /// The template does not show the text that is to be continued.
    #[error(
        "messages[{index}]: the chat template does not let an assistant's last message be continued"
    )]
    NotContinued {
        /// The message.
        index: usize,
    },
    /// The conversation uses all private characters.
    #[error(
        "the messages use every character of the private plane U+100000 to U+10FFFD; expected some \
         to be free"
    )]
    NoMark,
}
