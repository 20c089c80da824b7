//! The file's chat template and the prompts it makes.

use minijinja::{Environment, ErrorKind, Value};

use crate::gguf::Gguf;
use crate::tokenizer::{Tokenizer, TokenizerError};

use super::guard::Guard;
use super::json::Json;
use super::message::Message;
use super::normalise::{self, Call, KNOWN_ROLES, Turn};
use super::{ChatError, THINK_END, THINK_START, jinja};

/// Metadata key of the template; named ones follow after a dot.
const KEY: &str = "tokenizer.chat_template";
/// Name of the template that is used when tools are given, where a file has one.
const TOOL_USE: &str = "tool_use";
const DEFAULT: &str = "default";
/// Characters of a template's refusal that are passed on.
const LONGEST_REFUSAL: usize = 10_000;

/// How to render.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// Whether the model should think: `enable_thinking` of the template. `None` leaves it to the
    /// template.
    pub thinking: Option<bool>,
    /// Whether the prompt ends where the assistant's answer begins. If the last message is an
    /// assistant's, the prompt then ends with its text, to be continued.
    pub add_generation_prompt: bool,
    /// Further variables for the template.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions {
            thinking: None,
            add_generation_prompt: true,
            variables: serde_json::Map::new(),
        }
    }
}

/// A chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    default: String,
    /// The template for conversations with tools, where the file has one of its own.
    tool_use: Option<String>,
    guard: Guard,
    bos: String,
    eos: String,
    /// Whether the template has a place for reasoning.
    takes_reasoning: bool,
}

impl ChatTemplate {
    /// The template of a file, `None` if it has none. `tokenizer` is the same file's.
    ///
    /// # Errors
    /// If the template is not valid Jinja.
    pub fn from_gguf(
        gguf: &Gguf,
        tokenizer: &Tokenizer,
    ) -> Result<Option<ChatTemplate>, ChatError> {
        let tool_use = gguf.str(&format!("{KEY}.{TOOL_USE}"))?;
        let default = match gguf.str(KEY)? {
            Some(source) => Some(source),
            None => gguf.str(&format!("{KEY}.{DEFAULT}"))?,
        };
        let Some(default) = default.or(tool_use) else { return Ok(None) };
        ChatTemplate::with_tool_use(default, tool_use, tokenizer).map(Some)
    }

    /// A template from its source.
    ///
    /// # Errors
    /// If it is not valid Jinja.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::with_tool_use(source, None, tokenizer)
    }

    fn with_tool_use(
        source: &str,
        tool_use: Option<&str>,
        tokenizer: &Tokenizer,
    ) -> Result<ChatTemplate, ChatError> {
        let sources = [Some((DEFAULT, source)), tool_use.map(|source| (TOOL_USE, source))];
        let mut all = String::new();
        for (name, source) in sources.into_iter().flatten() {
            jinja::check(name, source)
                .map_err(|e| ChatError::Template { key: key(name), reason: e.to_string() })?;
            all.push_str(source);
        }
        let guard = Guard::new(tokenizer.specials().map(|(_, text)| text), &all)
            .map_err(|e| TokenizerError::Specials(e.to_string()))?;
        let text = |id: Option<u32>| {
            id.map_or(String::new(), |id| String::from_utf8_lossy(tokenizer.bytes(id)).into_owned())
        };
        Ok(ChatTemplate {
            default: source.to_owned(),
            tool_use: tool_use.map(str::to_owned),
            guard,
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos()),
            takes_reasoning: all.contains("reasoning_content") && all.contains(THINK_END),
        })
    }

    /// Renders a conversation. Text of messages, tools and variables never acts as structure of the
    /// prompt.
    ///
    /// # Errors
    /// If a message has a form that cannot be rendered, or if the template refuses the
    /// conversation: its own words are in the error then.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[serde_json::Value],
        options: &RenderOptions,
    ) -> Result<Rendered, ChatError> {
        let turns = normalise::turns(messages, self.takes_reasoning)?;
        let tools: Vec<Json> = tools.iter().map(Json::from_value).collect();
        let variables: Vec<(&str, Json)> =
            options.variables.iter().map(|(k, v)| (k.as_str(), Json::from_value(v))).collect();
        let mut used = self.guard.used_marks();
        see_all(&turns, &tools, &variables, &mut |text| used.see(text));
        let [mark, end] = used.two_free().ok_or(ChatError::NoMark)?;
        let continued = match turns.last() {
            Some(last) if options.add_generation_prompt && last.role == "assistant" => {
                if !last.calls.is_empty() {
                    return Err(ChatError::OpenToolCall { index: last.index });
                }
                Some(last.index)
            }
            _ => None,
        };
        let protect = |text: &str| self.guard.mark(text, mark).into_owned();
        let mut context = vec![
            ("bos_token".to_owned(), Value::from(self.bos.as_str())),
            ("eos_token".to_owned(), Value::from(self.eos.as_str())),
        ];
        context.extend(options.thinking.map(|on| ("enable_thinking".to_owned(), Value::from(on))));
        context.extend(variables.iter().map(|(k, v)| ((*k).to_owned(), v.to_template(&protect))));
        let messages = turns.iter().map(|turn| {
            let end = (continued == Some(turn.index)).then_some(end);
            message(turn, end, &protect)
        });
        context.push(("messages".to_owned(), messages.collect()));
        let add = options.add_generation_prompt && continued.is_none();
        context.push(("add_generation_prompt".to_owned(), Value::from(add)));
        if !tools.is_empty() {
            let tools = tools.iter().map(|tool| tool.to_template(&protect)).collect();
            context.push(("tools".to_owned(), tools));
        }
        let (name, source) = match &self.tool_use {
            Some(source) if !tools.is_empty() => (TOOL_USE, source),
            _ => (DEFAULT, &self.default),
        };
        let mut marked = run(name, source, context)?;
        if let Some(index) = continued {
            let at = marked.rfind(end).ok_or(ChatError::NotContinued { index })?;
            marked.truncate(at);
        }
        Ok(Rendered { text: marked.replace(mark, ""), marked, mark })
    }
}

