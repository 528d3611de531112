//! Attention of a layer: tiles of queries against blocks of ranks.

use std::slice::from_ref;

use palimpsest_kernels::lanes::exp;
use palimpsest_kernels::level::{QUERY_TILE, RANK_BLOCK};
use palimpsest_kernels::{AttendBlock, Partial};

use super::Machine;
use super::plan::Plan;
use super::rows::{ROW_CHUNK, grain};
use super::scratch::{Numbers, Scratch, ThreadScratch, exclusive, grow};
use super::tiles::{Tile, Tiles};

/// Where the results of one layer go.
struct Targets<'a> {
    layer: usize,
    plan: &'a Plan,
    tiles: &'a Tiles,
    /// Rows of the step that are left, and their positions.
    rows: &'a [usize],
    positions: &'a [i32],
    /// For each row of the step the first rank that it reads.
    starts: &'a [usize],
    query_key_value: &'a [f32],
    /// `[row left][head][value size]`
    attended: Numbers,
    /// `[key head][partial query][value size]`, and the same without sizes for maxima and weights.
    sums: Numbers,
    maxima: Numbers,
    weights: Numbers,
}

impl Machine {
    /// hidden += output(attention) over the rows that are left.
    pub fn attend(&self, layer: usize, scratch: &mut Scratch) {
        let shape = &self.weights.shape;
        let window = self.weights.layers[layer].window;
        let partials = scratch.tiles[window].partials * shape.kv_heads;
        grow(&mut scratch.sums, partials * shape.value_size);
        grow(&mut scratch.maxima, partials);
        grow(&mut scratch.weights, partials);
        let width = shape.heads * shape.value_size;
        let targets = Targets {
            layer,
            plan: &scratch.plan,
            tiles: &scratch.tiles[window],
            rows: &scratch.rows_left,
            positions: &scratch.positions,
            starts: &scratch.plan.starts[window],
            query_key_value: &scratch.query_key_value,
            attended: Numbers::of(&mut scratch.attended),
            sums: Numbers::of(&mut scratch.sums),
            maxima: Numbers::of(&mut scratch.maxima),
            weights: Numbers::of(&mut scratch.weights),
        };
        let units = targets.tiles.units.len() * shape.kv_heads;
        let work = targets.tiles.work * shape.kv_heads * shape.key_size / units.max(1);
        let threads = &scratch.threads;
        self.pool.run(units, grain(&self.pool, units, work), &|range, thread| {
            let mut own = exclusive(&threads[thread]);
            for task in range {
                self.unit(&targets, task % targets.tiles.units.len(), task / targets.tiles.units.len(), &mut own);
            }
        });
        if targets.tiles.partials > 0 {
            self.join(&targets);
        }
        let weights = &self.weights.layers[layer];
        for first in (0..scratch.rows).step_by(ROW_CHUNK) {
            let rows = ROW_CHUNK.min(scratch.rows - first);
            scratch.activations.shape(rows, width, self.codes(from_ref(&weights.attention_output)));
            let (attended, writer) = (&scratch.attended, scratch.activations.writer());
            self.pool.run(rows, grain(&self.pool, rows, 2 * width), &|range, _| {
                for row in range {
                    // SAFETY: each row belongs to one task.
                    self.kernels.quantize(&attended[(first + row) * width..][..width], &mut unsafe { writer.row(row) });
                }
            });
            self.add(&weights.attention_output, weights.attention_post_norm.as_deref(), first, rows, scratch);
        }
    }

    /// One share of a tile for one key head.
    fn unit(&self, targets: &Targets<'_>, unit: usize, kv_head: usize, own: &mut ThreadScratch) {
        let shape = &self.weights.shape;
        let unit = targets.tiles.units[unit];
        let tile = targets.tiles.tiles[unit.tile];
        let segment = targets.plan.segments[tile.segment];
        let queries = tile.queries();
        let mut running = Running::default();
        let mut rotated: &[i32] = &[];
        for block in unit.block_first..unit.block_end {
            let planned = segment.block_first + block;
            let shifts = targets.plan.block_shifts(planned);
            if shifts != rotated {
                self.rotate(targets, &tile, kv_head, shifts, own);
                rotated = shifts;
            }
            let (mut starts, mut limits) = ([0u32; QUERY_TILE], [0u32; QUERY_TILE]);
            for query in 0..queries {
                let row = targets.rows[tile.first + query / tile.heads];
                let in_block = |rank: usize| rank.saturating_sub(block * RANK_BLOCK).min(RANK_BLOCK) as u32;
                (starts[query], limits[query]) = (in_block(targets.starts[row]), in_block(segment.readable(row)));
            }
            let ThreadScratch { queries: rotated_queries, scores, sums, maxima, weights, .. } = &mut *own;
            let attend = AttendBlock {
                cells: self.cells.layer(targets.layer),
                kv_head,
                pieces: targets.plan.block_pieces(planned),
                limits: &limits[..queries],
                starts: &starts[..queries],
                queries: &rotated_queries[..shifts.len() * queries * shape.key_size],
                soft_cap: shape.attention_cap,
            };
            let mut partial = match unit.partial {
                None => Partial { sums, maxima, weights, scratch: scores },
                Some(first) => {
                    let at = kv_head * targets.tiles.partials + first + (block - unit.block_first) * queries;
                    // SAFETY: these queries of this block belong to this unit.
                    unsafe {
                        Partial {
                            sums: targets.sums.part(at * shape.value_size, queries * shape.value_size),
                            maxima: targets.maxima.part(at, queries),
                            weights: targets.weights.part(at, queries),
                            scratch: scores,
                        }
                    }
                }
            };
            self.kernels.attend(&attend, &mut partial);
            if unit.partial.is_none() {
                for query in 0..queries {
                    let sums = &partial.sums[query * shape.value_size..][..shape.value_size];
                    let out = self.attended(targets, &tile, kv_head, query);
                    running.add(query, partial.maxima[query], partial.weights[query], sums, out);
                }
            }
        }
        if unit.partial.is_none() {
            (0..queries).for_each(|query| running.finish(query, self.attended(targets, &tile, kv_head, query)));
        }
    }

