//! How much memory hostile input takes, measured. One thing at a time: the tests of this program share
//! its resident set.

#[cfg(target_os = "linux")]
mod engine;
mod pieces;
mod templates;

use std::sync::{Mutex, PoisonError};

use pantheon::memory::HostMemory;

/// What `work` returns, and the most bytes by which the process grew on the way.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Lets the peak begin anew, where the system can do that. Elsewhere it only ever shows less.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = HostMemory::read().resident.unwrap_or(0);
    let made = work();
    (made, HostMemory::read().peak.unwrap_or(0).saturating_sub(before))
}
