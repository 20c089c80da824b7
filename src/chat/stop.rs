//! Stop strings in a stream of text.

use super::held_back;

/// What a piece of text led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// No stop string so far; this text is certain.
    No(String),
    /// A stop string came; this is the last text, which ends before it.
    Yes(String),
}

/// Looks for stop strings; how the text is cut into pieces changes nothing.
///
/// The first stop string to be complete counts; of several that end at the same place, the longest.
/// Text that may be the beginning of one is held back. Empty stop strings are ignored.
#[derive(Clone, Debug, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

impl StopMatcher {
    /// A matcher for those strings.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> StopMatcher {
        let stops = stops.into_iter().map(Into::into).filter(|stop: &String| !stop.is_empty());
        StopMatcher { stops: stops.collect(), ..StopMatcher::default() }
    }

    /// Takes the next piece. After a stop string, everything is swallowed.
    pub fn push(&mut self, piece: &str) -> Stopped {
        if self.stopped {
            return Stopped::Yes(String::new());
        }
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start))
        });
        if let Some((_, start)) = found.min() {
            self.stopped = true;
            self.held.truncate(start);
            return Stopped::Yes(std::mem::take(&mut self.held));
        }
        let held = self.stops.iter().map(|stop| held_back(&self.held, stop)).max().unwrap_or(0);
        let certain = self.held.len() - held;
        Stopped::No(self.held.drain(..certain).collect())
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of pieces up to a stop string, and whether one came.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut matcher = StopMatcher::new(stops.iter().copied());
        let mut text = String::new();
        for piece in pieces {
            match matcher.push(piece) {
                Stopped::No(more) => text += &more,
                Stopped::Yes(last) => return (text + &last, true),
            }
        }
        (text + &matcher.finish(), false)
    }

    fn check(stops: &[&str], pieces: &[&str], expected: &str, stopped: bool) {
        let expected = (expected.to_owned(), stopped);
        assert_eq!(run(stops, pieces), expected);
        let whole = pieces.concat();
        assert_eq!(run(stops, &[&whole]), expected, "whole");
        let chars: Vec<String> = whole.chars().map(String::from).collect();
        assert_eq!(
            run(stops, &chars.iter().map(String::as_str).collect::<Vec<_>>()),
            expected,
            "by character"
        );
    }

    #[test]
    fn nothing_leaks_and_nothing_is_swallowed() {
        check(&["TRE\nAAAA"], &["UNO DUE", " TRE"], "UNO DUE TRE", false);
        check(&["own fox"], &["The quick br", "own", " fox"], "The quick br", true);
        check(&["\n", "Alice:"], &[" Alice", "!"], " Alice!", false);
        check(&["\n", "Alice:"], &["Bob Alice", ": hi\n"], "Bob ", true);
        check(&["aab"], &["a", "aab"], "a", true);
        check(&["y"], &["x\ny"], "x\n", true);
        check(&["\n"], &["x\ny"], "x", true);
        check(&[], &["a", "b"], "ab", false);
        check(&["", "b"], &["a", "b"], "a", true);
        check(&[""], &["a", "b"], "ab", false);
    }

    #[test]
    fn a_part_of_a_joined_emoji_stops() {
        let family = "👩\u{200d}👧";
        check(&["👩"], &["hi ", family], "hi ", true);
        check(&["👩\u{200d}👦"], &["hi ", family, "!"], &format!("hi {family}!"), false);
    }

    #[test]
    fn the_first_to_be_complete_counts() {
        check(&["abcd", "bc"], &["xab", "c", "d"], "xa", true);
        check(&["c", "abc"], &["xabc"], "x", true);
        check(&["one", "two", "three", "four", "five"], &["six fi", "ve"], "six ", true);
    }

    #[test]
    fn after_a_stop_string_nothing_comes() {
        let mut matcher = StopMatcher::new(["b"]);
        assert_eq!(matcher.push("abc"), Stopped::Yes("a".to_owned()));
        assert_eq!(matcher.push("abc"), Stopped::Yes(String::new()));
        assert_eq!(matcher.finish(), "");
    }
}
