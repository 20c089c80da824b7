//! Ctrl-C asks for the end; another one, a while after the first was not heeded, ends the program
//! at once. No half-written file stays either way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Once};
use std::time::Instant;

use super::partial;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// When the end was first asked for, in milliseconds since [`START`].
static SINCE: AtomicU64 = AtomicU64::new(0);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static INSTALL: Once = Once::new();

/// Exit code of a program that Ctrl-C ended, by convention 128 + SIGINT.
pub(super) const ENDED: u8 = 130;
/// Signals this close together are one Ctrl-C: a wrapper may pass on what the terminal has sent
/// already.
const TOGETHER_MS: u64 = 300;

/// From now on Ctrl-C is a request. Where no handler can be installed, Ctrl-C ends the program as
/// ever.
pub(super) fn listen() {
    LazyLock::force(&START);
    INSTALL.call_once(|| {
        let _ = ctrlc::set_handler(|| {
            let now = u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX);
            if !REQUESTED.swap(true, Ordering::Relaxed) {
                SINCE.store(now, Ordering::Relaxed);
            } else if now - SINCE.load(Ordering::Relaxed) > TOGETHER_MS {
                partial::discard_all();
                std::process::exit(i32::from(ENDED));
            }
        });
    });
}

/// Whether the end was asked for since [`clear`].
pub(super) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Ctrl-C came before there was a result.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; there is no result")]
pub(super) struct Interrupted;

/// An error if the end was asked for: for work whose parts are of no use.
pub(super) fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}

/// Forgets a request.
pub(super) fn clear() {
    REQUESTED.store(false, Ordering::Relaxed);
}
