//! How much filters, functions and methods make of their arguments, at most, in bytes.

use minijinja::{Error, ErrorKind, Value};

use super::budget::{ESCAPED, ITEM, SMALL, written};

/// From the arguments of a call, the subject first, to a bound of what it allocates.
pub(super) type Bound = fn(&[Value]) -> Result<usize, Error>;

/// Memory of a list that is an item of another, without its own items.
const INNER: usize = 160;
/// Largest precision in a format string.
const MOST_DECIMALS: usize = 60_000;
/// The longest number, written plainly: `-1.8e308` with six decimals.
const LONGEST_NUMBER: usize = 400;
/// Most bytes that `upper` and its like make of one.
const UPPER: usize = 3;

/// All arguments, written out.
pub(super) fn text(args: &[Value]) -> Result<usize, Error> {
    Ok(args.iter().map(written).fold(0, usize::saturating_add))
}

/// The subject with other letters.
pub(super) fn letters(args: &[Value]) -> Result<usize, Error> {
    Ok(text(args)?.saturating_mul(UPPER))
}

/// The arguments with every character of a string escaped; [`written`] does so inside containers.
pub(super) fn escaped(args: &[Value]) -> Result<usize, Error> {
    let size = |value: &Value| match value.as_str() {
        Some(text) => text.len().saturating_mul(ESCAPED),
        None => written(value),
    };
    Ok(args.iter().map(size).fold(0, usize::saturating_add))
}

/// The subject on many lines, each with an indentation of its depth.
pub(super) fn pretty(args: &[Value]) -> Result<usize, Error> {
    Ok(escaped(args)?.saturating_mul(ESCAPED))
}

/// The subject as JSON, with up to 4096 bytes of indentation before each item if asked for.
pub(super) fn json(args: &[Value]) -> Result<usize, Error> {
    let bytes = escaped(args)?;
    let indentation = named(args, "indent").map_or(0, |width| width.saturating_mul(128).min(4096));
    Ok(bytes.saturating_add((bytes / (ESCAPED * SMALL) * 2).saturating_mul(indentation)))
}

/// Written lists, where a string is looked for in one that is none.
pub(super) fn lists(args: &[Value]) -> Result<usize, Error> {
    text(&args.iter().filter(|value| value.as_str().is_none()).cloned().collect::<Vec<_>>())
}

/// A number given by name.
fn named(args: &[Value], name: &str) -> Option<usize> {
    args.last().filter(|last| last.is_kwargs())?.get_attr(name).ok()?.as_usize()
}

/// A date: a directive of two characters becomes a few words.
pub(super) fn date(args: &[Value]) -> Result<usize, Error> {
    Ok(text(args)?.saturating_mul(32))
}

/// Two lists with as many items as the subject.
pub(super) fn items(args: &[Value]) -> Result<usize, Error> {
    Ok(args.iter().map(|value| 2 * ITEM * count(value)).sum())
}

/// As [`items`], for a filter that turns strings around or into keys.
pub(super) fn items_or_text(args: &[Value]) -> Result<usize, Error> {
    Ok(items(args)?.saturating_add(text(args)?))
}

/// A list of lists, `count` of them or of `count` items each: `batch` and `slice`.
pub(super) fn table(args: &[Value]) -> Result<usize, Error> {
    let wide = args.get(1).and_then(Value::as_usize).unwrap_or(0);
    let items = args.first().map_or(0, count).saturating_add(wide);
    Ok(items.saturating_mul(2 * ITEM + INNER))
}

/// `text|replace(old, new)`.
pub(super) fn replace(args: &[Value]) -> Result<usize, Error> {
    let [text, old, new, ..] = args else { return Ok(0) };
    let sizes = written(text).saturating_add(written(old)).saturating_add(written(new));
    // Values that are no strings are written out first: then every byte may be a match.
    let matches = match (text.as_str(), old.as_str()) {
        (Some(text), Some(old)) => matches(text, old),
        _ => written(text) + 1,
    };
    Ok(sizes.saturating_add(matches.saturating_mul(written(new))))
}

/// `items|join(separator)`.
pub(super) fn join(args: &[Value]) -> Result<usize, Error> {
    let [items, rest @ ..] = args else { return Ok(0) };
    let separator = rest.first().map_or(0, written);
    let separators = count(items).saturating_mul(separator);
    let size =
        |item: Value| if item.as_str().is_some() { written(&item) } else { 2 * written(&item) };
    let sizes = match items.as_str() {
        Some(text) => text.len(),
        None => items.try_iter()?.map(size).fold(0, usize::saturating_add),
    };
    Ok(separators.saturating_add(sizes))
}

/// `separator.join(items)`.
pub(super) fn join_method(args: &[Value]) -> Result<usize, Error> {
    let [separator, items, ..] = args else { return Ok(0) };
    join(&[items.clone(), separator.clone()])
}

/// `text|split(separator)`: the pieces, and a list of them.
pub(super) fn split(args: &[Value]) -> Result<usize, Error> {
    let Some(text) = args.first().and_then(Value::as_str) else { return escaped(args) };
    let cuts = match args.get(1).and_then(Value::as_str) {
        Some(separator) => matches(text, separator),
        None => text.split_whitespace().count(),
    };
    pieces(text, cuts)
}

/// `text|lines`.
pub(super) fn lines(args: &[Value]) -> Result<usize, Error> {
    let Some(text) = args.first().and_then(Value::as_str) else { return escaped(args) };
    pieces(text, matches(text, "\n"))
}

fn pieces(text: &str, cuts: usize) -> Result<usize, Error> {
    // A string too long for a value itself has a header of its own.
    Ok(text.len().saturating_add((cuts + 1).saturating_mul(2 * ITEM + 24)))
}

/// `text|indent(width)`.
pub(super) fn indent(args: &[Value]) -> Result<usize, Error> {
    let Some(text) = args.first() else { return Ok(0) };
    let width = named(args, "width").or_else(|| args.get(1)?.as_usize()).unwrap_or(4);
    let lines = text.as_str().map_or_else(|| written(text), |text| matches(text, "\n")) + 2;
    Ok(written(text).saturating_add(width.saturating_mul(lines)))
}

/// `format|format(values...)` and `format.format(values...)`.
pub(super) fn format(args: &[Value]) -> Result<usize, Error> {
    let [format, values @ ..] = args else { return Ok(0) };
    let Some(text) = format.as_str() else { return escaped(args) };
    let fields = matches(text, "%") + matches(text, "{");
    let widths = widths(text)?;
    let value = values.iter().map(written).max().unwrap_or(0).max(LONGEST_NUMBER);
    Ok(text.len().saturating_add(widths).saturating_add(fields.saturating_mul(value)))
}

/// The sum of all numbers in a format string: any of them may be a width.
fn widths(text: &str) -> Result<usize, Error> {
    let mut sum = 0usize;
    let mut before = "";
    for run in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = run.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number = digits.parse().unwrap_or(if digits.is_empty() { 0 } else { usize::MAX });
        if before.ends_with('.') && number > MOST_DECIMALS {
            let what = format!("{digits} decimals in a format; expected at most {MOST_DECIMALS}");
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
        sum = sum.saturating_add(number.saturating_mul(2));
        before = run;
    }
    Ok(sum)
}

/// Items that iterating over a value gives.
fn count(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.chars().count(),
        None => value.len().unwrap_or(0),
    }
}

fn matches(text: &str, part: &str) -> usize {
    if part.is_empty() { text.chars().count() + 1 } else { text.matches(part).count() }
}
