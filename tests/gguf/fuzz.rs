//! Random damage from fixed seeds: never a panic, always a file that holds together or an error.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::fields::{rich, walk};
use crate::raw::open;

/// One random change: a byte, a word at a limit, a piece cut out, doubled, or moved.
fn damage(bytes: &mut Vec<u8>, header: usize, rng: &mut SmallRng) {
    let end = bytes.len().min(header + 64);
    let at = rng.random_range(0..end.max(1));
    let length = rng.random_range(1..40).min(bytes.len().saturating_sub(at));
    match rng.random_range(0..6) {
        _ if length == 0 => bytes.push(rng.random()),
        0 => bytes[at] = rng.random(),
        1 => bytes[at] ^= 1 << rng.random_range(0..8),
        2 => {
            let limits =
                [0, 1, 2, 0xFF, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX, rng.random()];
            let word: u64 = limits[rng.random_range(0..limits.len())];
            let width = length.min(8);
            bytes[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        3 => drop(bytes.drain(at..at + length)),
        4 => {
            let piece = bytes[at..at + length].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => bytes.truncate(rng.random_range(0..=bytes.len())),
    }
}

#[test]
fn random_damage() {
    let (sound, header) = rich(3);
    let start = Instant::now();
    let mut accepted = 0u32;
    for seed in 0..60_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bytes = sound.clone();
        for _ in 0..rng.random_range(1..4) {
            damage(&mut bytes, header, &mut rng);
        }
        if let Ok(gguf) = open(bytes) {
            walk(&gguf);
            accepted += 1;
        }
    }
    assert!(accepted > 100, "the damage is so small that some files stay sound: {accepted}");
    assert!(start.elapsed() < Duration::from_secs(60), "took {:?}", start.elapsed());
}

#[test]
fn random_bytes_behind_a_sound_start() {
    for seed in 0..20_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend((rng.random_range(0..4u64)).to_le_bytes());
        bytes.extend((rng.random_range(0..4u64)).to_le_bytes());
        // Mostly small numbers, as a header has, so that reading gets somewhere.
        bytes.extend((0..300).map(|_| match rng.random_range(0..8) {
            0 => rng.random(),
            1 => rng.random_range(0..13),
            _ => 0u8,
        }));
        if let Ok(gguf) = open(bytes) {
            walk(&gguf);
        }
    }
}
