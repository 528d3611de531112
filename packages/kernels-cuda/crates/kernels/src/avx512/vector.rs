//! One 512-bit register as 16 numbers.

use std::arch::x86_64::*;

use half::{bf16, f16};

use crate::vector::Vector;

// SAFETY of every block: `Vector`'s promise.
impl Vector for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as said above.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_fmadd_ps(self, b, c) }
    }

    #[inline(always)]
    fn prefetch<T>(at: *const T) {
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn store_lanes(self, first: usize, count: usize, to: *mut f32) {
        let mask = (((1u32 << count) - 1) << first) as u16;
        // SAFETY: as said above; lane i goes to `to + i − first`, and lanes outside the mask touch no memory.
        unsafe { _mm512_mask_storeu_ps(to.wrapping_sub(first), mask, self) }
    }
}
