//! The scalar level: plain Rust, the twin that the vector levels are held to.

mod products;

use std::ops::Range;

use crate::attend::quantised;
use crate::buffer::Arena;
use crate::bytes::PlainVector;
use crate::cells::CellDtype;
use crate::error::Result;
use crate::level::{ActivationRow, Activations, AttendBlock, Format, Gate, Kernels, Level, Matrix, Output, Partial, RawMatrix};
use crate::panel::{self, with_packed};
use crate::pool::Pool;
use crate::quant::TensorType;
use crate::reference::attend::NumberCells;
use crate::reference::{ALWAYS_FUSED, attend};
use crate::rotary::Pairs;
use crate::{int8, small};

pub struct Scalar;

impl Kernels for Scalar {
    fn level(&self) -> Level {
        Level::Scalar
    }

    fn pack(&self, raw: &RawMatrix<'_>, pool: &Pool, arena: &Arena) -> Result<Matrix> {
        panel::pack(raw, pool, arena)
    }

    fn unpack_row(&self, matrix: &Matrix, row: usize, out: &mut [f32]) {
        panel::unpack_row(matrix, row, out);
    }

    fn wants_codes(&self, format: Format) -> bool {
        panel::wants_codes(format)
    }

    fn quantize(&self, x: &[f32], out: &mut ActivationRow<'_>) {
        int8::quantize(x, out, int8::quantize_block);
    }

    fn normalize(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
        int8::normalize::<ALWAYS_FUSED>(x, weight, epsilon, out, int8::quantize_block);
    }

    fn gate(&self, kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
        int8::gate::<ALWAYS_FUSED>(kind, g, u, out, int8::quantize_block);
    }

    unsafe fn multiply(&self, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        let tensor_type = panel::check(matrix, &panels, x);
        // SAFETY: shapes are checked, and the outputs are ours (caller).
        unsafe {
            with_packed!(tensor_type, P => products::multiply::<P>(matrix, panels, x, out), match tensor_type {
                TensorType::F32 => products::multiply_numbers::<f32>(matrix, panels, x, out),
                TensorType::F16 => products::multiply_numbers::<half::f16>(matrix, panels, x, out),
                _ => products::multiply_numbers::<half::bf16>(matrix, panels, x, out),
            })
        }
    }

    fn rotate(&self, pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
        small::rotate(pairs, cosines, sines, scale, x, out);
    }

    fn attend(&self, block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        match block.cells.shape().dtype {
            CellDtype::F32 => attend::attend::<ALWAYS_FUSED, NumberCells<f32>>(block, out),
            CellDtype::F16 => attend::attend::<ALWAYS_FUSED, NumberCells<half::f16>>(block, out),
            // SAFETY: plain Rust needs no instructions.
            CellDtype::Q8_0 => unsafe { quantised::attend::<PlainVector, ALWAYS_FUSED>(block, out) },
        }
    }
}
