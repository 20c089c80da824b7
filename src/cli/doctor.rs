//! `pantheon doctor`: what this machine has and what of it will be used.

use serde::Serialize;

use super::output;
use super::table::Facts;
use crate::cpu::{self, Isa};
use crate::generated::REGISTRY;
use crate::memory::{Bytes, HostMemory};

const EXAMPLES: &str = "\
Examples:
  pantheon doctor
  pantheon doctor --json";

/// Show what this machine has and what of it will be used
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    platform: String,
    models: Vec<&'static str>,
    instruction_sets: Vec<String>,
    instruction_set_used: String,
    cores: usize,
    threads_used: usize,
    memory_total: Option<u64>,
    memory_available: Option<u64>,
    memory_group_limit: Option<u64>,
    memory_free: Option<u64>,
    cuda: &'static str,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let memory = HostMemory::read();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        models: REGISTRY.iter().map(|entry| entry.shape.name).collect(),
        instruction_sets: Isa::available().iter().map(ToString::to_string).collect(),
        instruction_set_used: Isa::detect().to_string(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads_used: cpu::default_threads(),
        memory_total: memory.total,
        memory_available: memory.available,
        memory_group_limit: memory.group_limit,
        memory_free: memory.free(),
        cuda: "absent: this build computes on the CPU only",
    };
    if args.json {
        return output::print_json(&report);
    }
    Ok(output::print(&report.to_text())?)
}

impl Report {
    fn to_text(&self) -> String {
        let bytes = |value: Option<u64>| {
            value.map_or_else(|| "unknown".to_owned(), |value| Bytes(value).to_string())
        };
        let mut facts = Facts::default();
        facts.add("pantheon", format!("{} on {}", self.version, self.platform));
        facts.add("models compiled in", self.models.join(", "));
        facts.add("instruction sets", self.instruction_sets.join(", "));
        facts.add("  used", &self.instruction_set_used);
        facts.add("cores available", self.cores);
        facts.add("  threads used", format!("{} (change with -t)", self.threads_used));
        facts.add("memory", bytes(self.memory_total));
        facts.add("  available", bytes(self.memory_available));
        match self.memory_group_limit {
            Some(limit) => facts.add("  limit of the group", Bytes(limit)),
            None => facts.add("  limit of the group", "none"),
        }
        facts.add("  free for a model", bytes(self.memory_free));
        facts.add("CUDA", self.cuda);
        facts.to_string()
    }
}
