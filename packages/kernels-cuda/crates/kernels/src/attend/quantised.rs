//! Attention of a tile of queries over one block of ranks whose cells are int8 codes.
//!
//! Both sums run in integers (`bytes.rs`), so their bits depend on no order at all:
//!
//! * A score: for each block of 32 dimensions an integer, times the scales of query and cell; blocks are added in order.
//! * Softmax weights as everywhere (`soften`).
//! * An output: for each block of 32 dimensions the weights are multiplied by the cells' scales, become integers by the highest of them
//!   in the block of ranks, and are summed with the codes in one integer for each dimension.
//!
//! Nothing is asked for ahead: loads are few and wide, and every request that was tried (one, some or all lines of the next chunks) cost
//! more than it brought, by 3 to 40 %.
//!
//! Cells are taken by chunks, 16 neighbouring slots of a page: lanes that the view does not name are not stored (scores) or weigh
//! nothing (outputs).

use half::f16;

use crate::bytes::{Bytes, QUERY_MAX, QueryBlock, WEIGHT_MAX, highest};
use crate::cells::{CELL_BLOCK, Quantised};
use crate::level::{AttendBlock, Partial, RANK_BLOCK};
use crate::reference::attend::soften;
use crate::vector::LANES;

use super::{QUERIES_TOGETHER, ROW, check, with_constant};

/// Numbers of room for the integers of weights: two for every four slots, each of which holds a cell at least.
pub const WEIGHT_ROOM: usize = 2 * QUERIES_TOGETHER * RANK_BLOCK;

/// Weights below it come to nothing: their inverse would be infinite.
const SMALLEST: f32 = 1e-30;

/// Up to 16 cells of a page, neighbours in slot and rank: lanes `lane … lane + count` of the 16 slots from `start` on.
#[derive(Clone, Copy)]
struct Chunk {
    page: u32,
    rotation: u32,
    start: u16,
    rank: u16,
    lane: u8,
    count: u8,
}

impl Chunk {
    const NONE: Chunk = Chunk { page: 0, rotation: 0, start: 0, rank: 0, lane: 0, count: 0 };

    fn whole(&self) -> bool {
        self.count as usize == LANES
    }
}

/// A block's cells.
struct Cells<'a> {
    layout: Quantised,
    chunks: &'a [Chunk],
    /// Of page 0.
    head: *const u8,
}

impl Cells<'_> {
    #[inline(always)]
    fn at(&self, chunk: &Chunk, part: usize, stride: usize) -> *const u8 {
        self.head.wrapping_add(chunk.page as usize * self.layout.page + part + chunk.start as usize * stride)
    }

    #[inline(always)]
    fn keys(&self, chunk: &Chunk, block: usize) -> *const i8 {
        self.at(chunk, self.layout.key_codes, 4).wrapping_add(block * (CELL_BLOCK / 4) * self.layout.key_group).cast()
    }

    #[inline(always)]
    fn key_scales(&self, chunk: &Chunk, block: usize) -> *const f16 {
        self.at(chunk, self.layout.key_scales, size_of::<f16>()).wrapping_add(block * self.layout.scale_block).cast()
    }

    #[inline(always)]
    fn value_scales(&self, chunk: &Chunk, block: usize) -> *const f16 {
        self.at(chunk, self.layout.value_scales, size_of::<f16>()).wrapping_add(block * self.layout.scale_block).cast()
    }
}

