//! Binds tensors by name, checked against the binding table of a compiled-in model.
//!
//! The table names each tensor as the usual converter writes it. What other converters do
//! differently (another name, fused tensors, output scales beside a tensor) is known here and
//! nowhere else.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use super::error::{BindError, Problem, all};
use super::layers::ExpertMatrix;
use super::matrix::{Matrix, Vector};
use super::sanity;
use crate::gguf::{Fault, Gguf, Tensor};
use crate::model::{LayerInfo, LayerKind};

/// One row of a model's binding table: a tensor that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Name in the file, `{}` for the layer: `blk.{}.attn_qkv.weight`.
    pub name: &'static str,
    /// Shape as in the file; the first dimension is the contiguous one.
    pub shape: &'static [u64],
    /// Which layers have it.
    pub layers: LayerSet,
    /// What it becomes.
    pub form: Form,
}

/// Which layers have a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerSet {
    /// None: there is one for the whole model.
    Global,
    /// Gated DeltaNet layers.
    Gdn,
    /// Full-attention layers.
    Attention,
    /// Every layer.
    Every,
}

impl LayerSet {
    pub(super) fn has(self, layer: &LayerInfo) -> bool {
        match self {
            Self::Global => false,
            Self::Gdn => layer.kind == LayerKind::Gdn,
            Self::Attention => layer.kind == LayerKind::Attention,
            Self::Every => true,
        }
    }
}

/// What a tensor becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Rows in the file's own format.
    Matrix,
    /// f32 values.
    Vector,
    /// One matrix per expert; the last dimension counts experts.
    Experts,
}

const TOKEN_EMBD: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";
const ATTN_QKV: &str = "blk.{}.attn_qkv.weight";
const ATTN: [&str; 3] = ["blk.{}.attn_q.weight", "blk.{}.attn_k.weight", "blk.{}.attn_v.weight"];
const GATE_UP_EXPS: &str = "blk.{}.ffn_gate_up_exps.weight";
const GATE_EXPS: &str = "blk.{}.ffn_gate_exps.weight";
const UP_EXPS: &str = "blk.{}.ffn_up_exps.weight";
const SSM_A: &str = "blk.{}.ssm_a";
/// Other names of a tensor, tried in order.
const ALIASES: [(&str, &str); 1] = [("blk.{}.ssm_dt.bias", "blk.{}.ssm_dt")];

const RECONVERT: &str = "convert the model again with a current llama.cpp";

/// Looks tensors up for one file and one binding table, and remembers which were used.
#[derive(Debug)]
pub struct Binder<'a> {
    gguf: &'a Gguf,
    bindings: &'a [Binding],
    used: RefCell<HashSet<&'a str>>,
}

impl<'a> Binder<'a> {
    /// A binder that has used nothing yet.
    pub fn new(gguf: &'a Gguf, bindings: &'a [Binding]) -> Self {
        Self { gguf, bindings, used: RefCell::default() }
    }

