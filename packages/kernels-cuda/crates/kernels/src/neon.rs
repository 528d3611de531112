//! The NEON level of 64-bit Arm: dot products of bytes (`dotprod`), and products of small matrices of bytes (`i8mm`) where the processor
//! has them. Processors without `dotprod` run the scalar level.

mod products;
mod quantize;
mod vector;

use std::arch::is_aarch64_feature_detected;
use std::ops::Range;

use crate::bytes::Bytes;
use crate::level::{Activations, Matrix, Output};
use crate::panel::with_packed;
use crate::quant::TensorType;
use crate::vector_level::vector_level;
use vector::Quads;

/// A value of this type proves that the processor has the instructions.
pub struct Neon {
    i8mm: bool,
}

impl Neon {
    /// `None` where the processor lacks an instruction.
    pub fn new() -> Option<Self> {
        let found = is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("dotprod");
        found.then(|| Self { i8mm: is_aarch64_feature_detected!("i8mm") })
    }

    /// # Safety
    /// As `Kernels::multiply`, and shapes agree.
    unsafe fn multiply_packed(&self, tensor_type: TensorType, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: the caller's promise; `self` proves the instructions.
        unsafe {
            with_packed!(
                tensor_type,
                P => if self.i8mm {
                    products::multiply_i8mm::<P>(matrix, panels, x, out)
                } else {
                    products::multiply::<P>(matrix, panels, x, out)
                },
                unreachable!("numbers have no blocks")
            )
        }
    }
}

impl Bytes for Quads {}

vector_level! {
    Neon, features "neon,dotprod", vector Quads, code quantize::quantize_block,
    attend [6, 1, 1], rows 6
}
