//! `pantheon tokenize`: text to ids.

use std::path::PathBuf;

use super::args::{ModelArgs, PreArgs};
use super::{load, output, tokens_file, usage};
use crate::tokenizer::Parse;

const EXAMPLES: &str = "\
Examples:
  pantheon tokenize \"Hello, world!\"
  pantheon tokenize -m model.gguf --special \"<|im_start|>user\"
  pantheon tokenize -m model.gguf - < text.txt";

/// Print the token ids of a text as a JSON list
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The text; `-` reads stdin to its end
    #[arg(value_name = "TEXT|-", required_unless_present = "file", allow_hyphen_values = true)]
    text: Option<String>,

    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    pre: PreArgs,

    /// Read the text from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,

    /// Recognise control tokens in the text
    #[arg(long)]
    special: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = match (&args.text, &args.file) {
        (_, Some(path)) => tokens_file::read_text(path)?,
        (Some(dash), None) if dash == "-" => tokens_file::read_text("-".as_ref())?,
        (Some(text), None) => text.clone(),
        (None, None) => return usage("no text: give TEXT, - for stdin, or -f FILE"),
    };
    let tokenizer = load::tokenizer(&args.model.open()?, &args.pre)?;
    let parse = if args.special { Parse::Special } else { Parse::UserDefined };
    output::print_json(&tokenizer.encode(&text, parse)?)
}
