//! What every stage sees: the weights, the batch, the sequences' states and the arena, for one pass.

use super::kernels::{Kernels, TILE};
use super::matmul::ROW_BLOCK;
use super::stages::{CHANNEL_BLOCK, TOKEN_BLOCK};
use super::team::{Plane, Pod, SharedBuf};
use crate::model::{Arena, Buffer, Model, Shape};
use crate::state::{KvGeometry, KvRing, RecurrentState};

/// One token of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) token: u32,
    pub(crate) sequence: usize,
    /// Absolute position in its sequence.
    pub(crate) position: usize,
}

/// Consecutive columns of one sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sequence: usize,
    pub(crate) first_column: usize,
    pub(crate) len: usize,
    /// Position of the first column.
    pub(crate) position: usize,
}

/// The tokens of one pass. Allocated once, for the arena's number of columns.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) columns: Vec<Column>,
    pub(crate) spans: Vec<Span>,
    /// Columns whose logits are wanted, ascending.
    pub(crate) outputs: Vec<usize>,
}

impl Batch {
    pub(crate) fn with_capacity(columns: usize, sequences: usize) -> Self {
        Self {
            columns: Vec::with_capacity(columns),
            spans: Vec::with_capacity(sequences),
            outputs: Vec::with_capacity(columns),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.columns.clear();
        self.spans.clear();
        self.outputs.clear();
    }
}

/// The state of one sequence.
pub(crate) struct Sequence {
    pub(crate) position: usize,
    pub(crate) kv: KvRing,
    pub(crate) recurrent: RecurrentState,
}

/// A matrix stage's input in the three forms that weight types ask for.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) f32: Plane<'a, f32>,
    pub(crate) q8k: Plane<'a, u8>,
    pub(crate) q80: Plane<'a, u8>,
}

/// The arena's buffers as typed rows, one row per column; see [`Arena`] for what each holds.
#[derive(Clone, Copy)]
pub(crate) struct Planes<'a> {
    pub(crate) x: Plane<'a, f32>,
    pub(crate) h: Input<'a>,
    pub(crate) qkv: Plane<'a, f32>,
    pub(crate) z: Plane<'a, f32>,
    pub(crate) alpha: Plane<'a, f32>,
    pub(crate) beta: Plane<'a, f32>,
    pub(crate) qg: Plane<'a, f32>,
    pub(crate) k: Plane<'a, f32>,
    pub(crate) v: Plane<'a, f32>,
    pub(crate) router: Plane<'a, f32>,
    pub(crate) expert_ids: Plane<'a, u32>,
    pub(crate) expert_weights: Plane<'a, f32>,
    pub(crate) ff: Input<'a>,
    pub(crate) down: Plane<'a, f32>,
}

impl<'a> Planes<'a> {
    pub(crate) fn new(arena: &Arena, buf: &'a SharedBuf) -> Self {
        fn rows<'a, T: Pod>(arena: &Arena, buf: &'a SharedBuf, buffer: Buffer) -> Plane<'a, T> {
            buf.plane(buffer.offset, buffer.stride / size_of::<T>(), arena.max_columns)
        }
        let f = |buffer| rows::<f32>(arena, buf, buffer);
        let q = |buffer| rows::<u8>(arena, buf, buffer);
        Self {
            x: f(arena.x),
            h: Input { f32: f(arena.h), q8k: q(arena.h_q8k), q80: q(arena.h_q80) },
            qkv: f(arena.qkv),
            z: f(arena.z),
            alpha: f(arena.alpha),
            beta: f(arena.beta),
            qg: f(arena.qg),
            k: f(arena.k),
            v: f(arena.v),
            router: f(arena.router),
            expert_ids: rows::<u32>(arena, buf, arena.expert_ids),
            expert_weights: f(arena.expert_weights),
            ff: Input { f32: f(arena.ff), q8k: q(arena.ff_q8k), q80: q(arena.ff_q80) },
            down: f(arena.down),
        }
    }
}

/// Which columns each expert works on: made by `moe_route`, read by `moe_up` and `moe_down`.
#[derive(Clone, Copy)]
pub(crate) struct Routing<'a> {
    /// One row: the number of experts with work.
    pub(crate) active: Plane<'a, u32>,
    /// `[expert, first pair, pairs]` per expert with work.
    pub(crate) groups: Plane<'a, u32>,
    /// `column * n_expert_used + rank`, grouped by expert, ascending in a group.
    pub(crate) pairs: Plane<'a, u32>,
}

impl<'a> Routing<'a> {
    fn layout(shape: &Shape, columns: usize) -> [usize; 3] {
        [1, 3 * shape.n_expert, columns * shape.n_expert_used].map(|n| n.next_multiple_of(16))
    }

    pub(crate) fn bytes(shape: &Shape, columns: usize) -> usize {
        4 * Self::layout(shape, columns).iter().sum::<usize>()
    }

