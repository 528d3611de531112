//! Activations on their way into integer products: int8 codes by blocks of 32, made in the same pass as what comes before them.
//!
//! One source for all levels: each compiles it for its own instructions and brings its own `code`, which makes the codes of a block.
//! `FUSED` as in `lanes.rs`.

use crate::lanes::{LANES, Lanes};
use crate::level::{ActivationBlock, ActivationRow, BLOCK, Gate};
use crate::small::{gate_value, sum_of_squares};

/// Makes the codes of 32 numbers: the same numbers on every level.
pub trait Code: Fn(&[f32; BLOCK], &mut [i8; BLOCK]) -> ActivationBlock {}

impl<F: Fn(&[f32; BLOCK], &mut [i8; BLOCK]) -> ActivationBlock> Code for F {}

/// Adding this to a number below 2^22 rounds it to an integer, halves to even, and leaves the integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// Codes and facts of 32 numbers: scale = max |x| / 127, code = x / scale to the nearest, halves to even.
#[inline(always)]
pub fn quantize_block(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> ActivationBlock {
    let mut highest: Lanes = [0.0; LANES];
    for half in x.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let magnitude = half[lane].abs();
            highest[lane] = if magnitude > highest[lane] { magnitude } else { highest[lane] };
        }
    }
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            highest[i] = if highest[i + width] > highest[i] { highest[i + width] } else { highest[i] };
        }
    }
    let highest = highest[0];
    let inverse = if highest > 0.0 { 127.0 / highest } else { 0.0 };
    let mut sums = [0i32; 2];
    for half in 0..2 {
        let mut wide = [0i32; LANES];
        for lane in 0..LANES {
            wide[lane] = (x[half * LANES + lane] * inverse + ROUND).to_bits() as i8 as i32;
            codes[half * LANES + lane] = wide[lane] as i8;
        }
        sums[half] = wide.iter().sum();
    }
    let (scale, sum) = (highest / 127.0, sums[0] + sums[1]);
    ActivationBlock { scale, weighted_sum: scale * sum as f32, sum, first_half_sum: sums[0] }
}

/// Copies the row and makes its codes, each where wanted.
#[inline(always)]
pub fn quantize(x: &[f32], out: &mut ActivationRow<'_>, code: impl Code) {
    if !out.values.is_empty() {
        out.values.copy_from_slice(x);
    }
    if !out.codes.is_empty() {
        code_row(x, out.codes, out.blocks, &code);
    }
}

/// Makes numbers of a row, part by part. A trait and no closure: a method can be inlined by order, and one that is not is compiled
/// without the level's instructions, where every fused multiplication is a call.
trait Fill {
    /// The numbers from column `at` on.
    fn fill(&self, at: usize, part: &mut [f32]);
}

struct Normalize<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    scale: f32,
}

impl Fill for Normalize<'_> {
    #[inline(always)]
    fn fill(&self, at: usize, part: &mut [f32]) {
        for ((out, x), weight) in part.iter_mut().zip(&self.x[at..]).zip(&self.weight[at..]) {
            *out = x * self.scale * weight;
        }
    }
}

struct Gated<'a, const FUSED: bool> {
    kind: Gate,
    g: &'a [f32],
    u: &'a [f32],
}

impl<const FUSED: bool> Fill for Gated<'_, FUSED> {
    #[inline(always)]
    fn fill(&self, at: usize, part: &mut [f32]) {
        for ((out, g), u) in part.iter_mut().zip(&self.g[at..]).zip(&self.u[at..]) {
            *out = gate_value::<FUSED>(self.kind, *g) * u;
        }
    }
}

/// x / √(mean(x²) + epsilon) · weight (RMSNorm), as values and codes.
#[inline(always)]
pub fn normalize<const FUSED: bool>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>, code: impl Code) {
    let scale = 1.0 / (sum_of_squares::<FUSED>(x) / x.len() as f32 + epsilon).sqrt();
    write(x.len(), &Normalize { x, weight, scale }, out, code);
}

/// gate(g) · u, as values and codes.
#[inline(always)]
pub fn gate<const FUSED: bool>(kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>, code: impl Code) {
    write(g.len(), &Gated::<FUSED> { kind, g, u }, out, code);
}

/// Numbers that are made before they are coded: whole blocks that stay in the nearest cache, and many enough that a vector which is
/// read was written long before.
const TOGETHER: usize = 8 * BLOCK;

/// Makes the row part by part: numbers are kept, coded, or both.
#[inline(always)]
fn write(columns: usize, fill: &impl Fill, out: &mut ActivationRow<'_>, code: impl Code) {
    if out.codes.is_empty() {
        return fill.fill(0, out.values);
    }
    let mut numbers = Numbers([0.0; TOGETHER]);
    for first in (0..columns).step_by(TOGETHER) {
        let end = columns.min(first + TOGETHER);
        let numbers = &mut numbers.0[..end - first];
        fill.fill(first, numbers);
        code_row(numbers, &mut out.codes[first..end], &mut out.blocks[first / BLOCK..end.div_ceil(BLOCK)], &code);
        if !out.values.is_empty() {
            out.values[first..end].copy_from_slice(numbers);
        }
    }
}

/// No vector of it crosses a cache line.
#[repr(align(64))]
struct Numbers([f32; TOGETHER]);

/// Codes of whole blocks, and of a last part that stands for a block with zeros behind it.
#[inline(always)]
fn code_row(x: &[f32], codes: &mut [i8], facts: &mut [ActivationBlock], code: &impl Code) {
    assert!(codes.len() == x.len() && facts.len() == x.len().div_ceil(BLOCK), "{} numbers in blocks of {BLOCK}", x.len());
    let (blocks, rest) = x.as_chunks::<BLOCK>();
    let (code_blocks, code_rest) = codes.as_chunks_mut::<BLOCK>();
    for ((x, codes), facts) in blocks.iter().zip(code_blocks).zip(facts.iter_mut()) {
        *facts = code(x, codes);
    }
    if let (Some(facts), false) = (facts.last_mut(), rest.is_empty()) {
        let (mut numbers, mut codes) = ([0.0; BLOCK], [0; BLOCK]);
        numbers[..rest.len()].copy_from_slice(rest);
        *facts = code(&numbers, &mut codes);
        code_rest.copy_from_slice(&codes[..rest.len()]);
    }
}
