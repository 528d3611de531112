//! Few machines have AVX-VNNI. AVX-512 has the same operation on the same registers in another encoding, so that the source of the
//! level runs here, and differs from it by one instruction's prefix.

use super::*;
use crate::buffer::Arena;
use crate::level::{ActivationRow, Kernels, RawMatrix};
use crate::panel::with_packed;
use crate::pool::Pool;
use crate::quant::TensorType;
use crate::scalar::Scalar;

struct VnniOfAvx512;

impl Dots for VnniOfAvx512 {
    const BY_FOURS: bool = true;

    #[inline(always)]
    unsafe fn add_fours(dots: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
        // SAFETY: compiled for the instructions (caller).
        unsafe { _mm256_dpbusd_epi32(dots, codes, activations) }
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512vl,avx512vnni")]
unsafe fn multiply_encoded_otherwise<P: Packed>(matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_as::<P, VnniOfAvx512>(matrix, panels, x, out) }
}

/// Bytes of a tensor whose every code occurs, with scales of moderate size.
fn tensor(tensor_type: TensorType, elements: usize) -> Vec<u8> {
    let mut state = 7u32;
    let numbers: Vec<f32> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
    .take(elements)
    .collect();
    let mut bytes = vec![0; tensor_type.bytes_of(elements).expect("whole blocks")];
    crate::quant::encode(tensor_type, &numbers, &mut bytes).expect("a type that is encoded");
    bytes
}

#[test]
fn products_by_fours_give_the_bits_of_the_scalar_twin() {
    if !(is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl")) {
        println!("not run: this machine has no VNNI in any encoding");
        return;
    }
    let (pool, arena, rows, columns, outputs) = (Pool::new(1), Arena::new(), 7, 512, 40);
    for tensor_type in TensorType::ALL.iter().copied().filter(|tensor_type| tensor_type.block_size() > 1) {
        let bytes = tensor(tensor_type, outputs * columns);
        let matrix = Scalar.pack(&RawMatrix { tensor_type, rows: outputs, columns, bytes: &bytes }, &pool, &arena).expect("a tensor");
        let (mut codes, mut blocks) = (vec![0i8; rows * columns], vec![ActivationBlock::default(); rows * columns / BLOCK]);
        for row in 0..rows {
            let x: Vec<f32> = (0..columns).map(|i| ((i * 37 + row * 11) % 101) as f32 - 50.0).collect();
            let codes = &mut codes[row * columns..][..columns];
            let blocks = &mut blocks[row * columns / BLOCK..][..columns / BLOCK];
            Scalar.quantize(&x, &mut ActivationRow { values: &mut [], codes, blocks });
        }
        let x = Activations { rows, columns, values: &[], codes: &codes, blocks: &blocks };
        let (mut ours, mut theirs) = (vec![f32::NAN; rows * outputs], vec![f32::NAN; rows * outputs]);
        let to = |start: &mut Vec<f32>| Output { start: start.as_mut_ptr(), stride: outputs, bias: None, add: false };
        // SAFETY: each vector holds every row, and one thread writes; the processor was asked.
        unsafe {
            Scalar.multiply(&matrix, 0..matrix.panels(), &x, to(&mut theirs));
            let (panels, out) = (0..matrix.panels(), to(&mut ours));
            with_packed!(tensor_type, P => multiply_encoded_otherwise::<P>(&matrix, panels, &x, out), unreachable!("blocks only"));
        }
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&ours), bits(&theirs), "{tensor_type:?}");
    }
}
