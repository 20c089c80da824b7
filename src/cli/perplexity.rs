//! `pantheon perplexity`: how well a model predicts a text, by llama-perplexity's method.
//!
//! The text is cut into disjoint chunks of `ctx` tokens, each computed from an empty state. Of each
//! chunk the predictions made at positions `ctx / 2` to `ctx - 2` count, so that every one has half
//! a context to look at.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::args::{ComputeArgs, ModelArgs, PreArgs, whole};
use super::tokens_file::shown;
use super::{interrupt, load, output, tokens_file};
use crate::engine::{Engine, EngineOptions, Outputs, Run};
use crate::state::KvFormat;
use crate::tokenizer::Parse;

const EXAMPLES: &str = "\
Examples:
  pantheon perplexity -m model.gguf -f wiki.test.raw
  pantheon perplexity -m model.gguf -f text.txt --ctx 256 --chunks 20 --exact --json";

/// Measure how well a model predicts a text (the method of llama-perplexity)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The text; `-` reads stdin
    #[arg(short, long, value_name = "TEXT")]
    file: PathBuf,

    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    pre: PreArgs,
    #[command(flatten)]
    compute: ComputeArgs,

    /// Tokens of a chunk, 4 to 262144
    #[arg(short, long, value_name = "N", default_value_t = 512, visible_alias = "ctx-size")]
    #[arg(value_parser = whole(4..=*EngineOptions::CTX.end()))]
    ctx: usize,

    /// Chunks to use, at least 1; -1 uses all
    #[arg(long, value_name = "N", default_value = "-1", value_parser = most_chunks)]
    chunks: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A number of chunks; -1 is all of them, as in llama.cpp.
fn most_chunks(text: &str) -> Result<usize, String> {
    if text == "-1" {
        return Ok(usize::MAX);
    }
    whole(1..)(text).map_err(|expected| format!("{expected}, or -1 for all chunks"))
}

#[derive(Serialize)]
struct Report {
    ppl: f64,
    ppl_stderr: f64,
    nll: f64,
    chunks: usize,
    ctx: usize,
    scored: usize,
    seconds: f64,
    tok_s: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = tokens_file::read_text(&args.file)?;
    interrupt::listen();
    let gguf = args.model.open()?;
    let tokens = load::tokenizer(&gguf, &args.pre)?.encode(&text, Parse::UserDefined)?;
    // llama-perplexity refuses less than two chunks as well.
    if tokens.len() < 2 * args.ctx {
        anyhow::bail!(
            "{}: expected at least two chunks of {} tokens, found {} tokens; \
             use a longer text or a smaller --ctx",
            shown(&args.file),
            args.ctx,
            tokens.len()
        );
    }
    let chunks: Vec<&[u32]> = tokens.chunks_exact(args.ctx).take(args.chunks).collect();
    let step = load::output_rows(&gguf, args.ctx);
    let base = EngineOptions {
        ctx: args.ctx.max(16),
        chunk: step,
        max_outputs: step,
        ..EngineOptions::default()
    };
    let mut engine = load::engine(gguf, &args.compute.options(KvFormat::F32, base))?;
    let report = measure(&mut engine, &chunks, step)?;
    if args.json {
        return output::print_json(&report);
    }
    output::note(format_args!(
        "{} chunks of {} tokens, {} predictions, {:.1} s, {:.2} tokens/s",
        report.chunks, report.ctx, report.scored, report.seconds, report.tok_s
    ));
    Ok(output::print(&format!("PPL = {:.4} +/- {:.5}\n", report.ppl, report.ppl_stderr))?)
}

fn measure(engine: &mut Engine, chunks: &[&[u32]], step: usize) -> anyhow::Result<Report> {
    let bar = output::bar("perplexity", chunks.len());
    let start = Instant::now();
    let mut score = Score::default();
    for chunk in chunks {
        score_chunk(engine, chunk, step, &mut score)?;
        bar.set_message(format!("PPL {:.4}", score.perplexity().0));
        bar.inc(1);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (ppl, ppl_stderr) = score.perplexity();
    let ctx = chunks.first().map_or(0, |chunk| chunk.len());
    Ok(Report {
        ppl,
        ppl_stderr,
        nll: score.mean(),
        chunks: chunks.len(),
        ctx,
        scored: score.count,
        seconds,
        tok_s: (chunks.len() * ctx) as f64 / seconds,
    })
}

/// Adds the predictions of one chunk, computed from an empty state. Its last token is only
/// predicted.
fn score_chunk(
    engine: &mut Engine,
    chunk: &[u32],
    step: usize,
    score: &mut Score,
) -> anyhow::Result<()> {
    let first = chunk.len() / 2;
    let (unscored, scored) = chunk[..chunk.len() - 1].split_at(first);
    engine.reset(0);
    for tokens in unscored.chunks(step) {
        interrupt::check()?;
        engine.step(&[Run { sequence: 0, tokens, outputs: Outputs::None }])?;
    }
    let mut next = &chunk[first + 1..];
    for tokens in scored.chunks(step) {
        interrupt::check()?;
        engine.step(&[Run { sequence: 0, tokens, outputs: Outputs::All }])?;
        let (targets, rest) = next.split_at(tokens.len());
        for (row, &target) in targets.iter().enumerate() {
            score.add(-log_softmax(engine.logits(row), target as usize));
        }
        next = rest;
    }
    Ok(())
}

/// Logarithm of the probability of one token: f32 exponentials, f64 sum, as llama-perplexity does
/// it.
fn log_softmax(logits: &[f32], token: usize) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from((x - max).exp())).sum();
    f64::from(logits[token] - max) - sum.ln()
}

/// Sums of negative log likelihoods and of their squares.
#[derive(Default)]
struct Score {
    sum: f64,
    squares: f64,
    count: usize,
}

impl Score {
    fn add(&mut self, nll: f64) {
        self.sum += nll;
        self.squares += nll * nll;
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    /// Perplexity and its standard error.
    fn perplexity(&self) -> (f64, f64) {
        let variance = self.squares / self.count as f64 - self.mean().powi(2);
        let error = (variance.max(0.0) / (self.count as f64 - 1.0)).sqrt();
        let ppl = self.mean().exp();
        (ppl, if error.is_finite() { error * ppl } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_guess_has_the_perplexity_of_the_vocabulary() {
        let mut score = Score::default();
        for token in 0..7 {
            score.add(-log_softmax(&[-3.5; 7], token));
        }
        let (ppl, error) = score.perplexity();
        assert!((ppl - 7.0).abs() < 1e-6 && error < 1e-6, "{ppl} {error}");
    }

    #[test]
    fn the_standard_error_is_that_of_the_mean_times_the_perplexity() {
        let mut score = Score::default();
        [1.0, 2.0, 4.0, 5.0].into_iter().for_each(|nll| score.add(nll));
        let (ppl, error) = score.perplexity();
        // Mean 3, variance 2.5, error of the mean sqrt(2.5 / 3).
        assert!((ppl - 3f64.exp()).abs() < 1e-9);
        assert!((error - (2.5f64 / 3.0).sqrt() * 3f64.exp()).abs() < 1e-9);
    }

    #[test]
    fn probabilities_of_all_tokens_sum_to_one_even_for_large_logits() {
        let logits = [900.0, 898.5, -900.0, 899.25];
        let sum: f64 = (0..4).map(|t| log_softmax(&logits, t).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}
