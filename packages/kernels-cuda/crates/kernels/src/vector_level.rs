//! What the vector levels have in common: everything but their instructions.

/// Implements [`Kernels`](crate::level::Kernels) for a type that proves the instructions.
///
/// * `features`: what functions of the level are compiled for.
/// * `vector`: 16 numbers of it. `code`: makes the codes of a block of activations.
/// * `attend`: queries, chunks and vectors of a value in a tile; see `attend::attend`.
/// * `rows`: activations in a tile of products with plain numbers.
///
/// The type has a method `multiply_packed(tensor_type, …)` for the types with blocks.
macro_rules! vector_level {
    (
        $level:ident, features $features:literal, vector $vector:ty, code $code:path,
        attend [$queries:literal, $chunks:literal, $width:literal], rows $rows:literal
    ) => {
        mod compiled {
            use std::ops::Range;

            use half::{bf16, f16};

            use super::*;
            use crate::level::{ActivationRow, Activations, AttendBlock, Gate, Matrix, Output, Partial};
            use crate::quant::TensorType;
            use crate::rotary::Pairs;
            use crate::{attend, int8, numbers, small};

            #[target_feature(enable = $features)]
            pub fn quantize(x: &[f32], out: &mut ActivationRow<'_>) {
                int8::quantize(x, out, |x, codes| $code(x, codes))
            }

            #[target_feature(enable = $features)]
            pub fn normalize(x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>) {
                int8::normalize::<true>(x, weight, epsilon, out, |x, codes| $code(x, codes))
            }

            #[target_feature(enable = $features)]
            pub fn gate(kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>) {
                int8::gate::<true>(kind, g, u, out, |x, codes| $code(x, codes))
            }

            #[target_feature(enable = $features)]
            pub fn rotate(pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
                small::rotate(pairs, cosines, sines, scale, x, out)
            }

            #[target_feature(enable = $features)]
            pub fn attend_f32(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
                // SAFETY: this function is compiled for the instructions.
                unsafe { attend::attend::<$vector, f32, $queries, $chunks, $width>(block, out) }
            }

            #[target_feature(enable = $features)]
            pub fn attend_f16(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
                // SAFETY: this function is compiled for the instructions.
                unsafe { attend::attend::<$vector, f16, $queries, $chunks, $width>(block, out) }
            }

            #[target_feature(enable = $features)]
            pub fn attend_q8_0(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
                // SAFETY: this function is compiled for the instructions.
                unsafe { attend::quantised::attend::<$vector, true>(block, out) }
            }

            /// # Safety
            /// As `Kernels::multiply`, and shapes agree.
            #[target_feature(enable = $features)]
            pub unsafe fn multiply_numbers(
                tensor_type: TensorType,
                matrix: &Matrix,
                panels: Range<usize>,
                x: &Activations<'_>,
                out: Output<'_>,
            ) {
                // SAFETY: this function is compiled for the instructions; the rest is the caller's promise.
                unsafe {
                    match tensor_type {
                        TensorType::F32 => numbers::multiply::<$vector, f32, $rows>(matrix, panels, x, out),
                        TensorType::F16 => numbers::multiply::<$vector, f16, $rows>(matrix, panels, x, out),
                        _ => numbers::multiply::<$vector, bf16, $rows>(matrix, panels, x, out),
                    }
                }
            }
        }

        // SAFETY of every block: a value of this type proves the instructions.
        impl crate::level::Kernels for $level {
            fn level(&self) -> crate::level::Level {
                crate::level::Level::$level
            }

            fn pack(
                &self,
                raw: &crate::level::RawMatrix<'_>,
                pool: &crate::pool::Pool,
                arena: &crate::buffer::Arena,
            ) -> crate::error::Result<crate::level::Matrix> {
                crate::panel::pack(raw, pool, arena)
            }

            fn unpack_row(&self, matrix: &crate::level::Matrix, row: usize, out: &mut [f32]) {
                crate::panel::unpack_row(matrix, row, out);
            }

            fn wants_codes(&self, format: crate::level::Format) -> bool {
                crate::panel::wants_codes(format)
            }

            fn quantize(&self, x: &[f32], out: &mut crate::level::ActivationRow<'_>) {
                // SAFETY: as said above.
                unsafe { compiled::quantize(x, out) }
            }

            fn normalize(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut crate::level::ActivationRow<'_>) {
                // SAFETY: as said above.
                unsafe { compiled::normalize(x, weight, epsilon, out) }
            }

            fn gate(&self, kind: crate::level::Gate, g: &[f32], u: &[f32], out: &mut crate::level::ActivationRow<'_>) {
                // SAFETY: as said above.
                unsafe { compiled::gate(kind, g, u, out) }
            }

            unsafe fn multiply(
                &self,
                matrix: &crate::level::Matrix,
                panels: std::ops::Range<usize>,
                x: &crate::level::Activations<'_>,
                out: crate::level::Output<'_>,
            ) {
                let tensor_type = crate::panel::check(matrix, &panels, x);
                // SAFETY: as said above, shapes are checked, and the outputs are ours (caller).
                unsafe {
                    if crate::panel::wants_codes(matrix.format) {
                        self.multiply_packed(tensor_type, matrix, panels, x, out)
                    } else {
                        compiled::multiply_numbers(tensor_type, matrix, panels, x, out)
                    }
                }
            }

            fn rotate(&self, pairs: crate::rotary::Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
                // SAFETY: as said above.
                unsafe { compiled::rotate(pairs, cosines, sines, scale, x, out) }
            }

            fn attend(&self, block: &crate::level::AttendBlock<'_>, out: &mut crate::level::Partial<'_>) {
                // SAFETY: as said above.
                unsafe {
                    match block.cells.shape().dtype {
                        crate::cells::CellDtype::F32 => compiled::attend_f32(block, out),
                        crate::cells::CellDtype::F16 => compiled::attend_f16(block, out),
                        crate::cells::CellDtype::Q8_0 => compiled::attend_q8_0(block, out),
                    }
                }
            }
        }
    };
}

pub(crate) use vector_level;
