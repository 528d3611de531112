//! The AVX-512 level: F, BW, VL, DQ and VNNI.

mod products;
mod quantize;
mod vector;

use std::arch::x86_64::__m512;
use std::ops::Range;

use half::{bf16, f16};

use crate::buffer::Arena;
use crate::cells::CellDtype;
use crate::error::Result;
use crate::level::{ActivationRow, Activations, AttendBlock, Format, Gate, Kernels, Level, Matrix, Output, Partial, RawMatrix};
use crate::panel::{self, with_packed};
use crate::pool::Pool;
use crate::quant::TensorType;
use crate::rotary::Pairs;
use crate::{attend, int8, numbers, small};

/// A value of this type proves that the processor has the instructions.
pub struct Avx512(());

impl Avx512 {
    /// `None` where the processor lacks an instruction: there AVX2 is the level to take, also when only VNNI is missing.
    pub fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("fma");
        found.then_some(Self(()))
    }
}

/// Defines functions compiled for this level.
macro_rules! compiled {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
            fn $name($($argument: $type),*) $body
        )*
    };
}

compiled! {
    fn quantize(x: &[f32], out: &mut ActivationRow<'_>) {
        int8::quantize(x, out, |x, codes| quantize::quantize_block(x, codes))
    }
    fn normalize(x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
        int8::normalize::<true>(x, weight, epsilon, out, |x, codes| quantize::quantize_block(x, codes))
    }
    fn gate(kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
        int8::gate::<true>(kind, g, u, out, |x, codes| quantize::quantize_block(x, codes))
    }
    fn rotate(pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
        small::rotate(pairs, cosines, sines, scale, x, out)
    }
    fn attend_f32(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        // SAFETY: this function is compiled for the instructions.
        unsafe { attend::attend::<__m512, f32, 6, 2, 4>(block, out) }
    }
    fn attend_f16(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        // SAFETY: this function is compiled for the instructions.
        unsafe { attend::attend::<__m512, f16, 6, 2, 4>(block, out) }
    }
    fn multiply_numbers(tensor_type: TensorType, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: this function is compiled for the instructions; the rest is its caller's promise.
        unsafe {
            match tensor_type {
                TensorType::F32 => numbers::multiply::<__m512, f32, 12>(matrix, panels, x, out),
                TensorType::F16 => numbers::multiply::<__m512, f16, 12>(matrix, panels, x, out),
                _ => numbers::multiply::<__m512, bf16, 12>(matrix, panels, x, out),
            }
        }
    }
}

// SAFETY of every call below: a value of `Avx512` proves the features.
impl Kernels for Avx512 {
    fn level(&self) -> Level {
        Level::Avx512
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
        // SAFETY: as said above.
        unsafe { quantize(x, out) }
    }

    fn normalize(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
        // SAFETY: as said above.
        unsafe { normalize(x, weight, epsilon, out) }
    }

    fn gate(&self, kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
        // SAFETY: as said above.
        unsafe { gate(kind, g, u, out) }
    }

    unsafe fn multiply(&self, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        let tensor_type = panel::check(matrix, &panels, x);
        // SAFETY: as said above, shapes are checked, and the outputs are ours (caller).
        unsafe {
            with_packed!(
                tensor_type,
                P => products::multiply::<P>(matrix, panels, x, out),
                multiply_numbers(tensor_type, matrix, panels, x, out)
            )
        }
    }

    fn rotate(&self, pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
        // SAFETY: as said above.
        unsafe { rotate(pairs, cosines, sines, scale, x, out) }
    }

    fn attend(&self, block: &AttendBlock<'_>, out: &mut Partial<'_>) {
        // SAFETY: as said above.
        unsafe {
            match block.cells.shape().dtype {
                CellDtype::F32 => attend_f32(block, out),
                CellDtype::F16 => attend_f16(block, out),
            }
        }
    }
}
