//! Products of f32 activations with f32, f16 and bf16 weights.
//!
//! The sum of an output is one chain of `fma(weight, activation, sum)` in the order of the columns, whatever the tile. A tile has many
//! such chains in flight: two panels by up to six rows of activations.

use std::arch::x86_64::*;
use std::ops::Range;

use half::{bf16, f16};

use super::products::finish;
use crate::buffer::Plain;
use crate::level::{Activations, Matrix, Output, PANEL_ROWS};
use crate::panel::panel_bytes;
use crate::quant::TensorType;

/// Bytes of activations that stay near while the panels pass by.
const ACTIVATION_BYTES: usize = 256 << 10;

/// A number of a panel.
pub trait Weight: Plain {
    const TYPE: TensorType;

    /// 16 numbers as f32.
    ///
    /// # Safety
    /// They are there, and the processor has AVX-512 F.
    unsafe fn load(at: *const Self) -> __m512;
}

impl Weight for f32 {
    const TYPE: TensorType = TensorType::F32;

    #[inline(always)]
    unsafe fn load(at: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(at) }
    }
}

impl Weight for f16 {
    const TYPE: TensorType = TensorType::F16;

    #[inline(always)]
    unsafe fn load(at: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }
}

impl Weight for bf16 {
    const TYPE: TensorType = TensorType::BF16;

    #[inline(always)]
    unsafe fn load(at: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast())))) }
    }
}

/// # Safety
/// As `Kernels::multiply`; the processor has the features; shapes agree (asserted by the caller).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub unsafe fn multiply<W: Weight>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    let together = (ACTIVATION_BYTES / 4 / x.columns.max(1) / 6).max(4) * 6;
    for first in (0..x.rows).step_by(together) {
        let rows = first..x.rows.min(first + together);
        let mut panel = panels.start;
        while panel < panels.end {
            // SAFETY: the caller's promise, for a part of the panels and rows.
            panel += unsafe {
                match panels.end - panel {
                    2.. if rows.len() > 1 => stripe::<W, 2>(matrix, panel, rows.clone(), x, &out),
                    _ => stripe::<W, 1>(matrix, panel, rows.clone(), x, &out),
                }
            };
        }
    }
}

/// `N` panels against some rows. Returns `N`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn stripe<W: Weight, const N: usize>(
    matrix: &Matrix,
    panel: usize,
    rows: Range<usize>,
    x: &Activations<'_>,
    out: &Output<'_>,
) -> usize {
    let bytes = panel_bytes(W::TYPE, x.columns);
    let weights = &matrix.codes.as_slice::<u8>()[panel * bytes..(panel + N) * bytes];
    let weights: [*const W; N] = std::array::from_fn(|n| weights[n * bytes..].as_ptr().cast());
    let mut row = rows.start;
    while row < rows.end {
        let values = x.values[row * x.columns..].as_ptr();
        // SAFETY: the tile's rows exist, and the panels are whole.
        row += unsafe {
            match rows.end - row {
                6.. => write(sums::<W, N, 6>(weights, values, x.columns), matrix.rows, panel, row, out),
                3.. => write(sums::<W, N, 3>(weights, values, x.columns), matrix.rows, panel, row, out),
                _ => write(sums::<W, N, 1>(weights, values, x.columns), matrix.rows, panel, row, out),
            }
        };
    }
    N
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn sums<W: Weight, const N: usize, const R: usize>(weights: [*const W; N], values: *const f32, columns: usize) -> [[__m512; R]; N] {
    let mut sums = [[_mm512_setzero_ps(); R]; N];
    for column in 0..columns {
        // SAFETY: the column is inside the panels and the rows.
        unsafe {
            let weights = weights.map(|weights| W::load(weights.add(column * PANEL_ROWS)));
            for r in 0..R {
                let value = _mm512_set1_ps(*values.add(r * columns + column));
                for n in 0..N {
                    sums[n][r] = _mm512_fmadd_ps(weights[n], value, sums[n][r]);
                }
            }
        }
    }
    sums
}

/// Writes a tile. Returns its rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn write<const N: usize, const R: usize>(
    sums: [[__m512; R]; N],
    matrix_rows: usize,
    panel: usize,
    row: usize,
    out: &Output<'_>,
) -> usize {
    for (n, sums) in sums.into_iter().enumerate() {
        // SAFETY: the outputs of these panels in these rows are the caller's.
        unsafe { finish(sums, matrix_rows, panel + n, row, out) };
    }
    R
}
