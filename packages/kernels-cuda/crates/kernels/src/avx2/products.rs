//! Products of int8 activations with packed weights: AVX2, and from the same source AVX-VNNI.
//!
//! Two vectors hold one output of 16 rows of weights. A tile is one panel by up to four rows of activations. Without VNNI codes are
//! multiplied to sums of two in 16 bits, which are added up as long as they cannot overflow, then widened:
//!
//! ```text
//! bits of a code          4          5          6          8
//! largest sum of two   3 810      7 874     16 002     32 512     (activations are −127 … 127)
//! quads between            8          4          2          1
//! ```
//!
//! Codes of 8 bits have to be signed for that: |code| times the activation with the code's sign. The sum of an output is that of
//! `avx512/products.rs`, bit for bit.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::level::{ActivationBlock, Activations, BLOCK, Matrix, Output, PANEL_ROWS};
use crate::panel::{Packed, Scaling, finish};

/// Activations that stay near while the panels pass by.
const ACTIVATION_BYTES: usize = 128 << 10;
/// Rows of activations in a tile.
const ROWS: usize = 4;

/// # Safety
/// As `Kernels::multiply`; the processor has the features; shapes agree (asserted by the caller).
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn multiply<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_as::<P, ByPairs>(matrix, panels, x, out) }
}

/// # Safety
/// As `multiply`.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub unsafe fn multiply_vnni<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_as::<P, Vnni>(matrix, panels, x, out) }
}

/// How an instruction set multiplies codes by activations.
trait Dots {
    /// Whether one instruction adds four products to a sum of 32 bits.
    const BY_FOURS: bool;

    /// dots + Σ of four codes · activations in each lane of 32 bits. Only where `BY_FOURS`.
    ///
    /// # Safety
    /// Compiled for the instructions.
    unsafe fn add_fours(dots: __m256i, codes: __m256i, activations: __m256i) -> __m256i;
}

/// AVX2: sums of two in 16 bits.
struct ByPairs;

impl Dots for ByPairs {
    const BY_FOURS: bool = false;

    #[inline(always)]
    unsafe fn add_fours(_: __m256i, _: __m256i, _: __m256i) -> __m256i {
        unreachable!("AVX2 adds pairs")
    }
}

/// AVX-VNNI.
struct Vnni;

impl Dots for Vnni {
    const BY_FOURS: bool = true;

    #[inline(always)]
    unsafe fn add_fours(dots: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
        // SAFETY: compiled for the instructions (caller).
        unsafe { _mm256_dpbusd_avx_epi32(dots, codes, activations) }
    }
}

// Everything below is inlined into one of the two functions above, and so compiled for its instructions. A closure would not be, where
// it does not happen to be inlined: none of them holds an instruction.

#[inline(always)]
unsafe fn multiply_as<P: Packed, D: Dots>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let blocks = x.columns / BLOCK;
    let bytes = blocks.div_ceil(P::GROUP) * P::GROUP_BYTES;
    let together = (ACTIVATION_BYTES / x.columns.max(1) / ROWS).max(4) * ROWS;
    for first in (0..x.rows).step_by(together) {
        let end = x.rows.min(first + together);
        for panel in panels.clone() {
            let codes = matrix.codes.as_slice::<u8>()[panel * bytes..][..bytes].as_ptr();
            let mut row = first;
            while row < end {
                let activations = x.codes[row * x.columns..].as_ptr();
                let tile = Tile { codes, blocks, activations, facts: x.blocks[row * blocks..].as_ptr() };
                // SAFETY: the tile's rows exist, and the panel is whole.
                row += unsafe {
                    match end - row {
                        4.. => write(&tile.sums::<P, 4, D>(), matrix.rows, panel, row, &out),
                        2.. => write(&tile.sums::<P, 2, D>(), matrix.rows, panel, row, &out),
                        _ => write(&tile.sums::<P, 1, D>(), matrix.rows, panel, row, &out),
                    }
                };
            }
        }
    }
}

/// Rows of weights 0 … 7 and 8 … 15.
type Halves<T> = [T; 2];

