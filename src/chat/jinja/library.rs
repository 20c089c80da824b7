//! The filters, tests, functions and methods that a template may use, each with its bound.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions};
use minijinja_contrib::pycompat;

use super::bounds::{self, Bound};
use super::budget::{Budget, ESCAPED, ITEM, LARGEST, too_large, written};
use super::program;
use crate::chat::{json, time};

/// Memory of a macro and of what it remembers of its surroundings.
const MACRO_BYTES: usize = 1024;

/// The environment templates are written for: that of Hugging Face's `apply_chat_template`, every
/// part of it within `budget`.
pub(super) fn environment<'a>(budget: &Arc<Budget>) -> Environment<'a> {
    let mut environment = Environment::empty();
    for (name, filter, bound) in filters() {
        let budget = Arc::clone(budget);
        environment.add_filter(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            bounded(&budget, bound, &args, || filter.call(state, &args))
        });
    }
    for (name, test) in all_tests() {
        let budget = Arc::clone(budget);
        environment.add_test(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            let text = ["in", "startingwith", "endingwith", "lower", "upper"].contains(&name);
            let bound = text.then_some(bounds::lists as Bound);
            bounded(&budget, bound, &args, || test.call(state, &args))
        });
    }
    for (name, function, bound) in functions() {
        let budget = Arc::clone(budget);
        environment.add_function(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            bounded(&budget, bound, &args, || function.call(state, &args))
        });
    }
    let formatting = Arc::clone(budget);
    environment.set_formatter(move |out, state, value| {
        let plain = matches!(state.auto_escape(), minijinja::AutoEscape::None);
        let factor = if plain { 1 } else { ESCAPED };
        formatting.print(written(value).saturating_mul(factor))?;
        minijinja::escape_formatter(out, state, value)
    });
    let calling = Arc::clone(budget);
    environment.set_unknown_method_callback(move |state, value, name, args| {
        method(&calling, state, value, name, args)
    });
    add_guards(&mut environment, budget);
    environment
}

/// Calls something that makes at most `bound` of its arguments, and keeps what it made. Without a
/// bound, it returns a number, or something that exists already.
fn bounded(
    budget: &Budget,
    bound: Option<Bound>,
    args: &[Value],
    call: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    let Some(bound) = bound else { return call() };
    let claimed = bound(args)?;
    budget.take(claimed)?;
    let made = call()?;
    budget.give_back(claimed);
    if let Some(text) = made.as_str() {
        budget.take_text(text.len())?;
    }
    budget.keep(made)
}

fn up_to(bound: Bound) -> Option<Bound> {
    Some(bound)
}

/// Functions by name, with their bounds.
fn functions() -> Vec<(&'static str, Value, Option<Bound>)> {
    let now = |format: String| time::strftime_now(&format);
    vec![
        // Lazy, up to 100,000 numbers, and paid for when it is kept.
        ("range", Value::from_function(functions::range), up_to(bounds::items)),
        ("dict", Value::from_function(functions::dict), up_to(bounds::items)),
        ("strftime_now", Value::from_function(now), up_to(bounds::date)),
    ]
}

/// The filters by name, with their bounds.
fn filters() -> Vec<(&'static str, Value, Option<Bound>)> {
    macro_rules! table {
        ($($bound:expr => $($name:ident)*;)*) => {
            vec![$($((
                stringify!($name),
                Value::from_function(filters::$name),
                $bound,
            )),*),*]
        };
    }
    let mut all = table! {
        None => length default round abs int float attr first min max sum bool;
        up_to(bounds::text) => safe trim string;
        up_to(bounds::letters) => lower upper title capitalize;
        up_to(bounds::escaped) => escape;
        up_to(bounds::pretty) => pprint;
        up_to(bounds::items) => last dictsort items sort list chain zip;
        up_to(bounds::items) => select reject selectattr rejectattr map groupby;
        up_to(bounds::items_or_text) => reverse unique;
        up_to(bounds::table) => batch slice;
        up_to(bounds::replace) => replace;
        up_to(bounds::join) => join;
        up_to(bounds::split) => split;
        up_to(bounds::lines) => lines;
        up_to(bounds::indent) => indent;
        up_to(bounds::format) => format;
    };
    for (name, other) in [("count", "length"), ("d", "default"), ("e", "escape")] {
        let found = all.iter().find(|(filter, ..)| *filter == other).cloned();
        all.extend(found.map(|(_, filter, bound)| (name, filter, bound)));
    }
    let tojson = |value: &Value, options: Kwargs| json::tojson(value, options);
    all.push(("tojson", Value::from_function(tojson), up_to(bounds::json)));
    all
}