    /// Rotates the tile's raw queries by p − Δ for each shift: `[shift][query][key size]`.
    fn rotate(&self, targets: &Targets<'_>, tile: &Tile, kv_head: usize, shifts: &[i32], own: &mut ThreadScratch) {
        let shape = &self.weights.shape;
        let size = shape.key_size;
        let rotary = &self.weights.rotaries[self.weights.layers[targets.layer].rotary];
        let pairs = rotary.pair_count();
        let scale = shape.attention_scale * rotary.magnitude;
        let head_first = kv_head * shape.heads_of_kv() + tile.head_first;
        for (rotation, shift) in shifts.iter().enumerate() {
            for row in 0..tile.rows {
                let step_row = targets.rows[tile.first + row];
                let raw = &targets.query_key_value[step_row * shape.query_key_value() + head_first * size..];
                rotary.angles(targets.positions[tile.first + row] - shift, &mut own.cosines, &mut own.sines);
                for head in 0..tile.heads {
                    let out = &mut own.queries[((rotation * tile.rows + row) * tile.heads + head) * size..][..size];
                    let query = &raw[head * size..][..size];
                    self.kernels.rotate(rotary.pairs, &own.cosines[..pairs], &own.sines[..pairs], scale, query, out);
                }
            }
        }
    }

    /// The attended values of one query of a tile.
    fn attended<'a>(&self, targets: &Targets<'a>, tile: &Tile, kv_head: usize, query: usize) -> &'a mut [f32] {
        let shape = &self.weights.shape;
        let head = kv_head * shape.heads_of_kv() + tile.head_first + query % tile.heads;
        let row = tile.first + query / tile.heads;
        // SAFETY: one unit, or the join after all units, has this query.
        unsafe { targets.attended.part((row * shape.heads + head) * shape.value_size, shape.value_size) }
    }

    /// Joins the blocks of the tiles that were cut, in rank order.
    fn join(&self, targets: &Targets<'_>) {
        let (shape, tiles) = (&self.weights.shape, targets.tiles);
        let size = shape.value_size;
        let tasks = tiles.tiles.len() * shape.kv_heads;
        self.pool.run(tasks, grain(&self.pool, tasks, size * tiles.partials / tiles.tiles.len()), &|range, _| {
            for task in range {
                let (number, kv_head) = (task % tiles.tiles.len(), task / tiles.tiles.len());
                let tile = &tiles.tiles[number];
                let Some(first) = tiles.units[tiles.unit_of[number]].partial else { continue };
                let (mut running, queries) = (Running::default(), tile.queries());
                for query in 0..queries {
                    let out = self.attended(targets, tile, kv_head, query);
                    for block in 0..tile.blocks().len() {
                        let at = kv_head * tiles.partials + first + block * queries + query;
                        // SAFETY: all units have ended; this query belongs to this task.
                        let (sums, maxima, weights) =
                            unsafe { (targets.sums.part(at * size, size), targets.maxima.part(at, 1), targets.weights.part(at, 1)) };
                        running.add(query, maxima[0], weights[0], sums, out);
                    }
                    running.finish(query, out);
                }
            }
        });
    }
}

/// The online softmax over blocks: one join, in rank order, wherever the blocks were computed.
struct Running {
    maxima: [f32; QUERY_TILE],
    weights: [f32; QUERY_TILE],
    started: [bool; QUERY_TILE],
}

impl Default for Running {
    fn default() -> Self {
        Self { maxima: [0.0; QUERY_TILE], weights: [0.0; QUERY_TILE], started: [false; QUERY_TILE] }
    }
}

impl Running {
    fn add(&mut self, query: usize, maximum: f32, weight: f32, sums: &[f32], out: &mut [f32]) {
        if weight == 0.0 {
            return; // the query reads nothing of this block
        }
        if !self.started[query] {
            (self.maxima[query], self.weights[query], self.started[query]) = (maximum, weight, true);
            out.copy_from_slice(sums);
            return;
        }
        let highest = if maximum > self.maxima[query] { maximum } else { self.maxima[query] };
        let (old, new) = (exp::<false>(self.maxima[query] - highest), exp::<false>(maximum - highest));
        self.maxima[query] = highest;
        self.weights[query] = self.weights[query] * old + weight * new;
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = *out * old + sum * new;
        }
    }

    fn finish(&self, query: usize, out: &mut [f32]) {
        let scale = 1.0 / self.weights[query];
        out.iter_mut().for_each(|number| *number *= scale);
    }
}
