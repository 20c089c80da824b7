//! Reproducible data and references shared by the kernel tests.

use pantheon::cpu::kernels::{Family, Kernels, Q8K_BYTES, Q80_BYTES, kernels};
use pantheon::cpu::simd::Isa;
use pantheon::quant::GgmlType;

/// The scalar table and the others this machine has.
pub(crate) fn tables() -> (&'static Kernels, Vec<&'static Kernels>) {
    let others = Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar).map(kernels);
    (kernels(Isa::Scalar), others.collect())
}

/// xorshift64.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// In -1..1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }
    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 56) as u8).collect()
    }
    /// Positive f16 between 2^-7 and 2^-3, or its negative.
    fn half(&mut self) -> u16 {
        let bits = self.next();
        (0x2000 + (bits % 0x1000) as u16) | (bits >> 48 & 0x8000) as u16
    }
}

/// Where a block holds its f16 scales.
fn halves(ty: GgmlType) -> &'static [usize] {
    use GgmlType as T;
    match ty {
        T::Q2K => &[80, 82],
        T::Q3K => &[108],
        T::Q6K => &[208],
        T::Tq1_0 => &[52],
        T::Tq2_0 => &[64],
        T::Q4_1 | T::Q5_1 | T::Q4K | T::Q5K => &[0, 2],
        T::F32 | T::F16 | T::Bf16 | T::Mxfp4 | T::Nvfp4 | T::Iq1M => &[],
        _ => &[0],
    }
}

/// Sets the scales of a block (all of them to `half`, an f16), leaving the quantised values.
pub(crate) fn set_scales(ty: GgmlType, block: &mut [u8], half: u16) {
    for &at in halves(ty) {
        block[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    match ty {
        GgmlType::Mxfp4 => block[0] = 120 + block[0] % 8,
        // Its f16 is spread over the top nibbles of four words.
        GgmlType::Iq1M => {
            for (i, at) in [49, 51, 53, 55].into_iter().enumerate() {
                block[at] = block[at] & 0x0f | ((half >> (4 * i) & 15) << 4) as u8;
            }
        }
        _ => {}
    }
}

/// `n` rows of `k` random weights with moderate scales.
pub(crate) fn rows(ty: GgmlType, n: usize, k: usize, noise: &mut Noise) -> Vec<u8> {
    let floats = |noise: &mut Noise| noise.floats(n * k).into_iter();
    match ty {
        GgmlType::F32 => floats(noise).flat_map(f32::to_le_bytes).collect(),
        GgmlType::Bf16 => {
            floats(noise).flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        GgmlType::F16 => (0..n * k).flat_map(|_| noise.half().to_le_bytes()).collect(),
        _ => {
            let mut bytes = noise.bytes(n * ty.row_bytes(k).expect("whole blocks"));
            for block in bytes.chunks_exact_mut(ty.block_bytes()) {
                let half = noise.half();
                set_scales(ty, block, half);
            }
            bytes
        }
    }
}

/// A quantised column.
pub(crate) fn quantised(table: &Kernels, family: Family, x: &[f32]) -> Vec<u8> {
    if family == Family::Super {
        let mut out = vec![0xa5; x.len().div_ceil(256) * Q8K_BYTES];
        (table.quantize_q8k)(x, &mut out);
        out
    } else {
        let mut out = vec![0xa5; x.len().div_ceil(32) * Q80_BYTES];
        (table.quantize_q80)(x, &mut out);
        out
    }
}

/// What a quantised column stands for.
pub(crate) fn restored(family: Family, k: usize, bytes: &[u8]) -> Vec<f64> {
    let len = if family == Family::Super { 256 } else { 32 };
    let blocks = k.div_ceil(len);
    let scales = if family == Family::Super { blocks * (256 + 32) } else { blocks * 32 };
    let value = |i: usize| {
        let at = scales + 4 * (i / len);
        let d = f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        f64::from(d) * f64::from(bytes[i] as i8)
    };
    (0..k).map(value).collect()
}

/// Asserts that two results have the same bits.
#[track_caller]
pub(crate) fn same_bits(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a.to_bits() == b.to_bits(), "{what}: element {i} is {a:e} and {b:e}");
    }
}
