//! The compiled-in models: which one a file belongs to, and how it is loaded.

use super::{EngineOptions, Executor, LoadError, MemoryUse};
use crate::cpu::{self, CpuExecutor, Isa};
use crate::generated::REGISTRY;
use crate::gguf::Gguf;
use crate::model::{Arena, Model, Shape};
use crate::quant::GgmlType;
use crate::weights::{self, FileFacts, FileShape};

/// A compiled-in model as a value: one row of the generated registry.
pub struct Compiled {
    /// Its dimensions.
    pub shape: Shape,
    /// Its CPU arena.
    pub arena: Arena,
    load: fn(&Gguf, &FileFacts, &EngineOptions) -> Result<Bound, LoadError>,
}

impl Compiled {
    /// The registry row of `M`.
    pub const fn of<M: Model>() -> Self {
        Self { shape: M::SHAPE, arena: M::ARENA, load: load_cpu::<M> }
    }
}

/// An executor, and what is odd about the weights it was made from and the machine it runs on.
type Bound = (Box<dyn Executor>, Vec<String>);

fn load_cpu<M: Model>(
    gguf: &Gguf,
    facts: &FileFacts,
    options: &EngineOptions,
) -> Result<Bound, LoadError> {
    let bound = weights::bind::<M>(gguf)?;
    let choice = cpu::choose(options.isa, &weight_types(gguf))?;
    let kernels = choice.kernels;
    let executor = CpuExecutor::<M>::new(bound.weights, bound.bytes, facts, options, kernels)?;
    Ok((Box::new(executor), [bound.warnings, choice.warnings].concat()))
}

/// The types of a file's weights, each once.
fn weight_types(gguf: &Gguf) -> Vec<GgmlType> {
    let used = |ty: &GgmlType| gguf.tensors().iter().any(|tensor| tensor.ty == *ty);
    GgmlType::all().filter(|ty| ty.is_weight() && used(ty)).collect()
}

pub(super) struct Loaded {
    pub(super) shape: &'static Shape,
    pub(super) warnings: Vec<String>,
    pub(super) executor: Box<dyn Executor>,
}

/// Finds the model of the file's shape, binds it and builds its executor.
pub(super) fn load(gguf: &Gguf, options: &EngineOptions) -> Result<Loaded, LoadError> {
    let (file, entry) = choose(gguf, options)?;
    super::fit::check(&entry.shape, &entry.arena, options)?;
    let (executor, oddities) = (entry.load)(gguf, &file.facts, options)?;
    let mut warnings = file.warnings;
    warnings.extend(oddities);
    Ok(Loaded { shape: &entry.shape, warnings, executor })
}

/// Memory of the executor that [`load`] would build; which tensors are used is told by their names.
pub(super) fn needs(gguf: &Gguf, options: &EngineOptions) -> Result<MemoryUse, LoadError> {
    let Compiled { shape, arena, .. } = choose(gguf, options)?.1;
    let weights = weights::trunk_bytes(gguf, shape.n_layer);
    Ok(MemoryUse { weights, ..cpu::needed(shape, arena, options) })
}

/// The file's shape and the compiled-in model that has it, for options that it can be loaded with.
fn choose(
    gguf: &Gguf,
    options: &EngineOptions,
) -> Result<(FileShape, &'static Compiled), LoadError> {
    let file = FileShape::read(gguf)?;
    let shapes: Vec<Shape> = REGISTRY.iter().map(|entry| entry.shape).collect();
    let entry = &REGISTRY[file.choose(gguf.name(), &shapes)?];
    check_options(options, &entry.arena)?;
    Ok((file, entry))
}

fn check_options(options: &EngineOptions, arena: &Arena) -> Result<(), LoadError> {
    let checks = [
        ("ctx", options.ctx, EngineOptions::CTX),
        ("chunk", options.chunk, 1..=arena.max_columns),
        ("sequences", options.sequences, 1..=arena.max_columns),
        ("max_outputs", options.max_outputs, 1..=options.chunk),
        ("threads", options.threads.unwrap_or(1), 1..=1024),
    ];
    for (option, found, range) in checks {
        if !range.contains(&found) {
            let expected = format!("{} to {}", range.start(), range.end());
            return Err(LoadError::Option { option, found, expected });
        }
    }
    match options.isa {
        Some(isa) if !Isa::available().contains(&isa) => Err(LoadError::Isa(isa)),
        _ => Ok(()),
    }
}
