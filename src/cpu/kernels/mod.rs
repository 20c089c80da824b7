//! The kernels: one table of functions per instruction set, all giving the same bits.
//!
//! ```text
//! activations  f32 --quantize_q8k/q80--> planes --product(ty)--> out[column][row]
//! exact        f32 ---------------------------product_float----> out[column][row]
//! ```

mod attention;
mod columns;
mod delta;
mod float;
mod math;
mod product;
mod quantize;
mod unpack;
mod vector;

pub use attention::KvRows;
pub use columns::{Family, TILE};
pub use delta::{DeltaArgs, PerToken};
pub use quantize::{Q8K_BYTES, Q8K_LEN, Q80_BYTES, Q80_LEN};

use crate::cpu::simd::{Isa, Scalar, Simd};
use crate::quant::GgmlType;

/// Multiplies rows of one type with 1 to [`TILE`] columns, quantised as [`family`] says:
/// `(rows, next, k, columns, out)`, `out[column][row]`; `next` is memory that will be read after, to be
/// asked for in good time.
pub type Product = fn(&[u8], &[u8], usize, &[&[u8]], &mut [&mut [f32]]);

/// Multiplies rows of any type with f32 columns: `(ty, rows, k, columns, out)`, `out[column][row]`.
pub type FloatProduct = fn(GgmlType, &[u8], usize, &[&[f32]], &mut [&mut [f32]]);

/// In-place map of a vector.
pub type Map = fn(&mut [f32]);

