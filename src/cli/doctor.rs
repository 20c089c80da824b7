//! `pantheon doctor`: what this machine has and what of it will be used.

use serde::Serialize;

use super::output;
use super::table::Facts;
use crate::cpu::{self, Cores, Isa};
use crate::generated::REGISTRY;
use crate::memory::{Bytes, HostMemory};
use crate::quant::GgmlType;

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
    /// Those that compute wrongly here, and what they do.
    instruction_sets_wrong: Vec<String>,
    instruction_set_used: String,
    /// Null where it is not known which hardware threads share a core.
    cores_physical: Option<usize>,
    cores_logical: usize,
    /// What affinity and quota leave.
    cores_allowed: usize,
    threads_used: usize,
    threads_reason: String,
    memory_total: Option<u64>,
    memory_available: Option<u64>,
    memory_group_limit: Option<u64>,
    memory_free: Option<u64>,
    cuda: &'static str,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let memory = HostMemory::read();
    let cores = Cores::read();
    let (chosen, wrong) = instruction_sets();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        models: REGISTRY.iter().map(|entry| entry.shape.name).collect(),
        instruction_sets: Isa::available().iter().map(ToString::to_string).collect(),
        instruction_sets_wrong: wrong,
        instruction_set_used: chosen.to_string(),
        cores_physical: cores.physical,
        cores_logical: cores.logical,
        cores_allowed: cores.allowed,
        threads_used: cores.threads(),
        threads_reason: cores.reason().to_string(),
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

/// The fastest set whose kernels compute right with every weight type, and what is wrong with others.
fn instruction_sets() -> (Isa, Vec<String>) {
    let types: Vec<GgmlType> = GgmlType::all().filter(|ty| ty.is_weight()).collect();
    let mut used = Isa::Scalar;
    let mut wrong = Vec::new();
    for isa in Isa::available() {
        match cpu::check(isa, &types) {
            Ok(()) => used = isa,
            Err(error) => wrong.push(error.to_string()),
        }
    }
    (used, wrong)
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
        for wrong in &self.instruction_sets_wrong {
            facts.add("  left out", wrong);
        }
        facts.add("  used", format!("{} (checked)", self.instruction_set_used));
        let known = self.cores_physical.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let logical = self.cores_logical;
        facts.add("cores available", format!("{known} physical, {logical} logical"));
        let (threads, reason) = (self.threads_used, &self.threads_reason);
        facts.add("  threads used", format!("{threads}: {reason} (change with -t)"));
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
