//! The eleven stages on the CPU, one file each, named as in [`crate::model::Stages`].
//!
//! Every worker of the team runs the whole forward; inside a stage the work is claimed in pieces.

mod attn_mix;
mod attn_output;
mod attn_project;
mod embed;
mod gdn_output;
mod gdn_project;
mod gdn_recur;
mod head;
mod moe_down;
mod moe_route;
mod moe_up;

use std::ops::Range;

use super::context::{Context, Scratch};
use super::matmul::{
    Outputs, Part, ROW_BLOCK, Tile, blocks_per_claim, multiply, multiply_tile, quantise, tiles,
};
use super::team::{Plane, Worker};
use super::trace::TraceEvent;
use crate::model::{LayerInfo, Model, Shape, Stages};
use crate::weights::{Matrix, Vector};

/// Channels convolved at a time.
pub(super) const CHANNEL_BLOCK: usize = 256;
/// Tokens of a head that the delta rule takes at a time.
pub(super) const TOKEN_BLOCK: usize = 64;

/// One worker's walk through the generated forward.
pub(crate) struct Pass<'a, M: Model> {
    pub(crate) worker: &'a Worker<'a>,
    pub(crate) cx: &'a Context<'a, M>,
    pub(crate) scratch: &'a mut Scratch,
}

impl<M: Model> Stages for Pass<'_, M> {
    fn embed(&mut self) {
        embed::run(self);
        self.trace("embed", 0, &[("x", self.cx.planes.x, M::SHAPE.n_embd)]);
    }

    fn gdn_project(&mut self, layer: &'static LayerInfo) {
        gdn_project::run(self, layer);
        let (p, s) = (&self.cx.planes, &M::SHAPE);
        let buffers = [
            ("h", p.h.f32, s.n_embd),
            ("qkv", p.qkv, s.conv_dim()),
            ("z", p.z, s.value_dim()),
            ("alpha", p.alpha, s.gdn_v_heads),
            ("beta", p.beta, s.gdn_v_heads),
        ];
        self.trace("gdn_project", layer.index, &buffers);
    }

    fn gdn_recur(&mut self, layer: &'static LayerInfo) {
        gdn_recur::run(self, layer);
        let (p, s) = (&self.cx.planes, &M::SHAPE);
        let buffers = [
            ("qkv", p.qkv, s.conv_dim()),
            ("alpha", p.alpha, s.gdn_v_heads),
            ("beta", p.beta, s.gdn_v_heads),
            ("h", p.h.f32, s.value_dim()),
        ];
        self.trace("gdn_recur", layer.index, &buffers);
    }

    fn gdn_output(&mut self, layer: &'static LayerInfo) {
        gdn_output::run(self, layer);
        self.trace("gdn_output", layer.index, &[("x", self.cx.planes.x, M::SHAPE.n_embd)]);
    }

    fn attn_project(&mut self, layer: &'static LayerInfo) {
        attn_project::run(self, layer);
        let (p, s) = (&self.cx.planes, &M::SHAPE);
        let buffers = [
            ("h", p.h.f32, s.n_embd),
            ("qg", p.qg, 2 * s.q_dim()),
            ("k", p.k, s.kv_dim()),
            ("v", p.v, s.kv_dim()),
        ];
        self.trace("attn_project", layer.index, &buffers);
    }

    fn attn_mix(&mut self, layer: &'static LayerInfo) {
        attn_mix::run(self, layer);
        self.trace("attn_mix", layer.index, &[("h", self.cx.planes.h.f32, M::SHAPE.q_dim())]);
    }

    fn attn_output(&mut self, layer: &'static LayerInfo) {
        attn_output::run(self, layer);
        self.trace("attn_output", layer.index, &[("x", self.cx.planes.x, M::SHAPE.n_embd)]);
    }

    fn moe_route(&mut self, layer: &'static LayerInfo) {
        moe_route::run(self, layer);
        let (p, s) = (&self.cx.planes, &M::SHAPE);
        let buffers = [
            ("h", p.h.f32, s.n_embd),
            ("router", p.router, s.n_expert),
            ("expert_weights", p.expert_weights, s.n_expert_used + 1),
        ];
        self.trace("moe_route", layer.index, &buffers);
    }

    fn moe_up(&mut self, layer: &'static LayerInfo) {
        moe_up::run(self, layer);
        let len = M::SHAPE.n_expert_used * M::SHAPE.expert_ff + M::SHAPE.shared_ff;
        self.trace("moe_up", layer.index, &[("ff", self.cx.planes.ff.f32, len)]);
    }

    fn moe_down(&mut self, layer: &'static LayerInfo) {
        moe_down::run(self, layer);
        let (p, s) = (&self.cx.planes, &M::SHAPE);
        let buffers = [("down", p.down, (s.n_expert_used + 1) * s.n_embd), ("x", p.x, s.n_embd)];
        self.trace("moe_down", layer.index, &buffers);
    }

    fn head(&mut self) {
        head::run(self);
        self.trace("head", 0, &[("h", self.cx.planes.h.f32, M::SHAPE.n_embd)]);
    }
}

