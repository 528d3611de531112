//! Packed weights: the memory that all fast levels read, as many bits a weight as the file has.
//!
//! A matrix is a list of panels of 16 rows, so that one vector of f32 holds one output of each row. A panel is read once from its
//! first byte to its last:
//!
//! ```text
//! panel  ┬ group ┬ header   scales of the group's blocks, the 16 rows side by side
//!        │       ├ block    codes of 32 columns: low nibbles, then high bits
//!        │       └ block …
//!        └ group …
//! ```
//!
//! Columns of a block are taken 4 at a time, as the integer dot products of all processors do: a *quad* q is columns 4q … 4q + 3 of the
//! 16 rows, 64 bytes `[row][column]`. Codes are unsigned.
//!
//! ```text
//! 4 bits: 4 vectors; byte i of vector v: low nibble = quad v, high nibble = quad v + 4
//! 5 bits: and 1 vector;  bit q of byte i = bit 4 of quad q
//! 6 bits: and 2 vectors; bits 2v, 2v + 1 of byte i of vector h = bits 4, 5 of quad v + 4h
//! 8 bits: 8 vectors, quad after quad; code = value + 128
//! ```
//!
//! Headers are multiples of 64 bytes, so a group holds two blocks where a block has 16 scales of 2 bytes, and a superblock of the file
//! where it has one. Rows and blocks past the end are zero. Nothing is rounded: `unpack_row` gives what `quant::decode` gives.

mod finish;
mod pack;
mod unpack;

pub use finish::finish;
pub use pack::pack;
pub use unpack::unpack_row;
pub(crate) use unpack::{code_at, scale_at};

use std::ops::Range;

use crate::level::{Activations, BLOCK, Format, Matrix, PANEL_ROWS};
use crate::quant::TensorType;

/// How the numbers of a block are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// value = d · (code − offset). Header: f16 d `[block][row]`.
    Offset,
    /// value = d · code + m. Header of each block: f16 d `[row]`, f16 m `[row]`.
    Minimum,
    /// value = d · s · code − dmin · m. Header of 8 blocks: f16 d `[row]`, f16 dmin `[row]`, u8 `[block][s, m][row]`.
    SuperMinimum,
    /// value = d · s · (code − offset), s for 16 columns. Header of 8 blocks: f16 d `[row]`, i8 s `[half block][row]`.
    SuperHalves,
}

/// A packed type as constants, so that a level's kernel is written once and compiled for each.
pub trait Packed {
    const TYPE: TensorType;
    const SCALING: Scaling;
    /// Bits of a code.
    const BITS: u32;
    /// Binary logarithm of what is subtracted from a code; 0 where a minimum does that.
    const OFFSET_SHIFT: u32;
    /// Blocks of 32 columns in a group.
    const GROUP: usize = match Self::SCALING {
        Scaling::Offset => 2,
        Scaling::Minimum => 1,
        Scaling::SuperMinimum | Scaling::SuperHalves => 8,
    };
    /// Bytes before the blocks of a group.
    const HEADER: usize = match Self::SCALING {
        Scaling::Offset | Scaling::Minimum => 64,
        Scaling::SuperMinimum | Scaling::SuperHalves => 320,
    };
    /// Bytes of a block's codes.
    const BLOCK: usize = PANEL_ROWS * 4 * Self::BITS as usize;
    const GROUP_BYTES: usize = Self::HEADER + Self::GROUP * Self::BLOCK;
}

macro_rules! packed_types {
    ($($name:ident: $bits:literal bits, $scaling:ident, $shift:literal;)*) => {
        $(
            #[allow(non_camel_case_types, reason = "the names of the field")]
            pub struct $name;

            impl Packed for $name {
                const TYPE: TensorType = TensorType::$name;
                const SCALING: Scaling = Scaling::$scaling;
                const BITS: u32 = $bits;
                const OFFSET_SHIFT: u32 = $shift;
            }
        )*
    };
}

packed_types! {
    Q4_0: 4 bits, Offset, 3;
    Q4_1: 4 bits, Minimum, 0;
    Q5_0: 5 bits, Offset, 4;
    Q5_1: 5 bits, Minimum, 0;
    Q8_0: 8 bits, Offset, 7;
    Q4_K: 4 bits, SuperMinimum, 0;
    Q5_K: 5 bits, SuperMinimum, 0;
    Q6_K: 6 bits, SuperHalves, 5;
}

/// Runs `$body` with `$packed` standing for the packed type of a tensor type, `$other` for F32, F16 and BF16.
macro_rules! with_packed {
    ($tensor_type:expr, $packed:ident => $body:expr, $other:expr) => {
        match $tensor_type {
            $crate::quant::TensorType::Q4_0 => with_packed!(@ Q4_0, $packed, $body),
            $crate::quant::TensorType::Q4_1 => with_packed!(@ Q4_1, $packed, $body),
            $crate::quant::TensorType::Q5_0 => with_packed!(@ Q5_0, $packed, $body),
            $crate::quant::TensorType::Q5_1 => with_packed!(@ Q5_1, $packed, $body),
            $crate::quant::TensorType::Q8_0 => with_packed!(@ Q8_0, $packed, $body),
            $crate::quant::TensorType::Q4_K => with_packed!(@ Q4_K, $packed, $body),
            $crate::quant::TensorType::Q5_K => with_packed!(@ Q5_K, $packed, $body),
            $crate::quant::TensorType::Q6_K => with_packed!(@ Q6_K, $packed, $body),
            $crate::quant::TensorType::F32 | $crate::quant::TensorType::F16 | $crate::quant::TensorType::BF16 => $other,
        }
    };
    (@ $name:ident, $packed:ident, $body:expr) => {{
        type $packed = $crate::panel::$name;
        $body
    }};
}
pub(crate) use with_packed;

/// Bytes of one panel of `columns` columns. Types without blocks lie as `[column][16 rows]`.
pub fn panel_bytes(tensor_type: TensorType, columns: usize) -> usize {
    let blocks = columns / BLOCK;
    with_packed!(
        tensor_type,
        P => blocks.div_ceil(P::GROUP) * P::GROUP_BYTES,
        (columns * PANEL_ROWS * tensor_type.block_bytes()).next_multiple_of(64)
    )
}

/// Products with block types read int8 codes, those with plain numbers f32.
pub fn wants_codes(format: Format) -> bool {
    matches!(format, Format::Packed(tensor_type) if tensor_type.block_size() > 1)
}

/// Holds the arguments of a product to each other. Returns the type of the weights.
pub fn check(matrix: &Matrix, panels: &Range<usize>, x: &Activations<'_>) -> TensorType {
    let Format::Packed(tensor_type) = matrix.format else { panic!("a matrix of another level: {:?}", matrix.format) };
    assert!(x.columns == matrix.columns && panels.start <= panels.end && panels.end <= matrix.panels(), "{panels:?} of {}", matrix.rows);
    assert_eq!(matrix.codes.bytes(), matrix.panels() * panel_bytes(tensor_type, matrix.columns));
    if wants_codes(matrix.format) {
        assert!(x.codes.len() >= x.rows * x.columns && x.blocks.len() >= x.rows * (x.columns / BLOCK), "codes for {} rows", x.rows);
    } else {
        assert!(x.values.len() >= x.rows * x.columns, "values for {} rows", x.rows);
    }
    tensor_type
}
