//! The reference level: f32 activations, weights dequantised to f32 at load. Slow and exact; every other level answers to it.
//!
//! One source, compiled for AVX-512, for AVX2 with FMA, and for what the build asks; chosen when the level is made.

pub(crate) mod attend;
mod exact;
mod multiply;

use std::ops::Range;

use crate::buffer::Arena;
use crate::cells::CellDtype;
use crate::error::Result;
use crate::lanes;
use crate::level::{ActivationRow, Activations, AttendBlock, Format, Gate, Kernels, Level, Matrix, Output, PANEL_ROWS, Partial, RawMatrix};
use crate::pool::Pool;
use crate::quant;
use crate::rotary::Pairs;
use crate::small;

/// What the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw") {
                return Width::Avx512;
            }
            if avx2 {
                return Width::Avx2;
            }
        }
        Width::Plain
    }
}

/// The processor multiplies and adds with one rounding in every build of this target, so plain code may ask for it.
pub(crate) const ALWAYS_FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// Defines a function once for each width and a method that calls the right one. In the body, `W` are the registers of the width, and
/// `FUSED` says whether they multiply and add with one rounding.
macro_rules! versions {
    ($($(#[$note:meta])* $([$unsafe:tt])? fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            mod $name {
                #[allow(unused_imports, reason = "not every body needs all names")]
                use super::*;

                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx2,fma")]
                #[allow(dead_code, reason = "not every body needs both names")]
                pub $($unsafe)? fn avx512($($argument: $type),*) {
                    type W = lanes::x86::Avx512;
                    const FUSED: bool = true;
                    $body
                }

                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma")]
                #[allow(dead_code, reason = "not every body needs both names")]
                pub $($unsafe)? fn avx2($($argument: $type),*) {
                    type W = lanes::x86::Avx2;
                    const FUSED: bool = true;
                    $body
                }

                #[allow(dead_code, reason = "not every body needs both names")]
                pub $($unsafe)? fn plain($($argument: $type),*) {
                    type W = lanes::Plain16;
                    const FUSED: bool = ALWAYS_FUSED;
                    $body
                }
            }
        )*

        impl Reference {
            $(
                $(#[$note])*
                $($unsafe)? fn $name(&self, $($argument: $type),*) {
                    // SAFETY: `detect` found the features; other promises are the caller's.
                    #[allow(unused_unsafe, reason = "the plain version of a safe function asks nothing")]
                    unsafe {
                        match self.width {
                            Width::Plain => $name::plain($($argument),*),
                            #[cfg(target_arch = "x86_64")]
                            Width::Avx2 => $name::avx2($($argument),*),
                            #[cfg(target_arch = "x86_64")]
                            Width::Avx512 => $name::avx512($($argument),*),
                        }
                    }
                }
            )*
        }
    };
}

/// Rows of activations that share a load of the weights: sixteen sums each, in as many registers as AVX2 has to spare.
const ROWS_TOGETHER: usize = 6;

pub struct Reference {
    width: Width,
}

impl Reference {
    pub fn new() -> Self {
        Self { width: Width::detect() }
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

versions! {
    fn normalize_row(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        exact::normalize(x, weight, epsilon, out)
    }
    fn gate_row(kind: Gate, g: &[f32], u: &[f32], out: &mut [f32]) {
        small::gate::<FUSED>(kind, g, u, out)
    }
    fn rotate_head(pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
        exact::rotate(pairs, cosines, sines, scale, x, out)
    }
    /// # Safety
    /// As `Kernels::multiply`.
    [unsafe] fn multiply_panels(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: the caller's promise.
        unsafe { multiply::multiply::<W, ROWS_TOGETHER>(matrix, panels, x, out) }
    }
    fn attend_f32(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        attend::attend_wide::<FUSED, W, attend::NumberCells<f32>>(block, out)
    }
    fn attend_f16(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        attend::attend_wide::<FUSED, W, attend::NumberCells<half::f16>>(block, out)
    }
    fn attend_q8_0(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        attend::attend_wide::<FUSED, W, attend::CodeCells>(block, out)
    }
}

impl Kernels for Reference {
    fn level(&self) -> Level {
        Level::Reference
    }

    fn pack(&self, raw: &RawMatrix<'_>, pool: &Pool, arena: &Arena) -> Result<Matrix> {
        pack_f32(raw, pool, arena)
    }

    fn unpack_row(&self, matrix: &Matrix, row: usize, out: &mut [f32]) {
        unpack_f32_row(matrix, row, out);
    }

    fn wants_codes(&self, _: Format) -> bool {
        false
    }

    fn quantize(&self, x: &[f32], out: &mut ActivationRow<'_>) {
        if !out.values.is_empty() {
            out.values.copy_from_slice(x);
        }
    }

    fn normalize(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
        self.normalize_row(x, weight, epsilon, out.values);
    }

    fn gate(&self, kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
        self.gate_row(kind, g, u, out.values);
    }

    unsafe fn multiply(&self, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        assert!(matrix.format == Format::F32 && x.columns == matrix.columns && panels.end <= matrix.panels());
        // SAFETY: the caller's promise.
        unsafe { self.multiply_panels(matrix, panels, x, out) };
    }

    fn rotate(&self, pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
        self.rotate_head(pairs, cosines, sines, scale, x, out);
    }

    fn attend(&self, block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        match block.cells.shape().dtype {
            CellDtype::F32 => self.attend_f32(block, out),
            CellDtype::F16 => self.attend_f16(block, out),
            CellDtype::Q8_0 => self.attend_q8_0(block, out),
        }
    }
}

/// Decodes a tensor into f32 panels: `[panel][column][16 rows]`.
pub fn pack_f32(raw: &RawMatrix<'_>, pool: &Pool, arena: &Arena) -> Result<Matrix> {
    let RawMatrix { tensor_type, rows, columns, bytes } = *raw;
    let panels = rows.div_ceil(PANEL_ROWS);
    let codes = arena.zeroed(panels * columns * PANEL_ROWS * size_of::<f32>())?;
    let row_bytes = bytes.len() / rows.max(1);
    let start = Shared(codes.as_pointer::<f32>());
    let failed = std::sync::Mutex::new(None);
    pool.run(panels, 4, &|range, _| {
        let mut row_values = vec![0f32; columns];
        for panel in range {
            // SAFETY: each panel belongs to one task.
            let out = unsafe { std::slice::from_raw_parts_mut(start.at(panel * columns * PANEL_ROWS), columns * PANEL_ROWS) };
            for row in panel * PANEL_ROWS..rows.min((panel + 1) * PANEL_ROWS) {
                if let Err(error) = quant::decode(tensor_type, &bytes[row * row_bytes..(row + 1) * row_bytes], &mut row_values) {
                    *failed.lock().expect("no panic while held") = Some(error);
                    return;
                }
                for (column, value) in row_values.iter().enumerate() {
                    out[column * PANEL_ROWS + row % PANEL_ROWS] = *value;
                }
            }
        }
    });
    match failed.into_inner().expect("no panic while held") {
        Some(error) => Err(error),
        None => Ok(Matrix { rows, columns, format: Format::F32, codes }),
    }
}

/// One row of f32 panels.
pub fn unpack_f32_row(matrix: &Matrix, row: usize, out: &mut [f32]) {
    let panel = &matrix.codes.as_slice::<f32>()[row / PANEL_ROWS * matrix.columns * PANEL_ROWS..];
    for (column, out) in out[..matrix.columns].iter_mut().enumerate() {
        *out = panel[column * PANEL_ROWS + row % PANEL_ROWS];
    }
}

/// An address that threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: only an address; the users write disjoint parts.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// `offset` lies inside the allocation.
    unsafe fn at(self, offset: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}
