//! Activations on their way into integer products: int8 codes by blocks of 32, made in the same pass as what comes before them.
//!
//! One source for all levels: each compiles it for its own instructions. `FUSED` as in `lanes.rs`.

use crate::lanes::{LANES, Lanes};
use crate::level::{ActivationBlock, ActivationRow, BLOCK, Gate};
use crate::small::{gate_value, sum_of_squares};

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
pub fn quantize(x: &[f32], out: &mut ActivationRow<'_>) {
    write(x.len(), |at, block| block.copy_from_slice(&x[at..at + block.len()]), out);
}

/// x / √(mean(x²) + epsilon) · weight (RMSNorm), as values and codes.
#[inline(always)]
pub fn normalize<const FUSED: bool>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
    let scale = 1.0 / (sum_of_squares::<FUSED>(x) / x.len() as f32 + epsilon).sqrt();
    let fill = |at: usize, block: &mut [f32]| {
        for ((out, x), weight) in block.iter_mut().zip(&x[at..]).zip(&weight[at..]) {
            *out = x * scale * weight;
        }
    };
    write(x.len(), fill, out);
}

/// gate(g) · u, as values and codes.
#[inline(always)]
pub fn gate<const FUSED: bool>(kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
    let fill = |at: usize, block: &mut [f32]| {
        for ((out, g), u) in block.iter_mut().zip(&g[at..]).zip(&u[at..]) {
            *out = gate_value::<FUSED>(kind, *g) * u;
        }
    };
    write(g.len(), fill, out);
}

/// Makes the row block by block: `fill(at, block)` gives the numbers from column `at` on, which are then kept, coded, or both.
#[inline(always)]
fn write(columns: usize, fill: impl Fn(usize, &mut [f32]), out: &mut ActivationRow<'_>) {
    if out.codes.is_empty() {
        return fill(0, out.values);
    }
    assert!(out.codes.len() == columns && out.blocks.len() == columns.div_ceil(BLOCK), "{columns} numbers in blocks of {BLOCK}");
    for (block, facts) in out.blocks.iter_mut().enumerate() {
        let (first, end) = (block * BLOCK, columns.min((block + 1) * BLOCK));
        let (mut numbers, mut codes) = ([0.0; BLOCK], [0; BLOCK]);
        fill(first, &mut numbers[..end - first]);
        *facts = quantize_block(&numbers, &mut codes);
        out.codes[first..end].copy_from_slice(&codes[..end - first]);
        if !out.values.is_empty() {
            out.values[first..end].copy_from_slice(&numbers[..end - first]);
        }
    }
}
