//! int8 codes of 32 activations in eight registers; the same numbers as `int8::quantize_block`.

use std::arch::aarch64::*;

use crate::level::{ActivationBlock, BLOCK};

#[inline]
#[target_feature(enable = "neon")]
pub fn quantize_block(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> ActivationBlock {
    let mut numbers = [vdupq_n_f32(0.0); 8];
    let mut magnitude = vdupq_n_f32(0.0);
    for (i, numbers) in numbers.iter_mut().enumerate() {
        // SAFETY: 4 of 32 numbers.
        *numbers = unsafe { vld1q_f32(x.as_ptr().add(4 * i)) };
        // The maximum of a number and a NaN is the number, as in the scalar twin.
        magnitude = vmaxnmq_f32(magnitude, vabsq_f32(*numbers));
    }
    let highest = vmaxnmvq_f32(magnitude);
    let inverse = vdupq_n_f32(if highest > 0.0 { 127.0 / highest } else { 0.0 });
    // Rounds to the nearest, halves to even.
    let wide = numbers.map(|numbers| vcvtnq_s32_f32(vmulq_f32(numbers, inverse)));
    let mut sums = [0; 2];
    for half in 0..2 {
        let [a, b, c, d] = [wide[4 * half], wide[4 * half + 1], wide[4 * half + 2], wide[4 * half + 3]];
        sums[half] = vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)));
        let low = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
        let high = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
        // SAFETY: 16 of 32 codes.
        unsafe { vst1q_s8(codes.as_mut_ptr().add(16 * half), vcombine_s8(vqmovn_s16(low), vqmovn_s16(high))) };
    }
    let (scale, sum) = (highest / 127.0, sums[0] + sums[1]);
    ActivationBlock { scale, weighted_sum: scale * sum as f32, sum, first_half_sum: sums[0] }
}
