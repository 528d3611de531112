//! From the rows of a file to panels.

use crate::buffer::Arena;
use crate::error::{Code, Error, Result};
use crate::level::{BLOCK, Format, Matrix, PANEL_ROWS, RawMatrix};
use crate::panel::{Packed, Scaling, panel_bytes, with_packed};
use crate::pool::Pool;
use crate::quant::TensorType;

/// Packs a tensor, panels in parallel.
///
/// Errors: `argument_invalid` when the rows are not whole blocks or the bytes are not exactly theirs, `cells_exceed_memory`.
pub fn pack(raw: &RawMatrix<'_>, pool: &Pool, arena: &Arena) -> Result<Matrix> {
    let RawMatrix { tensor_type, rows, columns, bytes } = *raw;
    let row_bytes = tensor_type.bytes_of(columns);
    let Some(row_bytes) = row_bytes.filter(|row_bytes| row_bytes.checked_mul(rows) == Some(bytes.len())) else {
        let name = tensor_type.name();
        let message = format!("{rows} rows of {columns} numbers of {name} came in {} bytes", bytes.len());
        return Err(Error::at(Code::ArgumentInvalid, "bytes", message));
    };
    let panels = rows.div_ceil(PANEL_ROWS);
    let bytes_each = panel_bytes(tensor_type, columns);
    let codes = arena.zeroed(panels * bytes_each)?;
    let start = Address(codes.as_pointer::<u8>());
    pool.run(panels, 4, &|range, _| {
        for panel in range {
            // SAFETY: panels are disjoint parts of `codes`, and each belongs to one task.
            let out = unsafe { std::slice::from_raw_parts_mut(start.at(panel * bytes_each), bytes_each) };
            let first = panel * PANEL_ROWS;
            let count = PANEL_ROWS.min(rows - first);
            pack_panel(tensor_type, &bytes[first * row_bytes..(first + count) * row_bytes], count, out);
        }
    });
    Ok(Matrix { rows, columns, format: Format::Packed(tensor_type), codes })
}

/// `raw`: `count` rows, 1 … 16. `out`: zeroed bytes of one panel.
fn pack_panel(tensor_type: TensorType, raw: &[u8], count: usize, out: &mut [u8]) {
    for (row, raw) in raw.chunks_exact(raw.len() / count).enumerate() {
        with_packed!(tensor_type, P => pack_row::<P>(raw, row, out), interleave(raw, tensor_type.block_bytes(), row, out));
    }
}

/// Numbers of one row go to every 16th place.
fn interleave(raw: &[u8], size: usize, row: usize, out: &mut [u8]) {
    for (column, number) in raw.chunks_exact(size).enumerate() {
        out[(column * PANEL_ROWS + row) * size..][..size].copy_from_slice(number);
    }
}

fn pack_row<P: Packed>(raw: &[u8], row: usize, out: &mut [u8]) {
    let blocks_each = P::TYPE.block_size() / BLOCK;
    for (at, raw) in raw.chunks_exact(P::TYPE.block_bytes()).enumerate() {
        for part in 0..blocks_each {
            let block = at * blocks_each + part;
            let group = &mut out[block / P::GROUP * P::GROUP_BYTES..][..P::GROUP_BYTES];
            let (header, blocks) = group.split_at_mut(P::HEADER);
            pack_header(P::SCALING, raw, block % P::GROUP, row, header);
            let codes = codes_of(P::TYPE, raw, part);
            pack_codes(P::BITS, &codes, row, &mut blocks[block % P::GROUP * P::BLOCK..][..P::BLOCK]);
        }
    }
}

