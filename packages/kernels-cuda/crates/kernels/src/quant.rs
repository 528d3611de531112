//! Tensor types of GGUF files and their exact values.
//!
//! A tensor is a sequence of blocks, a row holds a whole number of them, and every block decodes by itself. Layouts are those of
//! ggml (`ggml-common.h`); `decode` gives the f32 that ggml's own `dequantize_row_*` gives, bit for bit.

mod decode;
mod encode;

use crate::error::{Code, Error, Result};

macro_rules! tensor_types {
    ($($variant:ident = $id:literal, $name:literal, $block_size:literal, $block_bytes:literal;)*) => {
        /// How the numbers of a tensor are stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "the names of the field")]
        pub enum TensorType { $($variant,)* }

        impl TensorType {
            pub const ALL: &[TensorType] = &[$(TensorType::$variant,)*];

            /// The number of this type in a GGUF file (`enum ggml_type`).
            pub fn ggml_id(self) -> u32 {
                match self { $(TensorType::$variant => $id,)* }
            }

            pub fn from_ggml_id(id: u32) -> Option<Self> {
                match id { $($id => Some(TensorType::$variant),)* _ => None }
            }

            /// As people write it: "Q4_1".
            pub fn name(self) -> &'static str {
                match self { $(TensorType::$variant => $name,)* }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(TensorType::$variant),)* _ => None }
            }

            /// Elements in a block.
            pub const fn block_size(self) -> usize {
                match self { $(TensorType::$variant => $block_size,)* }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> usize {
                match self { $(TensorType::$variant => $block_bytes,)* }
            }
        }
    };
}

tensor_types! {
    F32  =  0, "F32",  1, 4;
    F16  =  1, "F16",  1, 2;
    Q4_0 =  2, "Q4_0", 32, 18;
    Q4_1 =  3, "Q4_1", 32, 20;
    Q5_0 =  6, "Q5_0", 32, 22;
    Q5_1 =  7, "Q5_1", 32, 24;
    Q8_0 =  8, "Q8_0", 32, 34;
    Q4_K = 12, "Q4_K", 256, 144;
    Q5_K = 13, "Q5_K", 256, 176;
    Q6_K = 14, "Q6_K", 256, 210;
    BF16 = 30, "BF16", 1, 2;
}

impl TensorType {
    /// Bytes of `elements` numbers; `None` when they are no whole number of blocks or the size overflows.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.block_size()) {
            return None;
        }
        (elements / self.block_size()).checked_mul(self.block_bytes())
    }
}

/// Decodes whole blocks: `bytes` holds exactly the `out.len()` numbers.
///
/// Errors: `argument_invalid` when `out` is no whole number of blocks or `bytes` is not exactly as long as they are.
pub fn decode(tensor_type: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    check_lengths(tensor_type, bytes.len(), out.len())?;
    decode::blocks(tensor_type, bytes, out);
    Ok(())
}

/// Encodes whole blocks, each by the plain rule of its type; `bytes` is filled exactly.
///
/// Errors: `argument_invalid` as for [`decode`], and when a number is beyond what the type holds (half-precision scales end at 65,504).
pub fn encode(tensor_type: TensorType, values: &[f32], bytes: &mut [u8]) -> Result<()> {
    check_lengths(tensor_type, bytes.len(), values.len())?;
    let magnitude_max = encode::magnitude_max(tensor_type);
    if let Some(at) = values.iter().position(|value| value.is_nan() || value.abs() > magnitude_max) {
        let message = format!("number {at} is {}, {} holds magnitudes up to {magnitude_max}", values[at], tensor_type.name());
        return Err(Error::at(Code::ArgumentInvalid, "values", message));
    }
    encode::blocks(tensor_type, values, bytes);
    Ok(())
}

fn check_lengths(tensor_type: TensorType, bytes: usize, elements: usize) -> Result<()> {
    match tensor_type.bytes_of(elements) {
        Some(expected) if expected == bytes => Ok(()),
        Some(expected) => Err(Error::at(
            Code::ArgumentInvalid,
            "bytes",
            format!("{elements} numbers of {} are {expected} bytes, {bytes} came", tensor_type.name()),
        )),
        None => Err(Error::at(
            Code::ArgumentInvalid,
            "elements",
            format!("{elements} numbers are no whole number of {} blocks of {}", tensor_type.name(), tensor_type.block_size()),
        )),
    }
}
