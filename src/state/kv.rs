//! The KV rings of one sequence: allocated once, for all attention layers together.

use super::{Cell, KvFormat, KvGeometry};
use crate::cpu::kernels::KvRows;
use crate::cpu::team::{OutOfMemory, Plane, SharedBuf};

/// Rows of one layer's keys or values, typed by storage format.
#[derive(Clone, Copy)]
pub(crate) enum KvPlanes<'a> {
    /// Half precision, as bits.
    F16(Plane<'a, u16>),
    /// Single precision.
    F32(Plane<'a, f32>),
}

impl KvPlanes<'_> {
    /// `count` rows of a head from `cell` on; they must not wrap.
    pub(crate) fn rows(
        &self,
        geometry: &KvGeometry,
        head: usize,
        cell: Cell,
        count: usize,
    ) -> KvRows<'_> {
        assert!(cell.index() + count <= geometry.cells(), "a tile wraps");
        let (row, stride) = (geometry.row(head, cell), geometry.head_dim());
        match self {
            Self::F16(plane) => KvRows::F16 { data: plane.read_rows(row, count), stride },
            Self::F32(plane) => KvRows::F32 { data: plane.read_rows(row, count), stride },
        }
    }

    /// Stores one head's row.
    pub(crate) fn append(&self, geometry: &KvGeometry, head: usize, cell: Cell, values: &[f32]) {
        let row = geometry.row(head, cell);
        match self {
            Self::F16(plane) => {
                for (dst, src) in plane.write(row).iter_mut().zip(values) {
                    *dst = half::f16::from_f32(*src).to_bits();
                }
            }
            Self::F32(plane) => plane.write(row).copy_from_slice(values),
        }
    }
}

/// Keys and values of every attention layer of one sequence.
pub(crate) struct KvRing {
    geometry: KvGeometry,
    layers: usize,
    /// Per layer: keys, then values.
    buf: SharedBuf,
}

impl KvRing {
    /// Rings for `layers` attention layers, all of them in one allocation.
    pub(crate) fn new(geometry: KvGeometry, layers: usize) -> Result<Self, OutOfMemory> {
        let buf = SharedBuf::zeroed(Self::size(&geometry, layers))?;
        Ok(Self { geometry, layers, buf })
    }

    /// Bytes that such rings take.
    pub(crate) const fn size(geometry: &KvGeometry, layers: usize) -> usize {
        geometry.layer_bytes() * layers
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.buf.bytes()
    }

    /// Keys and values of the `layer`-th attention layer.
    pub(crate) fn layer(&self, layer: usize) -> (KvPlanes<'_>, KvPlanes<'_>) {
        assert!(layer < self.layers);
        let bytes = self.geometry.layer_bytes();
        let keys = layer * bytes;
        (self.rows(keys), self.rows(keys + bytes / 2))
    }

    fn rows(&self, offset: usize) -> KvPlanes<'_> {
        let (stride, rows) = (self.geometry.head_dim(), self.geometry.rows());
        match self.geometry.format() {
            KvFormat::F16 => KvPlanes::F16(self.buf.plane(offset, stride, rows)),
            KvFormat::F32 => KvPlanes::F32(self.buf.plane(offset, stride, rows)),
        }
    }

    /// Overwrites everything, for tests.
    pub(crate) fn poison(&mut self) {
        self.buf.fill(0xFF);
    }
}