/// # Safety
/// The processor has the instructions of `V`. `FUSED`: whether they multiply and add with one rounding.
#[inline(always)]
pub unsafe fn attend<V: Bytes, const FUSED: bool>(block: &AttendBlock<'_>, out: &mut Partial<'_>) {
    let shape = block.cells.shape();
    let queries = block.limits.len();
    check(block, out);
    assert!(out.scratch.len() >= AttendBlock::scratch(shape, block.queries.len().div_ceil(queries.max(1) * shape.key_size)));
    let layout = Quantised::of(shape);
    let ranks = *block.limits.iter().max().unwrap_or(&0) as usize;
    let mut list = [Chunk::NONE; RANK_BLOCK];
    let count = cut(block, ranks, &mut list);
    let cells =
        Cells { chunks: &list[..count], head: block.cells.quantised_page(&layout, 0).wrapping_add(block.kv_head * layout.head), layout };
    // The last chunk may go past what any query reads.
    let taken = cells.chunks.last().map_or(0, |chunk| (chunk.rank as usize + chunk.count as usize).max(ranks));
    let (scores, rest) = out.scratch.split_at_mut(queries * ROW);
    // SAFETY: f32 and what is stored here are plain numbers of four bytes' alignment; `scratch` has the room (asserted).
    let (weights, rotated) = unsafe {
        let (weights, rotated) = rest.split_at_mut(WEIGHT_ROOM);
        (weights.align_to_mut::<[u32; 2]>().1, rotated.align_to_mut::<QueryBlock>().1)
    };
    let groups = queries.div_ceil(QUERIES_TOGETHER);
    // SAFETY: shapes are checked, the instructions are the caller's promise.
    unsafe {
        quantise::<V>(block, rotated);
        for number in 0..groups {
            let (first, end) = (number * queries / groups, (number + 1) * queries / groups);
            with_constant!(end - first, Q in [1 2 3 4 5 6] => products::<V, Q>(block, &cells, rotated, first, scores));
        }
        for query in 0..queries {
            let range = block.ranks(query);
            let scores = &mut scores[query * ROW..][..ROW];
            (out.maxima[query], out.weights[query]) = soften::<FUSED>(scores, range.clone(), block.soft_cap);
            let end = if range.is_empty() { 0 } else { range.end };
            scores[end..taken].fill(0.0);
        }
        let mut offsets = [0u64; RANK_BLOCK];
        let fours = fours(&cells, &mut offsets);
        for number in 0..groups {
            let (first, end) = (number * queries / groups, (number + 1) * queries / groups);
            with_constant!(end - first, Q in [1 2 3 4 5 6] => {
                outputs::<V, Q>(shape.value_size, &cells, &offsets[..fours], &scores[first * ROW..], weights, &mut out.sums[first * shape.value_size..])
            });
        }
    }
}

/// Cuts pieces into chunks, those that begin before rank `ranks`.
fn cut(block: &AttendBlock<'_>, ranks: usize, list: &mut [Chunk; RANK_BLOCK]) -> usize {
    let (mut count, mut rank) = (0, 0);
    for piece in block.pieces {
        let (mut slot, end) = (piece.first as usize, (piece.first + piece.count) as usize);
        while slot < end && rank < ranks {
            let lane = slot % LANES;
            let cells = (end - slot).min(LANES - lane);
            list[count] = Chunk {
                page: piece.page,
                rotation: piece.rotation,
                start: (slot - lane) as u16,
                rank: rank as u16,
                lane: lane as u8,
                count: cells as u8,
            };
            count += 1;
            slot += cells;
            rank += cells;
        }
    }
    count
}

/// Offsets of every four slots that the chunks touch, relative to the codes of the head's values in page 0.
fn fours(cells: &Cells<'_>, offsets: &mut [u64; RANK_BLOCK]) -> usize {
    let mut count = 0;
    for chunk in cells.chunks {
        let page = chunk.page as usize * cells.layout.page + chunk.start as usize / 4 * cells.layout.value_group;
        for four in chunk.lane as usize / 4..=(chunk.lane + chunk.count - 1) as usize / 4 {
            offsets[count] = (page + four * cells.layout.value_group) as u64;
            count += 1;
        }
    }
    count
}

