//! `pantheon bench`: how many tokens a second a model computes.
//!
//! Every measurement is made once to warm up and then `runs` times; the medians are reported.
//! Tokens are drawn evenly from the whole vocabulary, new ones at each step, so that all experts
//! are used.

use std::str::FromStr;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value as Json, json};

use super::args::{ComputeArgs, ModelArgs, whole};
use super::table::Facts;
use super::{interrupt, load, output, usage};
use crate::engine::{Engine, EngineOptions, Outputs, Run};
use crate::memory::{Bytes, HostMemory};
use crate::state::KvFormat;

const EXAMPLES: &str = "\
Examples:
  pantheon bench -m model.gguf
  pantheon bench -m model.gguf -p 2048 -n 0
  pantheon bench -m model.gguf -p 0 -n 32 -d 4096 --batch 1,2,4,8,16 -r 5 --json";

/// Measure tokens per second: prompt (pp), generation (tg), several sequences at once (batch)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    compute: ComputeArgs,

    /// Tokens of the prompt; 0 leaves the measurement out
    #[arg(short = 'p', long, value_name = "N", default_value_t = 512, value_parser = whole(0..))]
    n_prompt: usize,

    /// Tokens to generate; 0 leaves the measurement out
    #[arg(short = 'n', long, value_name = "N", default_value_t = 64, value_parser = whole(0..))]
    n_gen: usize,

    /// Tokens that are in every sequence already
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = whole(0..))]
    depth: usize,

    /// Numbers of sequences that generate at once, such as 1,2,4,8,16
    #[arg(long, value_name = "LIST", default_value = "")]
    batch: Batches,

    /// Runs of each measurement, up to 1000
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = whole(1..=1000))]
    runs: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Numbers of sequences.
#[derive(Clone, Debug)]
struct Batches(Vec<usize>);

impl FromStr for Batches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let sizes = items.map(|item| match item.parse() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(format!("expected numbers from 1, with commas between, found {item:?}")),
        });
        Ok(Self(sizes.collect::<Result<_, _>>()?))
    }
}

/// Most tokens of one step, and so most sequences.
const CHUNK: usize = 512;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.n_prompt == 0 && args.n_gen == 0 {
        return usage("-p 0 -n 0: nothing to measure");
    }
    let gguf = args.model.open()?;
    let sequences = args.batch.0.iter().copied().max().unwrap_or(1);
    let longest = args.depth.saturating_add(args.n_prompt.max(args.n_gen.saturating_add(1)));
    let most = *EngineOptions::CTX.end();
    if longest > most {
        return usage(format!(
            "-d, -p and -n ask for {longest} tokens in a sequence; expected at most {most}"
        ));
    }
    let base = EngineOptions {
        ctx: longest.max(16),
        sequences,
        chunk: CHUNK,
        max_outputs: sequences,
        ..EngineOptions::default()
    };
    let options = args.compute.options(KvFormat::F16, base);
    let engine = load::engine_with(gguf, &options, "-d, -p and -n for together at most")?;
    interrupt::listen();
    let mut bench = Bench { engine, rng: SmallRng::seed_from_u64(0), depth: args.depth };
    let pp = bench.median(args.runs, args.n_prompt, Bench::prompt)?;
    let tg = bench.median(args.runs, args.n_gen, |bench, n| bench.generate(1, n))?;
    let mut batches = Map::new();
    for &k in &args.batch.0 {
        let rate = bench.median(args.runs, args.n_gen, |bench, n| bench.generate(k, n))?;
        batches.insert(k.to_string(), json!(rate));
    }
    report(args, &bench.engine, pp, tg, batches)
}

struct Bench {
    engine: Engine,
    rng: SmallRng,
    depth: usize,
}

impl Bench {
    /// Median rate of `runs` measurements of `n` tokens, after one that does not count; nothing for
    /// no tokens.
    fn median(
        &mut self,
        runs: usize,
        n: usize,
        mut measure: impl FnMut(&mut Self, usize) -> anyhow::Result<f64>,
    ) -> anyhow::Result<Option<f64>> {
        if n == 0 {
            return Ok(None);
        }
        measure(self, n)?;
        let mut rates = Vec::new();
        for _ in 0..runs {
            rates.push(measure(self, n)?);
        }
        rates.sort_by(f64::total_cmp);
        let median = (rates[(runs - 1) / 2] + rates[runs / 2]) / 2.0;
        Ok(Some((median * 100.0).round() / 100.0))
    }

