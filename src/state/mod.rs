//! What a sequence remembers: the KV ring of its attention layers and the recurrent state of its GDN layers.

mod geometry;
mod kv;
mod recurrent;

pub use geometry::{Cell, KvFormat, KvGeometry, UnknownKvFormat};
pub(crate) use kv::KvRing;
pub(crate) use recurrent::RecurrentState;
