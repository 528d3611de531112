//! f32 products on 16-row panels.

use std::ops::Range;

use crate::lanes::{LANES, Wide};
use crate::level::{Activations, Matrix, Output, PANEL_ROWS};

/// Columns that are summed in one accumulator; a row's sum is the sum of its blocks' sums, in order. A block of a panel stays in the
/// nearest cache while every row of activations passes over it, and short sums round less.
const COLUMN_BLOCK: usize = 256;

/// # Safety
/// As `Kernels::multiply`.
#[inline(always)]
pub unsafe fn multiply<W: Wide, const TILE: usize>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let columns = matrix.columns;
    let codes = matrix.codes.as_slice::<f32>();
    for panel in panels {
        let weights = &codes[panel * columns * PANEL_ROWS..][..columns * PANEL_ROWS];
        let first = panel * PANEL_ROWS;
        let width = PANEL_ROWS.min(matrix.rows - first);
        let bias = out.bias.map(|bias| &bias[first..first + width]);
        // SAFETY: outputs first … first + width of every row are ours (caller).
        let target = unsafe { Target { start: out.start.add(first), stride: out.stride, width } };
        for row in 0..x.rows {
            // SAFETY: row < x.rows.
            unsafe { target.begin(row, bias, out.add) };
        }
        for block in (0..columns).step_by(COLUMN_BLOCK) {
            let end = (block + COLUMN_BLOCK).min(columns);
            let weights = &weights[block * PANEL_ROWS..end * PANEL_ROWS];
            let mut row = 0;
            while row + TILE <= x.rows {
                // SAFETY: rows row … row + TILE exist.
                unsafe { tile::<W, TILE>(weights, x, row, block, &target) };
                row += TILE;
            }
            while row + 2 <= x.rows {
                // SAFETY: as above.
                unsafe { tile::<W, 2>(weights, x, row, block, &target) };
                row += 2;
            }
            if row < x.rows {
                // SAFETY: as above.
                unsafe { tile::<W, 1>(weights, x, row, block, &target) };
            }
        }
    }
}

/// Up to 16 neighbouring outputs of every row.
struct Target {
    start: *mut f32,
    stride: usize,
    width: usize,
}

impl Target {
    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn row<'a>(&self, row: usize) -> &'a mut [f32] {
        // SAFETY: `width` outputs of this row are ours, and nobody else holds them.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }

    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn begin(&self, row: usize, bias: Option<&[f32]>, add: bool) {
        // SAFETY: the row exists (caller).
        let out = unsafe { self.row(row) };
        if !add {
            out.fill(0.0);
        }
        if let Some(bias) = bias {
            for (out, bias) in out.iter_mut().zip(bias) {
                *out += bias;
            }
        }
    }
}

/// Adds the products of one block of columns for `ROWS` rows of activations.
///
/// # Safety
/// Rows `row … row + ROWS` exist in `x` and in the target.
#[inline(always)]
unsafe fn tile<W: Wide, const ROWS: usize>(weights: &[f32], x: &Activations<'_>, row: usize, block: usize, target: &Target) {
    let (weights, _) = weights.as_chunks::<LANES>();
    let inputs: [&[f32]; ROWS] = std::array::from_fn(|r| &x.values[(row + r) * x.columns + block..][..weights.len()]);
    let mut sums = [W::splat(0.0); ROWS];
    for (column, weight) in weights.iter().enumerate() {
        let weight = W::load(weight);
        for r in 0..ROWS {
            sums[r] = weight.multiply_add(W::splat(inputs[r][column]), sums[r]);
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        // SAFETY: the row exists (caller).
        let out = unsafe { target.row(row + r) };
        for (out, sum) in out.iter_mut().zip(sums.store()) {
            *out += sum;
        }
    }
}
