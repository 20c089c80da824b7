//! One answer: the prompt read, tokens chosen one by one, their text handed on as it becomes
//! certain.

use std::io;
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::interrupt;
use super::output::rate;
use super::session::Session;
use crate::chat::{Delta, ReasoningSplitter, StopMatcher, Stopped};
use crate::memory::{Bytes, HostMemory};
use crate::sampling::Sampler;
use crate::tokenizer::{Tokenizer, Utf8Stream};

/// How many tokens may be generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Limit {
    /// Until the context is full.
    #[default]
    Context,
    /// That many, also beyond the context, where attention slides over the last tokens.
    Tokens(usize),
    /// Without end.
    Endless,
}

impl FromStr for Limit {
    type Err = String;

    /// llama.cpp's numbers: -1 is without end, -2 until the context is full.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<i64>() {
            Ok(-1) => Ok(Self::Endless),
            Ok(-2) => Ok(Self::Context),
            Ok(n @ 0..) => Ok(Self::Tokens(usize::try_from(n).unwrap_or(usize::MAX))),
            _ => {
                Err("expected a number of tokens, -1 (no limit) or -2 (until the context is full)"
                    .into())
            }
        }
    }
}

/// When an answer ends, and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) limit: Limit,
    /// Texts that end the answer.
    pub(super) stops: &'a [String],
    /// Run on through the tokens that end an answer.
    pub(super) ignore_eos: bool,
    pub(super) reasoning: Reasoning,
}

/// Whether an answer may begin with reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// No: all text is the answer's.
    None,
    /// It may, if the model opens it.
    Possible,
    /// It does: the prompt opened it.
    Opened,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The model ended it, or a stop text came.
    Stop,
    /// The number of tokens was reached, or the context is full.
    Length,
    /// Ctrl-C.
    Interrupted,
}

impl Finish {
    /// Name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Interrupted => "interrupted",
        }
    }
}

/// An answer that has ended.
pub(super) struct Answer {
    /// Every token chosen, the one that ended it included.
    pub(super) ids: Vec<u32>,
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) finish: Finish,
    pub(super) timings: Timings,
}

/// How long an answer took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timings {
    /// Tokens of the prompt that had to be computed.
    pub(super) prompt: usize,
    pub(super) prompt_time: Duration,
    pub(super) generated: usize,
    pub(super) generated_time: Duration,
}

/// Reads `prompt` and generates an answer. `sink` gets the text piece by piece; if it fails, so
/// does the answer.
pub(super) fn answer(
    session: &mut Session,
    prompt: &[u32],
    sampler: &mut Sampler,
    rules: &Rules<'_>,
    mut sink: impl FnMut(&Delta) -> io::Result<()>,
) -> anyhow::Result<Answer> {
    let start = Instant::now();
    let read = session.read(prompt)?;
    let mut timings = Timings { prompt: read.computed, ..Timings::default() };
    timings.prompt_time = start.elapsed();
    let start = Instant::now();
    let room = match rules.limit {
        Limit::Context => session.engine().options().ctx - prompt.len(),
        Limit::Tokens(n) => n,
        Limit::Endless => usize::MAX,
    };
    let mut text = Text::new(rules);
    let mut ids = Vec::new();
    let finish = loop {
        // Without logits there is nothing to choose from.
        if !read.complete || interrupt::requested() {
            break Finish::Interrupted;
        }
        if ids.len() >= room {
            break Finish::Length;
        }
        let id = sampler.sample(session.logits())?;
        sampler.accept(id);
        ids.push(id);
        if session.tokenizer().is_end(id) && !rules.ignore_eos {
            break Finish::Stop;
        }
        let (delta, stopped) = text.push(session.tokenizer(), id);
        sink(&delta)?;
        if stopped {
            break Finish::Stop;
        }
        if ids.len() < room {
            session.push(id)?;
        }
    };
    sink(&text.finish())?;
    timings.generated = ids.len();
    timings.generated_time = start.elapsed();
    let (text, reasoning) = (text.answer, text.reasoning);
    Ok(Answer { ids, text, reasoning, finish, timings })
}

/// From token bytes to the parts of an answer: whole characters, up to a stop text, reasoning
/// apart.
struct Text {
    characters: Utf8Stream,
    stops: StopMatcher,
    splitter: Option<ReasoningSplitter>,
    answer: String,
    reasoning: String,
}

impl Text {
    fn new(rules: &Rules<'_>) -> Self {
        let splitter = match rules.reasoning {
            Reasoning::None => None,
            Reasoning::Possible => Some(ReasoningSplitter::new(false)),
            Reasoning::Opened => Some(ReasoningSplitter::new(true)),
        };
        Self {
            characters: Utf8Stream::default(),
            stops: StopMatcher::new(rules.stops),
            splitter,
            answer: String::new(),
            reasoning: String::new(),
        }
    }

    /// Takes a token; returns what is now certain, and whether a stop text came.
    fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> (Delta, bool) {
        let text = self.characters.push(tokenizer.visible_bytes(id, false));
        let (text, stopped) = match self.stops.push(&text) {
            Stopped::No(text) => (text, false),
            Stopped::Yes(text) => (text, true),
        };
        let delta = self.split(&text);
        (self.keep(delta), stopped)
    }

    /// Ends the text; returns what was held back.
    fn finish(&mut self) -> Delta {
        let mut text = match self.stops.push(&self.characters.finish()) {
            Stopped::No(text) | Stopped::Yes(text) => text,
        };
        text += &self.stops.finish();
        let mut delta = self.split(&text);
        if let Some(splitter) = &mut self.splitter {
            let rest = splitter.finish();
            delta.reasoning += &rest.reasoning;
            delta.answer += &rest.answer;
        }
        self.keep(delta)
    }

    fn split(&mut self, text: &str) -> Delta {
        match &mut self.splitter {
            Some(splitter) => splitter.push(text),
            None => Delta { reasoning: String::new(), answer: text.to_owned() },
        }
    }

    fn keep(&mut self, delta: Delta) -> Delta {
        self.answer += &delta.answer;
        self.reasoning += &delta.reasoning;
        delta
    }
}

impl Timings {
    /// Tokens, rates and memory, for the line that closes an answer.
    pub(super) fn summary(&self, session: &Session) -> String {
        let memory = session.engine().memory();
        let resident = HostMemory::read().resident;
        let resident =
            resident.map_or_else(String::new, |bytes| format!("{} resident, ", Bytes(bytes)));
        format!(
            "read {} tokens, {} | generated {} tokens, {} | memory {resident}weights {}, KV {}, \
             states {}, buffers {}",
            self.prompt,
            rate(self.prompt, self.prompt_time.as_secs_f64()),
            self.generated,
            rate(self.generated, self.generated_time.as_secs_f64()),
            Bytes(memory.weights),
            Bytes(memory.kv),
            Bytes(memory.states),
            Bytes(memory.arena),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_llama_cpp() {
        assert_eq!("7".parse(), Ok(Limit::Tokens(7)));
        assert_eq!("0".parse(), Ok(Limit::Tokens(0)));
        assert_eq!("-1".parse(), Ok(Limit::Endless));
        assert_eq!("-2".parse(), Ok(Limit::Context));
        for bad in ["-3", "x", "", "1.5"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