/// What several stages do alike.
impl<M: Model> Pass<'_, M> {
    const SHAPE: Shape = M::SHAPE;

    fn columns(&self) -> usize {
        self.cx.batch.columns.len()
    }

    /// Norms `x` into `h` and quantises it as `matrices` want it; one region.
    fn norm(&self, gain: &Vector, matrices: &[&Matrix]) {
        let (cx, n, count) = (self.cx, Self::SHAPE.n_embd, self.columns());
        self.worker.parallel(count, 1, |columns| {
            for column in columns {
                let x = &cx.planes.x.read(column)[..n];
                let h = cx.planes.h.f32.write_range(column, 0..n);
                (cx.kernels.rms_norm)(x, gain, Self::SHAPE.rms_eps, h);
                quantise(cx, cx.planes.h, Part::whole(column, n), matrices);
            }
        });
    }

    /// Several matrices times the columns of `h`, each into its own buffer; one region.
    fn project<const N: usize>(&self, jobs: [(&Matrix, Plane<'_, f32>); N]) {
        let (cx, columns) = (self.cx, self.columns());
        let blocks: [usize; N] = jobs.each_ref().map(|(w, _)| w.rows().div_ceil(ROW_BLOCK));
        let total = blocks.iter().sum();
        let at = |item| {
            let (job, block) = locate(&blocks, item);
            (jobs[job], rows_of(block, jobs[job].0.rows()))
        };
        self.worker.parallel(total, blocks_per_claim(total, self.worker.count()), |claim| {
            for item in claim.clone() {
                let ((w, out), rows) = at(item);
                let next = following(item, &claim, |item| {
                    let ((w, _), rows) = at(item);
                    w.rows_bytes(rows)
                });
                multiply(cx, w, &rows, next, columns, |i| out.write_range(i, rows.clone()));
            }
        });
    }

    /// The mixer's output in `h` times its output projection, added to `x`; two regions.
    fn output(&mut self, w: &Matrix) {
        let (cx, columns) = (self.cx, self.columns());
        self.worker.parallel(columns, 1, |columns| {
            columns.for_each(|column| quantise(cx, cx.planes.h, Part::whole(column, w.k()), &[w]));
        });
        let products = &mut self.scratch.products;
        blocks(self.worker, w, |rows, next| {
            for (tile, last) in tiles(columns) {
                let next = if last { next } else { &[] };
                let products = &mut products[..tile.len() * rows.len()];
                let out = Outputs::new(products.chunks_exact_mut(rows.len()));
                let h = Tile::columns(cx, tile.clone(), w.k());
                multiply_tile(cx, w, rows.clone(), next, &h, out);
                for (i, values) in tile.zip(products.chunks_exact(rows.len())) {
                    (cx.kernels.add)(cx.planes.x.write_range(i, rows.clone()), values);
                }
            }
        });
    }

    fn trace(
        &self,
        stage: &'static str,
        layer: usize,
        buffers: &[(&'static str, Plane<'_, f32>, usize)],
    ) {
        let Some(hook) = self.cx.trace else { return };
        self.worker.single(|| {
            for (name, plane, len) in buffers {
                for column in 0..self.columns() {
                    let values = &plane.read(column)[..*len];
                    hook(&TraceEvent { stage, layer, name, column, values });
                }
            }
        });
    }
}

/// Which of several lists of blocks an item falls into, and where.
fn locate(blocks: &[usize], mut item: usize) -> (usize, usize) {
    for (job, count) in blocks.iter().enumerate() {
        if item < *count {
            return (job, item);
        }
        item -= count;
    }
    unreachable!("an item past the last block");
}

/// One region over all rows of a matrix: `body` gets a block of them and the weights that follow.
fn blocks(worker: &Worker<'_>, w: &Matrix, mut body: impl FnMut(Range<usize>, &[u8])) {
    let count = w.rows().div_ceil(ROW_BLOCK);
    worker.parallel(count, blocks_per_claim(count, worker.count()), |claim| {
        for block in claim.clone() {
            let bytes = |block| w.rows_bytes(rows_of(block, w.rows()));
            body(rows_of(block, w.rows()), following(block, &claim, bytes));
        }
    });
}

/// The weights of the item after this one of a claim.
fn following<'w>(
    item: usize,
    claim: &Range<usize>,
    weights: impl FnOnce(usize) -> &'w [u8],
) -> &'w [u8] {
    if item + 1 < claim.end { weights(item + 1) } else { &[] }
}

/// The rows of a block.
fn rows_of(block: usize, rows: usize) -> Range<usize> {
    block * ROW_BLOCK..((block + 1) * ROW_BLOCK).min(rows)
}
