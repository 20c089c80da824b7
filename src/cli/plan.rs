//! `pantheon plan`: what was decided about a model when the program was built, and what a token
//! costs.

use std::path::PathBuf;

use pantheon_codegen::plan::Stored;
use pantheon_codegen::{ModelSpec, Plan};

use super::{models, output};
use crate::cpu;
use crate::engine::{Engine, EngineOptions, LoadError};
use crate::gguf::Gguf;
use crate::memory::Bytes;
use crate::model::Shape;
use crate::weights::FileShape;

const EXAMPLES: &str = "\
Examples:
  pantheon plan                          the first model that is compiled in
  pantheon plan --model tiny --bandwidth 20
  pantheon plan -m model.gguf            with the types that a file holds";

/// Print the plan of a model: layers, stages, segments, kernels, buffers, bytes per token, floor
/// time
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Model [default: the one of the file's shape, else the first that is compiled in]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// GGUF file whose types the figures assume, instead of the model's reference mix
    #[arg(short = 'm', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Memory bandwidth for the floor times, in GB/s [default: 4800, an H200]
    #[arg(long, value_name = "GB/S", value_parser = bandwidth)]
    bandwidth: Option<f64>,

    /// Model list to plan for, in the form of model.toml [default: the compiled-in models]
    #[arg(long, value_name = "FILE.toml")]
    shapes: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let models = models::list(args.shapes.as_deref())?;
    let file = args.file.as_deref().map(Gguf::open).transpose()?;
    let model = match (&args.model, &file) {
        (None, Some(gguf)) => {
            // The names live as long as the process, which ends with this command.
            let named = |m: &ModelSpec| {
                let name = String::leak(m.name.clone());
                Shape { name, ..models::shape_of(m) }
            };
            let shapes: Vec<_> = models.iter().map(named).collect();
            let chosen = FileShape::read(gguf)?.choose(gguf.name(), &shapes)?;
            models.into_iter().nth(chosen).unwrap_or_else(|| unreachable!("chosen from the list"))
        }
        (name, _) => models::find(models, name.as_deref())?,
    };
    let plan = Plan::new(&model);
    let mut report = plan.report();
    if let Some(gguf) = &file {
        report.cost = plan.cost(&stored(gguf));
        report.weights = gguf.name().to_owned();
    }
    if let Some(bandwidth) = args.bandwidth {
        report.bandwidth = bandwidth;
    }
    let memory = file.as_ref().map(memory).transpose()?.unwrap_or_default();
    Ok(output::print(&format!("{report}{memory}"))?)
}

/// What an engine takes for the file with each of some contexts; nothing where the file's shape is
/// not compiled in.
fn memory(gguf: &Gguf) -> anyhow::Result<String> {
    let mut lines = String::new();
    for ctx in [4096, 32_768] {
        let options = EngineOptions { ctx, ..EngineOptions::default() };
        let needed = match Engine::needs(gguf, &options) {
            Err(LoadError::Shape(_)) => return Ok(String::new()),
            needed => needed?,
        };
        let threads = cpu::default_threads();
        let [weights, kv, states, arena, allocated] =
            [needed.weights, needed.kv, needed.states, needed.arena, needed.allocated()].map(Bytes);
        if lines.is_empty() {
            lines = format!(
                "\nmemory on this machine, {threads} threads, beside {weights} of mapped weights\n"
            );
        }
        lines += &format!(
            "  context {ctx:>6}  {allocated} (keys and values as f16 {kv}, states {states}, buffers \
             {arena})\n"
        );
    }
    Ok(lines)
}

fn bandwidth(text: &str) -> Result<f64, String> {
    let positive = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    positive.ok_or_else(|| "expected a positive number of GB/s".to_owned())
}

/// A file's tensors in the plan's terms.
fn stored(gguf: &Gguf) -> Vec<Stored> {
    let tensor = |t: &crate::gguf::Tensor| Stored {
        name: t.name.clone(),
        ne: t.ne.clone(),
        ty: t.ty.name().to_owned(),
        bytes: t.data.len() as u64,
    };
    gguf.tensors().iter().map(tensor).collect()
}
