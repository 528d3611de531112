//! Products of f32 activations with f32, f16 and bf16 weights, with vectors.
//!
//! The sum of an output is one chain of `fma(weight, activation, sum)` in the order of the columns, whatever the tile: one panel by up to
//! `R` rows of activations, so that as many chains are in flight.

use std::ops::Range;

use crate::level::{Activations, Matrix, Output, PANEL_ROWS};
use crate::panel::{finish, panel_bytes};
use crate::vector::{Loadable, Vector};

/// Activations that stay near while the panels pass by.
const ACTIVATION_BYTES: usize = 256 << 10;

/// # Safety
/// As `Kernels::multiply`; the processor has the instructions of `V`; shapes agree (asserted by the caller).
#[inline(always)]
pub unsafe fn multiply<V: Vector, W: Loadable, const R: usize>(
    matrix: &Matrix,
    panels: Range<usize>,
    x: &Activations<'_>,
    out: Output<'_>,
) {
    let bytes = panel_bytes(W::TYPE, x.columns);
    let together = (ACTIVATION_BYTES / 4 / x.columns.max(1) / R).max(4) * R;
    for first in (0..x.rows).step_by(together) {
        let end = x.rows.min(first + together);
        for panel in panels.clone() {
            let weights = matrix.codes.as_slice::<u8>()[panel * bytes..][..bytes].as_ptr().cast::<W>();
            let mut row = first;
            while row < end {
                let values = x.values[row * x.columns..].as_ptr();
                // SAFETY: the tile's rows exist, the panel is whole, and the outputs are ours (caller).
                row += unsafe {
                    match end - row {
                        left if left >= R => write(sums::<V, W, R>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        4.. => write(sums::<V, W, 4>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        2.. => write(sums::<V, W, 2>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        _ => write(sums::<V, W, 1>(weights, values, x.columns), matrix.rows, panel, row, &out),
                    }
                };
            }
        }
    }
}

#[inline(always)]
unsafe fn sums<V: Vector, W: Loadable, const R: usize>(weights: *const W, values: *const f32, columns: usize) -> [V; R] {
    // SAFETY: the columns are inside the panel and the rows (caller).
    unsafe {
        let mut sums = [V::zero(); R];
        for column in 0..columns {
            let weights = W::load::<V>(weights.add(column * PANEL_ROWS));
            for r in 0..R {
                sums[r] = weights.multiply_add(V::splat(*values.add(r * columns + column)), sums[r]);
            }
        }
        sums
    }
}

/// Writes a tile. Returns its rows.
#[inline(always)]
unsafe fn write<V: Vector, const R: usize>(sums: [V; R], matrix_rows: usize, panel: usize, row: usize, out: &Output<'_>) -> usize {
    for (r, sum) in sums.into_iter().enumerate() {
        let mut numbers = [0.0; PANEL_ROWS];
        // SAFETY: 16 numbers; the outputs of this panel in these rows are the caller's.
        unsafe {
            sum.store(numbers.as_mut_ptr());
            finish(&numbers, matrix_rows, panel, row + r, out);
        }
    }
    R
}
