//! Products of int8 activations with packed weights: AVX-512 VNNI.
//!
//! One vector holds one output of 16 rows of weights. A tile is one panel by up to 8 rows of activations: their sums in f32 and their
//! integer sums of the block at hand, which leaves registers for the codes. `vpdpbusd` multiplies unsigned codes by signed activations;
//! the offset of a code is taken off beforehand, as −offset · Σ activations.
//!
//! Panels pass by one after the other, from the first byte to the last: with few rows of activations the product is as fast as memory
//! is read, and processors read one stream ahead by themselves (with one row, two streams or prefetches of our own took twice the time).
//!
//! The sum of an output is, whatever the tile: for each block in order (for each half block where these have scales of their own)
//! `sum = fma(f32(Σ code · activation), scale · activation scale, sum)`, then where there are minima
//! `sum = fma(minimum, weighted sum, sum)`.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::level::{ActivationBlock, Activations, BLOCK, Matrix, Output, PANEL_ROWS};
use crate::panel::{Packed, Scaling};

/// Activations that stay near while the panels pass by: a quarter of a common second-level cache.
const ACTIVATION_BYTES: usize = 256 << 10;
/// How far in front of a tile its panels are asked for: one row of activations is as fast as memory is read, 8 bits a weight are few
/// instructions a byte, and there processors read ahead by themselves; with more work between two lines they fall back (of two rows and
/// 4 bits on this took a third off).
const AHEAD: usize = 2048;
/// Rows of activations in a tile.
const ROWS: usize = 8;

/// # Safety
/// As `Kernels::multiply`; the processor has the features; shapes agree (asserted by the caller).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn multiply<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let blocks = x.columns / BLOCK;
    let bytes = blocks.div_ceil(P::GROUP) * P::GROUP_BYTES;
    let together = (ACTIVATION_BYTES / x.columns.max(1) / ROWS).max(4) * ROWS;
    if x.rows <= ROWS {
        fetch(x, blocks);
    }
    for first in (0..x.rows).step_by(together) {
        let end = x.rows.min(first + together);
        for panel in panels.clone() {
            let codes = matrix.codes.as_slice::<u8>()[panel * bytes..][..bytes].as_ptr();
            let mut row = first;
            while row < end {
                let activations = x.codes[row * x.columns..].as_ptr();
                let tile = Tile { codes, blocks, activations, facts: x.blocks[row * blocks..].as_ptr(), first: row == first };
                // SAFETY: the tile's rows exist, and the panel is whole.
                row += unsafe {
                    match end - row {
                        8.. => write(tile.sums::<P, 8>(), matrix.rows, panel, row, &out),
                        4.. => write(tile.sums::<P, 4>(), matrix.rows, panel, row, &out),
                        2.. => write(tile.sums::<P, 2>(), matrix.rows, panel, row, &out),
                        _ => write(tile.sums::<P, 1>(), matrix.rows, panel, row, &out),
                    }
                };
            }
        }
    }
}

/// Asks for all activations at once: where they are few another core has just written them, and the first panel would wait for line after
/// line.
#[inline]
#[target_feature(enable = "avx512f")]
fn fetch(x: &Activations<'_>, blocks: usize) {
    prefetch(x.codes.as_ptr().cast(), x.rows * x.columns);
    prefetch(x.blocks.as_ptr().cast(), x.rows * blocks * size_of::<ActivationBlock>());
}

#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch(start: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at).cast());
    }
}

/// What a tile reads. Rows of activations lie `32 · blocks` apart, their facts `blocks`.
struct Tile {
    codes: *const u8,
    blocks: usize,
    activations: *const i8,
    facts: *const ActivationBlock,
    /// The first tile of its panel, for which that comes from memory.
    first: bool,
}

/// Multiplies some quads of a block; their numbers are constants, since shifts by constants are cheaper.
macro_rules! multiply_quads {
    ($packed:ident, $($quad:literal),*; $codes:ident, $activations:ident, $dots:ident) => {
        $(multiply_quad(quad::<$packed, $quad>($codes), &$activations, $quad, &mut $dots);)*
    };
}

