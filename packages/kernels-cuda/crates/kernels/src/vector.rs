//! Sixteen f32 as one value: what attention is written with, once for all vector levels.
//!
//! Every method is one rounding a lane, so all levels give the same bits. Methods are inlined into functions that are compiled for the
//! level's instructions; outside of such a function they must not be called, hence `unsafe` throughout. That goes for closures too: a
//! closure is a function of its own until it happens to be inlined, and every method in it a call.

use half::{bf16, f16};

use crate::buffer::Plain;
use crate::quant::TensorType;

pub const LANES: usize = 16;

/// # Safety
/// Of every method: the caller runs on a processor with the level's instructions, and addresses are valid for the numbers named.
pub trait Vector: Copy {
    unsafe fn zero() -> Self;
    unsafe fn splat(value: f32) -> Self;
    /// 16 numbers.
    unsafe fn load(from: *const f32) -> Self;
    /// 16 numbers.
    unsafe fn load_f16(from: *const f16) -> Self;
    /// 16 numbers.
    unsafe fn load_bf16(from: *const bf16) -> Self;
    /// 16 numbers.
    unsafe fn store(self, to: *mut f32);
    /// self · b + c, rounded once.
    unsafe fn multiply_add(self, b: Self, c: Self) -> Self;

    /// Asks for the cache line of an address, which need not be valid.
    #[inline(always)]
    fn prefetch<T>(_: *const T) {}

    /// Writes lanes first … first + count to `to … to + count`.
    #[inline(always)]
    unsafe fn store_lanes(self, first: usize, count: usize, to: *mut f32) {
        let mut lanes = [0.0; LANES];
        // SAFETY: the caller's promise, and `first + count ≤ 16`.
        unsafe {
            self.store(lanes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(lanes.as_ptr().add(first), to, count);
        }
    }
}

/// Numbers that cells and panels are made of.
pub trait Loadable: Plain + Default {
    const TYPE: TensorType;

    /// # Safety
    /// As for [`Vector`]: 16 numbers.
    unsafe fn load<V: Vector>(from: *const Self) -> V;

    /// The first `count` lanes from memory, the others zero.
    ///
    /// # Safety
    /// As for [`Vector`]: `count` numbers, at most 16.
    #[inline(always)]
    unsafe fn load_lanes<V: Vector>(from: *const Self, count: usize) -> V {
        let mut numbers = [Self::default(); LANES];
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(from, numbers.as_mut_ptr(), count);
            Self::load(numbers.as_ptr())
        }
    }
}

impl Loadable for f32 {
    const TYPE: TensorType = TensorType::F32;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(from) }
    }
}

impl Loadable for f16 {
    const TYPE: TensorType = TensorType::F16;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_f16(from) }
    }
}

impl Loadable for bf16 {
    const TYPE: TensorType = TensorType::BF16;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_bf16(from) }
    }
}