/// The kernels of one instruction set. Lengths must agree as each field says; a mismatch panics.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// The instruction set.
    pub isa: Isa,

    /// `sum(a * b)`: 16 lanes, element `i` in lane `i % 16`, fused, in order; then folded.
    pub dot: fn(&[f32], &[f32]) -> f32,
    /// `sum(x^2)` in the same order.
    pub sum_squares: fn(&[f32]) -> f32,
    /// `(x, w, eps, out)`: `out = x * w / sqrt(mean(x^2) + eps)`.
    pub rms_norm: fn(&[f32], &[f32], f32, &mut [f32]),
    /// `(x, w, eps)`: the same in place.
    pub rms_norm_inplace: fn(&mut [f32], &[f32], f32),
    /// `(x, eps)`: `x = x / sqrt(sum(x^2) + eps)`.
    pub l2_normalize: fn(&mut [f32], f32),
    /// `(a, x, y)`: `y = fma(a, x, y)`.
    pub axpy: fn(f32, &[f32], &mut [f32]),
    /// `(a, y, b, x)`: `y = fma(b, x, a * y)`.
    pub scale_add: fn(f32, &mut [f32], f32, &[f32]),
    /// `(a, x)`: `x = a * x`.
    pub scale: fn(f32, &mut [f32]),
    /// `(x, y)`: `x = x + y`.
    pub add: fn(&mut [f32], &[f32]),
    /// `(gate, up, out)`: `out = silu(gate) * up`.
    pub swiglu: fn(&[f32], &[f32], &mut [f32]),
    /// `(gate, x)`: `x = x * sigmoid(gate)`.
    pub sigmoid_mul: fn(&[f32], &mut [f32]),
    /// `(gate, x)`: `x = x * silu(gate)`.
    pub silu_mul: fn(&[f32], &mut [f32]),
    /// `x = silu(x)`.
    pub silu: Map,
    /// `x = sigmoid(x)`.
    pub sigmoid: Map,
    /// `x = softplus(x)`.
    pub softplus: Map,
    /// `x = exp(x)`.
    pub exp: Map,
    /// `x = ln(1 + x)` for `x >= 0`.
    pub log1p: Map,
    /// `(x, a, bias)`: `x = exp(a * softplus(x + bias))`.
    pub decay: fn(&mut [f32], &[f32], &[f32]),
    /// The largest element; minus infinity of none.
    pub max: fn(&[f32]) -> f32,
    /// `(x, shift)`: `x = exp(x - shift)`, returns the sum.
    pub exp_sum: fn(&mut [f32], f32) -> f32,
    /// Softmax in place.
    pub softmax: Map,

    /// `(taps, window, out)`: causal depthwise convolution and SiLU; `taps` `[channel][tap]`,
    /// `window` one row of channels per tap, oldest first.
    pub conv1d_silu: fn(&[f32], &[&[f32]], &mut [f32]),
    /// The delta rule for one head and consecutive tokens.
    pub delta: fn(DeltaArgs<'_>),

    /// `(q, dim, rows, count, scale, out)`: `out[head][t] = dot(q[head], row[t]) * scale`.
    pub attention_scores: fn(&[f32], usize, KvRows<'_>, usize, f32, &mut [f32]),
    /// `(p, dim, rows, count, acc)`: `acc[head] = fma(p[head][t], row[t], acc[head])`, `t` in
    /// order.
    pub attention_values: fn(&[f32], usize, KvRows<'_>, usize, &mut [f32]),
    /// f32 to f16, ties to even.
    pub to_f16: fn(&[f32], &mut [u16]),
    /// f16 to f32.
    pub from_f16: fn(&[u16], &mut [f32]),

    /// `(x, out)`: to super-blocks, [`Q8K_BYTES`] per started [`Q8K_LEN`].
    pub quantize_q8k: fn(&[f32], &mut [u8]),
    /// `(x, out)`: to blocks, [`Q80_BYTES`] per started [`Q80_LEN`].
    pub quantize_q80: fn(&[f32], &mut [u8]),
    /// The integer product of a type; none for float types and for types that hold no weights.
    pub product: fn(GgmlType) -> Option<Product>,
    /// `(ty, rows, k, columns, out)`: f32 columns (at most [`TILE`]) times rows of any type,
    /// dequantised on the way; `out[column][row]`.
    pub product_float: FloatProduct,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("isa", &self.isa).finish_non_exhaustive()
    }
}

/// How a type's activations are quantised for its integer product; [`Family::Float`]: not at all.
pub fn family(ty: GgmlType) -> Family {
    use GgmlType as T;
    match ty {
        T::Q4_0 | T::Q4_1 | T::Q5_0 | T::Q5_1 | T::Q8_0 => Family::Block,
        T::Iq4Nl | T::Mxfp4 | T::Nvfp4 | T::Q1_0 | T::Q2_0 => Family::Block,
        T::Q2K | T::Q3K | T::Q4K | T::Q5K | T::Q6K | T::Tq1_0 | T::Tq2_0 => Family::Super,
        T::Iq2Xxs | T::Iq2Xs | T::Iq2S | T::Iq3Xxs | T::Iq3S => Family::Super,
        T::Iq1S | T::Iq1M | T::Iq4Xs => Family::Super,
        _ => Family::Float,
    }
}

/// The kernels of an instruction set.
///
/// # Panics
/// A kernel of a set the processor lacks panics when it is called.
pub fn kernels(isa: Isa) -> &'static Kernels {
    static SCALAR: Kernels = table::<Scalar>();
    #[cfg(target_arch = "x86_64")]
    static AVX2: Kernels = table::<crate::cpu::simd::Avx2>();
    #[cfg(target_arch = "x86_64")]
    static AVXVNNI: Kernels = table::<crate::cpu::simd::AvxVnni>();
    #[cfg(target_arch = "x86_64")]
    static AVX512: Kernels = table::<crate::cpu::simd::Avx512>();
    #[cfg(target_arch = "aarch64")]
    static NEON: Kernels = table::<crate::cpu::simd::Neon>();
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2,
        #[cfg(target_arch = "x86_64")]
        Isa::AvxVnni => &AVXVNNI,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni => &AVX512,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => &NEON,
        _ => &SCALAR,
    }
}

