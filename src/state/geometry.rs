//! The shape of a KV ring, made once and handed to everything that reads or writes one.

use crate::model::Shape;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// IEEE half precision.
    #[default]
    F16,
    /// Single precision.
    F32,
}

impl KvFormat {
    /// Bytes of one stored value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// A KV format nobody knows.
#[derive(Debug, Clone, thiserror::Error)]
#[error("KV format `{0}` is unknown; expected `f16` or `f32`")]
pub struct UnknownKvFormat(String);

impl std::str::FromStr for KvFormat {
    type Err = UnknownKvFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "f16" => Ok(Self::F16),
            "f32" => Ok(Self::F32),
            other => Err(UnknownKvFormat(other.to_owned())),
        }
    }
}

impl std::fmt::Display for KvFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
        })
    }
}

/// A cell of the ring. Only [`KvGeometry::cell`] makes one, so an append against another capacity, or
/// past the end, cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(usize);

impl Cell {
    /// Index of the cell in a head's rows.
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// Shape of the KV ring of one layer: `[n_head_kv][cells][head_dim]`, keys and values alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGeometry {
    n_head_kv: usize,
    head_dim: usize,
    capacity: usize,
    cells: usize,
    format: KvFormat,
}

impl KvGeometry {
    /// Positions in an attention tile; tiles start at multiples of it.
    pub const TILE: usize = 64;

    /// A ring in which a query sees the last `capacity` tokens, itself included.
    ///
    /// It has room for the largest prefill chunk beside them, so that a chunk which wraps does not
    /// overwrite keys that its own earlier queries still need.
    pub const fn new(shape: &Shape, capacity: usize, chunk: usize, format: KvFormat) -> Self {
        let cells = (capacity + chunk).next_multiple_of(Self::TILE);
        Self { n_head_kv: shape.n_head_kv, head_dim: shape.head_dim, capacity, cells, format }
    }

    /// The cell of an absolute position.
    pub const fn cell(&self, position: usize) -> Cell {
        Cell(position % self.cells)
    }

    /// The oldest position that a query at `position` sees.
    pub const fn oldest_visible(&self, position: usize) -> usize {
        (position + 1).saturating_sub(self.capacity)
    }

    /// Tokens a query can see.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Cells of the ring.
    pub const fn cells(&self) -> usize {
        self.cells
    }

    /// Storage format.
    pub const fn format(&self) -> KvFormat {
        self.format
    }

    /// Values in a row.
    pub const fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Rows of one layer's keys (and of its values).
    pub(crate) const fn rows(&self) -> usize {
        self.n_head_kv * self.cells
    }

    /// Row of a head's cell.
    pub(crate) const fn row(&self, head: usize, cell: Cell) -> usize {
        head * self.cells + cell.0
    }

    /// Bytes of one layer's keys and values together.
    pub const fn layer_bytes(&self) -> usize {
        2 * self.rows() * self.head_dim * self.format.bytes()
    }
}
