//! Checks an instruction set's kernels against the scalar ones on this machine, before they are used.
//!
//! All sets give the same bits by construction; a fault of a processor, of its microcode, of a virtual
//! machine or of the compiler would otherwise show as a model that writes nonsense. A few blocks
//! through every kernel take less than a millisecond per weight type.

use std::fmt;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Isa;
use super::kernels::{
    DeltaArgs, Family, Kernels, KvRows, PerToken, Q8K_BYTES, Q8K_LEN, Q80_BYTES, Q80_LEN, family,
    kernels,
};
use crate::quant::{GgmlType, random_row};

/// A set of kernels, one of which does not give the scalar one's bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongKernel {
    /// The set.
    pub isa: Isa,
    /// The kernel; of a product also the weight type.
    pub kernel: String,
}

impl fmt::Display for WrongKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} computes {} wrongly on this machine", self.isa, self.kernel)
    }
}

impl std::error::Error for WrongKernel {}

/// The kernels to use.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Their table.
    pub(crate) kernels: &'static Kernels,
    /// One line for each faster set that was dropped.
    pub(crate) warnings: Vec<String>,
}

/// The kernels of the fastest set that computes right, for weights of these types; or those of the
/// set that was asked for.
///
/// # Errors
/// The set that was asked for computes wrongly.
pub(crate) fn choose(asked: Option<Isa>, types: &[GgmlType]) -> Result<Choice, WrongKernel> {
    let Some(isa) = asked else {
        let fastest_first = Isa::available().into_iter().rev().map(kernels);
        return Ok(choose_from(&fastest_first.collect::<Vec<_>>(), types));
    };
    check(isa, types)?;
    Ok(Choice { kernels: kernels(isa), warnings: Vec::new() })
}

/// Checks one of this machine's sets, for weights of these types.
///
/// # Errors
/// A kernel computes wrongly.
pub(crate) fn check(isa: Isa, types: &[GgmlType]) -> Result<(), WrongKernel> {
    wrong(kernels(isa), types).map_or(Ok(()), |kernel| Err(WrongKernel { isa, kernel }))
}

