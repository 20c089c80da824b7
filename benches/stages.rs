//! Where the time goes: each stage of a model, decoding one sequence and prefilling a prompt.
//!
//! `cargo bench --bench stages -- MODEL.gguf [THREADS]`; its shape must be compiled in (for the cut of
//! nex-n2-mini, with `PANTHEON_MODEL_TOML=$PWD/benches/shapes.toml`). Per stage, over all layers:
//!
//! * decode: us a token; MB a token (weights, and the recurrent state there and back); GB/s, and its
//!   share of the read bandwidth that is measured first;
//! * prefill: us a token; operations (two per weight that a token uses) a second, and as a share of
//!   the fastest stage's.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pantheon::cpu::TraceEvent;
use pantheon::engine::{Engine, EngineOptions, Outputs, Run};
use pantheon::gguf::{Gguf, Tensor};
use pantheon_codegen::family::Stage;
use pantheon_codegen::plan::Stored;
use pantheon_codegen::{Plan, spec};

#[path = "common/bandwidth.rs"]
mod bandwidth;

const PROMPT: usize = 512;
const TOKENS: usize = 64;

/// Seconds per stage, in the order of [`Stage::ALL`].
type Times = [f64; Stage::ALL.len()];

/// Measures from the end of what was traced last to the next stage's end.
struct Clock {
    times: Times,
    last: Instant,
    /// Stage and layer of the event before.
    at: (&'static str, usize),
}

impl Clock {
    fn event(&mut self, event: &TraceEvent<'_>) {
        let now = Instant::now();
        if (event.stage, event.layer) != self.at {
            let stage = Stage::ALL.iter().position(|s| s.stem() == event.stage).expect("a stage");
            self.times[stage] += (now - self.last).as_secs_f64();
            self.at = (event.stage, event.layer);
        }
        // What a stage is asked about after its end is nobody's time.
        self.last = Instant::now();
    }
}

/// Best time of each stage over some passes of `columns` tokens.
fn measure(engine: &mut Engine, columns: usize, passes: usize) -> Times {
    let start = || Clock { times: [0.0; 11], last: Instant::now(), at: ("", 0) };
    let clock = Arc::new(Mutex::new(start()));
    let seen = Arc::clone(&clock);
    engine.set_trace(Some(Box::new(move |event| seen.lock().expect("no panic").event(event))));
    let mut best = [f64::INFINITY; 11];
    let vocabulary = engine.shape().n_vocab as u32;
    for pass in 0..passes as u32 {
        // Tokens all over the vocabulary, so that all experts are used.
        let token = |i: u32| (pass * 7919 + i).wrapping_mul(2_654_435_761) % vocabulary;
        let tokens: Vec<u32> = (0..columns as u32).map(token).collect();
        *clock.lock().expect("no panic") = start();
        engine
            .step(&[Run { sequence: 0, tokens: &tokens, outputs: Outputs::Last }])
            .expect("a pass");
        let times = clock.lock().expect("no panic").times;
        best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
    }
    engine.set_trace(None);
    best
}

/// The tensors of a file, and how many weights of each a token uses instead of its bytes.
fn weights(gguf: &Gguf, size: fn(&Tensor) -> u64) -> Vec<Stored> {
    let stored = |t: &Tensor| Stored {
        name: t.name.clone(),
        ne: t.ne.clone(),
        ty: t.ty.name().to_owned(),
        bytes: size(t),
    };
    gguf.tensors().iter().map(stored).collect()
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let Some(file) = args.next() else {
        println!("usage: cargo bench --bench stages -- MODEL.gguf [THREADS]");
        return;
    };
    let threads = args.next().map(|text| text.parse().expect("a number of threads"));
    let gguf = Gguf::open(Path::new(&file)).unwrap_or_else(|error| panic!("{error}"));
    let options =
        EngineOptions { threads, ctx: PROMPT + TOKENS, chunk: PROMPT, ..EngineOptions::default() };
    let mut engine = Engine::load(gguf, &options).unwrap_or_else(|error| panic!("{error}"));
    let specs = spec::parse(pantheon::generated::SOURCE, "the compiled-in models").expect("valid");
    let model = specs.iter().find(|s| s.name == engine.shape().name).expect("it is compiled in");
    let plan = Plan::new(model);
    let bytes = plan.cost(&weights(engine.gguf(), |t| t.data.len() as u64));
    let used = plan.cost(&weights(engine.gguf(), |t| t.ne.iter().product()));
    let gb_s = bandwidth::gb_s(engine.threads(), 1);
    println!("{file}: {} threads, {}; {gb_s:.1} GB/s", engine.threads(), engine.isa());

    let prefill = measure(&mut engine, PROMPT, 4);
    engine.reset(0);
    let decode = measure(&mut engine, 1, TOKENS);
    let rate =
        |stage: Stage, time: f64| 2.0 * used.stage(stage) as f64 * PROMPT as f64 / time / 1e9;
    let fastest = Stage::ALL.iter().zip(prefill).map(|(s, t)| rate(*s, t)).fold(0.0, f64::max);
    println!(
        "{:<13}{:>11}{:>9}{:>7}{:>6}{:>14}{:>8}{:>6}",
        "stage", "decode us", "MB", "GB/s", "%", "prefill us", "GOP/s", "%"
    );
    for (i, stage) in Stage::ALL.into_iter().enumerate() {
        let state = if stage == Stage::GdnRecur { 2 * bytes.state } else { 0 };
        let moved = (bytes.stage(stage) + state) as f64;
        let (speed, ops) = (moved / decode[i] / 1e9, rate(stage, prefill[i]));
        println!(
            "{:<13}{:>11.1}{:>9.2}{speed:>7.1}{:>6.0}{:>14.2}{ops:>8.0}{:>6.0}",
            stage.stem(),
            decode[i] * 1e6,
            moved / 1e6,
            100.0 * speed / gb_s,
            prefill[i] * 1e6 / PROMPT as f64,
            100.0 * ops / fastest
        );
    }
    let (decode, prefill): (f64, f64) = (decode.iter().sum(), prefill.iter().sum());
    println!("{:<13}{:>11.1}{:>36.2}", "all", decode * 1e6, prefill * 1e6 / PROMPT as f64);
}