/// Scales of one block of one row; `block` counts within the group. Types of one scaling have their scales at the same bytes, except
/// Q6_K, which has d at its end.
fn pack_header(scaling: Scaling, raw: &[u8], block: usize, row: usize, header: &mut [u8]) {
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    match scaling {
        Scaling::Offset => put((block * PANEL_ROWS + row) * 2, &raw[0..2]),
        Scaling::Minimum => {
            put(row * 2, &raw[0..2]);
            put((PANEL_ROWS + row) * 2, &raw[2..4]);
        }
        Scaling::SuperMinimum => {
            put(row * 2, &raw[0..2]);
            put((PANEL_ROWS + row) * 2, &raw[2..4]);
            let (scale, minimum) = six_bits(&raw[4..16], block);
            put(64 + block * 32 + row, &[scale]);
            put(64 + block * 32 + 16 + row, &[minimum]);
        }
        Scaling::SuperHalves => {
            put(row * 2, &raw[208..210]);
            put(32 + block * 32 + row, &raw[192 + 2 * block..][..1]);
            put(32 + block * 32 + 16 + row, &raw[192 + 2 * block + 1..][..1]);
        }
    }
}

/// Scale and minimum of sub-block j of Q4_K and Q5_K, 6 bits each in 12 bytes.
///
/// ```text
/// byte 0 … 3   m j+4 high 2 bits below: | s j+4 high 2 | s j      |   j = 0 … 3
/// byte 4 … 7                            | m j+4 high 2 | m j      |
/// byte 8 … 11                           | m j+4 low 4  | s j+4 low 4 |
/// ```
fn six_bits(bytes: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (bytes[j] & 63, bytes[j + 4] & 63);
    }
    (bytes[j + 4] & 15 | bytes[j - 4] >> 6 << 4, bytes[j + 4] >> 4 | bytes[j] >> 6 << 4)
}

/// The unsigned codes of 32 columns: the whole block, or part `part` of a superblock.
fn codes_of(tensor_type: TensorType, raw: &[u8], part: usize) -> [u8; BLOCK] {
    // Blocks of 32 hold column j and j + 16 in one byte, superblocks columns j and j + 32 (of Q6_K: j and j + 64).
    let pairs = |codes: &[u8], j: usize| codes[j % 16] >> (j / 16 * 4) & 15;
    let high = |bits: &[u8], j: usize| bits[j / 8] >> (j % 8) & 1;
    let super_pairs = |codes: &[u8], j: usize| codes[part / 2 * 32 + j] >> (part % 2 * 4) & 15;
    std::array::from_fn(|j| match tensor_type {
        TensorType::Q4_0 => pairs(&raw[2..], j),
        TensorType::Q4_1 => pairs(&raw[4..], j),
        TensorType::Q5_0 => pairs(&raw[6..], j) | high(&raw[2..], j) << 4,
        TensorType::Q5_1 => pairs(&raw[8..], j) | high(&raw[4..], j) << 4,
        TensorType::Q8_0 => raw[2 + j] ^ 0x80,
        TensorType::Q4_K => super_pairs(&raw[16..], j),
        TensorType::Q5_K => super_pairs(&raw[48..], j) | (raw[16 + j] >> part & 1) << 4,
        TensorType::Q6_K => {
            let low = raw[part / 4 * 64 + part % 2 * 32 + j] >> (part % 4 / 2 * 4) & 15;
            low | (raw[128 + part / 4 * 32 + j] >> (part % 4 * 2) & 3) << 4
        }
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => unreachable!("numbers without blocks are interleaved"),
    })
}

/// Spreads 32 codes of one row over the vectors of a block, as drawn in `panel.rs`.
fn pack_codes(bits: u32, codes: &[u8; BLOCK], row: usize, block: &mut [u8]) {
    for (column, code) in codes.iter().enumerate() {
        let (quad, byte) = (column / 4, row * 4 + column % 4);
        if bits == 8 {
            block[quad * 64 + byte] = *code;
            continue;
        }
        block[quad % 4 * 64 + byte] |= (code & 15) << (quad / 4 * 4);
        match bits {
            5 => block[256 + byte] |= (code >> 4) << quad,
            6 => block[256 + quad / 4 * 64 + byte] |= (code >> 4) << (quad % 4 * 2),
            _ => {}
        }
    }
}

/// An address that threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: only an address; the users write disjoint parts.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// # Safety
    /// `offset` lies inside the allocation.
    unsafe fn at(self, offset: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}
