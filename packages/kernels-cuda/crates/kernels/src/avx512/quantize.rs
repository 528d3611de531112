//! int8 codes of 32 activations in two registers; the same numbers as `int8::quantize_block`.

use std::arch::x86_64::*;

use crate::level::{ActivationBlock, BLOCK};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub fn quantize_block(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> ActivationBlock {
    // SAFETY: 32 numbers.
    let (a, b) = unsafe { (_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16))) };
    let highest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    let inverse = _mm512_set1_ps(if highest > 0.0 { 127.0 / highest } else { 0.0 });
    // Rounds to the nearest, halves to even.
    let (a, b) = (_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse)), _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse)));
    // SAFETY: 32 codes.
    unsafe {
        _mm_storeu_si128(codes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(a));
        _mm_storeu_si128(codes.as_mut_ptr().add(16).cast(), _mm512_cvtepi32_epi8(b));
    }
    let first_half_sum = _mm512_reduce_add_epi32(a);
    let sum = first_half_sum + _mm512_reduce_add_epi32(b);
    let scale = highest / 127.0;
    ActivationBlock { scale, weighted_sum: scale * sum as f32, sum, first_half_sum }
}
