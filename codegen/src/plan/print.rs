//! The printed plan: the table of contents of everything generated.

use std::fmt::{self, Display, Formatter};

use super::cost::{Cost, KV_FORMATS, floor_ms};
use super::{COLUMN_BUCKETS, MAX_COLUMNS, Plan, Segment};
use crate::emit::names;
use crate::family::{LayerKind, Stage};

/// Bandwidth that floor times are shown for unless another is asked for: an H200, in GB/s.
const BANDWIDTH: f64 = 4800.0;
/// Contexts, in tokens, that floor times are shown for.
const CONTEXTS: [u64; 3] = [0, 4096, 32_768];

/// A plan with the figures of one set of weights at one bandwidth, to be printed.
#[derive(Debug)]
pub struct Report<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What its tokens cost.
    pub cost: Cost,
    /// Where the weights' types come from: `mix q4_k_m`, or a file's name.
    pub weights: String,
    /// GB/s.
    pub bandwidth: f64,
}

impl Plan {
    /// The plan with the figures of its reference mix.
    pub fn report(&self) -> Report<'_> {
        let mix = self.reference_mix();
        let cost = self.cost(&self.stored(mix));
        let weights = format!("mix {}", mix.name);
        Report { plan: self, cost, weights, bandwidth: BANDWIDTH }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        self.layers(f)?;
        self.stages(f)?;
        self.segments(f)?;
        self.kernels(f)?;
        self.buffers(f)?;
        self.weights(f)?;
        self.combinations(f)?;
        self.floor(f)
    }
}

