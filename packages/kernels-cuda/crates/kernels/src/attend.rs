//! Attention of a tile of queries over one block of ranks, with vectors.
//!
//! The sums are those of `reference/attend.rs`, in the same order, so the bits are the same on every level that fuses multiply and add:
//! a score over the dimensions in order; softmax weights in 16 lanes by rank; an output over the ranks in order. Where a cell lies, how
//! the view is cut and which queries share a load changes none of them.
//!
//! * Scores: keys are dimension-major, so one load is one dimension of 16 cells. Queries times *chunks* (up to 16 neighbouring slots of a
//!   page) are summed together in registers.
//! * Outputs: values are slot-major, so one load is 16 dimensions of a cell. Queries times dimensions are summed together over all ranks.

pub mod quantised;

use std::ops::Range;

use crate::level::{AttendBlock, Partial, Piece, RANK_BLOCK};
use crate::reference::attend::soften;
use crate::vector::{LANES, Loadable, Vector};

/// Queries of a tile at most that share a load.
const QUERIES_TOGETHER: usize = 6;

/// Scores of one query; room for one vector past the block.
const ROW: usize = RANK_BLOCK + LANES;

/// Ranks whose values are read again for the next dimensions while they are still in the nearest cache.
const NEAR: usize = 128;

/// Calls a function with a number as constant.
macro_rules! with_constant {
    ($value:expr, $name:ident in [$($constant:literal)*] => $body:expr) => {
        match $value {
            $($constant => { const $name: usize = $constant; $body })*
            _ => unreachable!("no tile of that size"),
        }
    };
}

use with_constant;

/// # Safety
/// The processor has the instructions of `V`.
///
/// A tile takes at most `QUERIES` queries (1 … 6), `CHUNKS` chunks of keys (1 or 2) and `WIDTH` vectors of a value: as many as the
/// processor has registers for `QUERIES · CHUNKS` and `QUERIES · WIDTH` sums.
#[inline(always)]
pub unsafe fn attend<V: Vector, T: Loadable, const QUERIES: usize, const CHUNKS: usize, const WIDTH: usize>(
    block: &AttendBlock<'_>,
    out: &mut Partial<'_>,
) {
    let queries = block.limits.len();
    check(block, out);
    let groups = queries.div_ceil(QUERIES.min(QUERIES_TOGETHER));
    // Groups of nearly one size: 16 queries by at most 6 are 6, 5, 5.
    let group = |number: usize| number * queries / groups..(number + 1) * queries / groups;
    // SAFETY: shapes are checked, the instructions are the caller's promise.
    unsafe { scores::<V, T, CHUNKS>(block, out.scratch, groups, group) };
    for query in 0..queries {
        let scores = &mut out.scratch[query * ROW..][..ROW];
        let (maximum, weight) = soften::<true>(scores, block.ranks(query), block.soft_cap);
        (out.maxima[query], out.weights[query]) = (maximum, weight);
    }
    out.sums[..queries * block.cells.shape().value_size].fill(0.0);
    for number in 0..groups {
        let group = group(number);
        let start = group.clone().map(|query| block.ranks(query).start).max().expect("a query");
        let end = group.clone().map(|query| block.ranks(query).end).min().expect("a query");
        // SAFETY: as above.
        unsafe {
            if start >= end {
                for query in group {
                    outputs::<V, T, 1, WIDTH>(block, query, block.ranks(query), out);
                }
                continue;
            }
            // Each query in rank order: what it reads alone before the others do, what all read, what it reads alone after.
            for query in group.clone() {
                outputs::<V, T, 1, WIDTH>(block, query, block.ranks(query).start..start, out);
            }
            with_constant!(group.len(), Q in [1 2 3 4 5 6] => outputs::<V, T, Q, WIDTH>(block, group.start, start..end, out));
            for query in group {
                outputs::<V, T, 1, WIDTH>(block, query, end..block.ranks(query).end, out);
            }
        }
    }
}

