//! `pantheon logits`: the logits after every token of a prompt, as a NumPy file.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use npyz::WriterBuilder;
use pantheon_codegen::plan::MAX_COLUMNS;

use super::args::{ComputeArgs, ModelArgs, whole};
use super::partial::Partial;
use super::tokens_file::shown;
use super::{interrupt, load, output, tokens_file, usage};
use crate::engine::{Engine, EngineOptions, Outputs, Run};
use crate::state::KvFormat;

const EXAMPLES: &str = "\
Examples:
  pantheon logits -m model.gguf tokens.json logits.npy
  pantheon logits -m model.gguf --exact --chunk 1 tokens.json logits.npy";

/// Write the logits after every token of a prompt, as float32 [tokens, vocabulary] in NumPy's
/// format
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// JSON list of token ids; `-` reads stdin
    #[arg(value_name = "TOKENS.json")]
    tokens: PathBuf,

    /// File to write
    #[arg(value_name = "OUT.npy")]
    out: PathBuf,

    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    compute: ComputeArgs,

    /// Tokens computed in one step, 1 to 512 [default: as many as memory allows]. The result is the
    /// same for any number
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_COLUMNS))]
    chunk: Option<usize>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let tokens = tokens_file::read_ids(&args.tokens)?;
    if tokens.is_empty() {
        return usage(format!("{}: expected at least one token id", shown(&args.tokens)));
    }
    let most = *EngineOptions::CTX.end();
    if tokens.len() > most {
        let (file, found) = (shown(&args.tokens), tokens.len());
        return usage(format!("{file}: expected at most {most} token ids, found {found}"));
    }
    interrupt::listen();
    let gguf = args.model.open()?;
    let chunk = args.chunk.unwrap_or_else(|| load::output_rows(&gguf, tokens.len()));
    let base = EngineOptions {
        ctx: tokens.len().max(16),
        chunk,
        max_outputs: chunk,
        ..EngineOptions::default()
    };
    let options = args.compute.options(KvFormat::F32, base);
    let mut engine = load::engine_with(gguf, &options, "a list of token ids no longer than")?;
    let partial = Partial::create(&args.out)?;
    write(&mut engine, &tokens, chunk, &partial)?;
    partial.keep()
}

fn write(
    engine: &mut Engine,
    tokens: &[u32],
    chunk: usize,
    partial: &Partial,
) -> anyhow::Result<()> {
    let n_vocab = engine.shape().n_vocab;
    let problem = || partial.problem();
    let mut file = BufWriter::new(partial.file());
    let mut npy = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&[tokens.len() as u64, n_vocab as u64])
        .writer(&mut file)
        .begin_nd()
        .with_context(problem)?;
    let bar = output::bar("logits", tokens.len());
    for part in tokens.chunks(chunk) {
        interrupt::check()?;
        engine.step(&[Run { sequence: 0, tokens: part, outputs: Outputs::All }])?;
        for row in 0..part.len() {
            npy.extend(engine.logits(row).iter().copied()).with_context(problem)?;
        }
        bar.inc(part.len() as u64);
    }
    npy.finish().with_context(problem)?;
    file.flush().with_context(problem)
}
