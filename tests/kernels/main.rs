//! The CPU kernels: against slow f64 references, and against each other on every instruction set.

mod products;
mod quantise;
mod support;
mod vectors;
