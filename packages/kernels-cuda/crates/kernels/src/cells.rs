//! Pages of cells: where the keys and values of a cell lie.
//!
//! ```text
//! layer ┬ page ┬ keys   [kv head][dimension][slot]    dimension-major: one load gives a dimension of 16 cells
//!       │      └ values [kv head][slot][dimension]    slot-major: one load gives 16 dimensions of a cell
//!       └ page …
//! ```
//!
//! Cells of dtype q8_0 lie otherwise: see `cells/quantised.rs`.
//!
//! Layers are outermost: a layer's pages lie side by side, so that attention of one layer stays within few huge pages of memory.

mod quantised;

use half::f16;

pub use quantised::{CELL_BLOCK, Quantised};

use crate::buffer::{Buffer, Plain};
use crate::error::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellDtype {
    F32,
    F16,
    /// int8 codes, an f16 scale for each cell, head and block of 32 dimensions: 1.0625 bytes a number.
    Q8_0,
}

impl CellDtype {
    pub const ALL: &[CellDtype] = &[CellDtype::F32, CellDtype::F16, CellDtype::Q8_0];

    pub fn name(self) -> &'static str {
        match self {
            CellDtype::F32 => "f32",
            CellDtype::F16 => "f16",
            CellDtype::Q8_0 => "q8_0",
        }
    }

    /// Bytes of a number, without its share of a scale.
    pub fn bytes(self) -> usize {
        match self {
            CellDtype::F32 => 4,
            CellDtype::F16 => 2,
            CellDtype::Q8_0 => 1,
        }
    }
}

/// Numbers that a cell can be made of.
pub trait CellNumber: Plain {
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
}

impl CellNumber for f32 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

impl CellNumber for f16 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
}

/// Sizes of a pool of pages. Elements, not bytes, unless the name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellShape {
    pub layers: usize,
    pub kv_heads: usize,
    pub key_size: usize,
    pub value_size: usize,
    pub pages: usize,
    pub page_size: usize,
    pub dtype: CellDtype,
}

impl CellShape {
    /// Numbers of one page in one layer.
    pub fn page_elements(&self) -> usize {
        self.kv_heads * (self.key_size + self.value_size) * self.page_size
    }

    /// Bytes of one page in one layer, scales included.
    pub fn layer_page_bytes(&self) -> usize {
        match self.dtype {
            CellDtype::F32 | CellDtype::F16 => self.page_elements() * self.dtype.bytes(),
            CellDtype::Q8_0 => Quantised::of(self).page,
        }
    }

    /// All planes of a page in one layer. Every byte that belongs to a cell is in exactly one.
    pub fn planes(&self) -> [Plane; 3] {
        if self.dtype == CellDtype::Q8_0 {
            return Quantised::of(self).planes(self);
        }
        let number = self.dtype.bytes();
        let row_bytes = self.page_size * number;
        let whole = Plane { heads: 1, slots_together: self.page_size, ..Plane::default() };
        let keys = Plane { rows: self.kv_heads * self.key_size, row_bytes, slot_bytes: number, ..whole };
        let (start, row_bytes) = (keys.rows * row_bytes, row_bytes * self.value_size);
        let values = Plane { start, rows: self.kv_heads, row_bytes, slot_bytes: number * self.value_size, ..whole };
        [keys, values, Plane::default()]
    }

    /// Bytes of one page in all layers.
    pub fn page_bytes(&self) -> usize {
        self.layer_page_bytes() * self.layers
    }
}

/// Where one kind of number of a page's cells lies, in one layer: in each row of each head a cell has `slot_bytes` bytes. Slots lie side
/// by side in groups of `slots_together`, `group_bytes` apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// Byte of the page at which the first row begins.
    pub start: usize,
    pub heads: usize,
    pub head_bytes: usize,
    /// Of a head.
    pub rows: usize,
    pub row_bytes: usize,
    pub slot_bytes: usize,
    pub slots_together: usize,
    pub group_bytes: usize,
}

impl Plane {
    /// Bytes of one cell.
    pub fn cell_bytes(&self) -> usize {
        self.heads * self.rows * self.slot_bytes
    }

    /// Bytes of the page at which the parts of a slot begin, `slot_bytes` each, in order.
    pub fn parts(&self, slot: usize) -> impl Iterator<Item = usize> + use<> {
        let Plane { start, heads, head_bytes, rows, row_bytes, slot_bytes, slots_together, group_bytes } = *self;
        let together = slots_together.max(1);
        let first = start + slot / together * group_bytes + slot % together * slot_bytes;
        (0..heads).flat_map(move |head| (0..rows).map(move |row| first + head * head_bytes + row * row_bytes))
    }
}

