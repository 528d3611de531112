//! Four 128-bit registers as 16 numbers.

use std::arch::aarch64::*;
use std::arch::asm;

use half::{bf16, f16};

use crate::vector::Vector;

#[derive(Clone, Copy)]
pub struct Quads(pub [float32x4_t; 4]);

/// Four f16, exactly. The intrinsic for it is not stable.
///
/// # Safety
/// 4 numbers from `from` on.
#[inline]
#[target_feature(enable = "neon")]
pub unsafe fn widen_f16(from: *const f16) -> float32x4_t {
    // SAFETY: 4 numbers (caller); the instruction belongs to every 64-bit Arm processor and reads no memory.
    unsafe {
        let narrow = vld1_u16(from.cast());
        let wide: float32x4_t;
        asm!("fcvtl {wide:v}.4s, {narrow:v}.4h", wide = lateout(vreg) wide, narrow = in(vreg) narrow, options(pure, nomem, nostack, preserves_flags));
        wide
    }
}

// SAFETY of every block: `Vector`'s promise.
impl Vector for Quads {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as said above.
        unsafe { Self([vdupq_n_f32(0.0); 4]) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as said above.
        unsafe { Self([vdupq_n_f32(value); 4]) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as said above.
        unsafe { Self([vld1q_f32(from), vld1q_f32(from.add(4)), vld1q_f32(from.add(8)), vld1q_f32(from.add(12))]) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as said above.
        unsafe { Self([widen_f16(from), widen_f16(from.add(4)), widen_f16(from.add(8)), widen_f16(from.add(12))]) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: as said above.
        unsafe {
            let (low, high) = (vld1q_u16(from.cast()), vld1q_u16(from.cast::<u16>().add(8)));
            Self([
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(low))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(low))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(high))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(high))),
            ])
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as said above.
        unsafe {
            for i in 0..4 {
                vst1q_f32(to.add(4 * i), self.0[i]);
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, b: Self, c: Self) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        // SAFETY: as said above.
        unsafe {
            Self([vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1]), vfmaq_f32(c[2], a[2], b[2]), vfmaq_f32(c[3], a[3], b[3])])
        }
    }
}