/// Everything that addresses are made from.
fn check(block: &AttendBlock<'_>, out: &Partial<'_>) {
    let shape = block.cells.shape();
    let queries = block.limits.len();
    let ranks: usize = block.pieces.iter().map(|piece| piece.count as usize).sum();
    assert!(block.limits.iter().all(|limit| *limit as usize <= ranks) && ranks <= RANK_BLOCK && block.kv_head < shape.kv_heads);
    assert!(out.scratch.len() >= queries * ROW && out.sums.len() >= queries * shape.value_size);
    for piece in block.pieces {
        assert!((piece.page as usize) < shape.pages && (piece.first + piece.count) as usize <= shape.page_size);
        assert!((piece.rotation as usize + 1) * queries * shape.key_size <= block.queries.len());
    }
}

/// Up to 16 cells of a page, neighbours in slot and rank: lanes `lane … lane + count` of a load at `keys`.
#[derive(Clone, Copy)]
struct Chunk<T> {
    keys: *const T,
    lane: usize,
    count: usize,
    rank: usize,
    rotation: u32,
}

/// Cuts pieces into chunks. Where a page is a whole number of vectors, a chunk's load is aligned to the vector that holds it, else it
/// starts with its first cell.
struct Chunks<'a, T> {
    block: &'a AttendBlock<'a>,
    pieces: std::slice::Iter<'a, Piece>,
    piece: Option<Piece>,
    rank: usize,
    whole_vectors: bool,
    numbers: std::marker::PhantomData<T>,
}

impl<'a, T: Loadable> Chunks<'a, T> {
    fn new(block: &'a AttendBlock<'a>) -> Self {
        let whole_vectors = block.cells.shape().page_size.is_multiple_of(LANES);
        Self { block, pieces: block.pieces.iter(), piece: None, rank: 0, whole_vectors, numbers: std::marker::PhantomData }
    }
}

impl<T: Loadable> Iterator for Chunks<'_, T> {
    type Item = Chunk<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Chunk<T>> {
        let piece = match self.piece.take() {
            Some(piece) => piece,
            None => *self.pieces.next()?,
        };
        let first = piece.first as usize;
        let start = if self.whole_vectors { first / LANES * LANES } else { first };
        let count = (piece.count as usize).min(start + LANES - first);
        let keys = self.block.cells.keys::<T>(piece.page as usize, self.block.kv_head).wrapping_add(start);
        let chunk = Chunk { keys: keys.cast_const(), lane: first - start, count, rank: self.rank, rotation: piece.rotation };
        self.rank += count;
        let left = piece.count - count as u16;
        if left > 0 {
            self.piece = Some(Piece { first: piece.first + count as u16, count: left, ..piece });
        }
        Some(chunk)
    }
}

/// scratch[query][rank] = query · key, for every rank that some query reads.
#[inline(always)]
unsafe fn scores<V: Vector, T: Loadable, const CHUNKS: usize>(
    block: &AttendBlock<'_>,
    scratch: &mut [f32],
    groups: usize,
    group: impl Fn(usize) -> Range<usize>,
) {
    let queries = block.limits.len();
    let highest = *block.limits.iter().max().unwrap_or(&0) as usize;
    let (size, page_size) = (block.cells.shape().key_size, block.cells.shape().page_size);
    let whole = page_size.is_multiple_of(LANES);
    let mut chunks = Chunks::<T>::new(block).take_while(|chunk| chunk.rank < highest).peekable();
    while let Some(first) = chunks.next() {
        let rotated = &block.queries[first.rotation as usize * queries * size..][..queries * size];
        let second = if whole && CHUNKS > 1 { chunks.next_if(|second| second.rotation == first.rotation) } else { None };
        let next = chunks.peek().map_or(first.keys, |next| next.keys);
        for number in 0..groups {
            let group = group(number);
            let rows = rotated[group.start * size..].as_ptr();
            let to = scratch[group.start * ROW..].as_mut_ptr();
            // SAFETY: `check` holds chunks inside pages, ranks inside rows, and queries inside both.
            unsafe {
                with_constant!(group.len(), Q in [1 2 3 4 5 6] => match second {
                    Some(second) => dot::<V, T, Q, 2>([first, second], next, rows, size, page_size, to),
                    None if whole => dot::<V, T, Q, 1>([first], next, rows, size, page_size, to),
                    None => dot_part::<V, T, Q>(first, rows, size, page_size, to),
                });
            }
        }
    }
}

