//! Random tensor data, made by several threads and written in order.
//!
//! A tensor is cut into blocks of rows; each block has its own random numbers, so that a file
//! depends on its seed and on nothing else.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, sync_channel};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::tensors::Fill;
use crate::quant::{GgmlType, random_row};

/// Bytes of a block, about.
const BLOCK: usize = 1 << 20;
/// Blocks that a thread may be ahead of the writer.
const AHEAD: usize = 4;

/// The data of one tensor.
pub(super) struct Source {
    pub(super) ty: GgmlType,
    pub(super) fill: Fill,
    /// Values of a row.
    pub(super) k: usize,
    pub(super) rows: usize,
    /// Seed of this tensor.
    pub(super) seed: u64,
}

impl Source {
    fn row_bytes(&self) -> usize {
        self.ty.row_bytes(self.k).unwrap_or_default()
    }

    fn rows_per_block(&self) -> usize {
        (BLOCK / self.row_bytes().max(1)).max(1)
    }

    fn blocks(&self) -> usize {
        self.rows.div_ceil(self.rows_per_block())
    }

    /// The bytes of a block of rows.
    fn block(&self, index: usize) -> Vec<u8> {
        let first = index * self.rows_per_block();
        let rows = self.rows_per_block().min(self.rows - first);
        let mut rng = SmallRng::seed_from_u64(mix(self.seed, index as u64));
        let mut bytes = vec![0; rows * self.row_bytes()];
        for row in bytes.chunks_exact_mut(self.row_bytes()) {
            self.row(&mut rng, row);
        }
        bytes
    }

    fn row(&self, rng: &mut SmallRng, out: &mut [u8]) {
        match self.fill {
            Fill::Matrix(gain) => {
                let scale = gain / (self.k as f32).sqrt();
                random_row(self.ty, rng, out, scale);
            }
            Fill::Ones => floats(out, || 1.0),
            Fill::Between(low, high) => floats(out, || rng.random_range(low..high)),
        }
    }

    /// Writes the tensor, with `threads` threads at work. `progress` gets the size of each block and
    /// may end the work with an error.
    pub(super) fn write(
        &self,
        threads: usize,
        out: &mut dyn Write,
        mut progress: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let blocks = self.blocks();
        if blocks == 1 {
            let block = self.block(0);
            progress(block.len())?;
            return out.write_all(&block);
        }
        std::thread::scope(|scope| {
            // One channel per thread: a thread makes every `threads`-th block, so the writer knows
            // whom to ask.
            let receivers: Vec<Receiver<Vec<u8>>> = (0..threads)
                .map(|thread| {
                    let (sender, receiver) = sync_channel(AHEAD);
                    scope.spawn(move || {
                        // A writer that failed has dropped the receiver.
                        let made = (thread..blocks).step_by(threads);
                        made.map(|index| sender.send(self.block(index))).all(|sent| sent.is_ok())
                    });
                    receiver
                })
                .collect();
            for index in 0..blocks {
                let block = receivers[index % threads]
                    .recv()
                    .map_err(|_| io::Error::other("a thread that makes random data ended early"))?;
                out.write_all(&block)?;
                progress(block.len())?;
            }
            Ok(())
        })
    }
}

fn floats(out: &mut [u8], mut value: impl FnMut() -> f32) {
    for bytes in out.chunks_exact_mut(size_of::<f32>()) {
        bytes.copy_from_slice(&value().to_le_bytes());
    }
}

/// A seed from two numbers (the finaliser of SplitMix64).
pub(super) fn mix(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_depend_on_the_seed_and_not_on_the_threads() {
        let source = |seed| Source {
            ty: GgmlType::Q8_0,
            fill: Fill::Matrix(1.0),
            k: 96,
            rows: 30_001,
            seed,
        };
        let bytes = |seed, threads| {
            let mut out = Vec::new();
            let mut counted = 0;
            let mut count = |n| {
                counted += n;
                Ok(())
            };
            source(seed).write(threads, &mut out, &mut count).unwrap();
            assert_eq!((out.len(), counted), (30_001 * 102, 30_001 * 102));
            out
        };
        let one = bytes(7, 1);
        assert!(one == bytes(7, 3));
        assert!(one != bytes(8, 1));
    }

    #[test]
    fn a_writer_that_fails_ends_the_threads() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (ty, fill) = (GgmlType::F32, Fill::Ones);
        let source = Source { ty, fill, k: 1024, rows: 20_000, seed: 0 };
        let error = source.write(2, &mut Full, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
