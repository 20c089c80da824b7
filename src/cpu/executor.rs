//! One compiled-in model on the CPU: allocated once, then stepped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Isa;
use super::context::{Batch, Column, Context, Planes, Routing, Scratch, Sequence, Span};
use super::kernels::Kernels;
use super::rope::RopeTable;
use super::stages::Pass;
use super::team::{SharedBuf, Team};
use super::trace::Trace;
use crate::engine::{EngineOptions, Executor, LoadError, MemoryUse, Outputs, Run};
use crate::model::{Arena, Model, Shape};
use crate::state::{KvGeometry, KvRing, RecurrentState};
use crate::weights::FileFacts;

/// The CPU executor of model `M`.
pub(crate) struct CpuExecutor<M: Model> {
    weights: M::Weights,
    weight_bytes: u64,
    expert_scale: f32,
    exact: bool,
    kernels: &'static Kernels,
    team: Team,
    geometry: KvGeometry,
    sequences: Vec<Sequence>,
    batch: Batch,
    scratch: Vec<Mutex<Scratch>>,
    rope_table: RopeTable,
    arena: SharedBuf,
    routing: SharedBuf,
    rope: SharedBuf,
    logits: SharedBuf,
    max_outputs: usize,
    trace: Option<Trace>,
}

/// Bytes of the buffers that all sequences share: arena, routing, rotations, logits.
fn buffers(shape: &Shape, arena: &Arena, options: &EngineOptions) -> [usize; 4] {
    let columns = arena.max_columns;
    [
        arena.bytes,
        Routing::bytes(shape, columns),
        4 * columns * shape.rope_dim,
        4 * options.max_outputs * shape.n_vocab,
    ]
}

/// What an executor of such a model allocates; weights are mapped and count nothing.
pub(crate) fn needed(shape: &Shape, arena: &Arena, options: &EngineOptions) -> MemoryUse {
    let line = |bytes: usize| bytes.next_multiple_of(64) as u64;
    let geometry = KvGeometry::new(shape, options.ctx, options.chunk, options.kv);
    let sequences = options.sequences as u64;
    let scratch = threads(options) * Scratch::new(shape).bytes();
    MemoryUse {
        weights: 0,
        kv: sequences * line(KvRing::size(&geometry, shape.n_attn())),
        states: sequences * RecurrentState::sizes(shape).map(line).iter().sum::<u64>(),
        arena: buffers(shape, arena, options).map(line).iter().sum::<u64>() + scratch as u64,
    }
}

fn lock(scratch: &Mutex<Scratch>) -> MutexGuard<'_, Scratch> {
    scratch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn threads(options: &EngineOptions) -> usize {
    options.threads.unwrap_or_else(super::default_threads)
}

impl<M: Model> CpuExecutor<M> {
    /// Allocates everything that steps will use.
    pub(crate) fn new(
        weights: M::Weights,
        weight_bytes: u64,
        facts: &FileFacts,
        options: &EngineOptions,
        kernels: &'static Kernels,
    ) -> Result<Self, LoadError> {
        let shape = M::SHAPE;
        let team = Team::new(threads(options)).map_err(LoadError::Threads)?;
        let geometry = KvGeometry::new(&shape, options.ctx, options.chunk, options.kv);
        let sequence = |_| {
            let kv = KvRing::new(geometry, shape.n_attn())?;
            Ok::<_, LoadError>(Sequence {
                position: 0,
                kv,
                recurrent: RecurrentState::new(&shape)?,
            })
        };
        let columns = M::ARENA.max_columns;
        let [arena, routing, rope, logits] = buffers(&shape, &M::ARENA, options);
        Ok(Self {
            weights,
            weight_bytes,
            expert_scale: facts.expert_weights_scale,
            exact: options.exact,
            kernels,
            geometry,
            sequences: (0..options.sequences).map(sequence).collect::<Result<_, _>>()?,
            batch: Batch::with_capacity(columns, options.sequences),
            scratch: (0..team.count()).map(|_| Mutex::new(Scratch::new(&shape))).collect(),
            team,
            rope_table: RopeTable::new(&shape, &facts.rope_scaling),
            arena: SharedBuf::zeroed(arena)?,
            routing: SharedBuf::zeroed(routing)?,
            rope: SharedBuf::zeroed(rope)?,
            logits: SharedBuf::zeroed(logits)?,
            max_outputs: options.max_outputs,
            trace: None,
        })
    }