/// Scores of chunks against queries. `next`: keys to ask for meanwhile.
#[inline(always)]
unsafe fn dot<V: Vector, T: Loadable, const Q: usize, const C: usize>(
    chunks: [Chunk<T>; C],
    next: *const T,
    queries: *const f32,
    size: usize,
    page_size: usize,
    to: *mut f32,
) {
    // SAFETY: keys of a chunk are `size` vectors `page_size` apart, queries `size` numbers each, and scores go to rank … rank + count.
    unsafe {
        let mut sums = [[V::zero(); Q]; C];
        for dimension in 0..size {
            V::prefetch(next.wrapping_add(dimension * page_size));
            let mut keys = [V::zero(); C];
            for c in 0..C {
                keys[c] = T::load(chunks[c].keys.add(dimension * page_size));
            }
            for q in 0..Q {
                let number = V::splat(*queries.add(q * size + dimension));
                for c in 0..C {
                    sums[c][q] = keys[c].multiply_add(number, sums[c][q]);
                }
            }
        }
        for (chunk, sums) in chunks.iter().zip(sums) {
            for (q, sum) in sums.into_iter().enumerate() {
                let to = to.add(q * ROW + chunk.rank);
                if chunk.count == LANES { sum.store(to) } else { sum.store_lanes(chunk.lane, chunk.count, to) }
            }
        }
    }
}

/// As `dot`, for pages that hold no whole vectors.
#[inline(always)]
unsafe fn dot_part<V: Vector, T: Loadable, const Q: usize>(
    chunk: Chunk<T>,
    queries: *const f32,
    size: usize,
    page_size: usize,
    to: *mut f32,
) {
    // SAFETY: as in `dot`; only `count` numbers of a dimension are read.
    unsafe {
        let mut sums = [V::zero(); Q];
        for dimension in 0..size {
            let keys = T::load_lanes::<V>(chunk.keys.add(dimension * page_size), chunk.count);
            for q in 0..Q {
                sums[q] = keys.multiply_add(V::splat(*queries.add(q * size + dimension)), sums[q]);
            }
        }
        for (q, sum) in sums.into_iter().enumerate() {
            sum.store_lanes(0, chunk.count, to.add(q * ROW + chunk.rank));
        }
    }
}

/// sums[query] += Σ weight · value over `ranks`, in rank order, for `Q` queries from `query` on.
#[inline(always)]
unsafe fn outputs<V: Vector, T: Loadable, const Q: usize, const WIDTH: usize>(
    block: &AttendBlock<'_>,
    query: usize,
    ranks: Range<usize>,
    out: &mut Partial<'_>,
) {
    let size = block.cells.shape().value_size;
    if ranks.is_empty() {
        return;
    }
    // SAFETY: `check` holds everything inside its slice; dimensions end at `size`.
    unsafe {
        let (weights, sums) = (out.scratch[query * ROW..].as_ptr(), out.sums[query * size..].as_mut_ptr());
        for first in ranks.clone().step_by(NEAR) {
            let ranks = first..ranks.end.min(first + NEAR);
            let mut dimension = 0;
            while dimension + WIDTH * LANES <= size {
                columns::<V, T, Q, WIDTH>(block, weights, ranks.clone(), dimension, sums);
                dimension += WIDTH * LANES;
            }
            while dimension + LANES <= size {
                columns::<V, T, Q, 1>(block, weights, ranks.clone(), dimension, sums);
                dimension += LANES;
            }
            if dimension < size {
                last_columns::<V, T, Q>(block, weights, ranks, dimension, sums);
            }
        }
    }
}

/// The cells of some ranks in order: rank, and address of the values. A loop over it asks for the next piece's values meanwhile.
struct CellsOf<'a, T> {
    block: &'a AttendBlock<'a>,
    ranks: Range<usize>,
    /// Of the piece that holds `ranks.start`, and the rank after its last cell.
    piece: usize,
    piece_end: usize,
    /// Values of the cell at `ranks.start`.
    values: *const T,
    /// How far, in bytes, the next piece's cells lie from this one's.
    ahead: usize,
}

