//! The pre-tokenizer: cuts text into the pieces inside which byte pairs are merged.
//!
//! The two rules are regular expressions upstream. Here they are one hand-written scanner that
//! looks at every character a bounded number of times, so that no input makes it slow or deep;
//! tests hold it equal to the expressions, which are, with `M` = `\p{M}` for `qwen35` and nothing
//! for `qwen2`:
//!
//! ```text
//! (?i:'s|'t|'re|'ve|'m|'ll|'d)      an English contraction
//! |[^\r\n\p{L}\p{N}]?[\p{L}M]+      a word, with one character before it
//! |\p{N}                            one digit
//! | ?[^\s\p{L}M\p{N}]+[\r\n]*       symbols, with a space before and line ends after them
//! |\s*[\r\n]+                       blank up to the last line end
//! |\s+(?!\S)|\s+                    blank; the last one is left to the word after it
//! ```

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

/// Which splitting rule a vocabulary was trained with (`tokenizer.ggml.pre`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreTokenizer {
    /// Combining marks belong to words.
    Qwen35,
    /// Combining marks are symbols.
    Qwen2,
}

impl PreTokenizer {
    /// Every rule with its name in GGUF files.
    pub const ALL: [(&'static str, PreTokenizer); 2] =
        [("qwen35", PreTokenizer::Qwen35), ("qwen2", PreTokenizer::Qwen2)];

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<PreTokenizer> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|&(_, pre)| pre)
    }

    /// The rule's name in GGUF files.
    pub fn name(self) -> &'static str {
        match self {
            PreTokenizer::Qwen35 => "qwen35",
            PreTokenizer::Qwen2 => "qwen2",
        }
    }

    /// The pieces of `text`, in order; together they are `text`.
    pub fn pieces(self, text: &str) -> Pieces<'_> {
        Pieces { rest: text, marks_are_letters: self == PreTokenizer::Qwen35 }
    }
}

/// Iterator over the pieces of a text. See [`PreTokenizer::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'t> {
    rest: &'t str,
    marks_are_letters: bool,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let (piece, rest) = self.rest.split_at(self.first_len());
        self.rest = rest;
        Some(piece)
    }
}

/// What the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Letter,
    Mark,
    Number,
    Blank,
    Symbol,
}

impl Pieces<'_> {
    /// Bytes of the first piece of `rest`, which is not empty. The alternatives are tried in the
    /// rules' order.
    fn first_len(&self) -> usize {
        let text = self.rest;
        if let Some(len) = contraction(text) {
            return len;
        }
        let mut chars = text.chars();
        let Some(first) = chars.next() else { return 0 };
        let after = first.len_utf8();
        let next = chars.next();
        if self.is_word(first) {
            return after + self.run(&text[after..], Self::is_word);
        }
        if kind(first) == Kind::Number {
            return after;
        }
        if !matches!(first, '\r' | '\n') && next.is_some_and(|c| self.is_word(c)) {
            return after + self.run(&text[after..], Self::is_word);
        }
        if self.is_symbol(first) || (first == ' ' && next.is_some_and(|c| self.is_symbol(c))) {
            let end = after + self.run(&text[after..], Self::is_symbol);
            return end + text[end..].bytes().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        }
        blank_len(&text[..self.run(text, |_, c| kind(c) == Kind::Blank)], text)
    }

    /// Bytes of the longest prefix of `text` whose characters all pass.
    fn run(&self, text: &str, pass: impl Fn(&Self, char) -> bool) -> usize {
        text.char_indices().find(|&(_, c)| !pass(self, c)).map_or(text.len(), |(at, _)| at)
    }

    fn is_word(&self, c: char) -> bool {
        match kind(c) {
            Kind::Letter => true,
            Kind::Mark => self.marks_are_letters,
            _ => false,
        }
    }

    fn is_symbol(&self, c: char) -> bool {
        match kind(c) {
            Kind::Symbol => true,
            Kind::Mark => !self.marks_are_letters,
            _ => false,
        }
    }
}

/// Length of the contraction `text` starts with, in any case.
fn contraction(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    let first = chars.next()?;
    match first.to_ascii_lowercase() {
        's' | 't' | 'm' | 'd' => return Some(2),
        // The long s folds to s in a case-insensitive expression.
        'ſ' => return Some(1 + first.len_utf8()),
        _ => {}
    }
    let second = chars.next()?;
    let pair = (first.to_ascii_lowercase(), second.to_ascii_lowercase());
    matches!(pair, ('r' | 'v', 'e') | ('l', 'l')).then_some(3)
}

