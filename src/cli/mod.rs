//! The command line: one file per command, results on stdout, everything else on stderr.
//!
//! Exit codes: 0 done (also when the reader of stdout went away), 1 failed, 2 used wrongly, 130
//! ended by Ctrl-C before there was a result.

mod answer;
mod args;
mod bench;
mod chat;
mod completions;
mod configure;
mod context;
mod demo;
mod detokenize;
mod doctor;
mod generate;
mod inspect;
mod interrupt;
mod load;
mod logits;
mod mix;
mod models;
mod output;
mod partial;
mod perplexity;
mod plan;
mod prompt;
mod sampler;
mod screen;
mod session;
mod shape_match;
mod synth;
mod table;
mod tokenize;
mod tokens_file;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use interrupt::Interrupted;

const EXAMPLES: &str = "\
Examples:
  pantheon generate                               the built-in demo model tells a story
  pantheon generate -m model.gguf \"Why is the sky blue?\"
  pantheon chat -m model.gguf
  pantheon inspect model.gguf
  pantheon doctor

Every command explains itself with `pantheon COMMAND --help`.";

/// Runs models of the qwen35moe family from GGUF files, with code specialised for their shape.
#[derive(Parser)]
#[command(name = "pantheon", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Generate(Box<generate::Args>),
    Chat(Box<chat::Args>),
    Tokenize(tokenize::Args),
    Detokenize(detokenize::Args),
    Logits(logits::Args),
    Perplexity(perplexity::Args),
    Inspect(inspect::Args),
    Configure(configure::Args),
    Plan(plan::Args),
    Bench(bench::Args),
    Synth(synth::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

impl Command {
    fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Generate(args) => generate::run(args),
            Self::Chat(args) => chat::run(args),
            Self::Tokenize(args) => tokenize::run(args),
            Self::Detokenize(args) => detokenize::run(args),
            Self::Logits(args) => logits::run(args),
            Self::Perplexity(args) => perplexity::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Configure(args) => configure::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Synth(args) => synth::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Completions(args) => completions::run(args),
        }
    }
}

/// The command was used wrongly: exit code 2, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// A [`Usage`] error to return.
fn usage<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(Usage(message.into()).into())
}

/// The command line: as with getopt, an option takes the word behind it whatever that begins with,
/// so that a negative number is judged by the option's own rule. `dashed`: whether the prompt may
/// begin with a dash.
fn command(dashed: bool) -> clap::Command {
    let value = |arg: Arg| match arg.is_positional() || !arg.get_action().takes_values() {
        true => arg,
        false => arg.allow_hyphen_values(true),
    };
    let prompt = |prompt: Arg| prompt.allow_hyphen_values(dashed);
    Cli::command()
        .mut_subcommands(|command| command.mut_args(value))
        .mut_subcommand("generate", |generate| generate.mut_arg("prompt", prompt))
}

/// Reads a command line. A prompt may begin with a dash if it cannot be taken for an option.
fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let read = |dashed| {
        let mut matches = command(dashed).try_get_matches_from(words)?;
        Cli::from_arg_matches_mut(&mut matches)
    };
    match read(false) {
        Err(error) if is_dashed_text(unexpected(&error)) => read(true),
        parsed => parsed,
    }
}

/// What an error says was unexpected.
fn unexpected(error: &clap::Error) -> &str {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word,
        _ => "",
    }
}

/// Whether a word begins with a dash and yet can be no option, such as `-5 is`.
fn is_dashed_text(word: &str) -> bool {
    let mut rest = word.strip_prefix('-').unwrap_or_default().chars();
    rest.next().is_some_and(|c| !c.is_alphabetic() && c != '-')
}

/// Parses the arguments of the process, runs the command and says how it went.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = parse(&words).unwrap_or_else(|error| error.exit());
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        output::note(format_args!("{interrupted}"));
        return ExitCode::from(interrupt::ENDED);
    }
    output::note(format_args!("error: {}", chain(error)));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// Whether the reader of stdout went away.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// An error and its causes on lines of their own; a cause that its effect already quotes is left
/// out.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str("\n  caused by: ");
            text.push_str(&cause.replace('\n', "\n  "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_command_line_is_consistent() {
        [false, true].into_iter().for_each(|dashed| command(dashed).debug_assert());
    }

    #[test]
    fn text_may_begin_with_a_dash_if_it_is_no_option() {
        for text in ["-5", "-5 is", "- item", "-.5", "-\u{a0}x"] {
            assert!(is_dashed_text(text), "{text}");
        }
        for word in ["", "-", "--", "-v", "--temp", "-é", "5", "5-3", "--5"] {
            assert!(!is_dashed_text(word), "{word}");
        }
    }

    #[test]
    fn causes_are_printed_once() {
        let error = Err::<(), _>(io::Error::other("deep")).context("middle: deep").context("outer");
        let error = error.unwrap_err();
        assert_eq!(chain(&error), "outer\n  caused by: middle: deep");
    }
}
