//! Products of int8 activations with packed weights: NEON with `dotprod`, and with `i8mm` where the processor has it.
//!
//! Four vectors hold one output of 16 rows of weights. A tile is one panel by up to four rows of activations. Codes of 8 bits are signed
//! before they are multiplied, the others fit a signed byte as they are. The intrinsics for both instructions are not stable, so they are
//! written as assembly:
//!
//! ```text
//! sdot   4 rows of weights by 4 columns, one row of activations:      4 sums
//! smmla  2 rows of weights by 8 columns, two rows of activations:     2 × 2 sums
//! ```
//!
//! The sum of an output is that of `avx512/products.rs`, bit for bit: integers have no order, and numbers are added block after block.

use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

use super::vector::widen_f16;
use crate::level::{ActivationBlock, Activations, BLOCK, Matrix, Output, PANEL_ROWS};
use crate::panel::{Packed, Scaling, finish};

/// Activations that stay near while the panels pass by.
const ACTIVATION_BYTES: usize = 128 << 10;
/// Rows of activations in a tile.
const ROWS: usize = 4;

/// # Safety
/// As `Kernels::multiply`; the processor has the features; shapes agree (asserted by the caller).
#[target_feature(enable = "neon,dotprod")]
pub unsafe fn multiply<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_as::<P, false>(matrix, panels, x, out) }
}

/// # Safety
/// As `multiply`.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub unsafe fn multiply_i8mm<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_as::<P, true>(matrix, panels, x, out) }
}

// Everything below is inlined into one of the two functions above, and so compiled for its instructions.

#[inline(always)]
unsafe fn multiply_as<P: Packed, const I8MM: bool>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
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
                        4.. => write(&tile.sums::<P, 4, I8MM>(), matrix.rows, panel, row, &out),
                        2.. => write(&tile.sums::<P, 2, I8MM>(), matrix.rows, panel, row, &out),
                        _ => write(&tile.sums::<P, 1, false>(), matrix.rows, panel, row, &out),
                    }
                };
            }
        }
    }
}

/// Rows of weights 0 … 3, 4 … 7, 8 … 11 and 12 … 15.
type Quarters<T> = [T; 4];

