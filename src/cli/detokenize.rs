//! `pantheon detokenize`: ids to text.

use super::args::ModelArgs;
use super::{load, output, tokens_file};
use crate::tokenizer::Tokenizer;
use anyhow::Context;

const EXAMPLES: &str = "\
Examples:
  pantheon detokenize \"[9419, 11, 1814, 0]\"
  pantheon detokenize 9419 11 1814 0
  pantheon tokenize -m model.gguf \"Hello\" | pantheon detokenize -m model.gguf -";

/// Print the text of token ids, byte for byte
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Token ids, or a JSON list of them; `-` reads stdin
    #[arg(value_name = "IDS|-", required = true, allow_negative_numbers = true)]
    ids: Vec<String>,

    #[command(flatten)]
    model: ModelArgs,

    /// Show control tokens too
    #[arg(long)]
    special: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let ids = match args.ids.as_slice() {
        [dash] if dash == "-" => tokens_file::read_ids("-".as_ref())?,
        words => tokens_file::parse_ids(&words.join(" "))
            .context("expected token ids, such as [9419, 11] or 9419 11")?,
    };
    // How text is split does not matter here, so a file with an unknown rule will do.
    let gguf = args.model.open()?;
    let tokenizer = Tokenizer::from_gguf(&gguf, Some("qwen35"))?;
    // Padding rows of the head have no text, but a model can produce them.
    let rows = load::vocabulary_rows(&gguf).max(tokenizer.len());
    if let Some(id) = ids.iter().find(|id| **id as usize >= rows) {
        anyhow::bail!("token id {id}: expected an id below {rows}");
    }
    let visible = ids.iter().flat_map(|&id| tokenizer.visible_bytes(id, args.special));
    let mut bytes: Vec<u8> = visible.copied().collect();
    if output::on_terminal() {
        bytes.push(b'\n');
    }
    Ok(output::print_bytes(&bytes)?)
}
