//! Products of f32 activations with f32, f16 and bf16 weights, with vectors.
//!
//! The columns are cut into four quarters, each summed by one chain of `fma(weight, activation, sum)` in the order of its columns, and an
//! output is (first + second) + (third + fourth), whatever the tile. A tile is one panel by up to `R` rows of activations; where that
//! gives few chains, chains of several quarters are in flight beside each other.

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
                        left if left >= R => write(sums::<V, W, R, 1>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        // Tiles of eight rows say that there are registers for eight chains.
                        4.. if R >= 8 => write(sums::<V, W, 4, 2>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        4.. => write(sums::<V, W, 4, 1>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        2.. => write(sums::<V, W, 2, 2>(weights, values, x.columns), matrix.rows, panel, row, &out),
                        _ => write(sums::<V, W, 1, 4>(weights, values, x.columns), matrix.rows, panel, row, &out),
                    }
                };
            }
        }
    }
}

/// The quarter of the columns that a chain sums.
pub fn quarter(columns: usize, number: usize) -> Range<usize> {
    let length = columns.div_ceil(QUARTERS);
    (number * length).min(columns)..((number + 1) * length).min(columns)
}

pub const QUARTERS: usize = 4;

/// Bytes of a panel that are asked for before they are needed: the streams of several quarters outrun what a processor foresees.
const AHEAD: usize = 1024;

/// `TOGETHER`: quarters that are summed beside each other.
#[inline(always)]
unsafe fn sums<V: Vector, W: Loadable, const R: usize, const TOGETHER: usize>(
    weights: *const W,
    values: *const f32,
    columns: usize,
) -> [V; R] {
    // SAFETY: the columns are inside the panel and the rows (caller).
    unsafe {
        let mut quarters = [[V::zero(); R]; QUARTERS];
        for first in (0..QUARTERS).step_by(TOGETHER) {
            let mut chains = [[V::zero(); R]; TOGETHER];
            let ranges: [Range<usize>; TOGETHER] = std::array::from_fn(|chain| quarter(columns, first + chain));
            // The last quarter may be shorter, or empty.
            let common = ranges[TOGETHER - 1].len();
            for at in 0..common {
                for chain in 0..TOGETHER {
                    let column = ranges[chain].start + at;
                    V::prefetch(weights.wrapping_add(column * PANEL_ROWS).wrapping_byte_add(AHEAD));
                    add::<V, W, R>(weights, values, columns, column, &mut chains[chain]);
                }
            }
            for chain in 0..TOGETHER {
                for column in ranges[chain].start + common..ranges[chain].end {
                    add::<V, W, R>(weights, values, columns, column, &mut chains[chain]);
                }
            }
            quarters[first..first + TOGETHER].copy_from_slice(&chains);
        }
        let [first, second, third, fourth] = quarters;
        let one = V::splat(1.0);
        let mut sums = first;
        for r in 0..R {
            // a · 1 + b is rounded once, as a + b is.
            let (left, right) = (first[r].multiply_add(one, second[r]), third[r].multiply_add(one, fourth[r]));
            sums[r] = left.multiply_add(one, right);
        }
        sums
    }
}

/// One column of a panel into the chains of `R` rows.
#[inline(always)]
unsafe fn add<V: Vector, W: Loadable, const R: usize>(
    weights: *const W,
    values: *const f32,
    columns: usize,
    column: usize,
    sums: &mut [V; R],
) {
    // SAFETY: the column is inside the panel and the rows (caller).
    unsafe {
        let weights = W::load::<V>(weights.add(column * PANEL_ROWS));
        for r in 0..R {
            sums[r] = weights.multiply_add(V::splat(*values.add(r * columns + column)), sums[r]);
        }
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
