//! Separates a streamed answer's reasoning from its text.

use super::{THINK_END, THINK_START, held_back};

/// New text of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// What the model thinks.
    pub reasoning: String,
    /// What it says.
    pub answer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but blanks so far; an opening tag may follow.
    Start,
    /// After an opening tag: line ends are dropped.
    ReasoningStart,
    Reasoning,
    /// After a closing tag: line ends are dropped, and an opening tag may follow.
    AnswerStart,
    Answer,
}

/// Separates reasoning from answer, piece by piece; how the text is cut into pieces changes
/// nothing.
///
/// Reasoning ends at the first `</think>`. It begins at once if the prompt opened it, else at a
/// `<think>` before which there are only blanks. Once the answer has begun, tags are text. Line
/// ends next to the tags belong to neither part. Reasoning that is never closed stays reasoning.
#[derive(Clone, Debug)]
pub struct ReasoningSplitter {
    state: State,
    /// Text that may be the beginning of a tag, or line ends before one.
    held: String,
}

impl ReasoningSplitter {
    /// A splitter; `opened` says that the prompt ends inside the reasoning.
    pub fn new(opened: bool) -> ReasoningSplitter {
        let state = if opened { State::ReasoningStart } else { State::Start };
        ReasoningSplitter { state, held: String::new() }
    }

    /// Takes the next piece and returns what is now certain.
    pub fn push(&mut self, piece: &str) -> Delta {
        self.held.push_str(piece);
        let mut delta = Delta::default();
        while self.step(&mut delta) {}
        delta
    }

    /// Ends the answer and returns what was held back.
    pub fn finish(&mut self) -> Delta {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::ReasoningStart | State::Reasoning => {
                Delta { reasoning: held, answer: String::new() }
            }
            _ => Delta { reasoning: String::new(), answer: held },
        }
    }

    /// Whether the text so far ends inside reasoning.
    pub fn in_reasoning(&self) -> bool {
        matches!(self.state, State::ReasoningStart | State::Reasoning)
    }

    /// Moves text from `held` to `delta`; true if the state changed and there may be more to do.
    fn step(&mut self, delta: &mut Delta) -> bool {
        match self.state {
            State::Start | State::AnswerStart => {
                if self.state == State::AnswerStart {
                    self.drop_line_ends();
                }
                let text = self.held.trim_start();
                if let Some(rest) = text.strip_prefix(THINK_START) {
                    self.held = rest.to_owned();
                    self.state = State::ReasoningStart;
                    return true;
                }
                if THINK_START.starts_with(text) {
                    return false;
                }
                self.state = State::Answer;
                true
            }
            State::ReasoningStart => {
                self.drop_line_ends();
                if self.held.is_empty() {
                    return false;
                }
                self.state = State::Reasoning;
                true
            }
            State::Reasoning => self.reason(delta),
            State::Answer => {
                delta.answer.push_str(&std::mem::take(&mut self.held));
                false
            }
        }
    }

    fn reason(&mut self, delta: &mut Delta) -> bool {
        if let Some((reasoning, rest)) = self.held.split_once(THINK_END) {
            delta.reasoning.push_str(reasoning.trim_end_matches('\n'));
            self.held = rest.to_owned();
            self.state = State::AnswerStart;
            return true;
        }
        let certain = self.held.len() - held_back(&self.held, THINK_END);
        let certain = self.held[..certain].trim_end_matches('\n').len();
        delta.reasoning.extend(self.held.drain(..certain));
        false
    }

    fn drop_line_ends(&mut self) {
        let line_ends = self.held.len() - self.held.trim_start_matches('\n').len();
        self.held.drain(..line_ends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and answer of pieces.
    fn split(opened: bool, pieces: &[&str]) -> (String, String) {
        let mut splitter = ReasoningSplitter::new(opened);
        let mut deltas: Vec<Delta> = pieces.iter().map(|piece| splitter.push(piece)).collect();
        deltas.push(splitter.finish());
        let join = |part: fn(&Delta) -> &str| deltas.iter().map(part).collect::<String>();
        (join(|d| &d.reasoning), join(|d| &d.answer))
    }

    /// Checks a text whole, character by character, and cut in two anywhere.
    fn check(opened: bool, text: &str, reasoning: &str, answer: &str) {
        let expected = (reasoning.to_owned(), answer.to_owned());
        assert_eq!(split(opened, &[text]), expected, "{text:?}");
        let chars: Vec<String> = text.chars().map(String::from).collect();
        let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
        assert_eq!(split(opened, &chars), expected, "{text:?} by character");
        for (at, _) in text.char_indices() {
            assert_eq!(
                split(opened, &[&text[..at], &text[at..]]),
                expected,
                "{text:?} cut at {at}"
            );
        }
    }

    #[test]
    fn the_closing_tag_separates_however_it_is_cut() {
        assert_eq!(split(true, &["plan</th", "ink>\n\nhi"]), ("plan".to_owned(), "hi".to_owned()));
        check(true, "plan</think>\n\nhi", "plan", "hi");
        check(true, "\nplan\n\n</think>\n\nhi\n", "plan", "hi\n");
        check(true, "a < b </thin </think>c < d", "a < b </thin ", "c < d");
        check(true, "</think>\n\nhi", "", "hi");
        check(true, "a\nb</think>c", "a\nb", "c");
    }

    #[test]
    fn unfinished_reasoning_stays_reasoning() {
        check(true, "plan", "plan", "");
        check(true, "plan</thi", "plan</thi", "");
        check(true, "plan\n", "plan\n", "");
        check(true, "", "", "");
        check(false, "<think>plan", "plan", "");
    }

    #[test]
    fn an_answer_without_reasoning_is_all_answer() {
        check(false, "hi <think>x</think>", "", "hi <think>x</think>");
        check(false, "\n\nhi </think> there", "", "\n\nhi </think> there");
        check(false, " <thinking>", "", " <thinking>");
        check(false, " <", "", " <");
        check(false, "  ", "", "  ");
        check(false, "\n<think>\nplan\n</think>\n\nhi", "plan", "hi");
    }

    #[test]
    fn a_second_block_counts_only_before_the_answer() {
        check(true, "a</think>\n<think>b</think>c", "ab", "c");
        check(true, "a</think>b<think>c</think>d", "a", "b<think>c</think>d");
        check(true, "a</think> b", "a", " b");
    }

    #[test]
    fn text_is_not_held_longer_than_needed() {
        let mut splitter = ReasoningSplitter::new(true);
        assert_eq!(splitter.push("plan <").reasoning, "plan ");
        assert_eq!(splitter.push("b").reasoning, "<b");
        assert!(splitter.in_reasoning());
        assert_eq!(splitter.push("</think>\nhi").answer, "hi");
        assert_eq!(splitter.push(" <").answer, " <");
        assert!(!splitter.in_reasoning());
    }
}
