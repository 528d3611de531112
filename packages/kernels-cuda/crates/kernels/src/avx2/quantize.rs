//! int8 codes of 32 activations in four registers; the same numbers as `int8::quantize_block`.

use std::arch::x86_64::*;

use crate::level::{ActivationBlock, BLOCK};

#[inline]
#[target_feature(enable = "avx2,fma")]
pub fn quantize_block(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> ActivationBlock {
    let mut numbers = [_mm256_setzero_ps(); 4];
    for (i, numbers) in numbers.iter_mut().enumerate() {
        // SAFETY: 8 of 32 numbers.
        *numbers = unsafe { _mm256_loadu_ps(x.as_ptr().add(8 * i)) };
    }
    let magnitude = numbers.map(|numbers| _mm256_andnot_ps(_mm256_set1_ps(-0.0), numbers));
    let highest = _mm256_max_ps(_mm256_max_ps(magnitude[0], magnitude[1]), _mm256_max_ps(magnitude[2], magnitude[3]));
    let highest = _mm_max_ps(_mm256_castps256_ps128(highest), _mm256_extractf128_ps::<1>(highest));
    let highest = _mm_max_ps(highest, _mm_movehl_ps(highest, highest));
    let highest = _mm_cvtss_f32(_mm_max_ss(highest, _mm_movehdup_ps(highest)));
    let inverse = _mm256_set1_ps(if highest > 0.0 { 127.0 / highest } else { 0.0 });
    // Rounds to the nearest, halves to even.
    let [a, b, c, d] = numbers.map(|numbers| _mm256_cvtps_epi32(_mm256_mul_ps(numbers, inverse)));
    let first_half_sum = sum(_mm256_add_epi32(a, b));
    let sum = first_half_sum + sum(_mm256_add_epi32(c, d));
    // Packing works on 128 bits at a time, so the dwords come out as 0 4 1 5 2 6 3 7.
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    // SAFETY: 32 codes.
    unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), bytes) };
    let scale = highest / 127.0;
    ActivationBlock { scale, weighted_sum: scale * sum as f32, sum, first_half_sum }
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(x: __m256i) -> i32 {
    let x = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    let x = _mm_add_epi32(x, _mm_shuffle_epi32::<0b00_00_11_10>(x));
    _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32::<0b00_00_00_01>(x)))
}
