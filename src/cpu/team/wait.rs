//! How a worker waits: busily for a moment, then asleep.
//!
//! Work that is about to come is met fastest by a busy wait. But where cores are short, the awaited
//! thread may need the very core that the waiting one keeps busy, and a thread that was always busy is
//! the first that the scheduler takes a core from. So the busy part is bounded in time (rounds of it
//! differ tenfold between processors), and it is left out for a while where it has been in vain.
//! Nothing yields: to a scheduler that is fair, that is a wish to be run last.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Busy wait: longer than workers wait for each other at the end of a stage.
const SPIN: Duration = Duration::from_micros(50);
/// Looks before the clock is asked for the first time: most waits end within them.
const FIRST_LOOKS: u32 = 32;
/// Looks from one look at the clock to the next.
const LOOKS: u32 = 16;
/// Busy waits in vain, one after the other, that say nothing yet: a rest between two passes is one.
const FORGIVEN: u32 = 1;
/// The most waits in a row that leave the busy part out, as a power of two.
const LONGEST_ABSTINENCE: u32 = 6;

/// One worker's experience with waiting. Its own; atomic only because seats are shared.
#[derive(Default)]
pub(super) struct Patience {
    /// Busy waits in vain since the last good one.
    vain: AtomicU32,
    /// Waits to come that leave the busy part out.
    abstain: AtomicU32,
}

impl Patience {
    /// Waits awake until `ready`, or else until it is time to sleep: then `false`. Where there are more
    /// workers than hardware threads, busy waits are always in vain: `crowded`.
    pub(super) fn awake(&self, crowded: bool, ready: &impl Fn() -> bool) -> bool {
        if busily(FIRST_LOOKS, ready) {
            self.was_good();
            return true;
        }
        let abstain = self.abstain.load(Ordering::Relaxed);
        if crowded || abstain > 0 {
            self.abstain.store(abstain.saturating_sub(1), Ordering::Relaxed);
            return false;
        }
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if busily(LOOKS, ready) {
                self.was_good();
                return true;
            }
        }
        self.was_in_vain();
        false
    }

    fn was_good(&self) {
        // Mostly it was before: not writing leaves the seat in the caches of those who look at it.
        if self.vain.load(Ordering::Relaxed) != 0 {
            self.vain.store(0, Ordering::Relaxed);
        }
    }

    /// The more often in a row, the longer it is not tried again.
    fn was_in_vain(&self) {
        let vain = self.vain.load(Ordering::Relaxed);
        if vain >= FORGIVEN {
            let waits = 1 << (vain - FORGIVEN + 1).min(LONGEST_ABSTINENCE);
            self.abstain.store(waits, Ordering::Relaxed);
        }
        self.vain.store(vain.saturating_add(1), Ordering::Relaxed);
    }
}

/// Looks so many times whether it is `ready`.
fn busily(looks: u32, ready: &impl Fn() -> bool) -> bool {
    for _ in 0..looks {
        if ready() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a wait takes that is in vain.
    fn time(patience: &Patience, crowded: bool) -> Duration {
        let start = Instant::now();
        assert!(!patience.awake(crowded, &|| false));
        start.elapsed()
    }

    #[test]
    fn a_wait_in_vain_is_short_and_soon_left_out() {
        let patience = Patience::default();
        let abstain = || patience.abstain.load(Ordering::Relaxed);
        assert!(time(&patience, false) >= SPIN);
        assert_eq!(abstain(), 0);
        for power in [1, 2, 3, 4, 5, 6, 6, 6] {
            assert!(time(&patience, false) >= SPIN, "tried again");
            assert_eq!(abstain(), 1 << power);
            while abstain() > 0 {
                assert!(!patience.awake(false, &|| false));
            }
        }
        // What is there at once is met in any state, and forgives everything.
        assert!(patience.awake(false, &|| true));
        time(&patience, false);
        assert_eq!(abstain(), 0);
    }

    #[test]
    fn among_too_many_nobody_waits_busily() {
        let patience = Patience::default();
        let shortest = (0..100).map(|_| time(&patience, true)).min().expect("some times");
        assert!(shortest < SPIN, "{shortest:?}");
        assert_eq!(patience.vain.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn work_that_comes_soon_is_met_awake() {
        let patience = Patience::default();
        let looks = std::cell::Cell::new(0);
        let comes = || {
            looks.set(looks.get() + 1);
            looks.get() > FIRST_LOOKS + LOOKS / 2
        };
        assert!(patience.awake(false, &comes));
        assert_eq!(patience.vain.load(Ordering::Relaxed), 0);
    }
}