    pub(crate) fn new(shape: &Shape, columns: usize, buf: &'a SharedBuf) -> Self {
        let [active, groups, pairs] = Self::layout(shape, columns);
        Self {
            active: buf.plane(0, active, 1),
            groups: buf.plane(4 * active, 3, shape.n_expert),
            pairs: buf.plane(4 * (active + groups), pairs, 1),
        }
    }

    /// Number of experts with work.
    pub(crate) fn experts(&self) -> usize {
        self.active.read(0)[0] as usize
    }

    /// The `i`-th expert with work, and that work.
    pub(crate) fn group(&self, i: usize) -> (usize, Work<'a>) {
        let &[expert, first, count] = self.groups.read(i) else {
            unreachable!("a group is three values");
        };
        (expert as usize, Work::Routed(&self.pairs.read(0)[first as usize..][..count as usize]))
    }
}

/// Who works on one expert's rows.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// The (column, rank) pairs that chose a routed expert.
    Routed(&'a [u32]),
    /// The shared expert: this many columns, all of them.
    Shared(usize),
}

impl Work<'_> {
    /// Number of vectors.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Routed(pairs) => pairs.len(),
            Self::Shared(columns) => *columns,
        }
    }

    /// Column and rank of the `i`-th vector, `used` experts per token; the shared expert's rank is last.
    pub(crate) fn target(&self, i: usize, used: usize) -> (usize, usize) {
        match self {
            Self::Routed(pairs) => (pairs[i] as usize / used, pairs[i] as usize % used),
            Self::Shared(_) => (i, used),
        }
    }
}

/// Everything a pass works on. Shared by the team; written through planes only.
pub(crate) struct Context<'a, M: Model> {
    pub(crate) weights: &'a M::Weights,
    pub(crate) kernels: &'static Kernels,
    /// f32 activations and dequantised weights instead of integer dot products.
    pub(crate) exact: bool,
    /// Factor on the routed experts' weights (`expert_weights_scale`).
    pub(crate) expert_scale: f32,
    pub(crate) geometry: KvGeometry,
    pub(crate) batch: &'a Batch,
    pub(crate) sequences: &'a [Sequence],
    pub(crate) planes: Planes<'a>,
    pub(crate) routing: Routing<'a>,
    /// Per column: cosines, then sines, of every rotary pair.
    pub(crate) rope: Plane<'a, f32>,
    /// One row per output.
    pub(crate) logits: Plane<'a, f32>,
    pub(crate) trace: Option<&'a super::trace::Trace>,
}

/// A worker's private memory.
pub(crate) struct Scratch {
    /// Products of a row block with a tile of columns.
    pub(crate) products: Vec<f32>,
    /// Gate products of a row block with a tile of columns.
    pub(crate) gates: Vec<f32>,
    /// Up products of a row block with a tile of columns.
    pub(crate) ups: Vec<f32>,
    /// One head's normalised queries, then keys, for a block of tokens.
    pub(crate) qk: Vec<f32>,
    /// Attention: the queries of a group of heads.
    pub(crate) queries: Vec<f32>,
    /// Attention: scores of a tile, one row per query head of a group.
    pub(crate) scores: Vec<f32>,
    /// Attention: running output, one row per query head of a group.
    pub(crate) mixed: Vec<f32>,
    /// Convolution: the inputs of a channel block, one row per tap.
    pub(crate) window: Vec<f32>,
}

impl Scratch {
    pub(crate) fn new(shape: &Shape) -> Self {
        let tile = TILE * ROW_BLOCK;
        let group = shape.n_head / shape.n_head_kv;
        Self {
            products: vec![0.0; tile],
            gates: vec![0.0; tile],
            ups: vec![0.0; tile],
            qk: vec![0.0; 2 * TOKEN_BLOCK * shape.gdn_head_dim],
            queries: vec![0.0; group * shape.head_dim],
            scores: vec![0.0; group * KvGeometry::TILE],
            mixed: vec![0.0; group * shape.head_dim],
            window: vec![0.0; shape.conv_taps * CHANNEL_BLOCK],
        }
    }

    fn all(&mut self) -> [&mut Vec<f32>; 8] {
        let Self { products, gates, ups, qk, queries, scores, mixed, window } = self;
        [products, gates, ups, qk, queries, scores, mixed, window]
    }

    /// Bytes that a worker holds: these, and what products lay out on its stack.
    pub(crate) fn bytes(&mut self) -> usize {
        const STACK: usize = 24 << 10;
        STACK + self.all().iter().map(|part| size_of_val(part.as_slice())).sum::<usize>()
    }

    /// Fills everything with NaN.
    pub(crate) fn poison(&mut self) {
        self.all().into_iter().for_each(|part| part.fill(f32::NAN));
    }
}
