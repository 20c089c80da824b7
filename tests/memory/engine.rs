//! What an engine takes beside the mapped file, measured, against what was predicted.

use std::path::Path;
use std::process::Command;

use pantheon::engine::{Engine, EngineOptions, Outputs, Run};
use pantheon::gguf::Gguf;
use pantheon::state::KvFormat;

/// Set where this program has been started for one test alone.
const ALONE: &str = "PANTHEON_TEST_ALONE";

/// Memory of this process that no file backs.
fn anonymous() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Each of the parts in turn the largest: rings, states, buffers, what threads have of their own.
fn cases() -> [EngineOptions; 5] {
    let small = EngineOptions { threads: Some(2), ctx: 64, chunk: 64, ..EngineOptions::default() };
    [
        EngineOptions { ctx: 100_000, kv: KvFormat::F16, ..small.clone() },
        EngineOptions { ctx: 30_000, sequences: 3, kv: KvFormat::F32, ..small.clone() },
        EngineOptions { sequences: 400, ..small.clone() },
        EngineOptions { chunk: 512, max_outputs: 512, ..small.clone() },
        EngineOptions { threads: Some(64), ..small },
    ]
}

/// In a process of its own for each case: other memory would be counted, or used again.
#[test]
fn an_engine_takes_what_was_predicted() {
    if let Some(case) = std::env::var_os(ALONE) {
        return measure(&cases()[case.to_str().unwrap().parse::<usize>().unwrap()]);
    }
    for (case, options) in cases().iter().enumerate() {
        let name = "engine::an_engine_takes_what_was_predicted";
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", name, "--nocapture"]).env(ALONE, case.to_string());
        let output = again.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        println!("{said}");
        assert!(output.status.success() && said.contains("1 passed"), "{options:?}: {said}");
    }
}

fn measure(options: &EngineOptions) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny-q4_k_m.gguf");
    let gguf = Gguf::open(&path).unwrap();
    let needed = Engine::needs(&gguf, options).unwrap();
    let before = anonymous();
    let mut engine = Engine::load(gguf, options).unwrap();
    assert_eq!(engine.memory(), needed);
    // Touches every page.
    engine.poison();
    let tokens: Vec<u32> = (0..options.chunk as u32).collect();
    engine.step(&[Run { sequence: 0, tokens: &tokens, outputs: Outputs::Last }]).unwrap();
    let (grown, predicted) = (anonymous() - before, needed.allocated());
    let ratio = grown as f64 / predicted as f64;
    println!("{predicted} predicted, {grown} taken: {ratio:.3}, {needed:?}");
    assert!((0.95..1.05).contains(&ratio), "{ratio:.3}");
}