#[inline(always)]
unsafe fn write<const R: usize>(sums: &[Halves<__m256>; R], matrix_rows: usize, panel: usize, row: usize, out: &Output<'_>) -> usize {
    for (r, sums) in sums.iter().enumerate() {
        let mut numbers = [0.0; PANEL_ROWS];
        // SAFETY: 16 numbers; the outputs are ours (caller).
        unsafe {
            _mm256_storeu_ps(numbers.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(numbers.as_mut_ptr().add(8), sums[1]);
            finish(&numbers, matrix_rows, panel, row + r, out);
        }
    }
    R
}

/// What a tile reads. Rows of activations lie `32 · blocks` apart, their facts `blocks`.
struct Tile {
    codes: *const u8,
    blocks: usize,
    activations: *const i8,
    facts: *const ActivationBlock,
}

/// Multiplies some quads of a block, whose sums of two fit 16 bits together.
macro_rules! multiply_quads {
    ($packed:ident, $dots_of:ident, $($quad:literal),*; $codes:ident, $activations:ident, $dots:ident) => {{
        let mut pairs = [[_mm256_setzero_si256(); 2]; R];
        $(multiply_quad::<R, $dots_of>(quad::<$packed, $quad>($codes), &$activations, $quad, &mut pairs, &mut $dots, $packed::BITS == 8);)*
        if !$dots_of::BY_FOURS {
            for r in 0..R {
                for h in 0..2 {
                    $dots[r][h] = _mm256_add_epi32($dots[r][h], _mm256_madd_epi16(pairs[r][h], _mm256_set1_epi16(1)));
                }
            }
        }
    }};
}

/// Multiplies the quads of half a block.
macro_rules! multiply_half {
    ($packed:ident, $dots_of:ident, [$a:literal, $b:literal, $c:literal, $d:literal]; $($rest:tt)*) => {
        match $packed::BITS {
            4 | 5 => multiply_quads!($packed, $dots_of, $a, $b, $c, $d; $($rest)*),
            6 => {
                multiply_quads!($packed, $dots_of, $a, $b; $($rest)*);
                multiply_quads!($packed, $dots_of, $c, $d; $($rest)*);
            }
            _ => {
                multiply_quads!($packed, $dots_of, $a; $($rest)*);
                multiply_quads!($packed, $dots_of, $b; $($rest)*);
                multiply_quads!($packed, $dots_of, $c; $($rest)*);
                multiply_quads!($packed, $dots_of, $d; $($rest)*);
            }
        }
    };
}

impl Tile {
    #[inline(always)]
    unsafe fn sums<P: Packed, const R: usize, D: Dots>(&self) -> [Halves<__m256>; R] {
        // SAFETY: this block of the panel and of every row exists.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); 2]; R];
            let (mut at, mut header) = (0, self.codes);
            while at < self.blocks {
                for block in 0..P::GROUP.min(self.blocks - at) {
                    self.block::<P, R, D>(header, block, at + block, &mut sums);
                }
                at += P::GROUP;
                header = header.wrapping_add(P::GROUP_BYTES);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn block<P: Packed, const R: usize, D: Dots>(&self, header: *const u8, block: usize, at: usize, sums: &mut [Halves<__m256>; R]) {
        // SAFETY: the block lies inside the panel, and `at` is a block of each row of activations (caller).
        unsafe {
            let codes = header.add(P::HEADER + block * P::BLOCK);
            let facts: [*const ActivationBlock; R] = std::array::from_fn(|r| self.facts.add(r * self.blocks + at));
            let activations: [*const i8; R] = std::array::from_fn(|r| self.activations.add((r * self.blocks + at) * BLOCK));
            // Codes of 8 bits are signed before they are multiplied, except with VNNI.
            let shift = if P::BITS == 8 && !D::BY_FOURS { 0 } else { P::OFFSET_SHIFT };
            if P::SCALING == Scaling::SuperHalves {
                let mut dots = start(&facts, shift, |facts| facts.first_half_sum);
                multiply_half!(P, D, [0, 1, 2, 3]; codes, activations, dots);
                scale_and_add(half_scale(header, block, 0), &facts, &dots, sums);
                let mut dots = start(&facts, shift, |facts| facts.sum - facts.first_half_sum);
                multiply_half!(P, D, [4, 5, 6, 7]; codes, activations, dots);
                scale_and_add(half_scale(header, block, 1), &facts, &dots, sums);
                return;
            }
            let mut dots = start(&facts, shift, |facts| facts.sum);
            if P::BITS == 4 {
                multiply_quads!(P, D, 0, 4, 1, 5, 2, 6, 3, 7; codes, activations, dots);
            } else {
                multiply_half!(P, D, [0, 4, 1, 5]; codes, activations, dots);
                multiply_half!(P, D, [2, 6, 3, 7]; codes, activations, dots);
            }
            scale_and_add(scale::<P>(header, block), &facts, &dots, sums);
            if matches!(P::SCALING, Scaling::Minimum | Scaling::SuperMinimum) {
                let minima = minimum::<P>(header, block);
                for r in 0..R {
                    let weighted = _mm256_set1_ps((*facts[r]).weighted_sum);
                    for h in 0..2 {
                        sums[r][h] = _mm256_fmadd_ps(minima[h], weighted, sums[r][h]);
                    }
                }
            }
        }
    }
}

/// What the dots of each row start with: −offset · Σ activations.
#[inline(always)]
unsafe fn start<const R: usize>(
    facts: &[*const ActivationBlock; R],
    shift: u32,
    sum: impl Fn(&ActivationBlock) -> i32,
) -> [Halves<__m256i>; R] {
    // SAFETY: the caller's block exists in every row.
    unsafe {
        let mut dots = [[_mm256_setzero_si256(); 2]; R];
        if shift > 0 {
            for r in 0..R {
                dots[r] = [_mm256_set1_epi32(-(sum(&*facts[r]) << shift)); 2];
            }
        }
        dots
    }
}

/// Adds codes · activations[row] of one quad: to `dots` with VNNI, else to the sums of two.
#[inline(always)]
unsafe fn multiply_quad<const R: usize, D: Dots>(
    codes: Halves<__m256i>,
    activations: &[*const i8; R],
    quad: usize,
    pairs: &mut [Halves<__m256i>; R],
    dots: &mut [Halves<__m256i>; R],
    eight_bits: bool,
) {
    for r in 0..R {
        // SAFETY: a block of activations has 8 quads.
        unsafe {
            let four = _mm256_set1_epi32(activations[r].add(4 * quad).cast::<i32>().read_unaligned());
            for h in 0..2 {
                if D::BY_FOURS {
                    dots[r][h] = D::add_fours(dots[r][h], codes[h], four);
                } else if eight_bits {
                    let signed = _mm256_xor_si256(codes[h], _mm256_set1_epi8(-128));
                    pairs[r][h] = _mm256_maddubs_epi16(_mm256_sign_epi8(signed, signed), _mm256_sign_epi8(four, signed));
                } else {
                    pairs[r][h] = _mm256_add_epi16(pairs[r][h], _mm256_maddubs_epi16(codes[h], four));
                }
            }
        }
    }
}

/// sums += f32(dots) · (scale · activation scale)
#[inline(always)]
unsafe fn scale_and_add<const R: usize>(
    scales: Halves<__m256>,
    facts: &[*const ActivationBlock; R],
    dots: &[Halves<__m256i>; R],
    sums: &mut [Halves<__m256>; R],
) {
    for r in 0..R {
        // SAFETY: the caller's block exists in every row.
        unsafe {
            let scale = _mm256_set1_ps((*facts[r]).scale);
            for h in 0..2 {
                sums[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][h]), _mm256_mul_ps(scales[h], scale), sums[r][h]);
            }
        }
    }
}

/// The codes of one quad of a block, widened to bytes.
#[inline(always)]
unsafe fn quad<P: Packed, const QUAD: usize>(block: *const u8) -> Halves<__m256i> {
    // SAFETY: 32 bytes from there on lie inside each vector of the block.
    unsafe { [half_quad::<P, QUAD>(block), half_quad::<P, QUAD>(block.add(32))] }
}

#[inline(always)]
unsafe fn half_quad<P: Packed, const QUAD: usize>(block: *const u8) -> __m256i {
    // SAFETY: the vectors of the block, as drawn in `panel.rs`.
    unsafe {
        if P::BITS == 8 {
            return vector(block, QUAD);
        }
        let both = vector(block, QUAD % 4);
        let low = if QUAD < 4 { both } else { _mm256_srli_epi16::<4>(both) };
        let low = _mm256_and_si256(low, _mm256_set1_epi8(15));
        match P::BITS {
            5 => _mm256_or_si256(low, _mm256_and_si256(to_bit_4::<QUAD>(vector(block, 4)), _mm256_set1_epi8(16))),
            6 => _mm256_or_si256(low, _mm256_and_si256(to_bits_4_and_5::<QUAD>(vector(block, 4 + QUAD / 4)), _mm256_set1_epi8(48))),
            _ => low,
        }
    }
}

#[inline(always)]
unsafe fn vector(block: *const u8, index: usize) -> __m256i {
    // SAFETY: the caller's block has this vector.
    unsafe { _mm256_loadu_si256(block.add(64 * index).cast()) }
}

/// Moves bit `QUAD` of every byte to bit 4. Shifts move 16 bits at a time; the caller masks what crosses into the other byte.
#[inline(always)]
unsafe fn to_bit_4<const QUAD: usize>(bits: __m256i) -> __m256i {
    // SAFETY: compiled for the instructions (caller).
    unsafe {
        match QUAD {
            0 => _mm256_slli_epi16::<4>(bits),
            1 => _mm256_slli_epi16::<3>(bits),
            2 => _mm256_slli_epi16::<2>(bits),
            3 => _mm256_slli_epi16::<1>(bits),
            4 => bits,
            5 => _mm256_srli_epi16::<1>(bits),
            6 => _mm256_srli_epi16::<2>(bits),
            _ => _mm256_srli_epi16::<3>(bits),
        }
    }
}

/// Moves bits 2v and 2v + 1 of every byte to bits 4 and 5, v = `QUAD` modulo 4.
#[inline(always)]
unsafe fn to_bits_4_and_5<const QUAD: usize>(bits: __m256i) -> __m256i {
    // SAFETY: compiled for the instructions (caller).
    unsafe {
        match QUAD % 4 {
            0 => _mm256_slli_epi16::<4>(bits),
            1 => _mm256_slli_epi16::<2>(bits),
            2 => bits,
            _ => _mm256_srli_epi16::<2>(bits),
        }
    }
}

#[inline(always)]
unsafe fn halves_at(at: *const u8) -> Halves<__m256> {
    // SAFETY: the caller's header holds 16 f16 there.
    unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(at.cast())), _mm256_cvtph_ps(_mm_loadu_si128(at.add(16).cast()))] }
}

