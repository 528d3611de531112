//! Products of int8 activations with packed weights in plain Rust, summed as `avx512/products.rs` says: the same bits.

use std::ops::Range;

use crate::level::{ActivationBlock, Activations, BLOCK, Matrix, Output, PANEL_ROWS};
use half::{bf16, f16};

use crate::numbers::{QUARTERS, quarter};
use crate::panel::{Packed, Scaling, code_at, finish, panel_bytes, scale_at};
use crate::quant::TensorType;

/// Activations that share the widened codes of a block.
const ROWS: usize = 4;

/// # Safety
/// As `Kernels::multiply`; shapes agree (asserted by the caller).
pub unsafe fn multiply<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let blocks = x.columns / BLOCK;
    let bytes = blocks.div_ceil(P::GROUP) * P::GROUP_BYTES;
    for panel in panels {
        let codes = &matrix.codes.as_slice::<u8>()[panel * bytes..][..bytes];
        for row in (0..x.rows).step_by(ROWS) {
            let count = ROWS.min(x.rows - row);
            let mut sums = [[0.0; PANEL_ROWS]; ROWS];
            for block in 0..blocks {
                let (header, group) = codes[block / P::GROUP * P::GROUP_BYTES..][..P::GROUP_BYTES].split_at(P::HEADER);
                let codes = &group[block % P::GROUP * P::BLOCK..][..P::BLOCK];
                let weights = Block::new::<P>(header, codes, block % P::GROUP);
                for (r, sums) in sums.iter_mut().enumerate().take(count) {
                    let activations = x.codes[(row + r) * x.columns + block * BLOCK..].first_chunk().expect("a whole block");
                    weights.add_to::<P>(activations, &x.blocks[(row + r) * blocks + block], sums);
                }
            }
            for (r, sums) in sums.iter().enumerate().take(count) {
                // SAFETY: the outputs of this panel in this row are ours (caller).
                unsafe { finish(sums, matrix.rows, panel, row + r, &out) };
            }
        }
    }
}

/// Products of f32 activations with f32, f16 and bf16 weights: one chain of fma in the order of the columns.
///
/// # Safety
/// As `Kernels::multiply`; shapes agree (asserted by the caller).
pub unsafe fn multiply_numbers<W: Number>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let bytes = panel_bytes(W::TYPE, x.columns);
    for panel in panels {
        let weights = &matrix.codes.as_slice::<u8>()[panel * bytes..][..x.columns * PANEL_ROWS * size_of::<W>()];
        for row in 0..x.rows {
            let values = &x.values[row * x.columns..][..x.columns];
            let mut quarters = [[0.0f32; PANEL_ROWS]; QUARTERS];
            for (number, sums) in quarters.iter_mut().enumerate() {
                for column in quarter(x.columns, number) {
                    let weights = weights[column * PANEL_ROWS * size_of::<W>()..].chunks_exact(size_of::<W>());
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = W::read(weight).mul_add(values[column], *sum);
                    }
                }
            }
            let [first, second, third, fourth] = quarters;
            let sums: [f32; PANEL_ROWS] = std::array::from_fn(|lane| (first[lane] + second[lane]) + (third[lane] + fourth[lane]));
            // SAFETY: the outputs of this panel in this row are ours (caller).
            unsafe { finish(&sums, matrix.rows, panel, row, &out) };
        }
    }
}

/// A number of a panel.
pub trait Number: Sized {
    const TYPE: TensorType;

    /// `bytes` are those of one number.
    fn read(bytes: &[u8]) -> f32;
}

impl Number for f32 {
    const TYPE: TensorType = TensorType::F32;

    fn read(bytes: &[u8]) -> f32 {
        f32::from_le_bytes(bytes.try_into().expect("4 bytes"))
    }
}

impl Number for f16 {
    const TYPE: TensorType = TensorType::F16;

    fn read(bytes: &[u8]) -> f32 {
        f16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32()
    }
}

impl Number for bf16 {
    const TYPE: TensorType = TensorType::BF16;

    fn read(bytes: &[u8]) -> f32 {
        bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32()
    }
}

/// One block of a panel, widened.
struct Block {
    /// Code − offset, `[row][column]`.
    values: [[i16; BLOCK]; PANEL_ROWS],
    /// `[half][row]`
    scales: [[f32; PANEL_ROWS]; 2],
    minima: [f32; PANEL_ROWS],
}

impl Block {
    fn new<P: Packed>(header: &[u8], codes: &[u8], block: usize) -> Self {
        let offset = if P::OFFSET_SHIFT > 0 { 1 << P::OFFSET_SHIFT } else { 0 };
        let mut values = [[0i16; BLOCK]; PANEL_ROWS];
        for (row, values) in values.iter_mut().enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = i16::from(code_at(P::BITS, codes, row, column)) - offset;
            }
        }
        let scale = |row, half| scale_at(P::SCALING, header, block, row, half);
        Self {
            values,
            scales: std::array::from_fn(|half| std::array::from_fn(|row| scale(row, half).0)),
            minima: std::array::from_fn(|row| scale(row, 0).1.unwrap_or(0.0)),
        }
    }

    #[inline(always)]
    fn add_to<P: Packed>(&self, activations: &[i8; BLOCK], facts: &ActivationBlock, sums: &mut [f32; PANEL_ROWS]) {
        let dot = |row: usize, columns: Range<usize>| {
            columns.map(|column| i32::from(self.values[row][column]) * i32::from(activations[column])).sum::<i32>() as f32
        };
        for (row, sum) in sums.iter_mut().enumerate() {
            if P::SCALING == Scaling::SuperHalves {
                *sum = dot(row, 0..16).mul_add(self.scales[0][row] * facts.scale, *sum);
                *sum = dot(row, 16..32).mul_add(self.scales[1][row] * facts.scale, *sum);
                continue;
            }
            *sum = dot(row, 0..32).mul_add(self.scales[0][row] * facts.scale, *sum);
            if matches!(P::SCALING, Scaling::Minimum | Scaling::SuperMinimum) {
                *sum = self.minima[row].mul_add(facts.weighted_sum, *sum);
            }
        }
    }
}