impl<'a, T: Loadable> CellsOf<'a, T> {
    /// `ranks` is not empty and inside the block.
    #[inline(always)]
    fn new(block: &'a AttendBlock<'a>, ranks: Range<usize>) -> Self {
        let (mut piece, mut first) = (0, 0);
        while first + block.pieces[piece].count as usize <= ranks.start {
            first += block.pieces[piece].count as usize;
            piece += 1;
        }
        let mut cells = Self { block, ranks, piece, piece_end: first, values: std::ptr::null(), ahead: 0 };
        cells.enter(cells.ranks.start - first);
        cells
    }

    /// Goes to a cell of the piece.
    #[inline(always)]
    fn enter(&mut self, cell: usize) {
        let size = self.block.cells.shape().value_size;
        let address = |piece: &Piece| {
            let values = self.block.cells.values::<T>(piece.page as usize, self.block.kv_head).cast_const();
            values.wrapping_add(piece.first as usize * size)
        };
        let piece = &self.block.pieces[self.piece];
        let next = self.block.pieces.get(self.piece + 1).map_or(address(piece), address);
        self.piece_end += piece.count as usize;
        self.values = address(piece).wrapping_add(cell * size);
        self.ahead = next.addr().wrapping_sub(address(piece).addr());
    }

    #[inline(always)]
    fn next<V: Vector>(&mut self) -> Option<(usize, *const T)> {
        let rank = self.ranks.start;
        if rank == self.ranks.end {
            return None;
        }
        if rank == self.piece_end {
            self.piece += 1;
            self.enter(0);
        }
        let values = self.values;
        let ahead = values.cast::<u8>().wrapping_add(self.ahead);
        V::prefetch(ahead);
        V::prefetch(ahead.wrapping_add(64));
        self.ranks.start += 1;
        self.values = values.wrapping_add(self.block.cells.shape().value_size);
        Some((rank, values))
    }
}

/// `W` vectors of dimensions for `Q` queries.
#[inline(always)]
unsafe fn columns<V: Vector, T: Loadable, const Q: usize, const W: usize>(
    block: &AttendBlock<'_>,
    weights: *const f32,
    ranks: Range<usize>,
    dimension: usize,
    sums: *mut f32,
) {
    let size = block.cells.shape().value_size;
    // SAFETY: as in `outputs`.
    unsafe {
        let at = |q: usize, w: usize| sums.add(q * size + dimension + w * LANES);
        let mut own = [[V::zero(); W]; Q];
        for q in 0..Q {
            for w in 0..W {
                own[q][w] = V::load(at(q, w));
            }
        }
        let mut cells = CellsOf::<T>::new(block, ranks);
        while let Some((rank, values)) = cells.next::<V>() {
            let mut vectors = [V::zero(); W];
            for w in 0..W {
                vectors[w] = T::load(values.add(dimension + w * LANES));
            }
            for q in 0..Q {
                let weight = V::splat(*weights.add(q * ROW + rank));
                for w in 0..W {
                    own[q][w] = vectors[w].multiply_add(weight, own[q][w]);
                }
            }
        }
        for q in 0..Q {
            for w in 0..W {
                own[q][w].store(at(q, w));
            }
        }
    }
}

/// The dimensions after the last whole vector.
#[inline(always)]
unsafe fn last_columns<V: Vector, T: Loadable, const Q: usize>(
    block: &AttendBlock<'_>,
    weights: *const f32,
    ranks: Range<usize>,
    dimension: usize,
    sums: *mut f32,
) {
    let size = block.cells.shape().value_size;
    let count = size - dimension;
    // SAFETY: as in `outputs`; only `count` numbers of a cell are read and written.
    unsafe {
        let mut own = [V::zero(); Q];
        for q in 0..Q {
            own[q] = f32::load_lanes(sums.add(q * size + dimension), count);
        }
        let mut cells = CellsOf::<T>::new(block, ranks);
        while let Some((rank, values)) = cells.next::<V>() {
            let values = T::load_lanes::<V>(values.add(dimension), count);
            for q in 0..Q {
                own[q] = values.multiply_add(V::splat(*weights.add(q * ROW + rank)), own[q]);
            }
        }
        for (q, own) in own.into_iter().enumerate() {
            own.store_lanes(0, count, sums.add(q * size + dimension));
        }
    }
}
