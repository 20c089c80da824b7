//! Conversations as clients send them, brought into the form that templates expect.
//!
//! * `developer` is `system`; several system messages become one at the front, in their order.
//! * A content is one text: parts follow each other, `null` is empty.
//! * Arguments of tool calls are parsed, in order and with numbers as written; an empty string is
//!   no arguments.
//! * Reasoning that an assistant's text still holds is taken out of it, where the template has a
//!   place for it.

use super::json::Json;
use super::message::{Content, FunctionCall, Message};
use super::{ChatError, THINK_END, THINK_START};

/// Roles that templates compare with, and that therefore stay as they are.
pub(crate) const KNOWN_ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// A message in the form that templates expect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Its number in the request.
    pub(crate) index: usize,
    pub(crate) role: String,
    pub(crate) content: String,
    pub(crate) reasoning: Option<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) name: Option<String>,
}

/// A tool call in the form that templates expect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// An object.
    pub(crate) arguments: Option<Json>,
}

/// Brings a conversation into form. `take_reasoning`: whether the template has a place for
/// reasoning.
pub(crate) fn turns(messages: &[Message], take_reasoning: bool) -> Result<Vec<Turn>, ChatError> {
    if messages.is_empty() {
        return Err(ChatError::NoMessages);
    }
    let mut system: Option<Turn> = None;
    let mut turns = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let mut turn = turn(index, message)?;
        if turn.role == "system" {
            match &mut system {
                None => system = Some(turn),
                Some(first) => append_paragraph(&mut first.content, &turn.content),
            }
            continue;
        }
        if take_reasoning && turn.role == "assistant" && turn.reasoning.is_none() {
            split_reasoning(&mut turn);
        }
        turns.push(turn);
    }
    turns.splice(0..0, system);
    Ok(turns)
}

fn turn(index: usize, message: &Message) -> Result<Turn, ChatError> {
    let role = if message.role == "developer" { "system" } else { &message.role };
    let calls =
        message.tool_calls.iter().enumerate().map(|(call, tool_call)| {
            let arguments = arguments(&tool_call.function)
                .map_err(|found| ChatError::Arguments { index, call, found })?;
            Ok(Call {
                id: tool_call.id.clone(),
                kind: tool_call.kind.clone(),
                name: tool_call.function.name.clone(),
                arguments,
            })
        });
    Ok(Turn {
        index,
        role: role.to_owned(),
        content: text(index, message.content.as_ref())?,
        reasoning: message.reasoning_content.clone(),
        calls: calls.collect::<Result<_, ChatError>>()?,
        tool_call_id: message.tool_call_id.clone(),
        name: message.name.clone(),
    })
}

/// The text of a content.
fn text(index: usize, content: Option<&Content>) -> Result<String, ChatError> {
    match content {
        None => Ok(String::new()),
        Some(Content::Text(text)) => Ok(text.clone()),
        Some(Content::Parts(parts)) => {
            let texts = parts.iter().map(|part| match &part.text {
                Some(text)
                    if matches!(part.kind.as_str(), "" | "text" | "input_text" | "output_text") =>
                {
                    Ok(text.as_str())
                }
                _ => Err(ChatError::Part { index, found: part.kind.clone() }),
            });
            texts.collect()
        }
    }
}

/// The arguments as an object, or what is there instead.
fn arguments(function: &FunctionCall) -> Result<Option<Json>, String> {
    let Some(raw) = &function.arguments else { return Ok(None) };
    let mut json = Json::parse(raw.get())?;
    if let Json::String(text) = &json {
        if text.trim().is_empty() {
            return Ok(None);
        }
        json = Json::parse(text).map_err(|reason| format!("{text:?} ({reason})"))?;
    }
    match json {
        Json::Object(_) => Ok(Some(json)),
        Json::Null => Ok(None),
        _ => Err(raw.get().to_owned()),
    }
}

fn append_paragraph(text: &mut String, paragraph: &str) {
    if !text.trim().is_empty() && !paragraph.trim().is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(paragraph);
}

