//! f32 to bytes by the plain rule of each type.

use super::TensorType;

/// `values` and `bytes` hold the same whole number of blocks (checked by the caller).
pub(super) fn blocks(tensor_type: TensorType, values: &[f32], bytes: &mut [u8]) {
    let _ = (tensor_type, values, bytes);
    unimplemented!()
}
