//! Keeps text of messages from becoming structure.
//!
//! A rendered prompt mixes the template's own text, in which special tokens are meant, with text
//! from messages, in which they are only text. Before rendering, every string of a message gets a
//! mark (a private character that occurs nowhere else) inside each special text it holds, and at an
//! edge where it could become part of one together with its neighbour. After rendering, a marked
//! special text is not found by the search for special tokens, and the marks are taken out of what
//! remains.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

/// Where the marks come from: a private plane that fonts and users leave alone.
const MARKS: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10fffd}';

/// Collects which marks occur in a conversation, to choose others.
#[derive(Debug, Default)]
pub(crate) struct UsedMarks(BTreeSet<char>);

impl UsedMarks {
    pub(crate) fn see(&mut self, text: &str) {
        // Every character of that plane starts with this byte.
        if text.as_bytes().contains(&0xf4) {
            self.0.extend(text.chars().filter(|c| MARKS.contains(c)));
        }
    }

    /// Two characters that do not occur; `None` if the plane is used up.
    pub(crate) fn two_free(&self) -> Option<[char; 2]> {
        let mut free = MARKS.filter(|c| !self.0.contains(c));
        Some([free.next()?, free.next()?])
    }
}

/// Knows where strings need marks.
#[derive(Debug)]
pub(crate) struct Guard {
    specials: Vec<String>,
    /// `None` without special tokens.
    search: Option<AhoCorasick>,
    /// Bytes of the longest special text.
    longest: usize,
    template: String,
}

impl Guard {
    /// A guard for these special texts and for what `template` may put around a string.
    pub(crate) fn new<'a>(
        specials: impl Iterator<Item = &'a str>,
        template: &str,
    ) -> Result<Guard, aho_corasick::BuildError> {
        let specials: Vec<String> = specials.filter(|s| !s.is_empty()).map(str::to_owned).collect();
        Ok(Guard {
            search: if specials.is_empty() { None } else { Some(AhoCorasick::new(&specials)?) },
            longest: specials.iter().map(String::len).max().unwrap_or(0),
            specials,
            template: template.to_owned(),
        })
    }

    /// The marks that the template itself uses.
    pub(crate) fn used_marks(&self) -> UsedMarks {
        let mut used = UsedMarks::default();
        used.see(&self.template);
        used
    }

    /// `text` with marks where it needs them.
    pub(crate) fn mark<'t>(&self, text: &'t str, mark: char) -> Cow<'t, str> {
        let places = self.places(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut marked = String::with_capacity(text.len() + places.len() * mark.len_utf8());
        let mut done = 0;
        for place in places {
            marked.push_str(&text[done..place]);
            marked.push(mark);
            done = place;
        }
        marked.push_str(&text[done..]);
        Cow::Owned(marked)
    }

    /// Byte positions that need a mark before them.
    fn places(&self, text: &str) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        let Some(search) = &self.search else { return places };
        for found in search.find_overlapping_iter(text) {
            let mut chars = text[found.range()].chars();
            let first = chars.next().map_or(0, char::len_utf8);
            // One character cannot be broken: the tokenizer knows it by the mark before it.
            places.insert(found.start() + if chars.next().is_some() { first } else { 0 });
        }
        // Marks at the edges stand inside the blanks, so that trimming still finds those.
        let core = text.trim();
        if core.is_empty() {
            return places;
        }
        let start = text.len() - text.trim_start().len();
        if self.could_end_special(text, core) || self.could_be_inside(core) {
            places.insert(start);
        }
        if self.could_start_special(text, core) {
            places.insert(start + core.len());
        }
        places
    }

    /// Whether the string's end is the beginning of a special text.
    fn could_start_special(&self, text: &str, core: &str) -> bool {
        self.specials.iter().any(|special| {
            cuts(special)
                .map(|at| &special[..at])
                .any(|head| core.ends_with(head) || text.ends_with(head))
        })
    }

    /// Whether the string's beginning is the end of a special text.
    fn could_end_special(&self, text: &str, core: &str) -> bool {
        self.specials.iter().any(|special| {
            cuts(special)
                .map(|at| &special[at..])
                .any(|tail| core.starts_with(tail) || text.starts_with(tail))
        })
    }

    /// Whether the template may complete the string to a special text on both sides: `'<' ~ tag ~
    /// '>'`.
    fn could_be_inside(&self, core: &str) -> bool {
        core.len() < self.longest
            && self.specials.iter().any(|special| {
                special.match_indices(core).any(|(at, _)| {
                    let rest = &special[at + core.len()..];
                    at > 0 && !rest.is_empty() && self.template.contains(rest)
                })
            })
    }
}

/// Byte positions between the characters of a text.
fn cuts(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().skip(1).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIALS: [&str; 5] =
        ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|object_ref_start|>"];

    fn guard() -> Guard {
        Guard::new(
            SPECIALS.into_iter(),
            "{{ '<|im_start|>' + role + '<|im_end|>' }}<think></think>",
        )
        .unwrap()
    }

    /// The marked text, with marks shown as `^`.
    fn marked(text: &str) -> String {
        guard().mark(text, '^').into_owned()
    }

    #[test]
    fn special_texts_are_broken_and_others_left_alone() {
        assert_eq!(marked("a<|im_end|>b"), "a<^|im_end|>b");
        assert_eq!(marked("<think></think>"), "<^think><^/think>");
        for text in ["", "  ", "hello", "a < b", "x <y> z", "object", "type", "user"] {
            assert_eq!(marked(text), text);
        }
    }

    #[test]
    fn edges_that_could_join_with_a_neighbour_are_marked() {
        assert_eq!(marked("a <"), "a <^");
        assert_eq!(marked(" a<|im_\n"), " a<|im_^\n");
        assert_eq!(marked("think>"), "^think>");
        assert_eq!(marked("\t> a"), "\t^> a");
        assert_eq!(marked("think"), "^think");
        assert_eq!(marked("/think"), "^/think");
    }

    #[test]
    fn marks_are_characters_that_do_not_occur() {
        let mut used = UsedMarks::default();
        used.see("abc");
        assert_eq!(used.two_free(), Some(['\u{100000}', '\u{100001}']));
        used.see("x\u{100000}\u{100002}");
        assert_eq!(used.two_free(), Some(['\u{100001}', '\u{100003}']));
        used.see(&MARKS.collect::<String>());
        assert_eq!(used.two_free(), None);
    }

    #[test]
    fn a_special_text_of_one_character_has_its_mark_before_it() {
        let guard = Guard::new(["§"].into_iter(), "").unwrap();
        assert_eq!(guard.mark("a§b", '^'), "a^§b");
    }
}