/// The first of some tables that computes right, else the scalar one.
fn choose_from(tables: &[&'static Kernels], types: &[GgmlType]) -> Choice {
    let mut wrong_ones = Vec::new();
    let mut chosen = kernels(Isa::Scalar);
    for &table in tables {
        match wrong(table, types) {
            Some(kernel) => wrong_ones.push(WrongKernel { isa: table.isa, kernel }),
            None => {
                chosen = table;
                break;
            }
        }
    }
    let warning = |wrong: &WrongKernel| format!("{wrong}; using {}", chosen.isa);
    Choice { kernels: chosen, warnings: wrong_ones.iter().map(warning).collect() }
}

/// The first kernel of `table` that gives other bits than the scalar one, with weights of these types.
fn wrong(table: &Kernels, types: &[GgmlType]) -> Option<String> {
    let scalar = kernels(Isa::Scalar);
    if table.isa == Isa::Scalar {
        return None;
    }
    let mut random = SmallRng::seed_from_u64(1);
    let samples = Samples::new(&mut random);
    let differ = |(_, run): &&(&str, Check)| !same(&run(table, &samples), &run(scalar, &samples));
    if let Some((name, _)) = CHECKS.iter().find(differ) {
        return Some((*name).to_owned());
    }
    types.iter().find_map(|&ty| {
        let weights = Weights::new(ty, &mut random);
        let differ = |run: fn(&Weights, &Kernels, usize) -> Vec<f32>| {
            [1, COLUMNS].iter().any(|&n| !same(&run(&weights, table, n), &run(&weights, scalar, n)))
        };
        let name = match () {
            () if differ(Weights::product) => "product",
            () if differ(Weights::product_float) => "product_float",
            () => return None,
        };
        Some(format!("{name} of {ty}"))
    })
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
}

/// Length of a vector: whole chunks of 16 and a rest.
const LEN: usize = 77;
/// Length of a head, and side of a state.
const HEAD: usize = 32;
/// Heads in a group: one more than are taken together.
const HEADS: usize = 5;
/// Tokens, and rows of keys and values.
const TOKENS: usize = 3;
/// Taps of a convolution.
const TAPS: usize = 4;

/// What the kernels are tried on.
struct Samples {
    x: Vec<f32>,
    y: Vec<f32>,
    z: Vec<f32>,
    /// `[HEADS][HEAD]`; the first [`TOKENS`] of them also as one per token.
    heads: Vec<f32>,
    /// `[TOKENS][HEAD]`.
    rows: Vec<f32>,
    halves: Vec<u16>,
    state: Vec<f32>,
}

impl Samples {
    fn new(random: &mut SmallRng) -> Self {
        let mut floats = |n| (0..n).map(|_| random.random_range(-3.0..3.0)).collect::<Vec<f32>>();
        let [x, y, z] = [(); 3].map(|()| floats(TAPS * LEN));
        let (heads, rows) = (floats(HEADS * HEAD), floats(TOKENS * HEAD));
        let halves = rows.iter().map(|v| half::f16::from_f32(*v).to_bits()).collect();
        Self { x, y, z, heads, rows, halves, state: floats(HEAD * HEAD) }
    }

    fn x(&self) -> &[f32] {
        &self.x[..LEN]
    }

    fn y(&self) -> &[f32] {
        &self.y[..LEN]
    }

    fn z(&self) -> &[f32] {
        &self.z[..LEN]
    }

    fn kv(&self) -> [KvRows<'_>; 2] {
        let stride = HEAD;
        [KvRows::F16 { data: &self.halves, stride }, KvRows::F32 { data: &self.rows, stride }]
    }
}

/// `x` after a kernel has changed it.
fn changed(x: &[f32], kernel: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut x = x.to_vec();
    kernel(&mut x);
    x
}

/// What a kernel writes.
fn made(len: usize, kernel: impl FnOnce(&mut [f32])) -> Vec<f32> {
    changed(&vec![f32::NAN; len], kernel)
}

/// Bytes that a kernel writes.
fn bytes(len: usize, kernel: impl FnOnce(&mut [u8])) -> Vec<f32> {
    let mut out = vec![0xa5; len];
    kernel(&mut out);
    out.into_iter().map(f32::from).collect()
}

/// The results of one kernel.
type Check = fn(&Kernels, &Samples) -> Vec<f32>;

/// Every kernel but the products.
const CHECKS: [(&str, Check); 29] = [
    ("dot", |k, s| vec![(k.dot)(s.x(), s.y())]),
    ("sum_squares", |k, s| vec![(k.sum_squares)(s.x())]),
    ("rms_norm", |k, s| made(LEN, |out| (k.rms_norm)(s.x(), s.y(), 1e-6, out))),
    ("rms_norm_inplace", |k, s| changed(s.x(), |x| (k.rms_norm_inplace)(x, s.y(), 1e-6))),
    ("l2_normalize", |k, s| changed(s.x(), |x| (k.l2_normalize)(x, 1e-6))),
    ("axpy", |k, s| changed(s.y(), |y| (k.axpy)(0.7, s.x(), y))),
    ("scale_add", |k, s| changed(s.y(), |y| (k.scale_add)(0.7, y, -1.3, s.x()))),
    ("scale", |k, s| changed(s.x(), |x| (k.scale)(0.7, x))),
    ("add", |k, s| changed(s.x(), |x| (k.add)(x, s.y()))),
    ("swiglu", |k, s| made(LEN, |out| (k.swiglu)(s.x(), s.y(), out))),
    ("sigmoid_mul", |k, s| changed(s.x(), |x| (k.sigmoid_mul)(s.y(), x))),
    ("silu_mul", |k, s| changed(s.x(), |x| (k.silu_mul)(s.y(), x))),
    ("silu", |k, s| changed(s.x(), k.silu)),
    ("sigmoid", |k, s| changed(s.x(), k.sigmoid)),
    ("softplus", |k, s| changed(s.x(), k.softplus)),
    ("exp", |k, s| changed(s.x(), k.exp)),
    ("log1p", |k, s| changed(&s.x().iter().map(|x| x.abs()).collect::<Vec<_>>(), k.log1p)),
    ("decay", |k, s| {
        let rate: Vec<f32> = s.y().iter().map(|y| -y.abs()).collect();
        changed(s.x(), |x| (k.decay)(x, &rate, s.z()))
    }),
    ("max", |k, s| vec![(k.max)(s.x())]),
    ("exp_sum", |k, s| {
        let mut x = s.x().to_vec();
        let sum = (k.exp_sum)(&mut x, 1.5);
        x.push(sum);
        x
    }),
    ("softmax", |k, s| changed(s.x(), k.softmax)),
    ("conv1d_silu", |k, s| {
        let window: Vec<&[f32]> = s.y.chunks_exact(LEN).collect();
        made(LEN, |out| (k.conv1d_silu)(&s.x, &window, out))
    }),
    ("delta", delta),
    ("attention_scores", |k, s| {
        let scores = |kv| {
            made(HEADS * TOKENS, |out| {
                (k.attention_scores)(&s.heads, HEAD, kv, TOKENS, 0.3, out);
            })
        };
        s.kv().map(scores).concat()
    }),
    ("attention_values", |k, s| {
        let weights = &s.x[..HEADS * TOKENS];
        let mixed =
            |kv| changed(&s.heads, |acc| (k.attention_values)(weights, HEAD, kv, TOKENS, acc));
        s.kv().map(mixed).concat()
    }),
    ("to_f16", |k, s| {
        let mut out = vec![0; LEN];
        (k.to_f16)(s.x(), &mut out);
        out.into_iter().map(f32::from).collect()
    }),
    ("from_f16", |k, s| made(LEN, |out| (k.from_f16)(&s.halves[..LEN], out))),
    ("quantize_q8k", |k, s| {
        let blocks = s.x.len().div_ceil(Q8K_LEN);
        bytes(blocks * Q8K_BYTES, |out| (k.quantize_q8k)(&s.x, out))
    }),
    ("quantize_q80", |k, s| {
        let blocks = s.x.len().div_ceil(Q80_LEN);
        bytes(blocks * Q80_BYTES, |out| (k.quantize_q80)(&s.x, out))
    }),
];

/// Outputs, then the new state.
fn delta(k: &Kernels, s: &Samples) -> Vec<f32> {
    let mut state = s.state.clone();
    let mut out = vec![f32::NAN; TOKENS * HEAD];
    let vectors = |data| PerToken { data, stride: HEAD };
    let [decay, beta] = [&s.y, &s.z].map(|data| PerToken { data, stride: 1 });
    (k.delta)(DeltaArgs {
        state: &mut state,
        q: vectors(&s.heads),
        k: vectors(&s.rows),
        v: vectors(&s.x),
        decay,
        beta,
        out: &mut out.chunks_exact_mut(HEAD).collect::<Vec<_>>(),
    });
    out.append(&mut state);
    out
}

/// Rows of weights: a whole tile of any set, and one more.
const ROWS: usize = 33;
/// Columns, where there are several.
const COLUMNS: usize = 5;

/// Rows of one type, and columns to multiply them with.
struct Weights {
    ty: GgmlType,
    k: usize,
    rows: Vec<u8>,
    floats: Vec<Vec<f32>>,
    /// As the integer product wants them, by the scalar kernels.
    quantised: Vec<Vec<u8>>,
}

impl Weights {
    fn new(ty: GgmlType, random: &mut SmallRng) -> Self {
        // More than one unit of a product; in blocks of 32, a last unit that is not whole.
        let k = match ty.block_len() {
            1 => LEN,
            Q8K_LEN => 2 * Q8K_LEN,
            len => 256 + len,
        };
        let mut rows = vec![0; ROWS * (k / ty.block_len() * ty.block_bytes())];
        random_row(ty, random, &mut rows, 0.25);
        let mut column = |_| (0..k).map(|_| random.random_range(-3.0..3.0)).collect();
        let floats: Vec<Vec<f32>> = (0..COLUMNS).map(&mut column).collect();
        let quantised = floats.iter().map(|x| quantised(family(ty), x)).collect();
        Self { ty, k, rows, floats, quantised }
    }

    /// The integer product with the first `n` columns; nothing if there is none.
    fn product(&self, table: &Kernels, n: usize) -> Vec<f32> {
        let columns: Vec<&[u8]> = self.quantised[..n].iter().map(Vec::as_slice).collect();
        let Some(product) = (table.product)(self.ty) else { return Vec::new() };
        products(n, |out| product(&self.rows, &[], self.k, &columns, out))
    }

    fn product_float(&self, table: &Kernels, n: usize) -> Vec<f32> {
        let columns: Vec<&[f32]> = self.floats[..n].iter().map(Vec::as_slice).collect();
        products(n, |out| (table.product_float)(self.ty, &self.rows, self.k, &columns, out))
    }
}

/// What a product writes for `n` columns.
fn products(n: usize, product: impl FnOnce(&mut [&mut [f32]])) -> Vec<f32> {
    made(n * ROWS, |out| product(&mut out.chunks_mut(ROWS).collect::<Vec<_>>()))
}

fn quantised(family: Family, x: &[f32]) -> Vec<u8> {
    let scalar = kernels(Isa::Scalar);
    let (quantize, len, bytes) = match family {
        Family::Float => return Vec::new(),
        Family::Super => (scalar.quantize_q8k, Q8K_LEN, Q8K_BYTES),
        Family::Block => (scalar.quantize_q80, Q80_LEN, Q80_BYTES),
    };
    let mut out = vec![0; x.len().div_ceil(len) * bytes];
    quantize(x, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn types() -> Vec<GgmlType> {
        GgmlType::all().filter(|ty| ty.is_weight()).collect()
    }

    /// A table that is not taken for the scalar one, though it computes as that does.
    fn right() -> Kernels {
        Kernels { isa: Isa::Avx2, ..*kernels(Isa::Scalar) }
    }

    /// A table with one wrong entry, and that entry's name.
    macro_rules! broken {
        ($($entry:ident: $wrong:expr),* $(,)?) => {
            vec![$((stringify!($entry), Kernels { $entry: $wrong, ..right() })),*]
        };
    }

    #[test]
    fn every_set_of_this_machine_is_right() {
        for isa in Isa::available() {
            assert_eq!(wrong(kernels(isa), &types()), None, "{isa}");
            let choice = choose(Some(isa), &types()).expect("a set that computes right");
            assert_eq!((choice.kernels.isa, choice.warnings.len()), (isa, 0));
        }
        let choice = choose(None, &types()).expect("nothing was asked for");
        assert_eq!((choice.kernels.isa, choice.warnings.len()), (Isa::detect(), 0));
    }

    #[test]
    fn a_wrong_kernel_is_named_whichever_it_is() {
        let tables = broken! {
            dot: |_, _| 1.0,
            sum_squares: |_| 1.0,
            rms_norm: |_, _, _, out| out.fill(1.0),
            rms_norm_inplace: |x, _, _| x[0] += 1.0,
            l2_normalize: |_, _| {},
            axpy: |_, _, _| {},
            scale_add: |_, y, _, _| y[76] = 0.0,
            scale: |_, _| {},
            add: |_, _| {},
            swiglu: |_, _, out| out.fill(1.0),
            sigmoid_mul: |_, _| {},
            silu_mul: |_, _| {},
            silu: |x| x.fill(1.0),
            sigmoid: |x| x.fill(1.0),
            softplus: |x| x.fill(1.0),
            exp: |x| x.fill(1.0),
            log1p: |x| x.fill(1.0),
            decay: |_, _, _| {},
            max: |_| 0.0,
            exp_sum: |_, _| 0.0,
            softmax: |_| {},
            conv1d_silu: |_, _, out| out.fill(0.0),
            delta: |args| args.out[2][31] = 0.0,
            attention_scores: |_, _, _, _, _, out| out.fill(0.0),
            attention_values: |_, _, _, _, _| {},
            to_f16: |_, _| {},
            from_f16: |_, _| {},
            quantize_q8k: |_, _| {},
            quantize_q80: |_, _| {},
            product_float: |_, _, _, _, _| {},
        };
        // All but the integer product, whose types are looked at below.
        assert_eq!(tables.len(), CHECKS.len() + 1);
        for (name, table) in tables {
            let named = wrong(&table, &[GgmlType::F32]).expect(name);
            assert_eq!(named.split(" of ").next(), Some(name));
        }
        assert_eq!(wrong(&right(), &types()), None);
    }

    #[test]
    fn the_last_bit_of_one_of_five_columns_counts() {
        fn product(ty: GgmlType) -> Option<super::super::kernels::Product> {
            let right = (kernels(Isa::Scalar).product)(ty);
            let wrong: super::super::kernels::Product = |rows, next, k, columns, out| {
                let right = (kernels(Isa::Scalar).product)(GgmlType::Q5K).unwrap();
                right(rows, next, k, columns, out);
                if let Some(column) = out.get_mut(COLUMNS - 1) {
                    column[ROWS - 1] = column[ROWS - 1].next_up();
                }
            };
            if ty == GgmlType::Q5K { Some(wrong) } else { right }
        }
        let table = Kernels { product, ..right() };
        assert_eq!(wrong(&table, &types()).as_deref(), Some("product of q5_K"));
        // A model without that type can use the set.
        assert_eq!(wrong(&table, &[GgmlType::Q4K, GgmlType::Q6K]), None);
        let none = Kernels { product: |_| None, ..right() };
        assert_eq!(wrong(&none, &[GgmlType::Q8_0]).as_deref(), Some("product of q8_0"));
    }

    #[test]
    fn a_wrong_set_is_dropped_for_the_next_with_one_line_each() {
        let leak = |table| -> &'static Kernels { Box::leak(Box::new(table)) };
        let first = leak(Kernels { isa: Isa::Avx512Vnni, max: |_| 0.0, ..right() });
        let second = leak(right());
        let choice = choose_from(&[first, second], &[]);
        assert_eq!(choice.kernels.isa, Isa::Avx2);
        let line = "avx512+vnni computes max wrongly on this machine; using avx2";
        assert_eq!(choice.warnings, [line]);

        let wrong = leak(Kernels { dot: |_, _| 0.0, ..right() });
        let choice = choose_from(&[first, wrong, kernels(Isa::Scalar)], &[]);
        assert_eq!((choice.kernels.isa, choice.warnings.len()), (Isa::Scalar, 2));
        assert!(
            choice.warnings[1].ends_with("avx2 computes dot wrongly on this machine; using scalar")
        );
    }

    #[test]
    fn all_types_take_less_than_a_blink() {
        let time = || {
            let start = Instant::now();
            let choice = choose(None, &types());
            std::hint::black_box(&choice);
            start.elapsed()
        };
        let best = (0..20).map(|_| time()).min().expect("some times");
        assert!(best < Duration::from_millis(20), "{best:?}");
    }
}
