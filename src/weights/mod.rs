//! Files into typed tensors: what a file's shape is, whether a compiled-in model has it, and every
//! tensor bound by name and checked by shape. A [`Matrix`] is a view into the mapped file.
//!
//! Reading order: `shape` (header to [`FileShape`]), `mismatch` (which compiled model fits, or why
//! none), `bind` (tensors to fields), `sanity` (values that betray a wrong conversion), `layers`
//! (the typed weights).

mod bind;
mod error;
mod facts;
mod layers;
mod matrix;
mod mismatch;
mod sanity;
mod shape;
mod trunk;

pub use bind::{Binder, Binding, Form, LayerSet};
pub use error::{BindError, Problem};
pub use facts::{FileFacts, RopeScaling};
pub use layers::{AttnWeights, ExpertMatrix, GdnWeights, ModelWeights, MoeWeights};
pub use matrix::{Matrix, Vector};
pub use mismatch::{FieldDiff, ShapeMismatch, shape_fields};
pub use shape::FileShape;
pub(crate) use trunk::trunk_bytes;

use crate::gguf::Gguf;
use crate::model::Model;

/// A file's weights, bound.
#[derive(Debug)]
pub struct Bound<W> {
    /// The typed weights.
    pub weights: W,
    /// Bytes of all tensors that are used; a tied table counts once, a draft block not at all.
    pub bytes: u64,
    /// What is odd about the file but does not stop it from running.
    pub warnings: Vec<String>,
}

/// Binds a file to the compiled-in model whose shape it has (see [`FileShape::choose`]).
///
/// # Errors
/// Every tensor that is missing, has another shape or type, or holds values that cannot be right.
pub fn bind<M: Model>(gguf: &Gguf) -> Result<Bound<M::Weights>, BindError> {
    let binder = Binder::new(gguf, M::BINDINGS);
    binder.check(M::LAYERS)?;
    let weights = M::bind(&binder)?;
    Ok(Bound {
        weights,
        bytes: binder.bound_bytes(),
        warnings: sanity::warnings(&binder, M::LAYERS),
    })
}