impl Tile {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn sums<P: Packed, const R: usize>(&self) -> [__m512; R] {
        let mut sums = [_mm512_setzero_ps(); R];
        let (mut at, mut header) = (0, self.codes);
        while at < self.blocks {
            for block in 0..P::GROUP.min(self.blocks - at) {
                if R > 1 && P::BITS < 8 && self.first {
                    let (from, bytes) = if block == 0 { (0, P::HEADER + P::BLOCK) } else { (P::HEADER + block * P::BLOCK, P::BLOCK) };
                    prefetch(header.wrapping_add(AHEAD + from), bytes);
                }
                // SAFETY: this block of the panel and of every row exists.
                unsafe { self.block::<P, R>(header, block, at + block, &mut sums) };
            }
            at += P::GROUP;
            header = header.wrapping_add(P::GROUP_BYTES);
        }
        sums
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn block<P: Packed, const R: usize>(&self, header: *const u8, block: usize, at: usize, sums: &mut [__m512; R]) {
        // SAFETY: the block lies inside the panel, and `at` is a block of each row of activations (caller).
        unsafe {
            let codes = header.add(P::HEADER + block * P::BLOCK);
            let facts: [*const ActivationBlock; R] = std::array::from_fn(|r| self.facts.add(r * self.blocks + at));
            let activations: [*const i8; R] = std::array::from_fn(|r| self.activations.add((r * self.blocks + at) * BLOCK));
            if P::SCALING == Scaling::SuperHalves {
                let mut dots = start::<P, R>(&facts, |facts| _mm512_set1_epi32(facts.first_half_sum));
                multiply_quads!(P, 0, 1, 2, 3; codes, activations, dots);
                scale_and_add(half_scale(header, block, 0), &facts, &dots, sums);
                let mut dots =
                    start::<P, R>(&facts, |facts| _mm512_sub_epi32(_mm512_set1_epi32(facts.sum), _mm512_set1_epi32(facts.first_half_sum)));
                multiply_quads!(P, 4, 5, 6, 7; codes, activations, dots);
                scale_and_add(half_scale(header, block, 1), &facts, &dots, sums);
                return;
            }
            let mut dots = start::<P, R>(&facts, |facts| _mm512_set1_epi32(facts.sum));
            multiply_quads!(P, 0, 4, 1, 5, 2, 6, 3, 7; codes, activations, dots);
            scale_and_add(scale::<P>(header, block), &facts, &dots, sums);
            if matches!(P::SCALING, Scaling::Minimum | Scaling::SuperMinimum) {
                let minima = minimum::<P>(header, block);
                for r in 0..R {
                    sums[r] = _mm512_fmadd_ps(minima, _mm512_set1_ps((*facts[r]).weighted_sum), sums[r]);
                }
            }
        }
    }
}

/// What the dots of each row start with: −offset · Σ activations, in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn start<P: Packed, const R: usize>(facts: &[*const ActivationBlock; R], sum: impl Fn(&ActivationBlock) -> __m512i) -> [__m512i; R] {
    let mut dots = [_mm512_setzero_si512(); R];
    if P::OFFSET_SHIFT == 0 {
        return dots;
    }
    for r in 0..R {
        // SAFETY: the caller's block exists in every row.
        let negative = _mm512_sub_epi32(_mm512_setzero_si512(), sum(unsafe { &*facts[r] }));
        dots[r] = match P::OFFSET_SHIFT {
            3 => _mm512_slli_epi32::<3>(negative),
            4 => _mm512_slli_epi32::<4>(negative),
            5 => _mm512_slli_epi32::<5>(negative),
            _ => _mm512_slli_epi32::<7>(negative),
        };
    }
    dots
}

/// dots[row] += codes · activations[row] of one quad, lane by lane.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn multiply_quad<const R: usize>(codes: __m512i, activations: &[*const i8; R], quad: usize, dots: &mut [__m512i; R]) {
    for r in 0..R {
        // SAFETY: a block of activations has 8 quads.
        let four = _mm512_set1_epi32(unsafe { activations[r].add(4 * quad).cast::<i32>().read_unaligned() });
        dots[r] = _mm512_dpbusd_epi32(dots[r], codes, four);
    }
}

/// sums += f32(dots) · (scale · activation scale)
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scale_and_add<const R: usize>(scales: __m512, facts: &[*const ActivationBlock; R], dots: &[__m512i; R], sums: &mut [__m512; R]) {
    for r in 0..R {
        // SAFETY: the caller's block exists in every row.
        let scale = _mm512_set1_ps(unsafe { (*facts[r]).scale });
        sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(scales, scale), sums[r]);
    }
}