/// Moves what stands before `</think>` into the reasoning, as the templates of this family do it
/// themselves. It is done here because there the closing tag of a text is only text.
fn split_reasoning(turn: &mut Turn) {
    let Some((before, _)) = turn.content.split_once(THINK_END) else { return };
    let before = before.trim_end_matches('\n');
    let reasoning = before.rsplit_once(THINK_START).map_or(before, |(_, inside)| inside);
    turn.reasoning = Some(reasoning.trim_start_matches('\n').to_owned());
    if let Some((_, answer)) = turn.content.rsplit_once(THINK_END) {
        turn.content = answer.trim_start_matches('\n').to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Result<Vec<Turn>, ChatError> {
        turns(&serde_json::from_str::<Vec<Message>>(json).unwrap(), true)
    }

    fn shape(json: &str) -> Vec<(String, String)> {
        of(json).unwrap().into_iter().map(|t| (t.role, t.content)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(r, c)| ((*r).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn system_messages_are_merged_at_the_front_in_order() {
        let json = r#"[{"role":"user","content":"u"},{"role":"system","content":"a"},
            {"role":"assistant","content":"x"},{"role":"developer","content":"b"},
            {"role":"user","content":"v"}]"#;
        let expected = [("system", "a\n\nb"), ("user", "u"), ("assistant", "x"), ("user", "v")];
        assert_eq!(shape(json), pairs(&expected));
        assert_eq!(of(json).unwrap()[0].index, 1);
    }

    #[test]
    fn contents_become_one_text() {
        let json = r#"[{"role":"user","content":[{"type":"text","text":"a "},{"text":"b"}]},
            {"role":"assistant","content":null,"tool_calls":null},{"role":"user","content":[]},
            {"role":"user"}]"#;
        assert_eq!(
            shape(json),
            pairs(&[("user", "a b"), ("assistant", ""), ("user", ""), ("user", "")])
        );
        let json = r#"[{"role":"user"},
            {"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]"#;
        let message = of(json).unwrap_err().to_string();
        assert!(
            message.starts_with(
                "messages[1].content: expected text, found a part of type `image_url`"
            )
        );
        assert!(matches!(turns(&[], true), Err(ChatError::NoMessages)));
    }

    #[test]
    fn arguments_are_parsed_and_faults_name_the_message() {
        let with = |arguments: &str| {
            of(&format!(
                r#"[{{"role":"user"}},{{"role":"assistant","tool_calls":[
                {{"function":{{"name":"f","arguments":{arguments}}}}}]}}]"#
            ))
        };
        let parsed = |arguments: &str| with(arguments).unwrap()[1].calls[0].arguments.clone();
        let object = parsed(r#""{\"z\": 1.50, \"a\": [true]}""#).unwrap();
        let entries = vec![
            ("z".to_owned(), Json::Number("1.50".to_owned())),
            ("a".to_owned(), Json::Array(vec![Json::Bool(true)])),
        ];
        assert_eq!(object, Json::Object(entries));
        assert_eq!(parsed(r#"{"z": 1.50, "a": [true]}"#), Some(object));
        assert_eq!(parsed(r#""{}""#), Some(Json::Object(vec![])));
        for nothing in [r#""""#, r#""  ""#, "null", r#""null""#] {
            assert_eq!(parsed(nothing), None);
        }
        for bad in [r#""not json""#, "[1]", r#""[1]""#, "7", r#""{\"a\":}""#] {
            let message = with(bad).unwrap_err().to_string();
            let place =
                "messages[1].tool_calls[0].function.arguments: expected a JSON object, found ";
            assert!(message.starts_with(place), "{bad}: {message}");
        }
    }

    #[test]
    fn reasoning_left_in_a_text_is_taken_out() {
        let split = |text: &str| {
            let message = Message::new("assistant", text);
            let turn = turns(&[message], true).unwrap().remove(0);
            (turn.reasoning.unwrap_or("-".to_owned()), turn.content)
        };
        let is = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(split("<think>\nplan\n</think>\n\nhi"), is("plan", "hi"));
        assert_eq!(split("plan</think>hi"), is("plan", "hi"));
        assert_eq!(split("<think>only"), is("-", "<think>only"));
        assert_eq!(split("hi"), is("-", "hi"));
        let kept = turns(&[Message::new("assistant", "a</think>b")], false).unwrap().remove(0);
        assert_eq!((kept.reasoning, kept.content.as_str()), (None, "a</think>b"));
        let user = turns(&[Message::new("user", "a</think>b")], true).unwrap().remove(0);
        assert_eq!((user.reasoning, user.content.as_str()), (None, "a</think>b"));
    }
}
