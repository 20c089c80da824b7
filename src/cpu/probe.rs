//! Regions without a model, for benches of the team.

use std::time::{Duration, Instant};

use super::team::Team;

/// A team and nothing to compute with it.
pub struct Regions {
    team: Team,
}

impl Regions {
    /// Starts so many workers.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self { team: Team::new(threads)? })
    }

    /// How long one job of so many regions takes, each of `items` items of `rounds` dependent steps of
    /// arithmetic. Without items what remains is the barrier.
    pub fn time(&mut self, regions: usize, items: usize, rounds: usize) -> Duration {
        let start = Instant::now();
        self.team.run(&|worker| {
            for _ in 0..regions {
                worker.parallel(items, 1, |claim| claim.for_each(|item| busy(item, rounds)));
            }
        });
        start.elapsed()
    }
}

fn busy(item: usize, rounds: usize) {
    let mut x = item as u64;
    for _ in 0..rounds {
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    }
    std::hint::black_box(x);
}
