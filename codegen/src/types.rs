//! The tensor types that a type mix or a stage's list of mixes can name.

/// A tensor type: how many values a block holds, and in how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockType {
    /// Name as ggml prints it: `q4_K`.
    pub name: &'static str,
    /// Values per block.
    pub values: usize,
    /// Bytes per block.
    pub bytes: usize,
}

const fn block(name: &'static str, values: usize, bytes: usize) -> BlockType {
    BlockType { name, values, bytes }
}

/// Every type that can hold weights.
#[rustfmt::skip]
pub const TYPES: [BlockType; 28] = [
    block("f32", 1, 4),         block("f16", 1, 2),         block("bf16", 1, 2),
    block("q4_0", 32, 18),      block("q4_1", 32, 20),      block("q5_0", 32, 22),
    block("q5_1", 32, 24),      block("q8_0", 32, 34),      block("q2_K", 256, 84),
    block("q3_K", 256, 110),    block("q4_K", 256, 144),    block("q5_K", 256, 176),
    block("q6_K", 256, 210),    block("iq2_xxs", 256, 66),  block("iq2_xs", 256, 74),
    block("iq2_s", 256, 82),    block("iq3_xxs", 256, 98),  block("iq3_s", 256, 110),
    block("iq1_s", 256, 50),    block("iq1_m", 256, 56),    block("iq4_nl", 32, 18),
    block("iq4_xs", 256, 136),  block("tq1_0", 256, 54),    block("tq2_0", 256, 66),
    block("mxfp4", 32, 17),     block("nvfp4", 64, 36),     block("q1_0", 128, 18),
    block("q2_0", 64, 18),
];

impl BlockType {
    /// The type of a name.
    pub fn lookup(name: &str) -> Option<&'static Self> {
        TYPES.iter().find(|ty| ty.name == name)
    }

    /// Bytes of a number of values, rows being whole blocks.
    pub const fn bytes_of(&self, values: u64) -> u64 {
        values / self.values as u64 * self.bytes as u64
    }
}
