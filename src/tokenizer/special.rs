//! Finding special tokens in text.

use aho_corasick::AhoCorasick;

use super::TokenizerError;

/// A stretch of text between special tokens, or a special token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    Text(&'t str),
    Special(u32),
}

/// Cuts special tokens out of text: the longest ones first, wherever they are, then shorter ones in
/// what remains; among equally long ones the lowest id first, and each from left to right.
#[derive(Debug)]
pub(crate) struct SpecialMatcher {
    /// Token id and length in bytes of each pattern; a pattern's index is its rank.
    patterns: Vec<(u32, usize)>,
    /// `None` without patterns.
    search: Option<AhoCorasick>,
}

impl SpecialMatcher {
    /// A matcher for those tokens, given as id and text. An empty text is never found; of equal
    /// texts the first counts.
    pub(crate) fn new<'a>(
        tokens: impl Iterator<Item = (u32, &'a str)>,
    ) -> Result<SpecialMatcher, TokenizerError> {
        let mut tokens: Vec<(u32, &str)> = tokens.filter(|(_, text)| !text.is_empty()).collect();
        tokens.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.1.cmp(b.1)).then(a.0.cmp(&b.0)));
        tokens.dedup_by(|a, b| a.1 == b.1);
        tokens.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
        let search = if tokens.is_empty() {
            None
        } else {
            let search = AhoCorasick::new(tokens.iter().map(|t| t.1))
                .map_err(|e| TokenizerError::Specials(e.to_string()))?;
            Some(search)
        };
        let patterns = tokens.iter().map(|&(id, text)| (id, text.len())).collect();
        Ok(SpecialMatcher { patterns, search })
    }

    /// The fragments of `text` in order; no empty texts. A find for which `reject(start, end)` is
    /// true does not count.
    pub(crate) fn cut<'t>(
        &self,
        text: &'t str,
        reject: impl Fn(usize, usize) -> bool,
    ) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        let mut done = 0;
        for (start, end, id) in self.chosen(text, reject) {
            if start > done {
                fragments.push(Fragment::Text(&text[done..start]));
            }
            fragments.push(Fragment::Special(id));
            done = end;
        }
        if done < text.len() {
            fragments.push(Fragment::Text(&text[done..]));
        }
        fragments
    }

    /// Start, end and id of every special token that is cut out, by position.
    fn chosen(
        &self,
        text: &str,
        reject: impl Fn(usize, usize) -> bool,
    ) -> Vec<(usize, usize, u32)> {
        let Some(search) = &self.search else { return Vec::new() };
        let mut found: Vec<(usize, usize)> = search
            .find_overlapping_iter(text)
            .map(|m| (m.pattern().as_usize(), m.start()))
            .filter(|&(rank, start)| !reject(start, start + self.patterns[rank].1))
            .collect();
        found.sort_unstable();
        let mut taken = std::collections::BTreeMap::new();
        for (rank, start) in found {
            let (id, len) = self.patterns[rank];
            let end = start + len;
            // Taken stretches are disjoint, so only the last one that starts before `end` can
            // overlap.
            let overlaps = taken
                .range(..end)
                .next_back()
                .is_some_and(|(_, &(other_end, _))| other_end > start);
            if !overlaps {
                taken.insert(start, (end, id));
            }
        }
        taken.into_iter().map(|(start, (end, id))| (start, end, id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(tokens: &[(u32, &str)], text: &'t str) -> Vec<Fragment<'t>> {
        SpecialMatcher::new(tokens.iter().copied()).unwrap().cut(text, |_, _| false)
    }

    #[test]
    fn the_longest_text_goes_first_even_when_a_shorter_one_starts_earlier() {
        use Fragment::{Special, Text};
        let tokens = [(1, "<a>"), (2, "a><b"), (3, "<b>")];
        assert_eq!(cut(&tokens, "<a><b>"), [Text("<"), Special(2), Text(">")]);
        assert_eq!(cut(&tokens, "x<a>"), [Text("x"), Special(1)]);
        assert_eq!(cut(&tokens, "<b><a>"), [Special(3), Special(1)]);
    }

    #[test]
    fn runs_are_cut_from_the_left_and_twins_have_one_id() {
        use Fragment::{Special, Text};
        let tokens = [(9, "aa"), (4, "aa"), (5, "")];
        assert_eq!(cut(&tokens, "aaaaab"), [Special(4), Special(4), Text("ab")]);
        assert_eq!(cut(&tokens, ""), []);
        assert_eq!(cut(&[], "aa"), [Text("aa")]);
    }

    #[test]
    fn a_rejected_find_stays_text() {
        let matcher = SpecialMatcher::new([(1, "aa")].into_iter()).unwrap();
        let fragments = matcher.cut("aaXaa", |start, _| start == 0);
        assert_eq!(fragments, [Fragment::Text("aaX"), Fragment::Special(1)]);
    }
}
