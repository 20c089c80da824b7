//! JSON that keeps its order and the spelling of its numbers, on its way into a template.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Kwargs, Object, ObjectRepr, ValueKind};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting that is read or written; the same as serde_json's own.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    /// In order; of equal keys the last counts, in the place of the first.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text.
    pub(crate) fn parse(text: &str) -> Result<Json, String> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| e.to_string())?;
        Json::from_raw(raw, MAX_DEPTH)
    }

    fn from_raw(raw: &RawValue, depth: usize) -> Result<Json, String> {
        let text = raw.get();
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("values nested deeper than {MAX_DEPTH}"));
        };
        let error = |e: serde_json::Error| e.to_string();
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let RawObject(entries) = serde_json::from_str(text).map_err(error)?;
                let entry =
                    |(key, value): (String, &RawValue)| Ok((key, Json::from_raw(value, depth)?));
                Json::Object(entries.into_iter().map(entry).collect::<Result<_, String>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(error)?;
                let items = items.into_iter().map(|item| Json::from_raw(item, depth));
                Json::Array(items.collect::<Result<_, String>>()?)
            }
            Some(b'"') => Json::String(serde_json::from_str(text).map_err(error)?),
            Some(b't') => Json::Bool(true),
            Some(b'f') => Json::Bool(false),
            Some(b'n') => Json::Null,
            _ => Json::Number(text.to_owned()),
        })
    }

    /// Takes over a parsed value.
    pub(crate) fn from_value(value: &serde_json::Value) -> Json {
        match value {
            serde_json::Value::Null => Json::Null,
            serde_json::Value::Bool(b) => Json::Bool(*b),
            serde_json::Value::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
                Some(float) => Json::Number(python_float(float)),
                None => Json::Number(n.to_string()),
            },
            serde_json::Value::String(s) => Json::String(s.clone()),
            serde_json::Value::Array(items) => {
                Json::Array(items.iter().map(Json::from_value).collect())
            }
            serde_json::Value::Object(entries) => Json::Object(
                entries.iter().map(|(k, v)| (k.clone(), Json::from_value(v))).collect(),
            ),
        }
    }

    /// Calls `see` with every string, keys included.
    pub(crate) fn strings(&self, see: &mut impl FnMut(&str)) {
        match self {
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
            Json::String(text) => see(text),
            Json::Array(items) => items.iter().for_each(|item| item.strings(see)),
            Json::Object(entries) => {
                for (key, value) in entries {
                    see(key);
                    value.strings(see);
                }
            }
        }
    }

    /// The value a template sees, with every string passed through `mark`.
    pub(crate) fn to_template(&self, mark: &impl Fn(&str) -> String) -> Value {
        match self {
            Json::Null => Value::from(()),
            Json::Bool(b) => Value::from(*b),
            Json::Number(text) => number(text),
            Json::String(text) => Value::from(mark(text)),
            Json::Array(items) => items.iter().map(|item| item.to_template(mark)).collect(),
            Json::Object(entries) => {
                entries.iter().map(|(key, value)| (mark(key), value.to_template(mark))).collect()
            }
        }
    }
}

/// The entries of an object in order, values unread.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(RawObject(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A number that a template prints as it was written.
#[derive(Debug)]
struct WrittenNumber(String);

impl Object for WrittenNumber {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number for a template: a real one where it prints as it was written.
fn number(text: &str) -> Value {
    let integer = text.parse::<i64>().ok().map(Value::from);
    let value = integer.or_else(|| text.parse::<f64>().ok().map(Value::from));
    match value {
        Some(value) if value.to_string() == text => value,
        _ => Value::from_object(WrittenNumber(text.to_owned())),
    }
}

/// The `tojson` filter as chat templates expect it: Python's `json.dumps` without ASCII escapes,
/// and without the HTML escapes Jinja itself would add.
pub(crate) fn tojson(value: &Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    let mut out = String::new();
    write(value, indent, 0, &mut out)?;
    Ok(out)
}

fn write(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> Result<(), minijinja::Error> {
    let refuse =
        |what: String| Err(minijinja::Error::new(minijinja::ErrorKind::BadSerialization, what));
    if depth > MAX_DEPTH {
        return refuse(format!("values nested deeper than {MAX_DEPTH} cannot become JSON"));
    }
    if let Some(number) = value.downcast_object_ref::<WrittenNumber>() {
        out.push_str(&number.0);
        return Ok(());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(float) if !value.is_integer() => out.push_str(&python_float(float)),
            _ => out.push_str(&value.to_string()),
        },
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| (None, item));
            write_items(items, ['[', ']'], indent, depth, out)?;
        }
        ValueKind::Map => {
            let entries: Vec<_> = value
                .try_iter()?
                .map(|key| value.get_item(&key).map(|item| (Some(key), item)))
                .collect::<Result<_, _>>()?;
            write_items(entries.into_iter(), ['{', '}'], indent, depth, out)?;
        }
        kind => return refuse(format!("a value of type {kind} cannot become JSON")),
    }
    Ok(())
}

/// Writes the items of a container between its brackets, with a key before each where there is one.
fn write_items(
    items: impl Iterator<Item = (Option<Value>, Value)>,
    [open, close]: [char; 2],
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> Result<(), minijinja::Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width.saturating_mul(depth).min(1 << 12)));
        }
    };
    out.push(open);
    let mut empty = true;
    for (key, item) in items {
        if !empty {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        empty = false;
        line(depth + 1, out);
        if let Some(key) = key {
            write_string(&key.to_string(), out);
            out.push_str(": ");
        }
        write(&item, indent, depth + 1, out)?;
    }
    if !empty {
        line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    // A JSON value made of a string displays as a JSON string.
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// A float as Python prints it: shortest digits, exponents from 1e16 and below 1e-4.
fn python_float(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return if value < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = value.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let value = Json::parse(text).unwrap().to_template(&str::to_owned);
        tojson(&value, Kwargs::from_iter(Vec::<(String, Value)>::new())).unwrap()
    }

    #[test]
    fn order_and_numbers_survive() {
        for text in [
            r#"{"z": 1.50, "a": [1e5, -0, 12345678901234567890123, 0.1, 7, true, null]}"#,
            r#"{"é<&'": "\"\n\u0001字"}"#,
        ] {
            assert_eq!(rendered(text), text);
        }
        assert_eq!(rendered(r#"{"a":1,"b":{},"a":[]}"#), r#"{"a": [], "b": {}}"#);
    }

    #[test]
    fn numbers_print_as_written() {
        for text in ["1.50", "1e5", "5", "-3", "0.25", "1.0", "100000000000000000000", "1E-7"] {
            assert_eq!(number(text).to_string(), text);
        }
        assert!(number("5").is_integer() && number("0.25").is_number());
    }

    #[test]
    fn floats_print_as_python_prints_them() {
        for (value, text) in [
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e-10, "1.25e-10"),
            (1e300, "1e+300"),
            (0.0, "0.0"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn indentation_is_pythons() {
        let value =
            Json::parse(r#"{"a": [1, {"b": []}], "c": {}}"#).unwrap().to_template(&str::to_owned);
        let options = Kwargs::from_iter([("indent", Value::from(2))]);
        let text = "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}";
        assert_eq!(tojson(&value, options).unwrap(), text);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Json::parse(&deep).is_err());
        assert!(Json::parse("[1").is_err());
        let fair = "[".repeat(100) + &"]".repeat(100);
        assert!(Json::parse(&fair).is_ok());
    }
}
