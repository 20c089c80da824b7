//! `pantheon synth`: a file of a model's true shape with random weights, for speed tests.

mod fill;
mod header;
mod tensors;
mod vocabulary;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use pantheon_codegen::ModelSpec;
use pantheon_codegen::mix::{self, Mix};
use pantheon_codegen::plan::Stored;

use super::args::{threads, whole_of};
use super::partial::Partial;
use super::{interrupt, models, output, usage};
use crate::cpu;
use crate::gguf::{TensorInfo, Writer};
use crate::memory::Bytes;
use crate::quant::GgmlType;
use fill::Source;
use tensors::Fill;

const EXAMPLES: &str = "\
Examples:
  pantheon synth --model tiny --quant q8_0 --out tiny.gguf
  pantheon synth --model nex-n2-mini --quant q4_k_m --out nex.gguf
  pantheon synth --shapes benches/shapes.toml --model nex-n2-mini-8l --quant q4_k_m \\
      --out nex8.gguf";

/// Write a GGUF file with random weights: the true shape of a model, valid blocks, a vocabulary of
/// bytes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Model: one that is compiled in, or one of --shapes
    #[arg(long, value_name = "NAME")]
    model: String,

    /// Mix of tensor types
    #[arg(long, value_name = "MIX", value_parser = known_mixes())]
    quant: String,

    /// File to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,

    /// Model list to take the shape from, in the form of model.toml [default: the compiled-in
    /// models]
    #[arg(long, value_name = "FILE.toml")]
    shapes: Option<PathBuf>,

    /// Seed of the random numbers: the same seed gives the same file
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole_of::<u64>(0..))]
    seed: u64,

    /// Threads, at most four for each core [default: the cores available to the process]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

fn known_mixes() -> PossibleValuesParser {
    mix::names().collect::<Vec<_>>().into()
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.out.exists() && !args.force {
        return usage(format!(
            "{}: the file exists; give --force to overwrite it",
            args.out.display()
        ));
    }
    let model = models::find(models::list(args.shapes.as_deref())?, Some(&args.model))?;
    let shape = models::shape_of(&model);
    if shape.n_vocab < vocabulary::SMALLEST {
        anyhow::bail!(
            "{}: n_vocab is {}, but a vocabulary of bytes and special tokens needs at least {}",
            args.model,
            shape.n_vocab,
            vocabulary::SMALLEST
        );
    }
    let mix = mix::lookup(&args.quant).unwrap_or_else(|| unreachable!("checked by the parser"));
    interrupt::listen();
    let start = Instant::now();
    let partial = Partial::create(&args.out)?;
    let written = write(args, &model, mix, &partial);
    // Says more than the error that it led to.
    interrupt::check()?;
    let bytes = written.with_context(|| partial.problem())?;
    partial.keep()?;
    let rate = bytes as f64 / start.elapsed().as_secs_f64();
    output::note(format_args!(
        "wrote {}: {} of {}, {}/s",
        args.out.display(),
        Bytes(bytes),
        mix.name,
        Bytes(rate as u64)
    ));
    Ok(())
}

fn write(args: &Args, model: &ModelSpec, mix: &Mix, partial: &Partial) -> anyhow::Result<u64> {
    let tensors = tensors::list(model, mix);
    let shape = models::shape_of(model);
    let mut writer = Writer::new();
    header::write_keys(&mut writer, &args.model, &shape, mix);
    vocabulary::write_keys(&mut writer, shape.n_vocab);
    for (tensor, _) in &tensors {
        writer.tensor(&tensor.name, &tensor.ne, ty(tensor)?)?;
    }
    let bytes: u64 = writer.tensors().iter().map(|tensor| tensor.bytes).sum();
    let bar = output::byte_bar("writing", bytes);
    let threads = args.threads.unwrap_or_else(cpu::default_threads);
    let mut sources =
        tensors.iter().zip(0..).map(|((_, fill), i)| (*fill, fill::mix(args.seed, i)));
    let mut out = BufWriter::with_capacity(1 << 16, partial.file());
    let written = writer.write(&mut out, |tensor, out| {
        let (fill, seed) = sources.next().unwrap_or((Fill::Ones, 0));
        source(tensor, fill, seed).write(threads, out, |n| {
            bar.inc(n as u64);
            interrupt::check().map_err(io::Error::other)
        })
    })?;
    out.flush()?;
    Ok(written)
}

fn ty(tensor: &Stored) -> anyhow::Result<GgmlType> {
    GgmlType::from_name(&tensor.ty).with_context(|| format!("{}: type {}", tensor.name, tensor.ty))
}

fn source(tensor: &TensorInfo, fill: Fill, seed: u64) -> Source {
    let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Source {
        ty: tensor.ty,
        fill,
        k: narrow(tensor.ne[0]),
        rows: narrow(tensor.ne[1..].iter().product()),
        seed,
    }
}
