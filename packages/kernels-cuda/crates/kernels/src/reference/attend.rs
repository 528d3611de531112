//! Attention of a tile of queries over one block of ranks.
//!
//! A score is summed over the dimensions in order; the softmax weights of a query in 16 lanes by rank; its output over the ranks in
//! order. Nothing of that depends on where a cell lies, on how the view is cut into pieces, or on the other queries of the tile.

use std::marker::PhantomData;

use crate::cells::Quantised;
use crate::lanes::{LANES, Lanes, Plain16, Readable, Wide, exp, multiply_add, sum};
use crate::level::{AttendBlock, Partial, Piece, RANK_BLOCK};

/// Scores of one query; room for one vector past the block.
const ROW: usize = RANK_BLOCK + LANES;
/// Queries that share each load of a key or a value.
const TOGETHER: usize = 4;
/// Dimensions of a value that are summed at once.
const WIDTH: usize = 32;

/// Cells of one head in one page, read as f32.
pub trait PageCells<'a>: Copy {
    /// `page` is inside the pool.
    fn of(block: &AttendBlock<'a>, page: usize) -> Self;
    /// A dimension of the keys of slots first … first + width, at most 16; the other lanes 0.
    fn keys(self, dimension: usize, first: usize, width: usize) -> Lanes;
    /// Dimensions of a slot's value, `width` from `dimension` on, at most 16; the other lanes 0.
    fn values(self, slot: usize, dimension: usize, width: usize) -> Lanes;
}

/// Cells that are plain numbers.
#[derive(Clone, Copy)]
pub struct NumberCells<'a, T> {
    keys: &'a [T],
    values: &'a [T],
    page_size: usize,
    value_size: usize,
}

impl<'a, T: Readable> PageCells<'a> for NumberCells<'a, T> {
    #[inline(always)]
    fn of(block: &AttendBlock<'a>, page: usize) -> Self {
        let shape = block.cells.shape();
        assert!(page < shape.pages && block.kv_head < shape.kv_heads);
        let (keys, values) = (block.cells.keys::<T>(page, block.kv_head), block.cells.values::<T>(page, block.kv_head));
        // SAFETY: of a head in a page keys and values are so many numbers, and no thread writes cells while a layer attends.
        let (keys, values) = unsafe {
            let of = |start: *mut T, size: usize| std::slice::from_raw_parts(start.cast_const(), size * shape.page_size);
            (of(keys, shape.key_size), of(values, shape.value_size))
        };
        Self { keys, values, page_size: shape.page_size, value_size: shape.value_size }
    }

    #[inline(always)]
    fn keys(self, dimension: usize, first: usize, width: usize) -> Lanes {
        widen(&self.keys[dimension * self.page_size + first..][..width])
    }

    #[inline(always)]
    fn values(self, slot: usize, dimension: usize, width: usize) -> Lanes {
        widen(&self.values[slot * self.value_size + dimension..][..width])
    }
}

#[inline(always)]
fn widen<T: Readable>(numbers: &[T]) -> Lanes {
    let mut lanes = [0.0; LANES];
    if let Ok(numbers) = <&[T; LANES]>::try_from(numbers) {
        for lane in 0..LANES {
            lanes[lane] = numbers[lane].read();
        }
    } else {
        lanes.iter_mut().zip(numbers).for_each(|(lane, number)| *lane = number.read());
    }
    lanes
}

/// Cells of codes and scales.
#[derive(Clone, Copy)]
pub struct CodeCells<'a> {
    layout: Quantised,
    page: *const u8,
    head: usize,
    page_size: usize,
    cells: PhantomData<&'a u8>,
}

impl<'a> PageCells<'a> for CodeCells<'a> {
    #[inline(always)]
    fn of(block: &AttendBlock<'a>, page: usize) -> Self {
        let shape = block.cells.shape();
        assert!(page < shape.pages && block.kv_head < shape.kv_heads);
        let layout = Quantised::of(shape);
        let page = block.cells.quantised_page(&layout, page);
        Self { layout, page, head: block.kv_head, page_size: shape.page_size, cells: PhantomData }
    }

    #[inline(always)]
    fn keys(self, dimension: usize, first: usize, width: usize) -> Lanes {
        assert!(first + width <= self.page_size);
        let mut lanes = [0.0; LANES];
        for (lane, number) in lanes[..width].iter_mut().enumerate() {
            // SAFETY: slots are inside the page, as asserted, dimensions by the caller; no thread writes cells while a layer attends.
            *number = unsafe { self.layout.key(self.page, self.head, first + lane, dimension) };
        }
        lanes
    }

    #[inline(always)]
    fn values(self, slot: usize, dimension: usize, width: usize) -> Lanes {
        assert!(slot < self.page_size);
        let mut lanes = [0.0; LANES];
        for (lane, number) in lanes[..width].iter_mut().enumerate() {
            // SAFETY: as above.
            *number = unsafe { self.layout.value(self.page, self.head, slot, dimension + lane) };
        }
        lanes
    }
}

