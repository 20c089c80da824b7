//! Messages as clients send them.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// One message of a conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `developer` (the same), `user`, `assistant` or `tool`.
    pub role: String,
    /// The text; absent and `null` are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// What an assistant thought before it answered.
    #[serde(default, alias = "reasoning", skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls an assistant made.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Name of the speaker or tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message with a text and nothing else.
    pub fn new(role: impl Into<String>, text: impl Into<String>) -> Message {
        Message {
            role: role.into(),
            content: Some(Content::Text(text.into())),
            ..Message::default()
        }
    }
}

/// The content of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Parts, whose texts follow each other.
    Parts(Vec<Part>),
}

/// A part of a content. Only parts with a text can be rendered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// `text` for a text.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolCall {
    /// Identifier chosen by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// The function and its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// The arguments as JSON: an object, or a string that holds one; an empty string is no
    /// arguments. Kept as written, so that the order of keys and the spelling of numbers survive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
}

fn function() -> String {
    "function".to_owned()
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolCall>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
