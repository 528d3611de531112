//! Products of int8 codes, widened to 16 bits: an instruction multiplies them by the integers and adds two products.

use std::arch::x86_64::*;

use super::vector::Pair;
use crate::bytes::{Bytes, QueryBlock};
use crate::vector::Vector;

// SAFETY of every block: `Vector`'s promise.
impl Bytes for Pair {
    #[inline(always)]
    unsafe fn multiply(self, b: Self) -> Self {
        // SAFETY: as said above.
        unsafe { Self(_mm256_mul_ps(self.0, b.0), _mm256_mul_ps(self.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn greater(self, b: Self) -> Self {
        // SAFETY: as said above.
        unsafe { Self(_mm256_max_ps(b.0, self.0), _mm256_max_ps(b.1, self.1)) }
    }

    /// Eight slots at a time: sums of two dimensions in each of two registers, added in the end.
    #[inline(always)]
    unsafe fn scores<const Q: usize, const C: usize>(
        keys: [*const i8; C],
        stride: usize,
        groups: usize,
        queries: *const QueryBlock,
        query_stride: usize,
    ) -> [[Self; Q]; C] {
        // SAFETY: as said above.
        unsafe {
            let mut out = [[Self::zero(); Q]; C];
            for c in 0..C {
                for half in 0..2 {
                    let mut sums = [[_mm256_setzero_si256(); 2]; Q];
                    for group in 0..groups {
                        let at = keys[c].add(group * stride + 32 * half);
                        let (first, second) = (widen(at), widen(at.add(16)));
                        for q in 0..Q {
                            let integers = (*queries.add(q * query_stride)).bytes.as_ptr().add(8 * group).cast::<i64>().read_unaligned();
                            let integers = _mm256_set1_epi64x(integers);
                            sums[q][0] = _mm256_add_epi32(sums[q][0], _mm256_madd_epi16(first, integers));
                            sums[q][1] = _mm256_add_epi32(sums[q][1], _mm256_madd_epi16(second, integers));
                        }
                    }
                    for q in 0..Q {
                        let numbers = add_pairs(sums[q][0], sums[q][1]);
                        if half == 0 { out[c][q].0 = numbers } else { out[c][q].1 = numbers }
                    }
                }
            }
            out
        }
    }

    #[inline(always)]
    unsafe fn pack_weights(self, to: *mut [u32; 2]) {
        // SAFETY: as said above.
        unsafe {
            let pairs = _mm256_packus_epi32(_mm256_cvtps_epi32(self.0), _mm256_cvtps_epi32(self.1));
            // 0–3, 8–11 | 4–7, 12–15
            _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs));
        }
    }

    /// Eight dimensions at a time, as in `scores`.
    #[inline(always)]
    unsafe fn outputs<const Q: usize, const W: usize>(
        values: *const i8,
        offsets: &[u64],
        weights: *const [u32; 2],
        weight_stride: usize,
    ) -> [[Self; W]; Q] {
        // SAFETY: as said above.
        unsafe {
            let mut out = [[Self::zero(); W]; Q];
            for w in 0..W {
                for half in 0..2 {
                    let mut sums = [[_mm256_setzero_si256(); 2]; Q];
                    for i in 0..offsets.len() {
                        let at = values.add(offsets[i] as usize + 64 * w + 32 * half);
                        let (first, second) = (widen(at), widen(at.add(16)));
                        for q in 0..Q {
                            let weights = _mm256_set1_epi64x(weights.add(q * weight_stride + i).cast::<i64>().read_unaligned());
                            sums[q][0] = _mm256_add_epi32(sums[q][0], _mm256_madd_epi16(first, weights));
                            sums[q][1] = _mm256_add_epi32(sums[q][1], _mm256_madd_epi16(second, weights));
                        }
                    }
                    for q in 0..Q {
                        let numbers = add_pairs(sums[q][0], sums[q][1]);
                        if half == 0 { out[q][w].0 = numbers } else { out[q][w].1 = numbers }
                    }
                }
            }
            out
        }
    }
}

/// 16 codes.
#[inline(always)]
unsafe fn widen(at: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(at.cast())) }
}

/// Eight sums of neighbours: those of four lanes from each.
#[inline(always)]
unsafe fn add_pairs(first: __m256i, second: __m256i) -> __m256 {
    // SAFETY: the caller's promise. The instruction adds within halves: 0, 1, 4, 5 | 2, 3, 6, 7.
    unsafe { _mm256_cvtepi32_ps(_mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(first, second))) }
}