/// `[rotation][query][block]`: integer = number / scale, scale = highest magnitude / 16,256.
#[inline(always)]
unsafe fn quantise<V: Bytes>(block: &AttendBlock<'_>, out: &mut [QueryBlock]) {
    /// Adding this to a number below 2^22 rounds it to an integer, halves to even.
    const ROUND: f32 = 12_582_912.0;
    let size = block.cells.shape().key_size;
    let blocks = size.div_ceil(CELL_BLOCK);
    for (query, out) in block.queries.chunks_exact(size).zip(out.chunks_exact_mut(blocks)) {
        for (numbers, out) in query.chunks(CELL_BLOCK).zip(out) {
            let mut padded = [0.0; CELL_BLOCK];
            padded[..numbers.len()].copy_from_slice(numbers);
            let mut lanes = [0f32; LANES];
            for half in padded.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let magnitude = half[lane].abs();
                    lanes[lane] = if magnitude > lanes[lane] { magnitude } else { lanes[lane] };
                }
            }
            let highest = lanes.iter().fold(0.0, |a, b| if *b > a { *b } else { a });
            let inverse = if highest > SMALLEST { QUERY_MAX / highest } else { 0.0 };
            let mut integers = [0i16; CELL_BLOCK];
            for i in 0..CELL_BLOCK {
                integers[i] = (padded[i] * inverse + ROUND).to_bits() as i16;
            }
            out.sum = integers.iter().map(|integer| i32::from(*integer)).sum();
            out.scale = highest / QUERY_MAX;
            // SAFETY: the caller's promise.
            unsafe { V::pack_query(&integers, &mut out.bytes) };
        }
    }
}

/// scores[query][rank] = query · key for `Q` queries from `first` on.
#[inline(always)]
unsafe fn products<V: Bytes, const Q: usize>(
    block: &AttendBlock<'_>,
    cells: &Cells<'_>,
    rotated: &[QueryBlock],
    first: usize,
    scores: &mut [f32],
) {
    let queries = block.limits.len();
    let blocks = block.cells.shape().key_size.div_ceil(CELL_BLOCK);
    let to = scores[first * ROW..(first + Q) * ROW].as_mut_ptr();
    let mut at = 0;
    while at < cells.chunks.len() {
        let chunk = cells.chunks[at];
        let rotation = &rotated[(chunk.rotation as usize * queries + first) * blocks..][..Q * blocks];
        // SAFETY: `check` holds chunks inside pages and ranks inside rows; the instructions are the caller's promise.
        unsafe {
            let pair = at + 1 < cells.chunks.len() && cells.chunks[at + 1].rotation == chunk.rotation;
            let end = at + 1 + usize::from(pair);
            if pair {
                dot::<V, Q, 2>(block, cells, [chunk, cells.chunks[at + 1]], rotation, to);
            } else {
                dot::<V, Q, 1>(block, cells, [chunk], rotation, to);
            }
            at = end;
        }
    }
}

/// Scores of chunks against `Q` queries.
#[inline(always)]
unsafe fn dot<V: Bytes, const Q: usize, const C: usize>(
    block: &AttendBlock<'_>,
    cells: &Cells<'_>,
    chunks: [Chunk; C],
    queries: &[QueryBlock],
    to: *mut f32,
) {
    let size = block.cells.shape().key_size;
    let blocks = size.div_ceil(CELL_BLOCK);
    // SAFETY: codes and scales of a chunk lie inside its page, also those of lanes past a short page (`cells/quantised.rs`).
    unsafe {
        let mut sums = [[V::zero(); Q]; C];
        for number in 0..blocks {
            let groups = (size - number * CELL_BLOCK).div_ceil(4).min(CELL_BLOCK / 4);
            let mut keys = [std::ptr::null(); C];
            for c in 0..C {
                keys[c] = cells.keys(&chunks[c], number);
            }
            let integers = V::scores::<Q, C>(keys, cells.layout.key_group, groups, queries.as_ptr().add(number), blocks);
            for c in 0..C {
                let scales = V::load_f16(cells.key_scales(&chunks[c], number));
                for q in 0..Q {
                    let scale = scales.multiply(V::splat(queries[q * blocks + number].scale));
                    sums[c][q] = integers[c][q].multiply_add(scale, sums[c][q]);
                }
            }
        }
        for c in 0..C {
            for q in 0..Q {
                let to = to.add(q * ROW + chunks[c].rank as usize);
                if chunks[c].whole() {
                    sums[c][q].store(to)
                } else {
                    sums[c][q].store_lanes(chunks[c].lane as usize, chunks[c].count as usize, to)
                }
            }
        }
    }
}

