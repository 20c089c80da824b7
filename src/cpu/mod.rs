//! The CPU executor.

pub mod kernels;
pub mod simd;

pub use simd::Isa;
