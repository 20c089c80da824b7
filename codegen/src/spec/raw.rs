//! Text to entries: every key known, every value of the right kind and in its range. What must hold
//! between keys is not looked at here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::keys::{KEYS, Key, Kind, MIXES};

/// A value that fits its key.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Count(u64),
    Number(f64),
    List(Vec<u64>),
    Texts(Vec<String>),
}

/// One `[[model]]` entry: dotted keys with their lines.
#[derive(Debug)]
pub(super) struct Entry {
    /// The model's name, or which entry it is.
    pub(super) label: String,
    /// Line of its first key, or the file's first.
    pub(super) line: usize,
    values: BTreeMap<String, (usize, Value)>,
}

impl Entry {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key) {
            Some((_, Value::Text(text))) => Some(text),
            _ => None,
        }
    }

    pub(super) fn count(&self, key: &str) -> Option<u64> {
        match self.values.get(key) {
            Some((_, Value::Count(n))) => Some(*n),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.values.get(key) {
            Some((_, Value::Number(x))) => Some(*x),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> Option<&[u64]> {
        match self.values.get(key) {
            Some((_, Value::List(list))) => Some(list),
            _ => None,
        }
    }

    /// Stages with the combinations listed for them, by key.
    pub(super) fn mixes(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.values.iter().filter_map(|(key, (_, value))| match value {
            Value::Texts(texts) => Some((key.as_str(), texts.as_slice())),
            _ => None,
        })
    }

    /// A problem with one of its keys.
    pub(super) fn problem(&self, key: &str, expected: String, found: String) -> Problem {
        let line = self.values.get(key).map_or(self.line, |(line, _)| *line);
        Problem { line, place: format!("{}: {key}", self.label), expected, found }
    }
}

/// Lines of a text by byte offset.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn of(&self, offset: usize) -> usize {
        self.0.bytes().take(offset).filter(|&b| b == b'\n').count() + 1
    }
}

/// Reads all entries, as far as they can be read; whatever is wrong is added to `problems`.
pub(super) fn read(text: &str, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let lines = Lines(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    problems.extend(errors.iter().map(|error| Problem {
        line: error.span().map_or(1, |span| lines.of(span.start)),
        place: "syntax".to_owned(),
        expected: "TOML".to_owned(),
        found: error.message().to_owned(),
    }));
    if !errors.is_empty() {
        return Vec::new();
    }
    let mut models = None;
    for (key, value) in table.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("model", DeValue::Array(array)) => models = Some(array),
            (key, other) => problems.push(Problem {
                line: lines.of(value.span().start),
                place: key.to_owned(),
                expected: "nothing but [[model]] entries".to_owned(),
                found: kind_of(other).to_owned(),
            }),
        }
    }
    let entries = models.into_iter().flat_map(|array| array.iter().enumerate());
    let read: Vec<Entry> = entries
        .filter_map(|(i, value)| {
            let line = lines.of(value.span().start);
            let DeValue::Table(table) = value.get_ref() else {
                let found = kind_of(value.get_ref()).to_owned();
                let (place, expected) = (format!("model {}", i + 1), "a table".to_owned());
                problems.push(Problem { line, place, expected, found });
                return None;
            };
            Some(entry(i, line, table, &lines, problems))
        })
        .collect();
    if read.is_empty() && problems.is_empty() {
        let (place, expected) = ("model".to_owned(), "at least one [[model]] entry".to_owned());
        problems.push(Problem { line: 1, place, expected, found: "none".to_owned() });
    }
    read
}

fn entry(
    i: usize,
    line: usize,
    table: &DeTable<'_>,
    lines: &Lines<'_>,
    problems: &mut Vec<Problem>,
) -> Entry {
    let name = match table.get("name").map(Spanned::get_ref) {
        Some(DeValue::String(name)) if !name.is_empty() => Some(name.clone()),
        _ => None,
    };
    let label = name.map_or_else(|| format!("model {}", i + 1), Cow::into_owned);
    let mut entry = Entry { label, line, values: BTreeMap::new() };
    let mut rows = Vec::new();
    flatten("", table, lines, &mut rows);
    for (key, line, value) in &rows {
        let known = KEYS.iter().find(|known| known.name == key.as_str());
        let problem = match (known, key.strip_prefix(MIXES)) {
            (Some(known), _) => fit(known, value).map_err(|expected| (expected, show(value))),
            (None, Some(_)) => texts(value).map_err(|expected| (expected, show(value))),
            (None, None) => Err((known_keys(), "an unknown key".to_owned())),
        };
        match problem {
            Ok(value) => drop(entry.values.insert(key.clone(), (*line, value))),
            Err((expected, found)) => problems.push(Problem {
                line: *line,
                place: format!("{}: {key}", entry.label),
                expected,
                found,
            }),
        }
    }
    let missing = KEYS.iter().filter(|key| !rows.iter().any(|(name, ..)| name == key.name));
    problems.extend(missing.map(|key| {
        entry.problem(key.name, format!("a value ({})", key.doc), "nothing".to_owned())
    }));
    entry
}

fn known_keys() -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    format!("one of {}, {MIXES}STAGE", names.join(", "))
}

/// Tables inside a table become dotted keys.
fn flatten<'a>(
    prefix: &str,
    table: &'a DeTable<'a>,
    lines: &Lines<'_>,
    rows: &mut Vec<(String, usize, &'a DeValue<'a>)>,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&format!("{name}."), inner, lines, rows),
            other => rows.push((name, lines.of(key.span().start), other)),
        }
    }
}

/// The value, if it fits the key; what was expected, if not.
fn fit(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    match key.kind {
        Kind::Text => match value {
            DeValue::String(text) => Ok(Value::Text(text.clone().into_owned())),
            _ => Err("a text".to_owned()),
        },
        Kind::Count { min, max, multiple } => whole(value)
            .filter(|n| (min..=max).contains(n) && n.is_multiple_of(multiple))
            .map(Value::Count)
            .ok_or_else(|| match multiple {
                1 => format!("a whole number, {min} to {max}"),
                _ => format!("a multiple of {multiple}, {min} to {max}"),
            }),
        Kind::Number { above, below } => number(value)
            .filter(|x| *x > above && *x < below)
            .map(Value::Number)
            .ok_or_else(|| format!("a number above {above} and below {}", plain(below))),
        Kind::List => match value {
            DeValue::Array(array) => {
                array.iter().map(|v| whole(v.get_ref())).collect::<Option<_>>().map(Value::List)
            }
            _ => None,
        }
        .ok_or_else(|| "a list of whole numbers".to_owned()),
    }
}

/// A bound as a reader would write it.
fn plain(x: f64) -> String {
    if x < 1e6 { x.to_string() } else { format!("{x:e}") }
}

fn texts(value: &DeValue<'_>) -> Result<Value, String> {
    let text = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        _ => None,
    };
    match value {
        DeValue::Array(array) => array.iter().map(|v| text(v.get_ref())).collect::<Option<_>>(),
        _ => None,
    }
    .map(Value::Texts)
    .ok_or_else(|| "a list of texts".to_owned())
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(x) => x.as_str().parse().ok(),
        other => whole(other).map(|n| n as f64),
    }
}

/// A value as it stands in the text.
fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        other => kind_of(other).to_owned(),
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list of other things",
        DeValue::Table(_) => "a table",
    }
}