    /// Tokens per second of a prompt of `n` tokens.
    fn prompt(&mut self, n: usize) -> anyhow::Result<f64> {
        self.deepen(1)?;
        let tokens = self.tokens(n);
        let start = Instant::now();
        self.prefill(0, &tokens)?;
        Ok(n as f64 / start.elapsed().as_secs_f64())
    }

    /// Tokens per second of `k` sequences together, each generating `n` tokens.
    fn generate(&mut self, k: usize, n: usize) -> anyhow::Result<f64> {
        self.deepen(k)?;
        let start = Instant::now();
        for _ in 0..n {
            interrupt::check()?;
            let tokens = self.tokens(k);
            let runs: Vec<Run<'_>> = tokens
                .chunks(1)
                .enumerate()
                .map(|(sequence, tokens)| Run { sequence, tokens, outputs: Outputs::Last })
                .collect();
            self.engine.step(&runs)?;
        }
        Ok((k * n) as f64 / start.elapsed().as_secs_f64())
    }

    /// Starts `k` sequences anew, with `depth` tokens each.
    fn deepen(&mut self, k: usize) -> anyhow::Result<()> {
        for sequence in 0..k {
            self.engine.reset(sequence);
            let tokens = self.tokens(self.depth);
            self.prefill(sequence, &tokens)?;
        }
        Ok(())
    }

    fn prefill(&mut self, sequence: usize, tokens: &[u32]) -> anyhow::Result<()> {
        self.engine.prefill(sequence, tokens, |_| !interrupt::requested())?;
        Ok(interrupt::check()?)
    }

    fn tokens(&mut self, n: usize) -> Vec<u32> {
        let rows = u32::try_from(self.engine.shape().n_vocab).unwrap_or(u32::MAX);
        (0..n).map(|_| self.rng.random_range(0..rows)).collect()
    }
}

fn report(
    args: &Args,
    engine: &Engine,
    pp: Option<f64>,
    tg: Option<f64>,
    batches: Map<String, Json>,
) -> anyhow::Result<()> {
    let options = engine.options();
    if args.json {
        return output::print_json(&json!({
            "engine": "pantheon",
            "version": env!("CARGO_PKG_VERSION"),
            "file": engine.gguf().name(),
            "model": engine.shape().name,
            "threads": engine.threads(),
            "isa": engine.isa().to_string(),
            "kv": options.kv.to_string(),
            "exact": options.exact,
            "depth": args.depth,
            "pp": args.n_prompt,
            "pp_tok_s": pp,
            "tg": args.n_gen,
            "tg_tok_s": tg,
            "batch_tok_s": batches,
            "runs": args.runs,
        }));
    }
    let mut facts = Facts::default();
    let shown = |rate: f64| format!("{rate:.2} tokens/s");
    facts.add("model", format!("{} ({})", engine.gguf().name(), engine.shape().name));
    let exact = if options.exact { ", exact" } else { "" };
    facts.add(
        "computed with",
        format!("{} threads, {}, KV {}{exact}", engine.threads(), engine.isa(), options.kv),
    );
    let depth = if args.depth > 0 { format!(" at depth {}", args.depth) } else { String::new() };
    if let Some(rate) = pp {
        facts.add(format!("pp {}{depth}", args.n_prompt), shown(rate));
    }
    if let Some(rate) = tg {
        facts.add(format!("tg {}{depth}", args.n_gen), shown(rate));
    }
    for (k, rate) in &batches {
        if let Some(rate) = rate.as_f64() {
            facts.add(format!("tg {}{depth}, batch {k}", args.n_gen), shown(rate));
        }
    }
    if let Some(peak) = HostMemory::read().peak {
        facts.add("memory", format!("{} at most", Bytes(peak)));
    }
    Ok(output::print(&facts.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_positive_numbers() {
        assert_eq!("1, 2,16".parse::<Batches>().unwrap().0, [1, 2, 16]);
        assert_eq!("".parse::<Batches>().unwrap().0, [] as [usize; 0]);
        assert!("1,0".parse::<Batches>().is_err());
        assert!("two".parse::<Batches>().is_err());
    }
}
