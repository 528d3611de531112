//! f32 products on 16-row panels.

use std::ops::Range;

use crate::lanes::{LANES, Wide};
use crate::level::{Activations, Matrix, Output, PANEL_ROWS};

/// Columns that are summed in one f32 accumulator. The sums of blocks are added in f64, in order, and rounded once with what they are
/// added to: short sums round less, a large residual stream is rounded once, and a block of a panel stays in the nearest cache while
/// rows of activations pass over it.
const COLUMN_BLOCK: usize = 64;
/// Rows whose totals are held at a time.
const ROW_GROUP: usize = 60;

/// # Safety
/// As `Kernels::multiply`.
#[inline(always)]
pub unsafe fn multiply<W: Wide, const TILE: usize>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let columns = matrix.columns;
    let codes = matrix.codes.as_slice::<f32>();
    let mut totals = [[0f64; LANES]; ROW_GROUP];
    for panel in panels {
        let weights = &codes[panel * columns * PANEL_ROWS..][..columns * PANEL_ROWS];
        let first = panel * PANEL_ROWS;
        let width = PANEL_ROWS.min(matrix.rows - first);
        for group in (0..x.rows).step_by(ROW_GROUP) {
            let totals = &mut totals[..ROW_GROUP.min(x.rows - group)];
            totals.fill([0.0; LANES]);
            for block in (0..columns).step_by(COLUMN_BLOCK) {
                let end = (block + COLUMN_BLOCK).min(columns);
                rows::<W, TILE>(&weights[block * PANEL_ROWS..end * PANEL_ROWS], x, group, block, totals);
            }
            for (row, totals) in totals.iter().enumerate() {
                // SAFETY: outputs first … first + width of every row are ours (caller).
                let out_row = unsafe { std::slice::from_raw_parts_mut(out.start.add((group + row) * out.stride + first), width) };
                for (lane, number) in out_row.iter_mut().enumerate() {
                    let bias = out.bias.map_or(0.0, |bias| f64::from(bias[first + lane]));
                    let before = if out.add { f64::from(*number) } else { 0.0 };
                    *number = (totals[lane] + bias + before) as f32;
                }
            }
        }
    }
}

/// Adds the products of one block of columns for the rows of a group.
#[inline(always)]
fn rows<W: Wide, const TILE: usize>(weights: &[f32], x: &Activations<'_>, group: usize, block: usize, totals: &mut [[f64; LANES]]) {
    let mut row = 0;
    while row + TILE <= totals.len() {
        tile::<W, TILE>(weights, x, group + row, block, &mut totals[row..]);
        row += TILE;
    }
    while row + 2 <= totals.len() {
        tile::<W, 2>(weights, x, group + row, block, &mut totals[row..]);
        row += 2;
    }
    if row < totals.len() {
        tile::<W, 1>(weights, x, group + row, block, &mut totals[row..]);
    }
}

#[inline(always)]
fn tile<W: Wide, const ROWS: usize>(weights: &[f32], x: &Activations<'_>, row: usize, block: usize, totals: &mut [[f64; LANES]]) {
    let (weights, _) = weights.as_chunks::<LANES>();
    let inputs: [&[f32]; ROWS] = std::array::from_fn(|r| &x.values[(row + r) * x.columns + block..][..weights.len()]);
    let mut sums = [W::splat(0.0); ROWS];
    for (column, weight) in weights.iter().enumerate() {
        let weight = W::load(weight);
        for r in 0..ROWS {
            sums[r] = weight.multiply_add(W::splat(inputs[r][column]), sums[r]);
        }
    }
    for (sums, totals) in sums.iter().zip(totals) {
        for (total, sum) in totals.iter_mut().zip(sums.store()) {
            *total += f64::from(sum);
        }
    }
}
