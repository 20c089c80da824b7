//! The CPU executor: a team of threads that runs the generated forward over a static arena.

mod context;
mod executor;
pub mod kernels;
mod matmul;
mod rope;
pub mod simd;
mod stages;
pub(crate) mod team;
mod trace;

pub(crate) use executor::{CpuExecutor, needed};
pub use simd::Isa;
pub use trace::{Trace, TraceEvent};

/// Threads to use where nothing else is said: the cores available to the process, by affinity and cgroup.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