/// The tests by name.
fn all_tests() -> Vec<(&'static str, Value)> {
    macro_rules! table {
        ($($($name:literal)*: $test:ident;)*) => {
            vec![$($(($name, Value::from_function(minijinja::tests::$test))),*),*]
        };
    }
    table! {
        "undefined": is_undefined;
        "defined": is_defined;
        "none": is_none;
        "safe" "escaped": is_safe;
        "boolean": is_boolean;
        "odd": is_odd;
        "even": is_even;
        "divisibleby": is_divisibleby;
        "number": is_number;
        "integer" "int": is_integer;
        "float": is_float;
        "string": is_string;
        "sequence": is_sequence;
        "iterable": is_iterable;
        "mapping": is_mapping;
        "startingwith": is_startingwith;
        "endingwith": is_endingwith;
        "lower": is_lower;
        "upper": is_upper;
        "sameas": is_sameas;
        "eq" "equalto" "==": is_eq;
        "ne" "!=": is_ne;
        "lt" "lessthan" "<": is_lt;
        "le" "<=": is_le;
        "gt" "greaterthan" ">": is_gt;
        "ge" ">=": is_ge;
        "in": is_in;
        "true": is_true;
        "false": is_false;
        "filter": is_filter;
        "test": is_test;
    }
}

/// A method of Python's strings, lists and dicts.
fn method(
    budget: &Budget,
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let bound: Option<Bound> = match name {
        "upper" | "lower" | "title" | "capitalize" => Some(bounds::letters),
        "strip" | "lstrip" | "rstrip" => Some(bounds::text),
        "replace" => Some(bounds::replace),
        "split" => Some(bounds::split),
        "splitlines" => Some(bounds::lines),
        "format" => Some(bounds::format),
        "join" => Some(bounds::join_method),
        "keys" | "values" | "items" => Some(bounds::items),
        // Between any two characters, before the first and after the last.
        "count" if args.first().and_then(Value::as_str) == Some("") => {
            let Some(text) = value.as_str() else { return Ok(Value::from(0)) };
            return Ok(Value::from(text.chars().count() + 1));
        }
        _ => None,
    };
    let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
    bounded(budget, bound, &all, || pycompat::unknown_method_callback(state, value, name, args))
}

/// The functions that a [`program::Program`] calls around its instructions, and those that return
/// more than plain values.
fn add_guards(environment: &mut Environment<'_>, budget: &Arc<Budget>) {
    let add = |environment: &mut Environment<'_>, name, guard: Guard| {
        let budget = Arc::clone(budget);
        environment.add_function(name, move |args: Rest<Value>| guard(&budget, &args));
    };
    add(environment, program::KEEP, |budget, args| budget.keep(first(args)));
    add(environment, program::MADE, |budget, args| {
        if let Some(text) = first(args).as_str() {
            budget.take_text(text.len())?;
        }
        budget.keep(first(args))
    });
    add(environment, program::MACRO, |budget, args| {
        budget.take(MACRO_BYTES)?;
        Ok(first(args))
    });
    add(environment, program::BEFORE_REPEAT, |_, args| {
        let [a, b] = args else { return swapped(args) };
        let times = |value: &Value| value.as_usize().unwrap_or(0);
        let size = |value: &Value| match value.as_str() {
            Some(text) => text.len(),
            None => value.len().unwrap_or(0).saturating_mul(ITEM),
        };
        let size = size(a).saturating_mul(times(b)).max(size(b).saturating_mul(times(a)));
        if size > LARGEST {
            return too_large(format!("a text or list of more than {} MiB", LARGEST >> 20));
        }
        swapped(args)
    });
    add(environment, program::BEFORE_CONCAT, |budget, args| {
        budget.take_text(bounds::text(args)?)?;
        swapped(args)
    });
    add(environment, program::BEFORE_SEARCH, |budget, args| {
        if let [value, container] = args
            && container.as_str().is_some()
        {
            let claimed = bounds::lists(std::slice::from_ref(value))?;
            budget.take(claimed)?;
            budget.give_back(claimed);
        }
        swapped(args)
    });
    add(environment, program::SPREAD, |budget, args| {
        let mut all = Vec::new();
        for list in args {
            for item in list.try_iter()? {
                budget.take(2 * ITEM)?;
                all.push(item);
            }
        }
        Ok(Value::from(all))
    });
    add(environment, "namespace", |budget, args| {
        let start = args.first().cloned().map(|start| budget.keep(start)).transpose()?;
        budget.take(MACRO_BYTES)?;
        functions::namespace(start)
    });
}

type Guard = fn(&Budget, &[Value]) -> Result<Value, Error>;

fn first(args: &[Value]) -> Value {
    args.first().cloned().unwrap_or_default()
}

/// Both arguments as the list that puts them back on the stack as they were.
fn swapped(args: &[Value]) -> Result<Value, Error> {
    match args {
        [a, b] => Ok(Value::from(vec![b.clone(), a.clone()])),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "expected two operands")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever adds one thinks of its bound, and of `tests/template_memory.rs`.
    #[test]
    fn these_are_all_filters_and_functions() {
        let mut filters: Vec<&str> = filters().iter().map(|(name, ..)| *name).collect();
        filters.sort_unstable();
        let expected = "abs attr batch bool capitalize chain count d default dictsort e escape first \
                        float format groupby indent int items join last length lines list lower map \
                        max min pprint reject rejectattr replace reverse round safe select \
                        selectattr slice sort split string sum title tojson trim unique upper zip";
        assert_eq!(filters.join(" "), expected);
        let budget = Arc::new(Budget::default());
        let environment = environment(&budget);
        let mut functions: Vec<&str> = environment.globals().map(|(name, _)| name).collect();
        functions.retain(|name| !name.starts_with('\0'));
        functions.sort_unstable();
        assert_eq!(functions, ["dict", "namespace", "range", "strftime_now"]);
    }
}
