//! What one rendering has made so far, and containers whose size is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};

/// Most bytes of strings and containers made in one rendering, all together.
pub(super) const TOTAL: usize = 192 << 20;
/// Most bytes of one string, of one container written out, and of all that is printed.
pub(super) const LARGEST: usize = 64 << 20;
/// Deepest nesting of containers; JSON that is read or written allows half of it.
const DEEPEST: usize = 256;
/// Memory of an item in a container.
pub(super) const ITEM: usize = size_of::<Value>();
/// Memory of a container without its items, generously.
const CONTAINER: usize = 96;
/// Bytes that a number or another small value is written with, at most.
pub(super) const SMALL: usize = 40;
/// Most bytes that one byte of a string becomes inside a written container, or escaped.
pub(super) const ESCAPED: usize = 6;

/// Why a rendering was stopped.
#[derive(Debug, thiserror::Error)]
#[error("it makes {0}")]
pub(crate) struct TooLarge(String);

/// Refuses in the words of [`TooLarge`].
pub(super) fn too_large<T>(what: String) -> Result<T, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, what.clone());
    Err(error.with_source(TooLarge(what)))
}

/// The memory of one rendering. Only ever grows, so that it bounds what is in use.
#[derive(Debug, Default)]
pub(super) struct Budget {
    used: AtomicUsize,
    printed: AtomicUsize,
}

impl Budget {
    /// Claims `bytes` that are about to be allocated.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Error> {
        let used = self.used.load(Ordering::Relaxed).saturating_add(bytes);
        if used > TOTAL {
            return too_large(format!("more than {} MiB of text and lists", TOTAL >> 20));
        }
        self.used.store(used, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back a claim that turned out to be too high.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Claims a string of `bytes`.
    pub(super) fn take_text(&self, bytes: usize) -> Result<(), Error> {
        if bytes > LARGEST {
            return too_large(format!("a text of more than {} MiB", LARGEST >> 20));
        }
        self.take(bytes)
    }

    /// Claims `bytes` of output, captured or not.
    pub(super) fn print(&self, bytes: usize) -> Result<(), Error> {
        let printed = self.printed.load(Ordering::Relaxed).saturating_add(bytes);
        if printed > LARGEST {
            return too_large(format!("a prompt that exceeds {} MiB", LARGEST >> 20));
        }
        self.printed.store(printed, Ordering::Relaxed);
        self.take(bytes)
    }

    /// A container as a [`Kept`] one, copied unless it is one already; other values as they are.
    ///
    /// Strings inside are shared, not copied, and cost nothing here. Objects with state of their
    /// own (a namespace, a loop) become what they hold now.
    pub(super) fn keep(&self, value: Value) -> Result<Value, Error> {
        self.keep_below(value, DEEPEST)
    }

    fn keep_below(&self, value: Value, depth: usize) -> Result<Value, Error> {
        let Some(object) = value.as_object() else { return Ok(value) };
        // Named arguments are on their way into a call, and nothing else can hold them.
        if is_kept(&value) || object.repr() == ObjectRepr::Plain || value.is_kwargs() {
            return Ok(value);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return too_large(format!("lists nested deeper than {DEEPEST}"));
        };
        let mut size = Size::default();
        let mut item = |item: Value| {
            self.take(ITEM)?;
            let item = self.keep_below(item, depth)?;
            size.add(&item)?;
            Ok::<Value, Error>(item)
        };
        self.take(CONTAINER)?;
        let content = if object.repr() == ObjectRepr::Map {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            let pairs = pairs.map(|(k, v)| Ok((item(k)?, item(v)?)));
            Content::Map(pairs.collect::<Result<Vec<_>, Error>>()?.into_iter().collect())
        } else {
            let mut items = Vec::new();
            for value in object.try_iter().into_iter().flatten() {
                items.push(item(value)?);
            }
            Content::List(items)
        };
        let is_list = matches!(content, Content::List(_));
        let group = is_list && object.get_value(&Value::from("grouper")).is_some();
        Ok(Value::from_object(Kept { content, size, group }))
    }
}

/// Whether `value` is a container that [`Budget::keep`] made.
fn is_kept(value: &Value) -> bool {
    value.downcast_object_ref::<Kept>().is_some()
}

/// Bytes that `value` is written with, at most.
pub(super) fn written(value: &Value) -> usize {
    if let Some(text) = value.as_str() {
        return text.len();
    }
    if let Some(kept) = value.downcast_object_ref::<Kept>() {
        return kept.size.bytes * ESCAPED;
    }
    match value.as_object() {
        // A namespace holds kept values; a function or a number as written is short.
        Some(object) if object.repr() == ObjectRepr::Map => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            pairs
                .map(|(_, v)| SMALL + v.as_str().map_or_else(|| flat(&v), str::len) * ESCAPED)
                .sum()
        }
        Some(object) if object.repr() == ObjectRepr::Plain => value.to_string().len(),
        Some(object) => items(object).saturating_mul(SMALL * ESCAPED),
        None => SMALL,
    }
}