/// The cells of a runtime. Written by the threads of one step, each its own slots.
pub struct Cells {
    shape: CellShape,
    memory: Buffer,
}

impl Cells {
    /// Zeroed pages. Errors: `cells_exceed_memory`.
    pub fn new(shape: CellShape) -> Result<Self> {
        let bytes = shape.page_bytes().saturating_mul(shape.pages);
        Ok(Self { shape, memory: Buffer::zeroed(bytes)? })
    }

    pub fn shape(&self) -> &CellShape {
        &self.shape
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    pub fn layer(&self, layer: usize) -> LayerCells<'_> {
        assert!(layer < self.shape.layers, "layer {layer} of {}", self.shape.layers);
        let offset = layer * self.shape.pages * self.shape.layer_page_bytes();
        // SAFETY: a layer's pages lie inside the allocation.
        LayerCells { shape: &self.shape, start: unsafe { self.memory.as_pointer::<u8>().add(offset) } }
    }

    /// Zeroes one page in every layer. `page < pages`.
    pub fn clear_page(&mut self, page: usize) {
        for layer in 0..self.shape.layers {
            self.page_mut(layer, page).fill(0);
        }
    }

    /// Bytes of one page in one layer.
    pub fn page(&self, layer: usize, page: usize) -> &[u8] {
        let range = self.page_range(layer, page);
        &self.memory.as_slice::<u8>()[range]
    }

    pub fn page_mut(&mut self, layer: usize, page: usize) -> &mut [u8] {
        let range = self.page_range(layer, page);
        &mut self.memory.as_mut_slice::<u8>()[range]
    }

    fn page_range(&self, layer: usize, page: usize) -> std::ops::Range<usize> {
        let CellShape { layers, pages, .. } = self.shape;
        assert!(layer < layers && page < pages, "page {page} of {pages}, layer {layer} of {layers}");
        let bytes = self.shape.layer_page_bytes();
        let first = (layer * pages + page) * bytes;
        first..first + bytes
    }
}

/// One layer of the pool.
#[derive(Clone, Copy)]
pub struct LayerCells<'a> {
    shape: &'a CellShape,
    start: *mut u8,
}

// SAFETY: an address into `Cells`, which outlives it; writers answer for disjointness (see `store`).
unsafe impl Send for LayerCells<'_> {}
// SAFETY: as above.
unsafe impl Sync for LayerCells<'_> {}

