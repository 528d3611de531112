//! Memory that the threads of a batch share.

use std::sync::{Mutex, MutexGuard};

use palimpsest_kernels::Pool;

/// Multiplications below which a batch is not worth waking another thread.
const SMALL: usize = 20_000;

/// Tasks a thread takes at a time: eight chunks for each thread, or all where the whole is small.
pub fn grain(pool: &Pool, tasks: usize, work_of_task: usize) -> usize {
    if tasks * work_of_task < SMALL { tasks } else { tasks.div_ceil(pool.threads() * 8) }
}

/// A matrix of numbers that threads write disjoint parts of.
#[derive(Clone, Copy)]
pub struct Numbers {
    start: *mut f32,
    length: usize,
}

// SAFETY: an address; the users write disjoint parts (see `part`).
unsafe impl Send for Numbers {}
// SAFETY: as above.
unsafe impl Sync for Numbers {}

impl Numbers {
    pub fn of(numbers: &mut [f32]) -> Self {
        Self { start: numbers.as_mut_ptr(), length: numbers.len() }
    }

    /// # Safety
    /// What `of` was given lives, and nobody else touches these elements meanwhile.
    pub unsafe fn part<'a>(&self, first: usize, length: usize) -> &'a mut [f32] {
        assert!(first + length <= self.length, "{first} + {length} of {}", self.length);
        // SAFETY: inside, as asserted, and ours (caller).
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), length) }
    }
}

/// Locks what only one thread uses at a time. A panic while it was held leaves numbers that the next step overwrites.
pub fn exclusive<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Bytes that a vector holds.
pub fn held<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

/// At least `length` elements; never shrinks.
pub fn grow<T: Clone + Default>(vector: &mut Vec<T>, length: usize) {
    if vector.len() < length {
        vector.resize(length, T::default());
    }
}