/// In plain Rust.
#[inline(always)]
pub fn attend<'a, const FUSED: bool, P: PageCells<'a>>(block: &AttendBlock<'a>, out: &mut Partial<'_>) {
    attend_wide::<FUSED, Plain16, P>(block, out);
}

/// In the registers of `W`. `FUSED` is whether they multiply and add with one rounding.
#[inline(always)]
pub fn attend_wide<'a, const FUSED: bool, W: Wide, P: PageCells<'a>>(block: &AttendBlock<'a>, out: &mut Partial<'_>) {
    let queries = block.limits.len();
    let size = block.cells.shape().value_size;
    assert!(queries * ROW <= out.scratch.len() && queries * size <= out.sums.len());
    scores::<W, P>(block, out.scratch);
    for query in 0..queries {
        let (maximum, weight) = soften::<FUSED>(&mut out.scratch[query * ROW..][..ROW], block.ranks(query), block.soft_cap);
        out.maxima[query] = maximum;
        out.weights[query] = weight;
    }
    out.sums[..queries * size].fill(0.0);
    for first in (0..queries).step_by(TOGETHER) {
        let group = first..queries.min(first + TOGETHER);
        let start = group.clone().map(|query| block.ranks(query).start).max().expect("a query");
        let end = group.clone().map(|query| block.ranks(query).end).min().expect("a query");
        if group.len() < TOGETHER || start >= end {
            group.for_each(|query| values::<FUSED, W, P, 1>(block, query, block.ranks(query), out));
            continue;
        }
        // Each query in rank order: what it reads alone before the others do, what all read, what it reads alone after.
        group.clone().for_each(|query| values::<FUSED, W, P, 1>(block, query, block.ranks(query).start..start, out));
        values::<FUSED, W, P, TOGETHER>(block, first, start..end, out);
        group.for_each(|query| values::<FUSED, W, P, 1>(block, query, end..block.ranks(query).end, out));
    }
}

/// scratch[query][rank] = query · key for every rank of the block.
#[inline(always)]
fn scores<'a, W: Wide, P: PageCells<'a>>(block: &AttendBlock<'a>, scratch: &mut [f32]) {
    let (queries, size) = (block.limits.len(), block.cells.shape().key_size);
    let highest = *block.limits.iter().max().unwrap_or(&0) as usize;
    let mut rank = 0;
    for piece in block.pieces {
        if rank >= highest {
            break;
        }
        let rotated = &block.queries[piece.rotation as usize * queries * size..][..queries * size];
        for offset in (0..piece.count as usize).step_by(LANES) {
            let width = LANES.min(piece.count as usize - offset);
            let mut query = 0;
            while query + TOGETHER <= queries {
                let rows = &rotated[query * size..];
                chunk::<W, P, TOGETHER>(block, piece, offset, width, rows, &mut scratch[query * ROW + rank + offset..]);
                query += TOGETHER;
            }
            while query < queries {
                let rows = &rotated[query * size..];
                chunk::<W, P, 1>(block, piece, offset, width, rows, &mut scratch[query * ROW + rank + offset..]);
                query += 1;
            }
        }
        rank += piece.count as usize;
    }
}

/// Scores of up to 16 cells of a piece against `QUERIES` queries; `out[query · ROW + cell]`.
#[inline(always)]
fn chunk<'a, W: Wide, P: PageCells<'a>, const QUERIES: usize>(
    block: &AttendBlock<'a>,
    piece: &Piece,
    offset: usize,
    width: usize,
    queries: &[f32],
    out: &mut [f32],
) {
    let size = block.cells.shape().key_size;
    let page = P::of(block, piece.page as usize);
    let rows: [&[f32]; QUERIES] = std::array::from_fn(|query| &queries[query * size..][..size]);
    let mut sums = [W::splat(0.0); QUERIES];
    for dimension in 0..size {
        let key = W::load(&page.keys(dimension, piece.first as usize + offset, width));
        for query in 0..QUERIES {
            sums[query] = key.multiply_add(W::splat(rows[query][dimension]), sums[query]);
        }
    }
    for (query, sums) in sums.iter().enumerate() {
        out[query * ROW..][..width].copy_from_slice(&sums.store()[..width]);
    }
}