/// The metadata key of a template.
fn key(name: &str) -> String {
    if name == DEFAULT { KEY.to_owned() } else { format!("{KEY}.{name}") }
}

/// Renders a template in the environment that templates are written for.
fn run(name: &str, source: &str, context: Vec<(String, Value)>) -> Result<String, ChatError> {
    jinja::render(name, source, context, add_functions).map_err(|error| {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(Refusal(sentence)) = inner.downcast_ref() {
                return ChatError::Refused(sentence.clone());
            }
            if let Some(excess) = inner.downcast_ref::<jinja::TooLarge>() {
                return ChatError::TooLarge { key: key(name), excess: excess.to_string() };
            }
            cause = inner.source();
        }
        ChatError::Render(error.to_string())
    })
}

/// A prompt.
#[derive(Clone, Debug)]
pub struct Rendered {
    text: String,
    /// The text with marks where a message's text must not be read as structure.
    marked: String,
    mark: char,
}

impl Rendered {
    /// The prompt as text. Read with special tokens recognised, a message's text could act as
    /// structure; use [`Rendered::encode`] instead, unless that is what is wanted.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The prompt as ids. Special tokens are recognised only where the template made them.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, TokenizerError> {
        tokenizer.encode_marked(&self.marked, self.mark)
    }

    /// Whether the prompt ends inside the assistant's reasoning, so that the answer begins with the
    /// rest of it.
    pub fn opens_reasoning(&self) -> bool {
        match (self.marked.rfind(THINK_START), self.marked.rfind(THINK_END)) {
            (Some(start), Some(end)) => start > end,
            (start, _) => start.is_some(),
        }
    }
}

/// What a template says when it refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn add_functions(environment: &mut Environment<'_>) {
    environment.add_function(
        "raise_exception",
        |sentence: &Value| -> Result<Value, minijinja::Error> {
            let sentence = sentence.as_str().unwrap_or("(a value that is no text)");
            let sentence: String = sentence.chars().take(LONGEST_REFUSAL).collect();
            let error = minijinja::Error::new(ErrorKind::InvalidOperation, sentence.clone());
            Err(error.with_source(Refusal(sentence)))
        },
    );
}

/// Shows every string of the request to `see`.
fn see_all(turns: &[Turn], tools: &[Json], variables: &[(&str, Json)], see: &mut impl FnMut(&str)) {
    for turn in turns {
        see(&turn.role);
        see(&turn.content);
        for text in [&turn.reasoning, &turn.tool_call_id, &turn.name].into_iter().flatten() {
            see(text);
        }
        for call in &turn.calls {
            see(&call.name);
            see(&call.kind);
            see(call.id.as_deref().unwrap_or_default());
            call.arguments.iter().for_each(|json| json.strings(see));
        }
    }
    let variables = variables.iter().map(|(_, json)| json);
    tools.iter().chain(variables).for_each(|json| json.strings(see));
}

/// A message as a template sees it; `end` is put after a text that is to be continued.
fn message(turn: &Turn, end: Option<char>, protect: &impl Fn(&str) -> String) -> Value {
    let known = KNOWN_ROLES.contains(&turn.role.as_str());
    let role = if known { turn.role.clone() } else { protect(&turn.role) };
    let mut content = protect(&turn.content);
    content.extend(end);
    let mut fields = vec![("role", Value::from(role)), ("content", Value::from(content))];
    let optional = [
        ("reasoning_content", &turn.reasoning),
        ("tool_call_id", &turn.tool_call_id),
        ("name", &turn.name),
    ];
    for (key, text) in optional {
        fields.extend(text.as_ref().map(|text| (key, Value::from(protect(text)))));
    }
    if !turn.calls.is_empty() {
        fields
            .push(("tool_calls", turn.calls.iter().map(|call| tool_call(call, protect)).collect()));
    }
    fields.into_iter().collect()
}

fn tool_call(call: &Call, protect: &impl Fn(&str) -> String) -> Value {
    let mut function = vec![("name", Value::from(protect(&call.name)))];
    function.extend(call.arguments.as_ref().map(|json| ("arguments", json.to_template(protect))));
    let mut fields = Vec::new();
    fields.extend(call.id.as_ref().map(|id| ("id", Value::from(protect(id)))));
    fields.push(("type", Value::from(call.kind.as_str())));
    fields.push(("function", function.into_iter().collect()));
    fields.into_iter().collect()
}
