//! The CPU executor: a team of threads that runs the generated forward over a static arena.

use std::sync::OnceLock;

mod context;
mod cores;
mod executor;
pub mod kernels;
mod matmul;
#[doc(hidden)]
pub mod probe;
mod rope;
mod selfcheck;
pub mod simd;
mod stages;
pub(crate) mod team;
mod trace;

pub use cores::{Cores, Reason};
pub(crate) use executor::{CpuExecutor, needed};
pub use selfcheck::WrongKernel;
pub(crate) use selfcheck::{check, choose};
pub use simd::Isa;
pub use trace::{Trace, TraceEvent};

/// Threads to use where nothing else is said. Asked once: it stays the same while the process runs.
pub fn default_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| Cores::read().threads())
}
