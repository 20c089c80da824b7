//! Time of every kernel on one thread: `cargo bench --bench kernels [-- FILTER [ISA]]`.
//!
//! Products of one column, as in decoding, are timed twice: `mem` reads weights from 96 MiB of
//! memory, `L2` from 1 MiB that stays in cache and so shows the kernel's own limit; `GB/s` counts
//! weight bytes. Products of more columns read 1 MiB; `GOP/s` counts two operations per weight and
//! column.

use std::hint::black_box;
use std::time::Instant;

use pantheon::cpu::kernels::{
    DeltaArgs, Family, Kernels, KvRows, PerToken, Q8K_BYTES, Q80_BYTES, TILE, family, kernels,
};
use pantheon::cpu::simd::Isa;
use pantheon::quant::GgmlType;

const K: usize = 2048;
const WEIGHT_BYTES: usize = 96 << 20;
const SMALL: usize = 1 << 20;

/// Shortest time of a call of `f`, in seconds: the minimum shuts out other work on the machine.
fn best(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    f();
    // Calls shorter than the clock's grain are timed in batches.
    let batch = (20e-6 / start.elapsed().as_secs_f64().max(1e-9)).ceil().clamp(1.0, 1000.0) as u32;
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed().as_millis() < 150 {
        let start = Instant::now();
        for _ in 0..batch {
            f();
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(batch));
    }
    best
}

/// Reproducible noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() % 2001) as f32 / 1000.0 - 1.0).collect()
    }
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..n.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(n);
        bytes
    }
}

/// Columns quantised for a family.
fn quantised(k: &Kernels, family: Family, columns: &[Vec<f32>]) -> Vec<Vec<u8>> {
    let one = |x: &Vec<f32>| {
        let size = if family == Family::Super {
            x.len() / 256 * Q8K_BYTES
        } else {
            x.len() / 32 * Q80_BYTES
        };
        let mut out = vec![0; size];
        if family == Family::Super {
            (k.quantize_q8k)(x, &mut out);
        } else {
            (k.quantize_q80)(x, &mut out);
        }
        out
    };
    columns.iter().map(one).collect()
}

/// Random bytes as weights: arbitrary floats and powers of two would be mostly subnormal or
/// infinite.
fn finite(ty: GgmlType, weights: &[u8]) -> Vec<u8> {
    let mut weights = weights.to_vec();
    let (step, at) = match ty {
        GgmlType::F32 => (4, 3),
        GgmlType::F16 | GgmlType::Bf16 => (2, 1),
        GgmlType::Mxfp4 => (17, 0),
        _ => return weights,
    };
    weights.iter_mut().skip(at).step_by(step).for_each(|byte| *byte = 0x3c);
    weights
}

fn products(k: &Kernels, weights: &[u8], filter: &str, noise: &mut Noise) {
    let columns: Vec<Vec<f32>> = (0..TILE).map(|_| noise.floats(K)).collect();
    for ty in GgmlType::all().filter(|ty| ty.is_weight() && ty.name().contains(filter)) {
        let row_bytes = ty.row_bytes(K).expect("whole blocks");
        let weights = &finite(ty, weights);
        let data = quantised(k, family(ty), &columns);
        let refs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let floats: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        let mut line = format!("{:<14} {:<8}", k.isa.name(), ty.name());
        for (count, bytes) in [1, 2, 3, 4, 8, 16, TILE]
            .map(|count| (count, SMALL))
            .into_iter()
            .chain([(1, WEIGHT_BYTES)])
        {
            let rows = bytes / row_bytes;
            let w = &weights[..rows * row_bytes];
            let mut out = vec![0.0; rows * count];
            let mut out: Vec<&mut [f32]> = out.chunks_mut(rows).collect();
            let seconds = match (k.product)(ty) {
                Some(product) => best(|| product(black_box(w), &[], K, &refs[..count], &mut out)),
                None => best(|| (k.product_float)(ty, black_box(w), K, &floats[..count], &mut out)),
            };
            black_box(&out);
            if count == 1 {
                let name = if bytes == SMALL { "L2" } else { "mem" };
                line += &format!("  {name} {:5.2}", w.len() as f64 / seconds / 1e9);
            } else {
                let gop = 2.0 * (rows * K * count) as f64 / seconds / 1e9;
                line += &format!("{} {count}: {gop:5.1}", if count == 2 { " GB/s " } else { "" });
            }
        }
        println!("{line} GOP/s");
    }
}

