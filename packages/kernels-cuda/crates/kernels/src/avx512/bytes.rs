//! Products of int8 codes with VNNI: an integer of 15 bits is two bytes, a product two instructions of four products each.

use std::arch::x86_64::*;

use crate::bytes::{Bytes, QueryBlock};
use crate::cells::CELL_BLOCK;
use crate::vector::Vector;

// SAFETY of every block: `Vector`'s promise.
impl Bytes for __m512 {
    #[inline(always)]
    unsafe fn multiply(self, b: Self) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_mul_ps(self, b) }
    }

    #[inline(always)]
    unsafe fn greater(self, b: Self) -> Self {
        // SAFETY: as said above.
        unsafe { _mm512_max_ps(b, self) }
    }

    #[inline(always)]
    unsafe fn load_at(from: *const f32, first: usize, count: usize) -> Self {
        let mask = (((1u32 << count) - 1) << first) as u16;
        // SAFETY: as said above; lanes outside the mask touch no memory.
        unsafe { _mm512_maskz_loadu_ps(mask, from.wrapping_sub(first)) }
    }

    #[inline(always)]
    unsafe fn load_f16_at(from: *const half::f16, first: usize, count: usize) -> Self {
        let mask = (((1u32 << count) - 1) << first) as u16;
        // SAFETY: as said above; lanes outside the mask touch no memory.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.cast())) }
    }

    /// High bytes, then low ones: integer = 128 · high + low, low −64 … 63.
    #[inline(always)]
    unsafe fn pack_query(integers: &[i16; CELL_BLOCK], bytes: &mut [u8; 2 * CELL_BLOCK]) {
        // SAFETY: as said above.
        unsafe {
            let integers = _mm512_loadu_si512(integers.as_ptr().cast());
            let high = _mm512_srai_epi16::<7>(_mm512_add_epi16(integers, _mm512_set1_epi16(64)));
            let low = _mm512_sub_epi16(integers, _mm512_slli_epi16::<7>(high));
            _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm512_cvtepi16_epi8(high));
            _mm256_storeu_si256(bytes.as_mut_ptr().add(CELL_BLOCK).cast(), _mm512_cvtepi16_epi8(low));
        }
    }

    /// The instruction multiplies unsigned by signed bytes, so the keys are taken 128 higher, and 128 · Σ integer is where the sum begins:
    /// as −Σ integer before the high part is shifted by 7.
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
            let offset = _mm512_set1_epi8(-128);
            let mut high = [[_mm512_setzero_si512(); C]; Q];
            let mut low = high;
            for q in 0..Q {
                high[q] = [_mm512_set1_epi32(-(*queries.add(q * query_stride)).sum); C];
            }
            for group in 0..groups {
                let mut codes = [offset; C];
                for c in 0..C {
                    codes[c] = _mm512_xor_si512(_mm512_loadu_si512(keys[c].add(group * stride).cast()), offset);
                }
                for q in 0..Q {
                    let bytes = (*queries.add(q * query_stride)).bytes.as_ptr().cast::<i32>();
                    let above = _mm512_set1_epi32(bytes.add(group).read_unaligned());
                    let below = _mm512_set1_epi32(bytes.add(CELL_BLOCK / 4 + group).read_unaligned());
                    for c in 0..C {
                        high[q][c] = _mm512_dpbusd_epi32(high[q][c], codes[c], above);
                        low[q][c] = _mm512_dpbusd_epi32(low[q][c], codes[c], below);
                    }
                }
            }
            let mut out = [[Self::zero(); Q]; C];
            for c in 0..C {
                for q in 0..Q {
                    out[c][q] = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<7>(high[q][c]), low[q][c]));
                }
            }
            out
        }
    }

    /// Of every four weights the high bytes, then the low seven bits of each.
    #[inline(always)]
    unsafe fn pack_weights(self, to: *mut [u32; 2]) {
        // SAFETY: as said above.
        unsafe {
            let integers = _mm512_cvtps_epi32(self);
            let high = _mm512_cvtepi32_epi8(_mm512_srli_epi32::<7>(integers));
            let low = _mm512_cvtepi32_epi8(_mm512_and_si512(integers, _mm512_set1_epi32(127)));
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi32(high, low));
            _mm_storeu_si128(to.add(2).cast(), _mm_unpackhi_epi32(high, low));
        }
    }

    #[inline(always)]
    unsafe fn outputs<const Q: usize, const W: usize>(
        values: *const i8,
        offsets: &[u64],
        weights: *const [u32; 2],
        weight_stride: usize,
    ) -> [[Self; W]; Q] {
        // SAFETY: as said above.
        unsafe {
            let mut high = [[_mm512_setzero_si512(); W]; Q];
            let mut low = high;
            for i in 0..offsets.len() {
                let at = values.add(offsets[i] as usize);
                let mut codes = [_mm512_setzero_si512(); W];
                for w in 0..W {
                    codes[w] = _mm512_loadu_si512(at.add(64 * w).cast());
                }
                for q in 0..Q {
                    let [above, below] = *weights.add(q * weight_stride + i);
                    let (above, below) = (_mm512_set1_epi32(above as i32), _mm512_set1_epi32(below as i32));
                    for w in 0..W {
                        high[q][w] = _mm512_dpbusd_epi32(high[q][w], above, codes[w]);
                        low[q][w] = _mm512_dpbusd_epi32(low[q][w], below, codes[w]);
                    }
                }
            }
            let mut out = [[Self::zero(); W]; Q];
            for q in 0..Q {
                for w in 0..W {
                    out[q][w] = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<7>(high[q][w]), low[q][w]));
                }
            }
            out
        }
    }
}
