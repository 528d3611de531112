//! Zeroed memory aligned to a cache line, for weights, cells and scratch.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::error::{Code, Error, Result};

/// One cache line, and the widest vector load there is.
const ALIGNMENT: usize = 64;

/// Bytes that start at a multiple of 64, zero at first. Read as the element type that was written; any bits are a valid element.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the buffer owns its memory; shared references give only reads, and raw writes name their own conditions.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Numbers whose every bit pattern is a value, so that zeroed or foreign bytes can be read as them.
pub trait Plain: Copy + Send + Sync + 'static {}

impl Plain for f32 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for u16 {}
impl Plain for i8 {}
impl Plain for u8 {}
impl Plain for half::f16 {}
impl Plain for half::bf16 {}

impl Buffer {
    pub const fn empty() -> Self {
        Self { start: NonNull::<Line>::dangling().cast::<u8>(), bytes: 0 }
    }

    /// Zeroed bytes. Errors: `cells_exceed_memory` when the machine has not that many.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::empty());
        }
        let full = || Error::new(Code::CellsExceedMemory, format!("{bytes} bytes could not be reserved; ask for fewer pages"));
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| full())?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(full)?;
        Ok(Self { start, bytes })
    }

    /// Zeroed elements. Errors as for [`Buffer::zeroed`].
    pub fn of<T: Plain>(elements: usize) -> Result<Self> {
        let bytes = elements.checked_mul(size_of::<T>());
        Self::zeroed(bytes.ok_or_else(|| Error::new(Code::CellsExceedMemory, format!("{elements} elements overflow an address")))?)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn as_slice<T: Plain>(&self) -> &[T] {
        // SAFETY: the memory is initialised, aligned to 64, `bytes / size` elements long, and any bits are a valid `T`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    pub fn as_mut_slice<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// For threads that write disjoint parts. Valid while the buffer lives and nobody holds a slice over the same elements.
    pub fn as_pointer<T: Plain>(&self) -> *mut T {
        self.start.as_ptr().cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let layout = Layout::from_size_align(self.bytes, ALIGNMENT).expect("the layout that was allocated");
            // SAFETY: `start` came from `alloc_zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Only for the alignment of an empty buffer's pointer.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == ALIGNMENT);