impl<'a> LayerCells<'a> {
    pub fn shape(&self) -> &'a CellShape {
        self.shape
    }

    /// A page of dtype q8_0, as [`Quantised`] describes it.
    #[inline(always)]
    pub fn quantised_page(&self, layout: &Quantised, page: usize) -> *mut u8 {
        debug_assert!(page < self.shape.pages && self.shape.dtype == CellDtype::Q8_0);
        // SAFETY: inside the layer, as asserted.
        unsafe { self.start.add(page * layout.page) }
    }

    /// Keys of one head in one page, `[dimension][slot]`: key_size · page_size numbers. `T` is the shape's dtype.
    #[inline(always)]
    pub fn keys<T: Plain>(&self, page: usize, head: usize) -> *mut T {
        debug_assert!(page < self.shape.pages && head < self.shape.kv_heads && size_of::<T>() == self.shape.dtype.bytes());
        let element = page * self.shape.page_elements() + head * self.shape.key_size * self.shape.page_size;
        // SAFETY: inside the layer, as asserted.
        unsafe { self.start.cast::<T>().add(element) }
    }

    /// Values of one head in one page, `[slot][dimension]`: page_size · value_size numbers. `T` is the shape's dtype.
    #[inline(always)]
    pub fn values<T: Plain>(&self, page: usize, head: usize) -> *mut T {
        debug_assert!(page < self.shape.pages && head < self.shape.kv_heads && size_of::<T>() == self.shape.dtype.bytes());
        let keys = self.shape.kv_heads * self.shape.key_size * self.shape.page_size;
        let element = page * self.shape.page_elements() + keys + head * self.shape.value_size * self.shape.page_size;
        // SAFETY: inside the layer, as asserted.
        unsafe { self.start.cast::<T>().add(element) }
    }

    /// Writes the rotated key and the value of one head of one cell. `slot = page · page_size + offset`.
    ///
    /// # Safety
    /// No other thread reads or writes this slot meanwhile, and the pool lives.
    pub unsafe fn store(&self, slot: usize, head: usize, key: &[f32], value: &[f32]) {
        match self.shape.dtype {
            // SAFETY: the caller's promise.
            CellDtype::F32 => unsafe { self.store_as::<f32>(slot, head, key, value) },
            // SAFETY: the caller's promise.
            CellDtype::F16 => unsafe { self.store_as::<f16>(slot, head, key, value) },
            // SAFETY: the caller's promise.
            CellDtype::Q8_0 => unsafe { self.store_quantised(slot, head, key, value) },
        }
    }

    /// Reads one head of one cell: what `store` kept of key and value. `slot = page · page_size + offset`.
    ///
    /// # Safety
    /// No other thread writes this slot meanwhile, and the pool lives.
    pub unsafe fn read(&self, slot: usize, head: usize, key: &mut [f32], value: &mut [f32]) {
        match self.shape.dtype {
            // SAFETY: the caller's promise.
            CellDtype::F32 => unsafe { self.read_as::<f32>(slot, head, key, value) },
            // SAFETY: the caller's promise.
            CellDtype::F16 => unsafe { self.read_as::<f16>(slot, head, key, value) },
            // SAFETY: the caller's promise.
            CellDtype::Q8_0 => unsafe { self.read_quantised(slot, head, key, value) },
        }
    }

    unsafe fn read_as<T: CellNumber>(&self, slot: usize, head: usize, key: &mut [f32], value: &mut [f32]) {
        let CellShape { pages, page_size, kv_heads, key_size, value_size, .. } = *self.shape;
        assert!(slot < pages * page_size && head < kv_heads && key.len() == key_size && value.len() == value_size);
        let (page, offset) = (slot / page_size, slot % page_size);
        let (keys, values) = (self.keys::<T>(page, head), self.values::<T>(page, head));
        for (dimension, number) in key.iter_mut().enumerate() {
            // SAFETY: dimension < key_size and offset < page_size; nobody writes the slot (caller).
            *number = unsafe { *keys.add(dimension * page_size + offset) }.to_f32();
        }
        for (dimension, number) in value.iter_mut().enumerate() {
            // SAFETY: offset < page_size and dimension < value_size; nobody writes the slot (caller).
            *number = unsafe { *values.add(offset * value_size + dimension) }.to_f32();
        }
    }

    unsafe fn store_as<T: CellNumber>(&self, slot: usize, head: usize, key: &[f32], value: &[f32]) {
        let CellShape { pages, page_size, kv_heads, key_size, value_size, .. } = *self.shape;
        assert!(slot < pages * page_size && head < kv_heads && key.len() == key_size && value.len() == value_size);
        let (page, offset) = (slot / page_size, slot % page_size);
        let (keys, values) = (self.keys::<T>(page, head), self.values::<T>(page, head));
        for (dimension, number) in key.iter().enumerate() {
            // SAFETY: dimension < key_size and offset < page_size; the slot is ours (caller).
            unsafe { *keys.add(dimension * page_size + offset) = T::from_f32(*number) };
        }
        for (dimension, number) in value.iter().enumerate() {
            // SAFETY: offset < page_size and dimension < value_size; the slot is ours (caller).
            unsafe { *values.add(offset * value_size + dimension) = T::from_f32(*number) };
        }
    }

    unsafe fn store_quantised(&self, slot: usize, head: usize, key: &[f32], value: &[f32]) {
        let CellShape { pages, page_size, kv_heads, key_size, value_size, .. } = *self.shape;
        assert!(slot < pages * page_size && head < kv_heads && key.len() == key_size && value.len() == value_size);
        let layout = Quantised::of(self.shape);
        // SAFETY: page, head and slot are inside the pool, and the slot is ours (caller).
        unsafe { layout.store(self.quantised_page(&layout, slot / page_size), head, slot % page_size, key, value) };
    }

    unsafe fn read_quantised(&self, slot: usize, head: usize, key: &mut [f32], value: &mut [f32]) {
        let CellShape { pages, page_size, kv_heads, key_size, value_size, .. } = *self.shape;
        assert!(slot < pages * page_size && head < kv_heads && key.len() == key_size && value.len() == value_size);
        let layout = Quantised::of(self.shape);
        let (page, slot) = (self.quantised_page(&layout, slot / page_size), slot % page_size);
        for (dimension, number) in key.iter_mut().enumerate() {
            // SAFETY: inside the page; nobody writes the slot (caller).
            *number = unsafe { layout.key(page, head, slot, dimension) };
        }
        for (dimension, number) in value.iter_mut().enumerate() {
            // SAFETY: as above.
            *number = unsafe { layout.value(page, head, slot, dimension) };
        }
    }
}