/// sums[query] = Σ weight · value for `Q` queries, whose weights by rank are `softened`. `room`: integers of the weights.
#[inline(always)]
unsafe fn outputs<V: Bytes, const Q: usize>(
    size: usize,
    cells: &Cells<'_>,
    offsets: &[u64],
    softened: &[f32],
    room: &mut [[u32; 2]],
    sums: &mut [f32],
) {
    let softened = softened[..Q * ROW].as_ptr();
    // SAFETY: `check` holds ranks inside rows and cells inside pages; the instructions are the caller's promise.
    unsafe {
        for number in 0..size.div_ceil(CELL_BLOCK) {
            let first = number * CELL_BLOCK;
            let mut most = [V::zero(); Q];
            for chunk in cells.chunks {
                let scales = scales_of::<V>(cells, chunk, number);
                for q in 0..Q {
                    most[q] = most[q].greater(weights_of::<V>(chunk, softened.add(q * ROW)).multiply(scales));
                }
            }
            let (mut inverse, mut unit) = ([V::zero(); Q], [V::zero(); Q]);
            for q in 0..Q {
                let most = highest(most[q]);
                if most > SMALLEST {
                    (inverse[q], unit[q]) = (V::splat(WEIGHT_MAX / most), V::splat(most / WEIGHT_MAX));
                }
            }
            let mut at = 0;
            for chunk in cells.chunks {
                let scales = scales_of::<V>(cells, chunk, number);
                let (four, end) = (chunk.lane as usize / 4, (chunk.lane + chunk.count - 1) as usize / 4 + 1);
                for q in 0..Q {
                    let weights = weights_of::<V>(chunk, softened.add(q * ROW)).multiply(scales).multiply(inverse[q]);
                    let to = &mut room[q * RANK_BLOCK + at..][..end - four];
                    if to.len() == 4 {
                        weights.pack_weights(to.as_mut_ptr());
                    } else {
                        let mut packed = [[0; 2]; 4];
                        weights.pack_weights(packed.as_mut_ptr());
                        to.copy_from_slice(&packed[four..end]);
                    }
                }
                at += end - four;
            }
            let values = cells.head.add(cells.layout.value_codes + 4 * first).cast::<i8>();
            if size - first > LANES {
                let integers = V::outputs::<Q, 2>(values, offsets, room.as_ptr(), RANK_BLOCK);
                put::<V, Q, 2>(integers, unit, size, first, sums);
            } else {
                let integers = V::outputs::<Q, 1>(values, offsets, room.as_ptr(), RANK_BLOCK);
                put::<V, Q, 1>(integers, unit, size, first, sums);
            }
        }
    }
}

#[inline(always)]
unsafe fn scales_of<V: Bytes>(cells: &Cells<'_>, chunk: &Chunk, number: usize) -> V {
    let scales = cells.value_scales(chunk, number);
    // SAFETY: as in `outputs`.
    unsafe { if chunk.whole() { V::load_f16(scales) } else { V::load_f16_at(scales, chunk.lane as usize, chunk.count as usize) } }
}

#[inline(always)]
unsafe fn weights_of<V: Bytes>(chunk: &Chunk, softened: *const f32) -> V {
    // SAFETY: as in `outputs`.
    unsafe {
        let weights = softened.add(chunk.rank as usize);
        if chunk.whole() { V::load(weights) } else { V::load_at(weights, chunk.lane as usize, chunk.count as usize) }
    }
}

/// sums[query][first …] = integer · unit, up to `size`.
#[inline(always)]
unsafe fn put<V: Bytes, const Q: usize, const W: usize>(integers: [[V; W]; Q], unit: [V; Q], size: usize, first: usize, sums: &mut [f32]) {
    for q in 0..Q {
        for w in 0..W {
            let first = first + w * LANES;
            let to = &mut sums[q * size + first..(q + 1) * size];
            let count = to.len().min(LANES);
            // SAFETY: `count` numbers stand at `to`; the instructions are the caller's promise.
            unsafe {
                let numbers = integers[q][w].multiply(unit[q]);
                if count == LANES { numbers.store(to.as_mut_ptr()) } else { numbers.store_lanes(0, count, to.as_mut_ptr()) }
            }
        }
    }
}
