//! What a tensor becomes: a matrix stays in the file as it is, a vector is copied out as f32.

use std::ops::{Deref, Range};

use crate::gguf::{Blob, Tensor};
use crate::quant::GgmlType;

/// A weight matrix in the file's own format: `rows` rows of `k` inputs, `y[r] = scale * sum_k
/// W[r][k] x[k]`.
///
/// A view: cloning it copies no weights. Rows promise no alignment.
#[derive(Debug, Clone)]
pub struct Matrix {
    ty: GgmlType,
    k: usize,
    rows: usize,
    row_bytes: usize,
    data: Blob,
    scale: f32,
}

impl Matrix {
    /// A matrix over `data`, with scale 1. `None` where `k` is not a whole number of blocks of
    /// `ty`, or `data` is not exactly `rows` rows long.
    pub fn new(ty: GgmlType, k: usize, rows: usize, data: Blob) -> Option<Self> {
        let row_bytes = ty.row_bytes(k)?;
        (row_bytes.checked_mul(rows)? == data.len()).then_some(Self {
            ty,
            k,
            rows,
            row_bytes,
            data,
            scale: 1.0,
        })
    }

    /// The same matrix with another output scale.
    #[must_use]
    pub fn with_scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// The rows `range` as a matrix of their own; `None` where they do not exist.
    pub fn cut(&self, range: Range<usize>) -> Option<Self> {
        let start = range.start.checked_mul(self.row_bytes)?;
        let end = range.end.checked_mul(self.row_bytes)?;
        let data = self.data.slice(start..end)?;
        Some(Self { rows: range.len(), data, ..self.clone() })
    }

    /// Type of the values.
    pub fn ty(&self) -> GgmlType {
        self.ty
    }

    /// Inputs: values per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Outputs: number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// What every output is multiplied by: the file's `.scale` for this matrix, else 1.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// All rows.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// One row. Panics where there is none, as slices do.
    pub fn row(&self, r: usize) -> &[u8] {
        self.rows_bytes(r..r + 1)
    }

    /// Consecutive rows. Panics where there are none, as slices do.
    pub fn rows_bytes(&self, range: Range<usize>) -> &[u8] {
        &self.data[range.start * self.row_bytes..range.end * self.row_bytes]
    }
}

/// A small tensor (norm gains, biases, convolution taps) as f32 values.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Box<[f32]>);

impl Vector {
    /// Copies a tensor of type F32, F16 or BF16; `None` for other types.
    pub fn from_tensor(tensor: &Tensor) -> Option<Self> {
        fn convert<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vector {
            Vector(bytes.as_chunks().0.iter().map(|b| value(*b)).collect())
        }
        let bytes = &tensor.data;
        match tensor.ty {
            GgmlType::F32 => Some(convert(bytes, f32::from_le_bytes)),
            GgmlType::F16 => Some(convert(bytes, |b| half::f16::from_le_bytes(b).to_f32())),
            GgmlType::Bf16 => Some(convert(bytes, |b| half::bf16::from_le_bytes(b).to_f32())),
            _ => None,
        }
    }
}

impl Deref for Vector {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl From<Vec<f32>> for Vector {
    fn from(values: Vec<f32>) -> Self {
        Self(values.into())
    }
}
