//! The CUDA executor's kernels as data: which there are, and how each is launched per column
//! bucket.
//!
//! One stage is one kernel, and two at the head (logits, then the choice among them). Norms, gates,
//! convolution, RoPE and top-k have no launch of their own: they belong to the epilogue or the
//! prologue of the stage that has the data. So a layer is six launches.

use crate::emit::names;
use crate::family::Stage;
use crate::spec::ModelSpec;

/// Numbers of columns that a graph is captured for; a step takes the smallest that fits and masks
/// the rest.
pub const COLUMN_BUCKETS: [usize; 5] = [1, 2, 4, 8, 16];

/// Threads of every block: one size, so that stages can later run inside one persistent kernel.
const BLOCK: usize = 256;
/// Threads of a warp.
const WARP: usize = 32;
/// A warp makes one row of a matrix at a time.
const ROWS_PER_BLOCK: usize = BLOCK / WARP;
/// Shared memory that staged activations may take: Kepler has 48 KiB per block, and 8 KiB are for
/// reductions.
const STAGE_LIMIT: usize = 40 << 10;
const REDUCE: usize = 8 << 10;
/// Bytes of 32 staged values: i8 values, an f32 scale, an i32 sum.
const STAGED: (usize, usize) = (32, 40);
/// Most blocks that share one sequence's keys. Which of them have work depends on its length alone.
const SPLITS: usize = 32;
/// Keys scored at a time.
const TILE: usize = 64;
/// Lanes that share a row of the delta state: a whole row per thread spills.
const LANES_PER_ROW: usize = 8;

/// How a kernel is launched for a number of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Columns.
    pub columns: usize,
    /// Blocks, `x`, `y`, `z`.
    pub grid: [usize; 3],
    /// Threads of a block.
    pub block: usize,
    /// Shared memory of a block, in bytes.
    pub shared: usize,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name with the sizes that shaped it.
    pub name: String,
    /// Template it is made from, in `kernel-templates/`.
    pub template: &'static str,
    /// The stage it belongs to.
    pub stage: Stage,
    /// Launches per layer that has the stage, or per token.
    pub launches: usize,
    /// One per entry of [`COLUMN_BUCKETS`].
    pub variants: Vec<Launch>,
}

pub(super) fn all(s: &ModelSpec) -> Vec<Kernel> {
    let kernels = Stage::ALL.map(|stage| match stage {
        Stage::Embed => vec![embed(s)],
        Stage::GdnProject | Stage::AttnProject | Stage::GdnOutput | Stage::AttnOutput => {
            vec![projection(s, stage)]
        }
        Stage::GdnRecur => vec![recur(s)],
        Stage::AttnMix => vec![mix(s)],
        Stage::MoeRoute => vec![route(s)],
        Stage::MoeUp => vec![up(s)],
        Stage::MoeDown => vec![down(s)],
        Stage::Head => vec![projection(s, stage), sample(s)],
    });
    kernels.into_iter().flatten().collect()
}

fn kernel(
    stage: Stage,
    stem: &str,
    template: &'static str,
    sizes: &[(&str, usize)],
    launch: impl Fn(usize) -> ([usize; 3], usize),
) -> Kernel {
    let variants = COLUMN_BUCKETS.map(|columns| {
        let (grid, shared) = launch(columns);
        Launch { columns, grid, block: BLOCK, shared }
    });
    let name = names::kernel(stem, sizes);
    Kernel { name, template, stage, launches: 1, variants: variants.into() }
}

/// Shared memory of a matrix stage: the columns' quantised inputs, whole or in equal slices of
/// whole super-blocks, whichever fits, and the space of the reductions.
fn staging(columns: usize, inputs: usize) -> usize {
    let (values, bytes) = STAGED;
    let per_value = |n: usize| columns * n.div_ceil(values) * bytes;
    let slices = (1..).find(|n| per_value(slice(inputs, *n)) <= STAGE_LIMIT);
    per_value(slice(inputs, slices.unwrap_or(1))) + REDUCE
}

/// Inputs of one of `n` slices.
fn slice(inputs: usize, n: usize) -> usize {
    match n {
        1 => inputs,
        _ => inputs.div_ceil(n).next_multiple_of(256).min(inputs),
    }
}

/// Copies rows of the embedding, and writes what the first layer's norm needs.
fn embed(s: &ModelSpec) -> Kernel {
    kernel(Stage::Embed, "embed", "embed.cu", &[("d", s.n_embd)], |columns| {
        ([1, columns, 1], REDUCE)
    })
}