/// The codes of one quad of a block, widened to bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn quad<P: Packed, const QUAD: usize>(block: *const u8) -> __m512i {
    // SAFETY: the vectors of the block, as drawn in `panel.rs`.
    let vector = |index: usize| unsafe { _mm512_loadu_si512(block.add(64 * index).cast()) };
    if P::BITS == 8 {
        return vector(QUAD);
    }
    let both = vector(QUAD % 4);
    let low = if QUAD < 4 { both } else { _mm512_srli_epi16::<4>(both) };
    let low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    // low | (high & mask); shifts move 16 bits at a time, and what crosses into the other byte is masked off.
    match P::BITS {
        5 => _mm512_ternarylogic_epi32::<0b1111_1000>(low, to_bit_4::<QUAD>(vector(4)), _mm512_set1_epi8(16)),
        6 => _mm512_ternarylogic_epi32::<0b1111_1000>(low, to_bits_4_and_5::<QUAD>(vector(4 + QUAD / 4)), _mm512_set1_epi8(48)),
        _ => low,
    }
}

/// Moves bit `QUAD` of every byte to bit 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_bit_4<const QUAD: usize>(bits: __m512i) -> __m512i {
    match QUAD {
        0 => _mm512_slli_epi16::<4>(bits),
        1 => _mm512_slli_epi16::<3>(bits),
        2 => _mm512_slli_epi16::<2>(bits),
        3 => _mm512_slli_epi16::<1>(bits),
        4 => bits,
        5 => _mm512_srli_epi16::<1>(bits),
        6 => _mm512_srli_epi16::<2>(bits),
        _ => _mm512_srli_epi16::<3>(bits),
    }
}

/// Moves bits 2v and 2v + 1 of every byte to bits 4 and 5, v = `QUAD` modulo 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_bits_4_and_5<const QUAD: usize>(bits: __m512i) -> __m512i {
    match QUAD % 4 {
        0 => _mm512_slli_epi16::<4>(bits),
        1 => _mm512_slli_epi16::<2>(bits),
        2 => bits,
        _ => _mm512_srli_epi16::<2>(bits),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn halves_at(at: *const u8) -> __m512 {
    // SAFETY: the caller's header holds 16 f16 there.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn bytes_at(at: *const u8) -> __m512 {
    // SAFETY: the caller's header holds 16 u8 there.
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(at.cast()) }))
}

/// Scales of the 16 rows of a block.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scale<P: Packed>(header: *const u8, block: usize) -> __m512 {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        match P::SCALING {
            Scaling::Offset => halves_at(header.add(32 * block)),
            Scaling::Minimum => halves_at(header),
            _ => _mm512_mul_ps(halves_at(header), bytes_at(header.add(64 + 32 * block))),
        }
    }
}

/// What is added to the scaled codes of the 16 rows of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn minimum<P: Packed>(header: *const u8, block: usize) -> __m512 {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        let minimum = halves_at(header.add(32));
        if P::SCALING == Scaling::Minimum {
            return minimum;
        }
        let minimum = _mm512_mul_ps(minimum, bytes_at(header.add(64 + 32 * block + 16)));
        _mm512_xor_ps(minimum, _mm512_set1_ps(-0.0))
    }
}

/// Scales of the 16 rows of half a block (Q6_K).
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn half_scale(header: *const u8, block: usize, half: usize) -> __m512 {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        let scale = _mm512_cvtepi8_epi32(_mm_loadu_si128(header.add(32 + 16 * (2 * block + half)).cast()));
        _mm512_mul_ps(halves_at(header), _mm512_cvtepi32_ps(scale))
    }
}

/// Writes a tile of one panel, as `panel::finish` does but without a detour through memory. Returns its rows.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write<const R: usize>(sums: [__m512; R], matrix_rows: usize, panel: usize, row: usize, out: &Output<'_>) -> usize {
    let first = panel * PANEL_ROWS;
    let count = PANEL_ROWS.min(matrix_rows - first);
    let mask = ((1u32 << count) - 1) as u16;
    // SAFETY: the mask ends at the bias's end, and the outputs of this panel in these rows are the caller's.
    unsafe {
        let bias = out.bias.map(|bias| _mm512_maskz_loadu_ps(mask, bias[first..].as_ptr()));
        for (r, mut sum) in sums.into_iter().enumerate() {
            let target = out.start.add((row + r) * out.stride + first);
            if let Some(bias) = bias {
                sum = _mm512_add_ps(sum, bias);
            }
            if out.add {
                sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, target));
            }
            _mm512_mask_storeu_ps(target, mask, sum);
        }
    }
    R
}
