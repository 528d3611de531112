//! The AVX2 level: AVX2, FMA and F16C. Also the level of processors with AVX-512 and no VNNI.

mod bytes;
pub(crate) mod products;
pub(crate) mod quantize;
pub(crate) mod vector;

use std::ops::Range;

use crate::level::{Activations, Matrix, Output};
use crate::panel::with_packed;
use crate::quant::TensorType;
use crate::vector_level::vector_level;
use vector::Pair;

/// A value of this type proves that the processor has the instructions.
pub struct Avx2(());

impl Avx2 {
    /// `None` where the processor lacks an instruction.
    pub fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }

    /// # Safety
    /// As `Kernels::multiply`, and shapes agree.
    unsafe fn multiply_packed(&self, tensor_type: TensorType, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: the caller's promise; `self` proves the instructions.
        unsafe { with_packed!(tensor_type, P => products::multiply::<P>(matrix, panels, x, out), unreachable!("numbers have no blocks")) }
    }
}

vector_level! {
    Avx2, features "avx2,fma,f16c", vector Pair, code quantize::quantize_block,
    attend [6, 1, 1], rows 6
}
