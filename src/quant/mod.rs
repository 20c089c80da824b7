//! Block formats: what a tensor type is, how its blocks become f32, and how blocks are made.
//!
//! [`dequantize`] is the reference for every other reader of these formats: its results are ggml's,
//! bit for bit. `grids` and `scales` hold what such readers share.

mod dequant;
mod encode;
pub(crate) mod grids;
mod random;
pub(crate) mod scales;
mod types;

pub use dequant::{Decoder, decoder, dequantize};
pub use encode::{NotWritable, quantize_row};
pub use random::random_row;
pub use types::{GgmlType, UnknownType};