#[inline(always)]
unsafe fn write<const R: usize>(
    sums: &[Quarters<float32x4_t>; R],
    matrix_rows: usize,
    panel: usize,
    row: usize,
    out: &Output<'_>,
) -> usize {
    for (r, sums) in sums.iter().enumerate() {
        let mut numbers = [0.0; PANEL_ROWS];
        // SAFETY: 16 numbers; the outputs are ours (caller).
        unsafe {
            for (i, sums) in sums.iter().enumerate() {
                vst1q_f32(numbers.as_mut_ptr().add(4 * i), *sums);
            }
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

/// Σ code · activation of half a block or a whole one, added to `start`.
macro_rules! dots {
    ($packed:ident, $i8mm:ident, [$($quad:literal)*]; $codes:ident, $activations:ident, $start:expr) => {{
        let mut dots: [Quarters<int32x4_t>; R] = $start;
        if $i8mm {
            let mut squares = [[vdupq_n_s32(0); 8]; 2];
            $(multiply_squares::<R>(quad::<$packed, $quad>($codes), quad::<$packed, { $quad + 1 }>($codes), &$activations, $quad, &mut squares);)*
            add_squares(&squares, &mut dots);
        } else {
            $(
                multiply_quad::<R, { $quad % 4 }>(quad::<$packed, $quad>($codes), &$activations, $quad / 4, &mut dots);
                multiply_quad::<R, { $quad % 4 + 1 }>(quad::<$packed, { $quad + 1 }>($codes), &$activations, $quad / 4, &mut dots);
            )*
        }
        dots
    }};
}

impl Tile {
    #[inline(always)]
    unsafe fn sums<P: Packed, const R: usize, const I8MM: bool>(&self) -> [Quarters<float32x4_t>; R] {
        // SAFETY: this block of the panel and of every row exists.
        unsafe {
            let mut sums = [[vdupq_n_f32(0.0); 4]; R];
            let (mut at, mut header) = (0, self.codes);
            while at < self.blocks {
                for block in 0..P::GROUP.min(self.blocks - at) {
                    self.block::<P, R, I8MM>(header, block, at + block, &mut sums);
                }
                at += P::GROUP;
                header = header.wrapping_add(P::GROUP_BYTES);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn block<P: Packed, const R: usize, const I8MM: bool>(
        &self,
        header: *const u8,
        block: usize,
        at: usize,
        sums: &mut [Quarters<float32x4_t>; R],
    ) {
        // SAFETY: the block lies inside the panel, and `at` is a block of each row of activations (caller).
        unsafe {
            let codes = header.add(P::HEADER + block * P::BLOCK);
            let facts: [*const ActivationBlock; R] = std::array::from_fn(|r| self.facts.add(r * self.blocks + at));
            let activations: [*const i8; R] = std::array::from_fn(|r| self.activations.add((r * self.blocks + at) * BLOCK));
            let shift = if P::BITS == 8 { 0 } else { P::OFFSET_SHIFT };
            if P::SCALING == Scaling::SuperHalves {
                let first = start(&facts, shift, |facts| facts.first_half_sum);
                let dots = dots!(P, I8MM, [0 2]; codes, activations, first);
                scale_and_add(half_scale(header, block, 0), &facts, &dots, sums);
                let second = start(&facts, shift, |facts| facts.sum - facts.first_half_sum);
                let dots = dots!(P, I8MM, [4 6]; codes, activations, second);
                scale_and_add(half_scale(header, block, 1), &facts, &dots, sums);
                return;
            }
            let whole = start(&facts, shift, |facts| facts.sum);
            let dots = dots!(P, I8MM, [0 4 2 6]; codes, activations, whole);
            scale_and_add(scale::<P>(header, block), &facts, &dots, sums);
            if matches!(P::SCALING, Scaling::Minimum | Scaling::SuperMinimum) {
                let minima = minimum::<P>(header, block);
                for r in 0..R {
                    let weighted = vdupq_n_f32((*facts[r]).weighted_sum);
                    for i in 0..4 {
                        sums[r][i] = vfmaq_f32(sums[r][i], minima[i], weighted);
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
) -> [Quarters<int32x4_t>; R] {
    // SAFETY: the caller's block exists in every row.
    unsafe {
        let mut dots = [[vdupq_n_s32(0); 4]; R];
        if shift > 0 {
            for r in 0..R {
                dots[r] = [vdupq_n_s32(-(sum(&*facts[r]) << shift)); 4];
            }
        }
        dots
    }
}

/// Adds codes · activations[row] of quad `LANE` of a half block.
#[inline(always)]
unsafe fn multiply_quad<const R: usize, const LANE: i32>(
    codes: Quarters<int8x16_t>,
    activations: &[*const i8; R],
    half: usize,
    dots: &mut [Quarters<int32x4_t>; R],
) {
    for r in 0..R {
        // SAFETY: a block of activations has two halves of 16.
        unsafe {
            let sixteen = vld1q_s8(activations[r].add(16 * half));
            for i in 0..4 {
                dots[r][i] = dot_lane::<LANE>(dots[r][i], codes[i], sixteen);
            }
        }
    }
}

/// Adds codes · activations of two quads that follow each other, for pairs of rows.
#[inline(always)]
unsafe fn multiply_squares<const R: usize>(
    first: Quarters<int8x16_t>,
    second: Quarters<int8x16_t>,
    activations: &[*const i8; R],
    quad: usize,
    squares: &mut [[int32x4_t; 8]; 2],
) {
    // SAFETY: compiled for the instructions (caller); a block of activations has 8 quads.
    unsafe {
        let mut pairs = [vdupq_n_s8(0); 2];
        for pair in 0..R / 2 {
            let row = |r: usize| vld1_s8(activations[r].add(4 * quad));
            pairs[pair] = vcombine_s8(row(2 * pair), row(2 * pair + 1));
        }
        for i in 0..4 {
            let (a, b) = (vreinterpretq_s32_s8(first[i]), vreinterpretq_s32_s8(second[i]));
            let rows = [vreinterpretq_s8_s32(vzip1q_s32(a, b)), vreinterpretq_s8_s32(vzip2q_s32(a, b))];
            for pair in 0..R / 2 {
                for h in 0..2 {
                    squares[pair][2 * i + h] = multiply_square(squares[pair][2 * i + h], rows[h], pairs[pair]);
                }
            }
        }
    }
}

/// From squares of two rows of weights by two of activations to the dots of each row of activations.
#[inline(always)]
unsafe fn add_squares<const R: usize>(squares: &[[int32x4_t; 8]; 2], dots: &mut [Quarters<int32x4_t>; R]) {
    for pair in 0..R / 2 {
        for i in 0..4 {
            let (a, b) = (squares[pair][2 * i], squares[pair][2 * i + 1]);
            // SAFETY: compiled for the instructions (caller).
            unsafe {
                dots[2 * pair][i] = vaddq_s32(dots[2 * pair][i], vuzp1q_s32(a, b));
                dots[2 * pair + 1][i] = vaddq_s32(dots[2 * pair + 1][i], vuzp2q_s32(a, b));
            }
        }
    }
}

/// sum[i] + Σ codes[4i + j] · activations[4 · LANE + j], j = 0 … 3
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot_lane<const LANE: i32>(mut sum: int32x4_t, codes: int8x16_t, activations: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes registers only, and this function is compiled for it.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {codes:v}.16b, {activations:v}.4b[{lane}]",
            sum = inout(vreg) sum, codes = in(vreg) codes, activations = in(vreg) activations, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// sum[2w + a] + Σ weights[8w + j] · activations[8a + j], j = 0 … 7
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn multiply_square(mut sum: int32x4_t, weights: int8x16_t, activations: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes registers only, and this function is compiled for it.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {weights:v}.16b, {activations:v}.16b",
            sum = inout(vreg) sum, weights = in(vreg) weights, activations = in(vreg) activations,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// sums += f32(dots) · (scale · activation scale)
#[inline(always)]
unsafe fn scale_and_add<const R: usize>(
    scales: Quarters<float32x4_t>,
    facts: &[*const ActivationBlock; R],
    dots: &[Quarters<int32x4_t>; R],
    sums: &mut [Quarters<float32x4_t>; R],
) {
    for r in 0..R {
        // SAFETY: the caller's block exists in every row.
        unsafe {
            let scale = vdupq_n_f32((*facts[r]).scale);
            for i in 0..4 {
                sums[r][i] = vfmaq_f32(sums[r][i], vcvtq_f32_s32(dots[r][i]), vmulq_f32(scales[i], scale));
            }
        }
    }
}

/// The codes of one quad of a block, widened to signed bytes.
#[inline(always)]
unsafe fn quad<P: Packed, const QUAD: usize>(block: *const u8) -> Quarters<int8x16_t> {
    // SAFETY: the vectors of the block, as drawn in `panel.rs`: 64 bytes each.
    unsafe {
        let mut codes = [vdupq_n_u8(0); 4];
        for (i, codes) in codes.iter_mut().enumerate() {
            let vector = block.add(16 * i);
            *codes = if P::BITS == 8 {
                veorq_u8(vld1q_u8(vector.add(64 * QUAD)), vdupq_n_u8(0x80))
            } else {
                let both = vld1q_u8(vector.add(64 * (QUAD % 4)));
                let low = if QUAD < 4 { vandq_u8(both, vdupq_n_u8(15)) } else { vshrq_n_u8::<4>(both) };
                match P::BITS {
                    5 => vorrq_u8(low, vandq_u8(to_bit_4::<QUAD>(vld1q_u8(vector.add(256))), vdupq_n_u8(16))),
                    6 => vorrq_u8(low, vandq_u8(to_bits_4_and_5::<QUAD>(vld1q_u8(vector.add(256 + QUAD / 4 * 64))), vdupq_n_u8(48))),
                    _ => low,
                }
            };
        }
        codes.map(|codes| vreinterpretq_s8_u8(codes))
    }
}

/// Moves bit `QUAD` of every byte to bit 4.
#[inline(always)]
unsafe fn to_bit_4<const QUAD: usize>(bits: uint8x16_t) -> uint8x16_t {
    // SAFETY: compiled for the instructions (caller).
    unsafe {
        match QUAD {
            0 => vshlq_n_u8::<4>(bits),
            1 => vshlq_n_u8::<3>(bits),
            2 => vshlq_n_u8::<2>(bits),
            3 => vshlq_n_u8::<1>(bits),
            4 => bits,
            5 => vshrq_n_u8::<1>(bits),
            6 => vshrq_n_u8::<2>(bits),
            _ => vshrq_n_u8::<3>(bits),
        }
    }
}

/// Moves bits 2v and 2v + 1 of every byte to bits 4 and 5, v = `QUAD` modulo 4.
#[inline(always)]
unsafe fn to_bits_4_and_5<const QUAD: usize>(bits: uint8x16_t) -> uint8x16_t {
    // SAFETY: compiled for the instructions (caller).
    unsafe {
        match QUAD % 4 {
            0 => vshlq_n_u8::<4>(bits),
            1 => vshlq_n_u8::<2>(bits),
            2 => bits,
            _ => vshrq_n_u8::<2>(bits),
        }
    }
}

#[inline(always)]
unsafe fn halves_at(at: *const u8) -> Quarters<float32x4_t> {
    let at = at.cast::<half::f16>();
    // SAFETY: the caller's header holds 16 f16 there.
    unsafe { [widen_f16(at), widen_f16(at.add(4)), widen_f16(at.add(8)), widen_f16(at.add(12))] }
}

/// `scales` times the 16 whole numbers at an address: unsigned bytes.
#[inline(always)]
unsafe fn times_unsigned(scales: Quarters<float32x4_t>, at: *const u8) -> Quarters<float32x4_t> {
    // SAFETY: the caller's header holds 16 bytes there.
    unsafe {
        let bytes = vld1q_u8(at);
        let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_u8(vget_high_u8(bytes)));
        let wide = [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)];
        let mut out = scales;
        for i in 0..4 {
            out[i] = vmulq_f32(scales[i], vcvtq_f32_u32(vmovl_u16(wide[i])));
        }
        out
    }
}

/// The same with signed bytes.
#[inline(always)]
unsafe fn times_signed(scales: Quarters<float32x4_t>, at: *const u8) -> Quarters<float32x4_t> {
    // SAFETY: the caller's header holds 16 bytes there.
    unsafe {
        let bytes = vld1q_s8(at.cast());
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes)));
        let wide = [vget_low_s16(low), vget_high_s16(low), vget_low_s16(high), vget_high_s16(high)];
        let mut out = scales;
        for i in 0..4 {
            out[i] = vmulq_f32(scales[i], vcvtq_f32_s32(vmovl_s16(wide[i])));
        }
        out
    }
}

/// Scales of the 16 rows of a block.
#[inline(always)]
unsafe fn scale<P: Packed>(header: *const u8, block: usize) -> Quarters<float32x4_t> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        match P::SCALING {
            Scaling::Offset => halves_at(header.add(32 * block)),
            Scaling::Minimum => halves_at(header),
            _ => times_unsigned(halves_at(header), header.add(64 + 32 * block)),
        }
    }
}

/// What is added to the scaled codes of the 16 rows of a block.
#[inline(always)]
unsafe fn minimum<P: Packed>(header: *const u8, block: usize) -> Quarters<float32x4_t> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe {
        let minimum = halves_at(header.add(32));
        if P::SCALING == Scaling::Minimum {
            return minimum;
        }
        let mut minima = times_unsigned(minimum, header.add(64 + 32 * block + 16));
        for minimum in &mut minima {
            *minimum = vnegq_f32(*minimum);
        }
        minima
    }
}

/// Scales of the 16 rows of half a block (Q6_K).
#[inline(always)]
unsafe fn half_scale(header: *const u8, block: usize, half: usize) -> Quarters<float32x4_t> {
    // SAFETY: inside the header, as `Scaling` says.
    unsafe { times_signed(halves_at(header), header.add(32 + 16 * (2 * block + half))) }
}
