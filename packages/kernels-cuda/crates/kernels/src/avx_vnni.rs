//! The AVX-VNNI level: AVX2 with one instruction for four products of bytes, on processors that have it and no AVX-512.

use std::ops::Range;

use crate::avx2::vector::Pair;
use crate::avx2::{products, quantize};
use crate::level::{Activations, Matrix, Output};
use crate::panel::with_packed;
use crate::quant::TensorType;
use crate::vector_level::vector_level;

/// A value of this type proves that the processor has the instructions.
pub struct AvxVnni(());

impl AvxVnni {
    /// `None` where the processor lacks an instruction.
    pub fn new() -> Option<Self> {
        (crate::avx2::Avx2::new().is_some() && is_x86_feature_detected!("avxvnni")).then_some(Self(()))
    }

    /// # Safety
    /// As `Kernels::multiply`, and shapes agree.
    unsafe fn multiply_packed(&self, tensor_type: TensorType, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: the caller's promise; `self` proves the instructions.
        unsafe {
            with_packed!(tensor_type, P => products::multiply_vnni::<P>(matrix, panels, x, out), unreachable!("numbers have no blocks"))
        }
    }
}

vector_level! {
    AvxVnni, features "avx2,fma,f16c", vector Pair, code quantize::quantize_block,
    attend [6, 1, 1], rows 6
}
