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
use super::kernels::TILE;
use super::matmul::{arrange, multiply, row_block, tile_columns};
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

    /// Norms `x` into `h` and arranges it as `matrices` want it; one region.
    fn norm(&self, gain: &Vector, matrices: &[&Matrix]) {
        let (cx, n, count) = (self.cx, Self::SHAPE.n_embd, self.columns());
        self.worker.parallel(count.div_ceil(TILE), 1, |tiles| {
            for tile in tiles {
                for column in tile_columns(tile, count) {
                    let x = &cx.planes.x.read(column)[..n];
                    let h = cx.planes.h.f32.write_range(column, 0..n);
                    (cx.kernels.rms_norm)(x, gain, Self::SHAPE.rms_eps, h);
                }
                arrange(cx, tile, count, n, matrices);
            }
        });
    }

    /// Several matrices times the columns of `h`, each into its own buffer; one region.
    fn project<const N: usize>(&mut self, jobs: [(&Matrix, Plane<'_, f32>); N]) {
        let (cx, columns) = (self.cx, self.columns());
        let size = row_block(columns);
        let blocks: [usize; N] = jobs.each_ref().map(|(w, _)| w.rows().div_ceil(size));
        let products = &mut self.scratch.products;
        self.worker.parallel(blocks.iter().sum(), 1, |claim| {
            for item in claim {
                let (job, block) = locate(&blocks, item);
                let (w, out) = jobs[job];
                let rows = rows_of(block, size, w.rows());
                multiply(cx, w, rows.clone(), columns, products, |i, values| {
                    out.write_range(i, rows.clone()).copy_from_slice(values);
                });
            }
        });
    }

    /// The mixer's output in `h` times its output projection, added to `x`; two regions.
    fn output(&mut self, w: &Matrix) {
        let (cx, columns) = (self.cx, self.columns());
        let size = row_block(columns);
        self.worker.parallel(columns.div_ceil(TILE), 1, |tiles| {
            tiles.for_each(|tile| arrange(cx, tile, columns, w.k(), &[w]));
        });
        let products = &mut self.scratch.products;
        self.worker.parallel(w.rows().div_ceil(size), 1, |claim| {
            for block in claim {
                let rows = rows_of(block, size, w.rows());
                multiply(cx, w, rows.clone(), columns, products, |i, values| {
                    (cx.kernels.add)(cx.planes.x.write_range(i, rows.clone()), values);
                });
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

/// The rows of a block of `size`.
fn rows_of(block: usize, size: usize, rows: usize) -> Range<usize> {
    block * size..((block + 1) * size).min(rows)
}
