//! The AVX-512 level: F, BW, VL, DQ and VNNI.

mod bytes;
mod products;
mod quantize;
mod vector;

use std::arch::x86_64::__m512;
use std::ops::Range;

use crate::level::{Activations, Matrix, Output};
use crate::panel::with_packed;
use crate::quant::TensorType;
use crate::vector_level::vector_level;

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

    /// # Safety
    /// As `Kernels::multiply`, and shapes agree.
    unsafe fn multiply_packed(&self, tensor_type: TensorType, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
        // SAFETY: the caller's promise; `self` proves the instructions.
        unsafe { with_packed!(tensor_type, P => products::multiply::<P>(matrix, panels, x, out), unreachable!("numbers have no blocks")) }
    }
}

vector_level! {
    Avx512, features "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma", vector __m512, code quantize::quantize_block,
    attend [6, 2, 4], rows 12
}