    /// Turns runs into columns and advances the sequences' positions.
    fn fill_batch(&mut self, runs: &[Run<'_>]) {
        self.batch.clear();
        for run in runs {
            let position = self.sequences[run.sequence].position;
            let first_column = self.batch.columns.len();
            for (i, &token) in run.tokens.iter().enumerate() {
                let wanted = match run.outputs {
                    Outputs::None => false,
                    Outputs::Last => i + 1 == run.tokens.len(),
                    Outputs::All => true,
                };
                if wanted {
                    self.batch.outputs.push(first_column + i);
                }
                let column = Column { token, sequence: run.sequence, position: position + i };
                self.batch.columns.push(column);
            }
            let len = run.tokens.len();
            self.batch.spans.push(Span { sequence: run.sequence, first_column, len, position });
            self.sequences[run.sequence].position += len;
        }
    }
}

impl<M: Model> Executor for CpuExecutor<M> {
    fn step(&mut self, runs: &[Run<'_>]) {
        self.fill_batch(runs);
        let shape = M::SHAPE;
        let rope = self.rope.plane(0, shape.rope_dim, M::ARENA.max_columns);
        for (i, column) in self.batch.columns.iter().enumerate() {
            self.rope_table.fill(column.position, rope.write(i));
        }
        let cx = Context::<M> {
            weights: &self.weights,
            kernels: self.kernels,
            exact: self.exact,
            expert_scale: self.expert_scale,
            geometry: self.geometry,
            batch: &self.batch,
            sequences: &self.sequences,
            planes: Planes::new(&M::ARENA, &self.arena),
            routing: Routing::new(&shape, M::ARENA.max_columns, &self.routing),
            rope,
            logits: self.logits.plane(0, shape.n_vocab, self.max_outputs),
            trace: self.trace.as_ref(),
        };
        let scratch = &self.scratch;
        self.team.run(&|worker| {
            let mut scratch = lock(&scratch[worker.index()]);
            M::forward(&mut Pass { worker, cx: &cx, scratch: &mut scratch });
        });
    }

    fn logits(&self, row: usize) -> &[f32] {
        assert!(row < self.batch.outputs.len(), "the last step had no output {row}");
        self.logits.plane(0, M::SHAPE.n_vocab, self.max_outputs).read(row)
    }

    fn outputs(&self) -> usize {
        self.batch.outputs.len()
    }

    fn position(&self, sequence: usize) -> usize {
        self.sequences[sequence].position
    }

    fn reset(&mut self, sequence: usize) {
        self.sequences[sequence].position = 0;
    }

    fn isa(&self) -> Isa {
        self.kernels.isa
    }

    fn threads(&self) -> usize {
        self.team.count()
    }

    fn memory(&self) -> MemoryUse {
        let sum = |bytes: fn(&Sequence) -> usize| self.sequences.iter().map(bytes).sum::<usize>();
        let buffers = [&self.arena, &self.routing, &self.rope, &self.logits];
        let scratch = self.scratch.iter().map(|s| lock(s).bytes()).sum::<usize>();
        MemoryUse {
            weights: self.weight_bytes,
            kv: sum(|s| s.kv.bytes()) as u64,
            states: sum(|s| s.recurrent.bytes()) as u64,
            arena: (buffers.iter().map(|b| b.bytes()).sum::<usize>() + scratch) as u64,
        }
    }

    fn set_trace(&mut self, trace: Option<Trace>) {
        self.trace = trace;
    }

    fn poison(&mut self) {
        for buf in [&mut self.arena, &mut self.routing, &mut self.rope, &mut self.logits] {
            buf.fill(0xFF);
        }
        self.scratch.iter().for_each(|scratch| lock(scratch).poison());
        for sequence in &mut self.sequences {
            sequence.position = 0;
            sequence.kv.poison();
            sequence.recurrent.poison();
        }
    }
}
