//! A piece without a blank as long as a file can be.

use std::path::Path;
use std::time::Instant;

use pantheon::gguf::Gguf;
use pantheon::tokenizer::{Parse, Tokenizer};

use crate::measured;

#[test]
fn a_long_piece_takes_little_memory_and_time() {
    const BYTES: usize = 16 << 20;
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let gguf = Gguf::open(&assets.join("tiny-q4_k_m.gguf")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf, None).unwrap();
    // Letters that are often merged, that never are, and a mixture.
    let mut seed = 7u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"etaoinshrdlucmfwypvbgkjqxz"[(seed >> 16) as usize % 26] as char
    };
    let texts =
        ["a".repeat(BYTES), "the".repeat(BYTES / 3), (0..BYTES).map(|_| random()).collect()];
    for text in texts {
        let start = Instant::now();
        let (ids, grown) = measured(|| tokenizer.encode(&text, Parse::UserDefined).unwrap());
        let seconds = start.elapsed().as_secs_f64();
        let per_byte = grown as f64 / text.len() as f64;
        println!("{} tokens, {seconds:.1} s, {per_byte:.1} bytes per byte", ids.len());
        assert!(per_byte < 40.0, "{per_byte} bytes per byte");
        assert!(seconds < 60.0, "{seconds} s");
        assert!(ids.len() >= tokenizer.fewest(text.len()));
        assert_eq!(tokenizer.decode(&ids, true), text);
    }
}