#[inline(always)]
unsafe fn bytes_at(at: *const u8) -> Halves<__m256> {
    // SAFETY: the caller's header holds 16 u8 there.
    unsafe {
        let bytes = _mm_loadu_si128(at.cast());
        let (low, high) = (_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes)));
        [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
    }
}

#[inline(always)]
unsafe fn multiply_each(a: Halves<__m256>, b: Halves<__m256>) -> Halves<__m256> {
    // SAFETY: compiled for the instructions (caller).
    unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
}

/// Scales of the 16 rows of a block.
#[inline(always)]
unsafe fn scale<P: Packed>(header: *const u8, block: usize) -> Halves<__m256> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        match P::SCALING {
            Scaling::Offset => halves_at(header.add(32 * block)),
            Scaling::Minimum => halves_at(header),
            _ => multiply_each(halves_at(header), bytes_at(header.add(64 + 32 * block))),
        }
    }
}

/// What is added to the scaled codes of the 16 rows of a block.
#[inline(always)]
unsafe fn minimum<P: Packed>(header: *const u8, block: usize) -> Halves<__m256> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        let minimum = halves_at(header.add(32));
        if P::SCALING == Scaling::Minimum {
            return minimum;
        }
        let [low, high] = multiply_each(minimum, bytes_at(header.add(64 + 32 * block + 16)));
        [_mm256_xor_ps(low, _mm256_set1_ps(-0.0)), _mm256_xor_ps(high, _mm256_set1_ps(-0.0))]
    }
}

/// Scales of the 16 rows of half a block (Q6_K).
#[inline(always)]
unsafe fn half_scale(header: *const u8, block: usize, half: usize) -> Halves<__m256> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        let scales = _mm_loadu_si128(header.add(32 + 16 * (2 * block + half)).cast());
        let (low, high) = (_mm256_cvtepi8_epi32(scales), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(scales)));
        multiply_each(halves_at(header), [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)])
    }
}

#[cfg(test)]
mod tests;