/// Turns a generic kernel into a plain function of the instruction set `S`.
macro_rules! entry {
    ($kernel:expr, |$($arg:ident: $ty:ty),*|) => {
        |$($arg: $ty),*| S::enter(#[inline(always)] move |s| ($kernel)(s, $($arg),*))
    };
}

const fn table<S: Simd>() -> Kernels {
    Kernels {
        isa: S::ISA,
        dot: entry!(vector::dot, |a: &[f32], b: &[f32]|),
        sum_squares: entry!(vector::sum_squares, |x: &[f32]|),
        rms_norm: entry!(vector::rms_norm, |x: &[f32], w: &[f32], eps: f32, out: &mut [f32]|),
        rms_norm_inplace: entry!(vector::rms_norm_inplace, |x: &mut [f32], w: &[f32], eps: f32|),
        l2_normalize: entry!(vector::l2_normalize, |x: &mut [f32], eps: f32|),
        axpy: entry!(vector::axpy, |a: f32, x: &[f32], y: &mut [f32]|),
        scale_add: entry!(vector::scale_add, |a: f32, y: &mut [f32], b: f32, x: &[f32]|),
        scale: entry!(vector::scale, |a: f32, x: &mut [f32]|),
        add: entry!(vector::add, |x: &mut [f32], y: &[f32]|),
        swiglu: entry!(vector::swiglu, |gate: &[f32], up: &[f32], out: &mut [f32]|),
        sigmoid_mul: entry!(vector::sigmoid_mul, |gate: &[f32], x: &mut [f32]|),
        silu_mul: entry!(vector::silu_mul, |gate: &[f32], x: &mut [f32]|),
        silu: entry!(vector::silu_inplace, |x: &mut [f32]|),
        sigmoid: entry!(vector::sigmoid_inplace, |x: &mut [f32]|),
        softplus: entry!(vector::softplus_inplace, |x: &mut [f32]|),
        exp: entry!(vector::exp_inplace, |x: &mut [f32]|),
        log1p: entry!(vector::log1p_inplace, |x: &mut [f32]|),
        decay: entry!(vector::decay, |x: &mut [f32], a: &[f32], bias: &[f32]|),
        max: entry!(vector::max, |x: &[f32]|),
        exp_sum: entry!(vector::exp_sum, |x: &mut [f32], shift: f32|),
        softmax: entry!(vector::softmax, |x: &mut [f32]|),
        conv1d_silu: entry!(delta::conv1d_silu, |taps: &[f32], win: &[&[f32]], out: &mut [f32]|),
        delta: entry!(delta::delta, |args: DeltaArgs<'_>|),
        attention_scores: entry!(
            attention::scores,
            |q: &[f32], dim: usize, rows: KvRows<'_>, n: usize, scale: f32, out: &mut [f32]|
        ),
        attention_values: entry!(
            attention::values,
            |p: &[f32], dim: usize, rows: KvRows<'_>, n: usize, acc: &mut [f32]|
        ),
        to_f16: entry!(attention::to_f16, |from: &[f32], to: &mut [u16]|),
        from_f16: entry!(attention::from_f16, |from: &[u16], to: &mut [f32]|),
        quantize_q8k: entry!(quantize::q8k, |x: &[f32], out: &mut [u8]|),
        quantize_q80: entry!(quantize::q80, |x: &[f32], out: &mut [u8]|),
        product: product_of::<S>,
        product_float: entry!(
            float::rows,
            |ty: GgmlType, rows: &[u8], k: usize, cols: &[&[f32]], out: &mut [&mut [f32]]|
        ),
    }
}

/// The integer product of a type on the set `S`.
fn product_of<S: Simd>(ty: GgmlType) -> Option<Product> {
    use GgmlType as T;
    macro_rules! product {
        ($rows:ident, $ty:ident) => {
            entry!(product::$rows::<S, unpack::$ty>, |w: &[u8], next: &[u8], k: usize, x: &[&[u8]], out: &mut [&mut [f32]]|)
        };
    }
    Some(match ty {
        T::Q4_0 => product!(block_rows, Q4_0),
        T::Q4_1 => product!(block_rows, Q4_1),
        T::Q5_0 => product!(block_rows, Q5_0),
        T::Q5_1 => product!(block_rows, Q5_1),
        T::Q8_0 => product!(block_rows, Q8_0),
        T::Iq4Nl => product!(block_rows, Iq4Nl),
        T::Mxfp4 => product!(block_rows, Mxfp4),
        T::Nvfp4 => product!(block_rows, Nvfp4),
        T::Q1_0 => product!(block_rows, Q1_0),
        T::Q2_0 => product!(block_rows, Q2_0),
        T::Q2K => product!(super_rows, Q2K),
        T::Q3K => product!(super_rows, Q3K),
        T::Q4K => product!(super_rows, Q4K),
        T::Q5K => product!(super_rows, Q5K),
        T::Q6K => product!(super_rows, Q6K),
        T::Tq1_0 => product!(super_rows, Tq1_0),
        T::Tq2_0 => product!(super_rows, Tq2_0),
        T::Iq2Xxs => product!(super_rows, Iq2Xxs),
        T::Iq2Xs => product!(super_rows, Iq2Xs),
        T::Iq2S => product!(super_rows, Iq2S),
        T::Iq3Xxs => product!(super_rows, Iq3Xxs),
        T::Iq3S => product!(super_rows, Iq3S),
        T::Iq1S => product!(super_rows, Iq1S),
        T::Iq1M => product!(super_rows, Iq1M),
        T::Iq4Xs => product!(super_rows, Iq4Xs),
        _ => return None,
    })
}
