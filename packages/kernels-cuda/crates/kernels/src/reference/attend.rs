//! Attention of a tile of queries over one block of ranks.
//!
//! A score is summed over the dimensions in order; the softmax weights of a query in 16 lanes by rank; its output over the ranks in
//! order. Nothing of that depends on where a cell lies, on how the view is cut into pieces, or on the other queries of the tile.

use crate::lanes::{LANES, Lanes, Plain16, Readable, Wide, exp, multiply_add, sum};
use crate::level::{AttendBlock, Partial, Piece, RANK_BLOCK};

/// Scores of one query; room for one vector past the block.
const ROW: usize = RANK_BLOCK + LANES;
/// Queries that share each load of a key or a value.
const TOGETHER: usize = 4;
/// Dimensions of a value that are summed at once.
const WIDTH: usize = 32;

/// In plain Rust.
#[inline(always)]
pub fn attend<const FUSED: bool, T: Readable>(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
    attend_wide::<FUSED, Plain16, T>(block, out);
}

/// In the registers of `W`. `FUSED` is whether they multiply and add with one rounding.
#[inline(always)]
pub fn attend_wide<const FUSED: bool, W: Wide, T: Readable>(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
    let queries = block.limits.len();
    let size = block.cells.shape().value_size;
    assert!(queries * ROW <= out.scratch.len() && queries * size <= out.sums.len());
    scores::<FUSED, W, T>(block, out.scratch);
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
            group.for_each(|query| values::<FUSED, W, T, 1>(block, query, block.ranks(query), out));
            continue;
        }
        // Each query in rank order: what it reads alone before the others do, what all read, what it reads alone after.
        group.clone().for_each(|query| values::<FUSED, W, T, 1>(block, query, block.ranks(query).start..start, out));
        values::<FUSED, W, T, TOGETHER>(block, first, start..end, out);
        group.for_each(|query| values::<FUSED, W, T, 1>(block, query, end..block.ranks(query).end, out));
    }
}

/// scratch[query][rank] = query · key for every rank of the block.
#[inline(always)]
fn scores<const FUSED: bool, W: Wide, T: Readable>(block: &AttendBlock<'_>, scratch: &mut [f32]) {
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
                chunk::<FUSED, W, T, TOGETHER>(block, piece, offset, width, rows, &mut scratch[query * ROW + rank + offset..]);
                query += TOGETHER;
            }
            while query < queries {
                let rows = &rotated[query * size..];
                chunk::<FUSED, W, T, 1>(block, piece, offset, width, rows, &mut scratch[query * ROW + rank + offset..]);
                query += 1;
            }
        }
        rank += piece.count as usize;
    }
}

/// Scores of up to 16 cells of a piece against `QUERIES` queries; `out[query · ROW + cell]`.
#[inline(always)]
fn chunk<const FUSED: bool, W: Wide, T: Readable, const QUERIES: usize>(
    block: &AttendBlock<'_>,
    piece: &Piece,
    offset: usize,
    width: usize,
    queries: &[f32],
    out: &mut [f32],
) {
    let shape = block.cells.shape();
    let (size, page_size) = (shape.key_size, shape.page_size);
    let first = piece.first as usize + offset;
    assert!((piece.page as usize) < shape.pages && first + width <= page_size && block.kv_head < shape.kv_heads);
    // SAFETY: keys of a head in a page are `size · page_size` numbers, and no thread writes cells while a layer attends.
    let keys = unsafe { std::slice::from_raw_parts(block.cells.keys::<T>(piece.page as usize, block.kv_head), size * page_size) };
    let rows: [&[f32]; QUERIES] = std::array::from_fn(|query| &queries[query * size..][..size]);
    let mut sums = [W::splat(0.0); QUERIES];
    for dimension in 0..size {
        let mut key: Lanes = [0.0; LANES];
        let slots = &keys[dimension * page_size + first..][..width];
        if let Ok(slots) = <&[T; LANES]>::try_from(slots) {
            for lane in 0..LANES {
                key[lane] = slots[lane].read();
            }
        } else {
            for (key, slot) in key.iter_mut().zip(slots) {
                *key = slot.read();
            }
        }
        let key = W::load(&key);
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
fn values<const FUSED: bool, W: Wide, T: Readable, const QUERIES: usize>(
    block: &AttendBlock<'_>,
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
        columns::<W, T, QUERIES, { WIDTH / LANES }>(block, query, ranks.clone(), dimension, out);
        dimension += WIDTH;
    }
    while dimension + LANES <= size {
        columns::<W, T, QUERIES, 1>(block, query, ranks.clone(), dimension, out);
        dimension += LANES;
    }
    if dimension < size {
        last_columns::<FUSED, T>(block, query..query + QUERIES, ranks, dimension, out);
    }
}

/// Calls `each` with rank and value, in rank order.
#[inline(always)]
fn each_value<T: Readable>(block: &AttendBlock<'_>, ranks: std::ops::Range<usize>, mut each: impl FnMut(usize, &[T])) {
    let shape = block.cells.shape();
    let (size, page_size) = (shape.value_size, shape.page_size);
    let mut rank = 0;
    for piece in block.pieces {
        if rank >= ranks.end {
            break;
        }
        let (first, end) = (ranks.start.max(rank), ranks.end.min(rank + piece.count as usize));
        assert!((piece.page as usize) < shape.pages && (piece.first + piece.count) as usize <= page_size);
        // SAFETY: values of a head in a page are `page_size · size` numbers, and no thread writes cells while a layer attends.
        let values = unsafe { std::slice::from_raw_parts(block.cells.values::<T>(piece.page as usize, block.kv_head), page_size * size) };
        for at in first..end {
            each(at, &values[(piece.first as usize + at - rank) * size..][..size]);
        }
        rank += piece.count as usize;
    }
}

/// `VECTORS` vectors of dimensions from `dimension` on.
#[inline(always)]
fn columns<W: Wide, T: Readable, const QUERIES: usize, const VECTORS: usize>(
    block: &AttendBlock<'_>,
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
    each_value::<T>(block, ranks, |rank, value| {
        let value = &value[dimension..][..VECTORS * LANES];
        let numbers: [W; VECTORS] = std::array::from_fn(|vector| {
            let value: &[T; LANES] = value[vector * LANES..][..LANES].try_into().expect("a vector of dimensions");
            let mut wide = [0.0; LANES];
            for lane in 0..LANES {
                wide[lane] = value[lane].read();
            }
            W::load(&wide)
        });
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
fn last_columns<const FUSED: bool, T: Readable>(
    block: &AttendBlock<'_>,
    queries: std::ops::Range<usize>,
    ranks: std::ops::Range<usize>,
    dimension: usize,
    out: &mut Partial<'_>,
) {
    let size = block.cells.shape().value_size;
    for query in queries {
        let (weights, sums) = (&out.scratch[query * ROW..][..ROW], &mut out.sums[query * size + dimension..(query + 1) * size]);
        each_value::<T>(block, ranks.clone(), |rank, value| {
            for (sum, value) in sums.iter_mut().zip(&value[dimension..]) {
                *sum = multiply_add::<FUSED>(value.read(), weights[rank], *sum);
            }
        });
    }
}
