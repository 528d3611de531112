//! Zeroed memory straight from the system, in huge pages where it has them.

use std::ptr::NonNull;

/// A region that starts at a multiple of [`HugePages::SIZE`]. Memory is taken when it is first touched.
pub struct HugePages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the region owns its memory and gives out only its address.
unsafe impl Send for HugePages {}
// SAFETY: as above.
unsafe impl Sync for HugePages {}

impl HugePages {
    /// Bytes of a huge page on x86-64 and, in most systems, on arm64.
    pub const SIZE: usize = 2 << 20;

    /// At least `bytes` zeroed bytes. `None` when the system refuses.
    pub fn zeroed(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(Self::SIZE)?;
        Some(Self { start: system::reserve(bytes)?, bytes })
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // SAFETY: from `reserve` with the same length, and nobody holds the address any more.
        unsafe { system::release(self.start, self.bytes) }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr::{NonNull, null_mut};

    use super::HugePages;

    // From the C library that std links already.
    unsafe extern "C" {
        fn mmap(address: *mut c_void, length: usize, protection: c_int, flags: c_int, file: c_int, offset: c_long) -> *mut c_void;
        fn munmap(address: *mut c_void, length: usize) -> c_int;
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    const READ_WRITE: c_int = 3;
    const PRIVATE_ANONYMOUS: c_int = 0x22;
    const HUGE_PAGE: c_int = 14;

    /// Maps one huge page more than asked, then gives back what lies before and after the aligned part.
    pub fn reserve(bytes: usize) -> Option<NonNull<u8>> {
        let mapped = bytes.checked_add(HugePages::SIZE)?;
        // SAFETY: a fresh mapping of no file, at an address of the system's choice.
        let start = unsafe { mmap(null_mut(), mapped, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0) }.cast::<u8>();
        if start.addr() == usize::MAX {
            return None;
        }
        let before = start.addr().next_multiple_of(HugePages::SIZE) - start.addr();
        // SAFETY: both parts lie inside the mapping and outside what is handed out; advice changes no content, and may fail.
        unsafe {
            let aligned = start.add(before);
            if before > 0 {
                munmap(start.cast(), before);
            }
            if before < HugePages::SIZE {
                munmap(aligned.add(bytes).cast(), HugePages::SIZE - before);
            }
            madvise(aligned.cast(), bytes, HUGE_PAGE);
            NonNull::new(aligned)
        }
    }

    /// # Safety
    /// `start` came from `reserve(bytes)`, and nobody uses it any more.
    pub unsafe fn release(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::HugePages;

    pub fn reserve(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, HugePages::SIZE).ok()?;
        // SAFETY: the layout has a size above zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// `start` came from `reserve(bytes)`, and nobody uses it any more.
    pub unsafe fn release(start: NonNull<u8>, bytes: usize) {
        let layout = Layout::from_size_align(bytes, HugePages::SIZE).expect("the layout that was allocated");
        // SAFETY: the caller's promise.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}