/// Bytes that a constant of a template is written with, about.
pub(super) fn constant(value: &Value) -> usize {
    let items = value.as_object().and_then(DynObject::try_iter);
    match (value.as_str(), items) {
        (Some(text), _) => text.len(),
        (None, Some(items)) => items.map(|item| SMALL + item.as_str().map_or(0, str::len)).sum(),
        (None, None) => SMALL,
    }
}

/// Size of a value that is no string and may be a kept container.
fn flat(value: &Value) -> usize {
    value.downcast_object_ref::<Kept>().map_or(SMALL, |kept| kept.size.bytes)
}

fn items(object: &DynObject) -> usize {
    object.enumerator_len().unwrap_or(usize::MAX)
}

/// How deep a container is, and how long when written out without escapes.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    depth: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, item: &Value) -> Result<(), Error> {
        let inner = item.downcast_object_ref::<Kept>().map_or(Size::default(), |kept| kept.size);
        self.depth = self.depth.max(inner.depth + 1);
        self.bytes += SMALL + inner.bytes + item.as_str().map_or(0, str::len);
        if self.depth > DEEPEST {
            return too_large(format!("lists nested deeper than {DEEPEST}"));
        }
        if self.bytes > LARGEST {
            return too_large(format!("a list of more than {} MiB", LARGEST >> 20));
        }
        Ok(())
    }
}

/// A list or map of plain values and kept containers.
#[derive(Debug)]
struct Kept {
    content: Content,
    size: Size,
    /// A group of the `groupby` filter, whose two items have names.
    group: bool,
}

#[derive(Debug)]
enum Content {
    List(Vec<Value>),
    Map(Value),
}

impl Object for Kept {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.content {
            Content::List(_) => ObjectRepr::Seq,
            Content::Map(_) => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match &self.content {
            Content::List(items) => match key.as_str() {
                Some("grouper") if self.group => items.first().cloned(),
                Some("list") if self.group => items.get(1).cloned(),
                _ => items.get(key.as_usize()?).cloned(),
            },
            Content::Map(map) => map.as_object()?.get_value(key),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.content {
            Content::List(items) => Enumerator::Seq(items.len()),
            Content::Map(map) => match map.as_object() {
                Some(map) => map.enumerate(),
                None => Enumerator::Empty,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_containers_know_their_size_and_are_copied_once() {
        let budget = Budget::default();
        let list = budget.keep(Value::from(vec![Value::from("four"), Value::from(1)])).unwrap();
        assert_eq!(written(&list), ESCAPED * (2 * SMALL + 4));
        let used = budget.used.load(Ordering::Relaxed);
        assert_eq!(used, CONTAINER + 2 * ITEM);
        budget.keep(list.clone()).unwrap();
        assert_eq!(budget.used.load(Ordering::Relaxed), used);
        let twice = budget.keep(Value::from(vec![list.clone(), list.clone()])).unwrap();
        assert_eq!(written(&twice), 2 * (written(&list) + ESCAPED * SMALL));
        assert_eq!(twice.to_string(), r#"[["four", 1], ["four", 1]]"#);
        assert_eq!(twice.get_item_by_index(0).unwrap(), list);
    }

    #[test]
    fn nesting_and_doubling_end() {
        let budget = Budget::default();
        let nest = |copies: usize| {
            let mut value = Value::from(1);
            for _ in 0..2 * DEEPEST {
                value = budget.keep(Value::from(vec![value; copies]))?;
            }
            Ok::<_, Error>(value)
        };
        assert!(nest(1).unwrap_err().to_string().contains("deeper"));
        assert!(nest(2).unwrap_err().to_string().contains("64 MiB"));
        assert!(budget.used.load(Ordering::Relaxed) < 1 << 20);
    }
}
