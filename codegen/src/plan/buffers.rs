//! The CPU executor's static arena: from which stage to which a buffer lives, and where it lies.
//!
//! Two buffers that are never alive in the same stage may share memory: a mixer's and the experts',
//! or those of the two mixers.

use crate::family::{LayerSet, Stage};
use crate::spec::ModelSpec;

/// A cache line: every column of every buffer starts on one.
pub const ALIGN: usize = 64;
/// Largest number of tokens in one pass: enough that reading the weights no longer counts.
pub const MAX_COLUMNS: usize = 512;

/// A buffer of the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Field of the engine's `Arena`.
    pub name: &'static str,
    /// Byte offset, a multiple of [`ALIGN`].
    pub offset: usize,
    /// Bytes of one column, a multiple of [`ALIGN`].
    pub stride: usize,
    /// First stage that writes it.
    pub first: Stage,
    /// Last stage that reads it.
    pub last: Stage,
}

impl BufferPlan {
    /// Bytes of all columns.
    pub const fn bytes(&self) -> usize {
        self.stride * MAX_COLUMNS
    }

    /// First byte after it.
    pub const fn end(&self) -> usize {
        self.offset + self.bytes()
    }

    /// Whether both are needed at once. A layer has one mixer only, so what lives within one kind
    /// of mixer never meets what lives within the other.
    pub fn meets(&self, other: &Self) -> bool {
        let in_order = self.first <= other.last && other.first <= self.last;
        let exclusive =
            |a: &Self, b: &Self| a.within(LayerSet::Gdn) && b.within(LayerSet::Attention);
        in_order && !exclusive(self, other) && !exclusive(other, self)
    }

    fn within(&self, layers: LayerSet) -> bool {
        self.first.layers() == layers && self.last.layers() == layers
    }
}

/// The arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaPlan {
    /// Bytes of the whole.
    pub bytes: usize,
    /// In the order of the engine's `Arena`.
    pub buffers: Vec<BufferPlan>,
}

/// Values and bytes of a quantised activation block.
type Block = (usize, usize);
/// Q8_K: f32 scale, 256 i8 values, sixteen i16 sums.
const Q8K: Block = (256, 292);
/// 32 values: f32 scale, i32 sum, i8 values.
const Q80: Block = (32, 40);

fn f32s(values: usize) -> usize {
    4 * values
}

fn blocks((len, bytes): Block, values: usize) -> usize {
    values.div_ceil(len) * bytes
}

/// Name, bytes of a column, first and last stage of every buffer.
///
/// `h`, in f32 and quantised, is the input of every matrix stage: normed `x` or a mixer's output.
fn list(s: &ModelSpec) -> [(&'static str, usize, Stage, Stage); 18] {
    use Stage as S;
    let input = s.n_embd.max(s.value_dim()).max(s.q_dim());
    let used = s.n_expert_used;
    // Every expert's activations are a vector of their own, so their blocks are whole for each.
    let ff = |block| used * blocks(block, s.expert_ff) + blocks(block, s.shared_ff);
    [
        ("x", f32s(s.n_embd), S::Embed, S::Head),
        ("h", f32s(input), S::GdnProject, S::Head),
        ("h_q8k", blocks(Q8K, input), S::GdnProject, S::Head),
        ("h_q80", blocks(Q80, input), S::GdnProject, S::Head),
        ("qkv", f32s(s.conv_dim()), S::GdnProject, S::GdnRecur),
        ("z", f32s(s.value_dim()), S::GdnProject, S::GdnRecur),
        ("alpha", f32s(s.gdn_v_heads), S::GdnProject, S::GdnRecur),
        ("beta", f32s(s.gdn_v_heads), S::GdnProject, S::GdnRecur),
        ("qg", f32s(2 * s.q_dim()), S::AttnProject, S::AttnMix),
        ("k", f32s(s.kv_dim()), S::AttnProject, S::AttnMix),
        ("v", f32s(s.kv_dim()), S::AttnProject, S::AttnMix),
        ("router", f32s(s.n_expert), S::MoeRoute, S::MoeRoute),
        ("expert_ids", f32s(used), S::MoeRoute, S::MoeDown),
        ("expert_weights", f32s(used + 1), S::MoeRoute, S::MoeDown),
        ("ff", f32s(used * s.expert_ff + s.shared_ff), S::MoeUp, S::MoeDown),
        ("ff_q8k", ff(Q8K), S::MoeUp, S::MoeDown),
        ("ff_q80", ff(Q80), S::MoeUp, S::MoeDown),
        ("down", f32s((used + 1) * s.n_embd), S::MoeDown, S::MoeDown),
    ]
}

/// Places every buffer at the lowest offset that is free for its whole life, long lives and large
/// buffers first.
pub(super) fn allocate(spec: &ModelSpec) -> ArenaPlan {
    let mut buffers: Vec<BufferPlan> = list(spec)
        .into_iter()
        .map(|(name, bytes, first, last)| BufferPlan {
            name,
            offset: 0,
            stride: bytes.next_multiple_of(ALIGN),
            first,
            last,
        })
        .collect();
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    let life = |b: &BufferPlan| b.last as usize - b.first as usize;
    order.sort_by_key(|&i| std::cmp::Reverse((life(&buffers[i]), buffers[i].stride)));
    for (n, &i) in order.iter().enumerate() {
        let mut taken: Vec<(usize, usize)> = order[..n]
            .iter()
            .map(|&other| &buffers[other])
            .filter(|other| other.meets(&buffers[i]))
            .map(|other| (other.offset, other.end()))
            .collect();
        taken.sort_unstable();
        buffers[i].offset = first_gap(&taken, buffers[i].bytes());
    }
    let bytes = buffers.iter().map(BufferPlan::end).max().unwrap_or(0);
    ArenaPlan { bytes, buffers }
}

/// The lowest offset with `bytes` free behind it; `taken` is sorted and may overlap itself.
fn first_gap(taken: &[(usize, usize)], bytes: usize) -> usize {
    let mut free = 0;
    for &(start, end) in taken {
        if free + bytes <= start {
            break;
        }
        free = free.max(end);
    }
    free
}