impl Report<'_> {
    fn title(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let s = &self.plan.spec;
        let (name, layers) = (&s.name, s.n_layer);
        writeln!(f, "{name}: {layers} layers = {} gdn + {} attention", s.n_gdn(), s.n_attn())?;
        writeln!(
            f,
            "  width {}, vocabulary {}, {} experts, {} used, 1 shared, inner width {} and {}",
            s.n_embd, s.n_vocab, s.n_expert, s.n_expert_used, s.expert_ff, s.shared_ff
        )?;
        writeln!(
            f,
            "  gdn        {} key and {} value heads of {}, convolution {} channels x {} taps",
            s.gdn_k_heads,
            s.gdn_v_heads,
            s.gdn_head_dim,
            s.conv_dim(),
            s.conv_taps
        )?;
        writeln!(
            f,
            "  attention  {} query and {} key/value heads of {}, {} rotated, base {:e}",
            s.n_head, s.n_head_kv, s.head_dim, s.rope_dim, s.rope_base
        )
    }

    /// One row per period of the layer pattern.
    fn layers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nlayers (index, mixer, number among its kind)")?;
        for row in self.plan.layers.chunks(self.plan.spec.full_attention_interval.min(8)) {
            let cells = row.iter().map(|layer| {
                let kind = match layer.kind {
                    LayerKind::Gdn => "gdn",
                    LayerKind::Attention => "attn",
                };
                format!("{} {kind:<4} {:>2}", names::layer_row(layer.index), layer.slot)
            });
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("   "))?;
        }
        Ok(())
    }

    fn stages(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let total = self.cost.weights().max(1);
        writeln!(f, "\nstages (weights read per token, all layers; launches per layer)")?;
        for stage in Stage::ALL {
            let kernels = self.plan.kernels.iter().filter(|k| k.stage == stage);
            let launches: usize = kernels.map(|k| k.launches).sum();
            let layers = self.plan.layers.iter().filter(|l| stage.layers().has(l.kind)).count();
            let read = self.cost.stage(stage);
            writeln!(
                f,
                "  {:<13} x {:>3}  {:>10}  {:>5.1} %  {launches} launch{}",
                stage.stem(),
                layers.max(1),
                bytes(read),
                100.0 * read as f64 / total as f64,
                if launches == 1 { "" } else { "es" },
            )?;
        }
        Ok(())
    }

    fn segments(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let n = self.plan.layers.len();
        writeln!(f, "\nsegments (one graph per die and column bucket, cut where the die changes)")?;
        write_segments(f, "one die ", &self.plan.segments(None))?;
        match n {
            1 => Ok(()),
            _ => write_segments(f, "two dies", &self.plan.segments(Some(n / 2))),
        }
    }

    fn kernels(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = &self.plan.kernels;
        let per_step = self.plan.launches_per_step();
        writeln!(f, "\nkernels ({}, {per_step} launches per step)", all.len())?;
        let row = |f: &mut Formatter<'_>, name: &str, cell: &dyn Fn(usize) -> String| {
            let cells: String =
                (0..COLUMN_BUCKETS.len()).map(|i| format!("{:>14}", cell(i))).collect();
            writeln!(f, "    {name:<15}{cells}")
        };
        row(f, "columns", &|i| COLUMN_BUCKETS[i].to_string())?;
        for kernel in all {
            let (at, block) = (&kernel.variants, kernel.variants[0].block);
            writeln!(f, "  {}  ({}, block {block})", kernel.name, kernel.template)?;
            row(f, "grid", &|i| at[i].grid.map(|n| n.to_string()).join("x"))?;
            row(f, "shared bytes", &|i| at[i].shared.to_string())?;
        }
        Ok(())
    }

    fn buffers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arena = &self.plan.arena;
        writeln!(
            f,
            "\nbuffers (CPU arena of {} for {MAX_COLUMNS} columns)",
            bytes_usize(arena.bytes)
        )?;
        for b in &arena.buffers {
            let life = format!("{}..{}", b.first.stem(), b.last.stem());
            let (name, offset, stride) = (b.name, b.offset, b.stride);
            writeln!(f, "  {name:<15} offset {offset:>10}  per column {stride:>7} B  {life}")?;
        }
        Ok(())
    }

    fn weights(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let stored = bytes(self.cost.stored());
        writeln!(f, "\nweights ({}: {stored} in all)", self.weights)?;
        for class in &self.cost.classes {
            let types = class.types.iter().map(|(ty, count)| format!("{count} {ty}"));
            writeln!(
                f,
                "  {:<20} {:<13} {:>10} stored {:>10} per token  {}",
                class.class,
                class.stage.stem(),
                bytes(class.stored),
                bytes(class.read),
                types.collect::<Vec<_>>().join(", ")
            )?;
        }
        Ok(())
    }

    /// What an entry lists under `mixes`.
    fn combinations(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mixes = &self.plan.spec.mixes;
        if !mixes.is_empty() {
            writeln!(f, "\ntype combinations with kernels of their own")?;
        }
        mixes.iter().try_for_each(|mix| {
            let pairs = mix.stage.matrices().zip(&mix.types);
            let pairs: Vec<String> =
                pairs.map(|(t, ty)| format!("{} {}", t.class(), ty.name)).collect();
            writeln!(f, "  {:<13} {}", mix.stage.stem(), pairs.join(", "))
        })
    }

    fn floor(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let cost = &self.cost;
        writeln!(f, "\nbytes per token")?;
        writeln!(f, "  weights          {:>10}", bytes(cost.weights()))?;
        writeln!(f, "  recurrent state  {:>10}  read and written", bytes(2 * cost.state))?;
        for (format, block) in KV_FORMATS {
            let per_token = bytes(cost.kv_values * block / 32);
            writeln!(f, "  keys and values  {per_token:>10}  per token of context as {format}")?;
        }
        writeln!(f, "\nfloor time at {} GB/s", self.bandwidth)?;
        for context in CONTEXTS {
            write!(f, "  context {context:>6}")?;
            for (format, block) in KV_FORMATS {
                let ms = floor_ms(cost.per_token(context, block), self.bandwidth);
                write!(f, "  {ms:.4} ms as {format}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn write_segments(f: &mut Formatter<'_>, title: &str, segments: &[Segment]) -> fmt::Result {
    for segment in segments {
        let (first, last) = (segment.layers.start, segment.layers.end - 1);
        let layers = format!("{} to {}", names::layer_row(first), names::layer_row(last));
        let before = if segment.embeds { "embed, " } else { "" };
        let after = if segment.head { ", head" } else { "" };
        let die = char::from(b'A' + segment.die as u8);
        writeln!(f, "  {title}  {die}: {before}{layers}{after}  {} launches", segment.launches)?;
    }
    Ok(())
}

/// A number of bytes with a decimal unit.
fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.3} GB", n as f64 / 1e9),
    }
}

fn bytes_usize(n: usize) -> String {
    bytes(n as u64)
}