    /// Tries every row of the table for every layer, so that all problems are reported together.
    /// Afterwards binding cannot fail, and [`Binder::bound_bytes`] is complete.
    ///
    /// # Errors
    /// All problems of all tensors, and tensors that would change the result but are not supported.
    pub fn check(&self, layers: &[LayerInfo]) -> Result<(), BindError> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut note = |result: Result<(), BindError>| {
            let found = result.err().into_iter().flat_map(|e| e.problems);
            // A tied table is tried twice.
            found.for_each(|p| {
                if !problems.contains(&p) {
                    problems.push(p);
                }
            });
        };
        for binding in self.bindings {
            if binding.layers == LayerSet::Global {
                note(self.probe(binding, 0));
            }
            for layer in layers.iter().filter(|l| binding.layers.has(l)) {
                note(self.probe(binding, layer.index));
            }
        }
        problems.extend(sanity::unsupported(self, layers.len()));
        match problems.is_empty() {
            true => Ok(()),
            false => Err(BindError { file: self.gguf.name().to_owned(), problems }),
        }
    }

    /// Binds one tensor and drops the result; what is bound in a group is tried with its first
    /// name.
    fn probe(&self, binding: &Binding, layer: usize) -> Result<(), BindError> {
        match binding.name {
            OUTPUT => self.head().map(drop),
            name if name == ATTN[0] => self.attention_qkv(layer).map(drop),
            name if ATTN.contains(&name) => Ok(()),
            GATE_EXPS => self.gate_up_experts(layer).map(drop),
            UP_EXPS => Ok(()),
            SSM_A => {
                let decay = self.vector(SSM_A, layer)?;
                sanity::check_decay(&decay).map_err(|f| self.error(&at(SSM_A, layer), f))
            }
            name => match binding.form {
                Form::Matrix => self.matrix(name, layer).map(drop),
                Form::Vector => self.vector(name, layer).map(drop),
                Form::Experts => self.experts(name, layer).map(drop),
            },
        }
    }

    /// A layer's tensor as f32 values, `pattern` as in the table.
    ///
    /// # Errors
    /// If it is missing, has another shape, or is not F32, F16 or BF16.
    pub fn vector(&self, pattern: &str, layer: usize) -> Result<Vector, BindError> {
        let tensor = self.expect(pattern, layer, self.row(pattern)?.shape)?;
        Vector::from_tensor(tensor).ok_or_else(|| {
            let fault = Fault::new("type f32, f16 or bf16", tensor.ty.name(), RECONVERT);
            self.error(&tensor.name, fault)
        })
    }

    /// A layer's matrix, `pattern` as in the table, with its `.scale` if the file has one.
    ///
    /// # Errors
    /// If it is missing, has another shape or a type that holds no weights, or its scale is wrong.
    pub fn matrix(&self, pattern: &str, layer: usize) -> Result<Matrix, BindError> {
        let scales = self.scales(&[pattern], layer, 1);
        let tensor = self.expect(pattern, layer, self.row(pattern)?.shape)?;
        Ok(self.view(tensor)?.with_scale(scales?[0]))
    }

    /// A layer's experts, `pattern` as in the table, each with its own scale.
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn experts(&self, pattern: &str, layer: usize) -> Result<ExpertMatrix, BindError> {
        let shape = self.row(pattern)?.shape;
        let [_, rows, count] = expert_dims(shape);
        let scales = self.scales(&[pattern], layer, count);
        let tensor = self.expect(pattern, layer, shape)?;
        let merged = self.view(tensor)?;
        self.cut_experts(tensor, &merged, &scales?, |e| e * rows..(e + 1) * rows)
    }

    /// Query (with gate), key and value rows of an attention layer; a fused `attn_qkv` is cut.
    ///
    /// # Errors
    /// As [`Binder::matrix`], all problems of the three together.
    pub fn attention_qkv(&self, layer: usize) -> Result<[Matrix; 3], BindError> {
        if self.gguf.tensor(&at(ATTN_QKV, layer)).is_none() {
            return all(ATTN.map(|pattern| self.matrix(pattern, layer)));
        }
        let shapes = all(ATTN.map(|pattern| self.row(pattern).map(|b| b.shape)))?;
        let rows = shapes.map(|shape| rows_of(shape) as usize);
        let fused = [shapes[0][0], rows.iter().sum::<usize>() as u64];
        let scales = self.scales(&[ATTN_QKV], layer, 1);
        let tensor = self.expect(ATTN_QKV, layer, &fused)?;
        let whole = self.view(tensor)?.with_scale(scales?[0]);
        let (q, k) = (rows[0], rows[0] + rows[1]);
        all([0..q, q..k, k..k + rows[2]].map(|range| self.part(tensor, &whole, range)))
    }

    /// Gate and up rows of a layer's experts; a fused `ffn_gate_up_exps` (each expert's gate rows,
    /// then its up rows) is cut.
    ///
    /// # Errors
    /// As [`Binder::matrix`], all problems of the two together.
    pub fn gate_up_experts(&self, layer: usize) -> Result<[ExpertMatrix; 2], BindError> {
        if self.gguf.tensor(&at(GATE_UP_EXPS, layer)).is_none() {
            return all([GATE_EXPS, UP_EXPS].map(|pattern| self.experts(pattern, layer)));
        }
        let shapes = all([GATE_EXPS, UP_EXPS].map(|pattern| self.row(pattern).map(|b| b.shape)))?;
        let [[k, gate, count], [_, up, _]] = shapes.map(expert_dims);
        let both = gate + up;
        // The scale of the up rows holds for the whole product; one of the gate rows has no use
        // then.
        let scales = self.scales(&[UP_EXPS, GATE_UP_EXPS, GATE_EXPS], layer, count);
        let tensor = self.expect(GATE_UP_EXPS, layer, &[k, both, count].map(|n| n as u64))?;
        let scales = scales?;
        let merged = self.view(tensor)?;
        all([0..gate, gate..both].map(|part| {
            let rows = |e: usize| e * both + part.start..e * both + part.end;
            self.cut_experts(tensor, &merged, &scales, rows)
        }))
    }

    /// A matrix of the whole model.
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn global_matrix(&self, name: &str) -> Result<Matrix, BindError> {
        self.matrix(name, 0)
    }

    /// A vector of the whole model.
    ///
    /// # Errors
    /// As [`Binder::vector`].
    pub fn global_vector(&self, name: &str) -> Result<Vector, BindError> {
        self.vector(name, 0)
    }

    /// The head: `output.weight`, or the embedding table itself where the file has none.
    ///
    /// # Errors
    /// As [`Binder::matrix`].
    pub fn head(&self) -> Result<Matrix, BindError> {
        if self.gguf.tensor(OUTPUT).is_some() {
            return self.global_matrix(OUTPUT);
        }
        let scales = self.scales(&[OUTPUT, TOKEN_EMBD], 0, 1);
        let tensor = self.expect(TOKEN_EMBD, 0, self.row(TOKEN_EMBD)?.shape)?;
        Ok(self.view(tensor)?.with_scale(scales?[0]))
    }

    /// Bytes of all tensors used so far, each counted once.
    pub fn bound_bytes(&self) -> u64 {
        let used = self.used.borrow();
        let bound = self.gguf.tensors().iter().filter(|t| used.contains(t.name.as_str()));
        bound.map(|t| t.data.len() as u64).sum()
    }

    /// Tensors not used so far.
    pub(super) fn unused(&self) -> Vec<&'a Tensor> {
        let used = self.used.borrow();
        self.gguf.tensors().iter().filter(|t| !used.contains(t.name.as_str())).collect()
    }

    /// The binding table.
    pub(super) fn bindings(&self) -> &'a [Binding] {
        self.bindings
    }

    fn row(&self, pattern: &str) -> Result<&'a Binding, BindError> {
        self.bindings.iter().find(|b| b.name == pattern).ok_or_else(|| {
            let fault = Fault::new("a row in the model's binding table", "none", "build again");
            self.error(pattern, fault)
        })
    }

    fn find(&self, name: &str) -> Option<&'a Tensor> {
        let tensor = self.gguf.tensor(name)?;
        self.used.borrow_mut().insert(&tensor.name);
        Some(tensor)
    }

    /// The tensor of a pattern or of one of its other names, if its shape is `shape`. Dimensions of
    /// 1 at the end mean nothing: `[n]` and `[n, 1]` are the same.
    fn expect(&self, pattern: &str, layer: usize, shape: &[u64]) -> Result<&'a Tensor, BindError> {
        let aliases = ALIASES.iter().filter(|(name, _)| *name == pattern).map(|(_, other)| *other);
        let mut names = std::iter::once(pattern).chain(aliases).map(|name| at(name, layer));
        let Some(tensor) = names.find_map(|name| self.find(&name)) else {
            let fault = Fault::new(format!("shape {shape:?}"), "no such tensor", RECONVERT);
            return Err(self.error(&at(pattern, layer), fault));
        };
        if without_ones(&tensor.ne) != without_ones(shape) {
            let remedy =
                "the file's header and its tensors do not belong together; convert it again";
            let fault = Fault::new(format!("shape {shape:?}"), tensor.describe(), remedy);
            return Err(self.error(&tensor.name, fault));
        }
        Ok(tensor)
    }

    /// The whole tensor as a matrix of all its rows.
    fn view(&self, tensor: &Tensor) -> Result<Matrix, BindError> {
        let rows = usize::try_from(tensor.rows()).ok().filter(|_| tensor.ty.is_weight());
        rows.and_then(|r| Matrix::new(tensor.ty, tensor.ne[0] as usize, r, tensor.data.clone()))
            .ok_or_else(|| {
                let fault = Fault::new("a type that holds weights", tensor.describe(), RECONVERT);
                self.error(&tensor.name, fault)
            })
    }

    fn part(
        &self,
        tensor: &Tensor,
        whole: &Matrix,
        range: Range<usize>,
    ) -> Result<Matrix, BindError> {
        whole.cut(range.clone()).ok_or_else(|| {
            let fault = Fault::new(format!("rows {range:?}"), tensor.describe(), RECONVERT);
            self.error(&tensor.name, fault)
        })
    }

    fn cut_experts(
        &self,
        tensor: &Tensor,
        merged: &Matrix,
        scales: &[f32],
        rows: impl Fn(usize) -> Range<usize>,
    ) -> Result<ExpertMatrix, BindError> {
        let one = |(e, scale): (usize, &f32)| {
            self.part(tensor, merged, rows(e)).map(|m| m.with_scale(*scale))
        };
        Ok(ExpertMatrix { experts: scales.iter().enumerate().map(one).collect::<Result<_, _>>()? })
    }

    /// Output scales beside a tensor: `NAME.scale` for `NAME.weight`, one value or one per expert.
    /// Of several patterns the first that has any counts. Without any: 1. Looked up before the
    /// tensor, so that a fault of the tensor does not make its scale look like an unknown tensor.
    fn scales(&self, patterns: &[&str], layer: usize, count: usize) -> Result<Vec<f32>, BindError> {
        let sidecars = patterns.iter().flat_map(|pattern| {
            let name = at(pattern, layer);
            let stem = name.strip_suffix(".weight").unwrap_or(&name);
            [format!("{stem}.scale"), format!("{name}.scale")]
        });
        // All are looked up, so that those which do not count are not taken for unknown tensors.
        let found: Vec<&Tensor> = sidecars.filter_map(|name| self.find(&name)).collect();
        let Some(tensor) = found.first() else { return Ok(vec![1.0; count]) };
        let fault = |expected: String, found: String| {
            self.error(&tensor.name, Fault::new(expected, found, RECONVERT))
        };
        let values = Vector::from_tensor(tensor)
            .filter(|v| v.len() == 1 || v.len() == count)
            .ok_or_else(|| fault(format!("f32 [1] or f32 [{count}]"), tensor.describe()))?;
        if let Some(bad) = values.iter().find(|x| !x.is_finite()) {
            return Err(fault("finite scales".to_owned(), bad.to_string()));
        }
        Ok(if values.len() == 1 { vec![values[0]; count] } else { values.to_vec() })
    }

    fn error(&self, tensor: &str, fault: Fault) -> BindError {
        BindError::tensor(self.gguf.name(), tensor, fault)
    }
}

/// A pattern's name in one layer.
fn at(pattern: &str, layer: usize) -> String {
    pattern.replacen("{}", &layer.to_string(), 1)
}

fn without_ones(shape: &[u64]) -> &[u64] {
    let used = shape.iter().rposition(|&n| n != 1).map_or(0, |last| last + 1);
    &shape[..used]
}

fn rows_of(shape: &[u64]) -> u64 {
    shape[1..].iter().product()
}

/// Inputs, rows and count of a merged expert tensor's shape.
fn expert_dims(shape: &[u64]) -> [usize; 3] {
    [0, 1, 2].map(|axis| shape.get(axis).copied().unwrap_or(1) as usize)
}
