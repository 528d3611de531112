//! Zeroed memory for weights, cells and scratch: aligned to a cache line, in huge pages where it is large.
//!
//! Reading weights or cells touches megabytes in a row. With pages of 4 KiB one core reads a third of what it reads with pages of
//! 2 MiB, so large buffers come from the system in huge pages, and small ones share such memory through an [`Arena`].

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::error::{Code, Error, Result};
use crate::huge::HugePages;

/// One cache line, and the widest vector load there is.
const ALIGNMENT: usize = 64;
/// What an arena asks the system for at a time.
const ARENA_BYTES: usize = 32 << 20;

/// Bytes that start at a multiple of 64, zero at first. Read as the element type that was written; any bits are a valid element.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

/// Who gives the memory back.
enum Owner {
    Nobody,
    Heap(Layout),
    Pages { _pages: Arc<HugePages> },
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

fn full(bytes: usize) -> Error {
    Error::new(Code::CellsExceedMemory, format!("{bytes} bytes could not be reserved; ask for fewer pages"))
}

impl Buffer {
    pub const fn empty() -> Self {
        Self { start: NonNull::<Line>::dangling().cast::<u8>(), bytes: 0, owner: Owner::Nobody }
    }

    /// Zeroed bytes. Errors: `cells_exceed_memory` when the machine has not that many.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::empty());
        }
        if bytes >= HugePages::SIZE {
            let pages = Arc::new(HugePages::zeroed(bytes).ok_or_else(|| full(bytes))?);
            return Ok(Self { start: pages.start(), bytes, owner: Owner::Pages { _pages: pages } });
        }
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| full(bytes))?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| full(bytes))?;
        Ok(Self { start, bytes, owner: Owner::Heap(layout) })
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
        if let Owner::Heap(layout) = self.owner {
            // SAFETY: `start` came from `alloc_zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Hands out buffers that lie side by side in huge pages. Memory goes back to the system when the last buffer of a region is dropped.
#[derive(Default)]
pub struct Arena {
    last: Mutex<Option<Region>>,
}

struct Region {
    pages: Arc<HugePages>,
    used: usize,
}

impl Arena {
    pub fn new() -> Self {
        Self::default()
    }

    /// Zeroed bytes. Errors: `cells_exceed_memory`.
    pub fn zeroed(&self, bytes: usize) -> Result<Buffer> {
        if bytes == 0 {
            return Ok(Buffer::empty());
        }
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = last.as_ref().is_some_and(|region| bytes <= region.pages.bytes() - region.used);
        if !fits {
            let pages = HugePages::zeroed(bytes.max(ARENA_BYTES)).ok_or_else(|| full(bytes))?;
            *last = Some(Region { pages: Arc::new(pages), used: 0 });
        }
        let region = last.as_mut().expect("made above when it was missing");
        // SAFETY: `used + bytes` is at most the region's bytes.
        let start = unsafe { region.pages.start().add(region.used) };
        region.used = (region.used + bytes).next_multiple_of(ALIGNMENT).min(region.pages.bytes());
        Ok(Buffer { start, bytes, owner: Owner::Pages { _pages: Arc::clone(&region.pages) } })
    }
}

/// Only for the alignment of an empty buffer's pointer.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == ALIGNMENT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_an_arena_are_zeroed_aligned_and_apart() {
        let arena = Arena::new();
        let sizes = [1, 64, 100, 0, 3 << 20, ARENA_BYTES - 1, ARENA_BYTES + 5, 7];
        let mut buffers: Vec<Buffer> = sizes.iter().map(|bytes| arena.zeroed(*bytes).expect("memory")).collect();
        drop(arena);
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.bytes(), sizes[number]);
            assert!(buffer.as_pointer::<u8>().addr().is_multiple_of(ALIGNMENT));
            assert!(buffer.as_slice::<u8>().iter().all(|byte| *byte == 0), "buffer {number}");
            buffer.as_mut_slice::<u8>().fill(number as u8 + 1);
        }
        for (number, buffer) in buffers.iter().enumerate() {
            assert!(buffer.as_slice::<u8>().iter().all(|byte| *byte == number as u8 + 1), "buffer {number}");
        }
    }

    #[test]
    fn a_large_buffer_is_zeroed_and_whole() {
        let mut buffer = Buffer::zeroed(5 * HugePages::SIZE + 3).expect("memory");
        assert!(buffer.as_slice::<u8>().iter().all(|byte| *byte == 0));
        *buffer.as_mut_slice::<u8>().last_mut().expect("a byte") = 9;
    }

    #[test]
    fn more_than_an_address_holds_is_an_error() {
        assert!(Buffer::zeroed(usize::MAX / 2).is_err());
        assert!(Arena::new().zeroed(usize::MAX / 2).is_err());
        assert!(Buffer::of::<f32>(usize::MAX / 2).is_err());
    }
}