/// Turns the scores of `ranks` into exp(score − maximum), others in the vectors up to its end into 0. Returns maximum and sum.
#[inline(always)]
pub(crate) fn soften<const FUSED: bool>(scores: &mut [f32], ranks: std::ops::Range<usize>, soft_cap: f32) -> (f32, f32) {
    if ranks.is_empty() {
        return (f32::NEG_INFINITY, 0.0);
    }
    if soft_cap > 0.0 {
        for score in &mut scores[ranks.clone()] {
            *score = soft_cap * tanh::<FUSED>(*score / soft_cap);
        }
    }
    scores[..ranks.start].fill(f32::NEG_INFINITY);
    scores[ranks.end..ranks.end.next_multiple_of(LANES)].fill(f32::NEG_INFINITY);
    let (chunks, _) = scores[..ranks.end.next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let mut highest: Lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks.iter() {
        for lane in 0..LANES {
            highest[lane] = if chunk[lane] > highest[lane] { chunk[lane] } else { highest[lane] };
        }
    }
    let maximum = highest.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    let mut weights: Lanes = [0.0; LANES];
    for chunk in chunks.iter_mut() {
        for lane in 0..LANES {
            chunk[lane] = exp::<FUSED>(chunk[lane] - maximum);
            weights[lane] += chunk[lane];
        }
    }
    (maximum, sum(weights))
}

#[inline(always)]
fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let e = exp::<FUSED>(-2.0 * x.abs());
    ((1.0 - e) / (1.0 + e)).copysign(x)
}

/// sums[query] += Σ weight · value over `ranks`, in rank order, for `QUERIES` queries from `query` on.
#[inline(always)]
fn values<'a, const FUSED: bool, W: Wide, P: PageCells<'a>, const QUERIES: usize>(
    block: &AttendBlock<'a>,
    query: usize,
    ranks: std::ops::Range<usize>,
    out: &mut Partial<'_>,
) {
    let size = block.cells.shape().value_size;
    if ranks.is_empty() {
        return;
    }
    let mut dimension = 0;
    while dimension + WIDTH <= size {
        columns::<W, P, QUERIES, { WIDTH / LANES }>(block, query, ranks.clone(), dimension, out);
        dimension += WIDTH;
    }
    while dimension + LANES <= size {
        columns::<W, P, QUERIES, 1>(block, query, ranks.clone(), dimension, out);
        dimension += LANES;
    }
    if dimension < size {
        last_columns::<FUSED, P>(block, query..query + QUERIES, ranks, dimension, out);
    }
}

/// Calls `each` with rank, page and slot, in rank order.
#[inline(always)]
fn each_cell<'a, P: PageCells<'a>>(block: &AttendBlock<'a>, ranks: std::ops::Range<usize>, mut each: impl FnMut(usize, P, usize)) {
    let mut rank = 0;
    for piece in block.pieces {
        if rank >= ranks.end {
            break;
        }
        let (first, end) = (ranks.start.max(rank), ranks.end.min(rank + piece.count as usize));
        let page = P::of(block, piece.page as usize);
        for at in first..end {
            each(at, page, piece.first as usize + at - rank);
        }
        rank += piece.count as usize;
    }
}

/// `VECTORS` vectors of dimensions from `dimension` on.
#[inline(always)]
fn columns<'a, W: Wide, P: PageCells<'a>, const QUERIES: usize, const VECTORS: usize>(
    block: &AttendBlock<'a>,
    query: usize,
    ranks: std::ops::Range<usize>,
    dimension: usize,
    out: &mut Partial<'_>,
) {
    let size = block.cells.shape().value_size;
    let weights: [&[f32]; QUERIES] = std::array::from_fn(|q| &out.scratch[(query + q) * ROW..][..ROW]);
    let at = |q: usize, vector: usize| (query + q) * size + dimension + vector * LANES;
    let mut sums: [[W; VECTORS]; QUERIES] = std::array::from_fn(|q| {
        std::array::from_fn(|vector| W::load(out.sums[at(q, vector)..][..LANES].try_into().expect("a vector of dimensions")))
    });
    each_cell::<P>(block, ranks, |rank, page, slot| {
        let numbers: [W; VECTORS] = std::array::from_fn(|vector| W::load(&page.values(slot, dimension + vector * LANES, LANES)));
        for q in 0..QUERIES {
            let weight = W::splat(weights[q][rank]);
            for vector in 0..VECTORS {
                sums[q][vector] = numbers[vector].multiply_add(weight, sums[q][vector]);
            }
        }
    });
    for q in 0..QUERIES {
        for vector in 0..VECTORS {
            out.sums[at(q, vector)..][..LANES].copy_from_slice(&sums[q][vector].store());
        }
    }
}

/// The dimensions that fill no vector.
#[inline(always)]
fn last_columns<'a, const FUSED: bool, P: PageCells<'a>>(
    block: &AttendBlock<'a>,
    queries: std::ops::Range<usize>,
    ranks: std::ops::Range<usize>,
    dimension: usize,
    out: &mut Partial<'_>,
) {
    let size = block.cells.shape().value_size;
    for query in queries {
        let (weights, sums) = (&out.scratch[query * ROW..][..ROW], &mut out.sums[query * size + dimension..(query + 1) * size]);
        each_cell::<P>(block, ranks.clone(), |rank, page, slot| {
            for (sum, value) in sums.iter_mut().zip(page.values(slot, dimension, size - dimension)) {
                *sum = multiply_add::<FUSED>(value, weights[rank], *sum);
            }
        });
    }
}
