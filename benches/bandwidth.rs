//! Read bandwidth of this machine's memory: all threads stream one large buffer, best of five.
//!
//! `cargo bench --bench bandwidth [-- THREADS [GIB]]` prints one JSON object: `threads`, `gib`, `gb_s`.

use std::time::Instant;

/// Independent sums, so that the loop waits for memory and not for additions.
const LANES: usize = 32;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.next().map_or(cores, |text| text.parse().expect("a number of threads"));
    let gib: usize = args.next().map_or(1, |text| text.parse().expect("a number of GiB"));
    let words = gib * (1 << 30) / 8;
    // Written once, so that every page exists and none is the shared zero page.
    let buffer: Vec<u64> = (0..words as u64).collect();
    let best = (0..5).map(|_| read_all(&buffer, threads)).fold(f64::MAX, f64::min);
    let gb_s = (words * 8) as f64 / best / 1e9;
    println!("{{\"threads\": {threads}, \"gib\": {gib}, \"gb_s\": {gb_s:.2}}}");
}

/// Seconds that `threads` threads need to read the buffer once.
fn read_all(buffer: &[u64], threads: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in buffer.chunks(buffer.len().div_ceil(threads)) {
            scope.spawn(move || std::hint::black_box(sum(part)));
        }
    });
    start.elapsed().as_secs_f64()
}

fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; LANES];
    let (rows, rest) = words.as_chunks::<LANES>();
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().chain(rest).fold(0, |total, word| total.wrapping_add(*word))
}
