//! From a panel back to the numbers of a row: an embedding, and the proof that nothing was lost.

use half::{bf16, f16};

use crate::level::{BLOCK, Format, Matrix, PANEL_ROWS};
use crate::panel::{Packed, Scaling, panel_bytes, with_packed};
use crate::quant::TensorType;

/// One row as f32, bit for bit what `quant::decode` gives for the bytes of the file. `row < matrix.rows`, `out` has `columns` numbers.
pub fn unpack_row(matrix: &Matrix, row: usize, out: &mut [f32]) {
    let Format::Packed(tensor_type) = matrix.format else { panic!("a matrix of another level") };
    assert!(row < matrix.rows && out.len() == matrix.columns, "row {row} of {}, {} numbers", matrix.rows, out.len());
    let bytes = panel_bytes(tensor_type, matrix.columns);
    let panel = &matrix.codes.as_slice::<u8>()[row / PANEL_ROWS * bytes..][..bytes];
    let row = row % PANEL_ROWS;
    with_packed!(tensor_type, P => unpack_packed::<P>(panel, row, out), unpack_numbers(tensor_type, panel, row, out));
}

fn unpack_numbers(tensor_type: TensorType, panel: &[u8], row: usize, out: &mut [f32]) {
    let size = tensor_type.block_bytes();
    for (column, out) in out.iter_mut().enumerate() {
        let number = &panel[(column * PANEL_ROWS + row) * size..][..size];
        *out = match *number {
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
            [a, b] if tensor_type == TensorType::F16 => f16::from_le_bytes([a, b]).to_f32(),
            [a, b] => bf16::from_le_bytes([a, b]).to_f32(),
            _ => unreachable!("numbers have 2 or 4 bytes"),
        };
    }
}

fn unpack_packed<P: Packed>(panel: &[u8], row: usize, out: &mut [f32]) {
    for (at, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let (header, blocks) = panel[at / P::GROUP * P::GROUP_BYTES..][..P::GROUP_BYTES].split_at(P::HEADER);
        let codes = &blocks[at % P::GROUP * P::BLOCK..][..P::BLOCK];
        for (column, out) in out.iter_mut().enumerate() {
            let code = i32::from(code_at(P::BITS, codes, row, column));
            let (scale, minimum) = scale_at(P::SCALING, header, at % P::GROUP, row, column / 16);
            *out = match minimum {
                Some(minimum) => scale * code as f32 + minimum,
                None => scale * (code - (1 << P::OFFSET_SHIFT)) as f32,
            };
        }
    }
}

/// The code of one row and column (0 … 31) of a block.
pub(crate) fn code_at(bits: u32, block: &[u8], row: usize, column: usize) -> u8 {
    let (quad, byte) = (column / 4, row * 4 + column % 4);
    if bits == 8 {
        return block[quad * 64 + byte];
    }
    let low = block[quad % 4 * 64 + byte] >> (quad / 4 * 4) & 15;
    let high = match bits {
        5 => block[256 + byte] >> quad & 1,
        6 => block[256 + quad / 4 * 64 + byte] >> (quad % 4 * 2) & 3,
        _ => 0,
    };
    low | high << 4
}

/// Scale of one row in a block of a group, for the columns of one half; and what is added to scaled codes, where a type has that.
pub(crate) fn scale_at(scaling: Scaling, header: &[u8], block: usize, row: usize, half: usize) -> (f32, Option<f32>) {
    let number = |at: usize| f16::from_le_bytes([header[at], header[at + 1]]).to_f32();
    match scaling {
        Scaling::Offset => (number((block * PANEL_ROWS + row) * 2), None),
        Scaling::Minimum => (number(row * 2), Some(number((PANEL_ROWS + row) * 2))),
        Scaling::SuperMinimum => {
            let (scale, minimum) = (header[64 + block * 32 + row], header[64 + block * 32 + 16 + row]);
            let added = -(number((PANEL_ROWS + row) * 2) * f32::from(minimum));
            (number(row * 2) * f32::from(scale), Some(added))
        }
        Scaling::SuperHalves => {
            let scale = header[32 + (block * 2 + half) * 16 + row] as i8;
            (number(row * 2) * f32::from(scale), None)
        }
    }
}
