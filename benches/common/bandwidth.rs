//! Read bandwidth of memory: all threads stream one large buffer.

use std::time::Instant;

/// Independent sums, so that the loop waits for memory and not for additions.
const LANES: usize = 32;

/// The best of five, in GB/s.
pub(crate) fn gb_s(threads: usize, gib: usize) -> f64 {
    let words = gib * (1 << 30) / 8;
    // Written once, so that every page exists and none is the shared zero page.
    let buffer: Vec<u64> = (0..words as u64).collect();
    let best = (0..5).map(|_| read_all(&buffer, threads)).fold(f64::MAX, f64::min);
    (words * 8) as f64 / best / 1e9
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