fn report(isa: Isa, name: &str, seconds: f64, bytes: usize) {
    let gb = bytes as f64 / seconds / 1e9;
    println!("{:<14} {name:<28} {:>10.1} ns  {gb:7.2} GB/s", isa.name(), seconds * 1e9);
}

fn vectors(k: &Kernels, noise: &mut Noise) {
    let (x, w) = (noise.floats(K), noise.floats(K));
    let mut out = vec![0.0; K];
    let mut q = vec![0; K / 32 * Q80_BYTES];
    let isa = k.isa;
    report(isa, "dot 2048", best(|| _ = black_box((k.dot)(black_box(&x), &w))), 8 * K);
    report(isa, "rms_norm 2048", best(|| (k.rms_norm)(black_box(&x), &w, 1e-6, &mut out)), 12 * K);
    report(isa, "axpy 2048", best(|| (k.axpy)(0.5, black_box(&x), &mut out)), 12 * K);
    report(isa, "swiglu 2048", best(|| (k.swiglu)(black_box(&x), &w, &mut out)), 12 * K);
    out.copy_from_slice(&x);
    report(isa, "softmax 2048", best(|| (k.softmax)(black_box(&mut out))), 8 * K);
    let mut q8k = vec![0; K / 256 * Q8K_BYTES];
    report(isa, "quantize_q8k 2048", best(|| (k.quantize_q8k)(black_box(&x), &mut q8k)), 4 * K);
    report(isa, "quantize_q80 2048", best(|| (k.quantize_q80)(black_box(&x), &mut q)), 4 * K);
    let window: Vec<Vec<f32>> = (0..4).map(|_| noise.floats(8192)).collect();
    let window: Vec<&[f32]> = window.iter().map(Vec::as_slice).collect();
    let (taps, mut out) = (noise.floats(4 * 8192), vec![0.0; 8192]);
    let seconds = best(|| (k.conv1d_silu)(black_box(&taps), &window, &mut out));
    report(isa, "conv1d_silu 8192", seconds, 4 * 9 * 8192);
    for tokens in [1, 32] {
        let (q, key, v) = (noise.floats(128 * 32), noise.floats(128 * 32), noise.floats(128 * 32));
        let each = |data| PerToken { data, stride: 128 };
        let (mut state, mut outs) = (noise.floats(128 * 128), vec![[0.0; 128]; tokens]);
        let seconds = best(|| {
            let mut out: Vec<&mut [f32]> =
                outs.iter_mut().map(<[f32; 128]>::as_mut_slice).collect();
            (k.delta)(DeltaArgs {
                state: black_box(&mut state),
                q: each(&q),
                k: each(&key),
                v: each(&v),
                decay: PerToken { data: &[0.9], stride: 0 },
                beta: PerToken { data: &[0.001], stride: 0 },
                out: &mut out,
            });
        });
        let name = format!("delta 128x128, {tokens} tokens, each");
        report(isa, &name, seconds / tokens as f64, 8 * 128 * 128);
    }
    let rows: Vec<u16> = (0..256 * 256).map(|_| 0x3800 | (noise.next() & 0x83ff) as u16).collect();
    let rows = KvRows::F16 { data: &rows, stride: 256 };
    let (q, mut p) = (noise.floats(8 * 256), vec![0.0; 8 * 256]);
    let seconds = best(|| (k.attention_scores)(black_box(&q), 256, rows, 256, 1.0, &mut p));
    report(isa, "scores 8 x 256 x 256 f16", seconds, 2 * 256 * 256);
    let mut acc = vec![0.0; 8 * 256];
    let seconds = best(|| (k.attention_values)(black_box(&p), 256, rows, 256, &mut acc));
    report(isa, "values 8 x 256 x 256 f16", seconds, 2 * 256 * 256);
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let (filter, only) = (args.next().unwrap_or_default(), args.next());
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let weights = noise.bytes(WEIGHT_BYTES);
    let words = weights.as_chunks::<8>().0;
    let sum = |words: &[[u8; 8]]| words.iter().fold(0, |a, w| a ^ u64::from_le_bytes(*w));
    let seconds = best(|| _ = black_box(sum(black_box(words))));
    println!("reading {} MiB: {:.2} GB/s", WEIGHT_BYTES >> 20, WEIGHT_BYTES as f64 / seconds / 1e9);
    for isa in Isa::available().into_iter().rev() {
        if only.as_ref().is_some_and(|only| !isa.name().contains(only.as_str())) {
            continue;
        }
        if filter.is_empty() {
            vectors(kernels(isa), &mut noise);
        }
        products(kernels(isa), &weights, &filter, &mut noise);
    }
}