/// Length of the first piece of `blank`, the blank run that `text` starts with.
fn blank_len(blank: &str, text: &str) -> usize {
    if let Some(last) = blank.rfind(['\r', '\n']) {
        return last + 1;
    }
    if blank.len() == text.len() {
        return blank.len();
    }
    match blank.char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => blank.len(),
    }
}

fn kind(c: char) -> Kind {
    static CLASSES: OnceLock<Classes> = OnceLock::new();
    CLASSES.get_or_init(Classes::new).kind(c)
}

/// The Unicode classes as sorted ranges, with a table for ASCII.
struct Classes {
    ascii: [Kind; 128],
    /// First and last character, in order and disjoint.
    ranges: Vec<(char, char, Kind)>,
}

impl Classes {
    /// Reads the classes from the tables of `regex-syntax`.
    fn new() -> Classes {
        let mut ranges = Vec::new();
        for (class, kind) in [
            (r"\p{L}", Kind::Letter),
            (r"\p{M}", Kind::Mark),
            (r"\p{N}", Kind::Number),
            (r"\s", Kind::Blank),
        ] {
            // The four expressions are constants and always parse to a class.
            if let Ok(hir) = regex_syntax::parse(class)
                && let HirKind::Class(Class::Unicode(class)) = hir.kind()
            {
                ranges.extend(class.iter().map(|r| (r.start(), r.end(), kind)));
            }
        }
        ranges.sort_unstable_by_key(|r| r.0);
        let mut classes = Classes { ascii: [Kind::Symbol; 128], ranges };
        for byte in 0..128u8 {
            classes.ascii[byte as usize] = classes.search(byte as char);
        }
        classes
    }

    fn kind(&self, c: char) -> Kind {
        self.ascii.get(c as usize).copied().unwrap_or_else(|| self.search(c))
    }

    fn search(&self, c: char) -> Kind {
        let after = self.ranges.partition_point(|r| r.0 <= c);
        match after.checked_sub(1).map(|i| self.ranges[i]) {
            Some((_, last, kind)) if c <= last => kind,
            _ => Kind::Symbol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pre: PreTokenizer, text: &str) -> Vec<&str> {
        pre.pieces(text).collect()
    }

    #[test]
    fn classes_are_disjoint_and_complete() {
        let classes = Classes::new();
        for pair in classes.ranges.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{pair:?}");
        }
        assert_eq!(kind('a'), Kind::Letter);
        assert_eq!(kind('字'), Kind::Letter);
        assert_eq!(kind('\u{301}'), Kind::Mark);
        assert_eq!(kind('½'), Kind::Number);
        assert_eq!(kind('\u{3000}'), Kind::Blank);
        assert_eq!(kind('🦙'), Kind::Symbol);
        assert_eq!(kind('\u{10ffff}'), Kind::Symbol);
    }

    #[test]
    fn combining_marks_go_with_letters_in_one_rule_only() {
        assert_eq!(split(PreTokenizer::Qwen35, "नमस्ते"), ["नमस्ते"]);
        assert_eq!(split(PreTokenizer::Qwen2, "नमस्ते"), ["नमस", "्त", "े"]);
        assert_eq!(split(PreTokenizer::Qwen35, "e\u{301}x"), ["e\u{301}x"]);
        assert_eq!(split(PreTokenizer::Qwen2, "e\u{301}x"), ["e", "\u{301}x"]);
    }

    #[test]
    fn digits_contractions_and_blanks() {
        for pre in [PreTokenizer::Qwen35, PreTokenizer::Qwen2] {
            assert_eq!(split(pre, "a1234b"), ["a", "1", "2", "3", "4", "b"]);
            assert_eq!(split(pre, "don'T"), ["don", "'T"]);
            assert_eq!(split(pre, "we'LLs 'x"), ["we", "'LL", "s", " '", "x"]);
            assert_eq!(split(pre, "x  \n\n y"), ["x", "  \n\n", " y"]);
            assert_eq!(split(pre, "x   y  "), ["x", "  ", " y", "  "]);
            assert_eq!(split(pre, " 1  2"), [" ", "1", " ", " ", "2"]);
            assert_eq!(split(pre, "a ?!\r\n\nb"), ["a", " ?!\r\n\n", "b"]);
            assert_eq!(split(pre, "\t\tx"), ["\t", "\tx"]);
            assert_eq!(split(pre, ""), [""; 0]);
        }
    }
}
