//! The library in one page: open a GGUF, load the engine, continue a text.
//!
//! ```sh
//! cargo run --release --example complete
//! cargo run --release --example complete -- FILE.gguf "The sky is blue because"
//! ```

use std::io::Write;
use std::path::Path;

use pantheon::engine::{Engine, EngineOptions, Outputs, Run};
use pantheon::gguf::Gguf;
use pantheon::sampling::{LogitMask, Sampler, SamplerParams};
use pantheon::tokenizer::{Parse, Tokenizer};

/// The demo model that the `pantheon` program carries.
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-q4_k_m.gguf");
/// Tokens to generate at most.
const LENGTH: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap_or_else(|| DEMO.to_owned());
    let text = args.next().unwrap_or_else(|| "Once upon a time".to_owned());

    // A file is mapped, not read: opening one costs its header only.
    let gguf = Gguf::open(Path::new(&file))?;
    let tokenizer = Tokenizer::from_gguf(&gguf, None)?;
    let prompt = tokenizer.encode(&text, Parse::Special)?;

    // Everything is allocated here: one sequence that can look back on 1024 tokens.
    let options = EngineOptions { ctx: 1024, ..EngineOptions::default() };
    let mut engine = Engine::load(gguf, &options)?;

    // The most likely token each time; padding rows of the head are never drawn.
    let mask = LogitMask::new(&tokenizer, engine.shape().n_vocab);
    let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::NEUTRAL };
    let mut sampler = Sampler::new(greedy, mask)?;

    print!("{text}");
    engine.prefill(0, &prompt, |_done| true)?;
    let mut decoder = tokenizer.decoder(false);
    for _ in 0..LENGTH {
        let id = sampler.sample(engine.logits(0))?;
        if tokenizer.is_end(id) {
            break;
        }
        print!("{}", decoder.push(id));
        std::io::stdout().flush()?;
        engine.step(&[Run { sequence: 0, tokens: &[id], outputs: Outputs::Last }])?;
    }
    println!("{}", decoder.finish());
    Ok(())
}
