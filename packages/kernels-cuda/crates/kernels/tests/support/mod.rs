//! What the tests of the levels share.
#![allow(dead_code, reason = "each test file uses its part")]

use palimpsest_kernels::{CellDtype, CellShape, Cells, Piece};

/// xorshift64*: the tests print its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// 0 … limit − 1
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// −1 … 1
    pub fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}

/// Cells in rank order, each a key and a value for each head: `[rank][head][size]`.
pub struct Sequence {
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
}

/// How a sequence of cells may lie in pages.
pub struct Layout {
    pub cells: Cells,
    pub pieces: Vec<Piece>,
}

/// Lays `ranks` cells into pages of `page_size` in random order, with gaps, and names them in pieces; `rotations[rank]` says which
/// rotation of the query reads a cell.
pub fn lay(
    random: &mut Random,
    sequence: &Sequence,
    kv_heads: usize,
    size: usize,
    page_size: usize,
    dtype: CellDtype,
    rotations: &[u32],
) -> Layout {
    let ranks = rotations.len();
    let mut slots = Vec::new();
    let mut slot = random.below(page_size);
    for _ in 0..ranks {
        slots.push(slot);
        slot += 1;
        if random.below(23) == 0 {
            slot += 1 + random.below(3);
        }
    }
    let used = slot / page_size + 1;
    let mut pages: Vec<usize> = (0..used + 2).collect();
    for i in (1..pages.len()).rev() {
        pages.swap(i, random.below(i + 1));
    }
    let shape = CellShape { layers: 1, kv_heads, key_size: size, value_size: size, pages: used + 2, page_size, dtype };
    let cells = Cells::new(shape).unwrap();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut last_slot = usize::MAX;
    for (rank, slot) in slots.iter().enumerate() {
        let (page, offset) = (pages[slot / page_size], slot % page_size);
        for head in 0..kv_heads {
            let from = (rank * kv_heads + head) * size;
            // SAFETY: one thread.
            unsafe {
                let (key, value) = (&sequence.keys[from..from + size], &sequence.values[from..from + size]);
                cells.layer(0).store(page * page_size + offset, head, key, value);
            }
        }
        match pieces.last_mut() {
            Some(piece) if offset > 0 && last_slot + 1 == *slot && piece.rotation == rotations[rank] && random.below(40) > 0 => {
                piece.count += 1;
            }
            _ => pieces.push(Piece { page: page as u32, first: offset as u16, count: 1, rotation: rotations[rank] }),
        }
        last_slot = *slot;
    }
    Layout { cells, pieces }
}