/// All rows of a stage's matrices in one grid; every block serves all columns.
fn projection(s: &ModelSpec, stage: Stage) -> Kernel {
    let rows: usize = stage.matrices().map(|t| s.dim(t.ne[1])).sum();
    let inputs = stage.matrices().map(|t| s.dim(t.ne[0])).max().unwrap_or(0);
    let template = match stage {
        Stage::GdnProject => "gdn_project.cu",
        Stage::AttnProject => "attn_project.cu",
        Stage::Head => "head.cu",
        _ => "output.cu",
    };
    kernel(stage, stage.stem(), template, &[("k", inputs), ("r", rows)], |columns| {
        ([rows.div_ceil(ROWS_PER_BLOCK), 1, 1], staging(columns, inputs))
    })
}

/// Slices of a value head's rows; the last block of a head does its gated norm.
fn recur(s: &ModelSpec) -> Kernel {
    let n = s.gdn_head_dim;
    let slices = n.div_ceil(BLOCK / LANES_PER_ROW);
    let sizes = [("hk", s.gdn_k_heads), ("hv", s.gdn_v_heads), ("d", n)];
    // Normalised query and key, and the values of the slice.
    let shared = 4 * 3 * n + REDUCE;
    kernel(Stage::GdnRecur, "gdn_recur", "gdn_recur.cu", &sizes, |columns| {
        ([slices, s.gdn_v_heads, columns], shared)
    })
}

/// Splits of a sequence's keys per key/value head; the last block of a head combines them.
fn mix(s: &ModelSpec) -> Kernel {
    let group = s.n_head / s.n_head_kv;
    let sizes = [("hq", s.n_head), ("hkv", s.n_head_kv), ("d", s.head_dim)];
    // Queries in, running output, scores of a tile; a group too large for it is worked in parts.
    let per_head = 4 * (2 * s.head_dim + TILE);
    let heads = group.min((STAGE_LIMIT / per_head).max(1));
    kernel(Stage::AttnMix, "attn_mix", "attn_mix.cu", &sizes, |columns| {
        ([SPLITS, s.n_head_kv, columns], heads * per_head + REDUCE)
    })
}

/// Router and the shared expert's gate as one wide product; the last block chooses the experts.
fn route(s: &ModelSpec) -> Kernel {
    let rows = s.n_expert + 1;
    let sizes = [("k", s.n_embd), ("e", s.n_expert), ("top", s.n_expert_used)];
    kernel(Stage::MoeRoute, "moe_route", "moe_route.cu", &sizes, |columns| {
        ([rows.div_ceil(ROWS_PER_BLOCK), 1, 1], staging(columns, s.n_embd))
    })
}

/// Groups of (column, rank) pairs that have an expert in common, at most this many, and one more
/// for the shared expert, which serves all columns.
fn groups(s: &ModelSpec, columns: usize) -> usize {
    s.n_expert.min(columns * s.n_expert_used) + 1
}

/// Gate and up rows of an expert side by side; one group of pairs per `y`.
fn up(s: &ModelSpec) -> Kernel {
    let rows = s.expert_ff.max(s.shared_ff);
    let sizes = [("k", s.n_embd), ("ff", s.expert_ff), ("sh", s.shared_ff)];
    kernel(Stage::MoeUp, "moe_up", "moe_up.cu", &sizes, |columns| {
        ([rows.div_ceil(ROWS_PER_BLOCK), groups(s, columns), 1], staging(columns, s.n_embd))
    })
}

/// Down rows; the last group of a block of rows adds all partial sums in rank order.
fn down(s: &ModelSpec) -> Kernel {
    let inputs = s.expert_ff.max(s.shared_ff);
    let sizes = [("ff", s.expert_ff), ("sh", s.shared_ff), ("r", s.n_embd)];
    kernel(Stage::MoeDown, "moe_down", "moe_down.cu", &sizes, |columns| {
        let blocks = s.n_embd.div_ceil(ROWS_PER_BLOCK);
        ([blocks, groups(s, columns), 1], staging(columns, inputs))
    })
}

/// The largest logits with the exact sum of all, and the next step's token.
fn sample(s: &ModelSpec) -> Kernel {
    const LOGITS_PER_BLOCK: usize = 8192;
    kernel(Stage::Head, "head_sample", "head.cu", &[("v", s.n_vocab)], |columns| {
        ([s.n_vocab.div_ceil(LOGITS_PER_BLOCK), columns, 1], REDUCE)
    })
}
