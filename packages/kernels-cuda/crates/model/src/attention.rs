//! Attention of rows over views: tiles of queries against blocks of ranks, without a model.

mod angles;
mod plan;
mod running;
mod tiles;

use std::sync::Mutex;

use palimpsest_kernels::level::{QUERY_TILE, RANK_BLOCK};
use palimpsest_kernels::{AttendBlock, CellShape, Kernels, LayerCells, Partial, Pool, Rotary};

use crate::shared::{Numbers, exclusive, grain, grow, held};
use running::Running;
use tiles::Tile;

pub use angles::Angles;
pub use plan::Plan;
pub use tiles::Tiles;

/// Heads of a layer and how they score. Sizes in elements.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub key_size: usize,
    pub value_size: usize,
    /// Multiplies a score: 1 / √key_size, or the model's own.
    pub scale: f32,
    /// score = cap · tanh(score / cap); 0 = none.
    pub cap: f32,
}

impl Heads {
    /// Query heads that read one key head.
    pub fn of_kv(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Offsets of queries (0), keys and values in a row of all three, and its length.
    pub fn key_at(&self) -> usize {
        self.heads * self.key_size
    }

    pub fn value_at(&self) -> usize {
        self.key_at() + self.kv_heads * self.key_size
    }

    pub fn query_key_value(&self) -> usize {
        self.value_at() + self.kv_heads * self.value_size
    }

    /// Length of a row of what attention gives.
    pub fn attended(&self) -> usize {
        self.heads * self.value_size
    }
}

/// What one thread needs while it attends.
#[derive(Default)]
struct ThreadRoom {
    /// `[rotation][query][key size]`
    queries: Vec<f32>,
    scores: Vec<f32>,
    /// `[query][value size]` of one block.
    sums: Vec<f32>,
    maxima: Vec<f32>,
    weights: Vec<f32>,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

/// Memory of attention that is kept from step to step.
#[derive(Default)]
pub struct Room {
    threads: Vec<Mutex<ThreadRoom>>,
    /// Partial results of tiles that are cut.
    sums: Vec<f32>,
    maxima: Vec<f32>,
    weights: Vec<f32>,
}

impl Room {
    /// `shifts`: distinct ones in a block at most. Every thread's memory grows: who first gets which task is not known.
    pub fn shape(&mut self, heads: &Heads, cells: &CellShape, threads: usize, shifts: usize) {
        self.threads.resize_with(threads.max(self.threads.len()), Mutex::default);
        for thread in &mut self.threads {
            let room = thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            grow(&mut room.queries, shifts * QUERY_TILE * heads.key_size);
            grow(&mut room.scores, AttendBlock::scratch(cells, shifts));
            grow(&mut room.sums, QUERY_TILE * heads.value_size);
            grow(&mut room.maxima, QUERY_TILE);
            grow(&mut room.weights, QUERY_TILE);
            grow(&mut room.cosines, heads.key_size);
            grow(&mut room.sines, heads.key_size);
        }
    }

    pub fn bytes(&self) -> usize {
        let numbers = |numbers: &[&Vec<f32>]| numbers.iter().map(|numbers| held(numbers)).sum::<usize>();
        let thread = |room: &Mutex<ThreadRoom>| {
            let ThreadRoom { queries, scores, sums, maxima, weights, cosines, sines } = &*exclusive(room);
            numbers(&[queries, scores, sums, maxima, weights, cosines, sines])
        };
        let Room { threads, sums, maxima, weights } = self;
        held(threads) + threads.iter().map(thread).sum::<usize>() + numbers(&[sums, maxima, weights])
    }
}

/// One layer's attention.
pub struct Attention<'a> {
    pub kernels: &'a dyn Kernels,
    pub pool: &'a Pool,
    pub cells: LayerCells<'a>,
    pub rotary: &'a Rotary,
    /// Those of this table, made for this plan and all layers; `None`: made here.
    pub angles: Option<&'a Angles>,
    pub heads: &'a Heads,
    /// For each query head a learned logit that joins the denominator of every row's softmax and reads nothing; empty: none.
    pub sinks: &'a [f32],
    pub plan: &'a Plan,
    pub tiles: &'a Tiles,
    /// Rows of the step that are left, and their positions.
    pub rows: &'a [usize],
    pub positions: &'a [i32],
    /// For each row of the step the first rank that it reads.
    pub starts: &'a [usize],
    /// Raw queries, `[row of the step][head][key size]`, rows `stride` apart.
    pub queries: &'a [f32],
    pub stride: usize,
}

/// Where the results go.
struct Targets {
    /// `[row left][head][value size]`
    attended: Numbers,
    /// `[key head][partial query][value size]`, and the same without sizes for maxima and weights.
    sums: Numbers,
    maxima: Numbers,
    weights: Numbers,
}

impl Attention<'_> {
    /// attended[row left][head][value size] = Σ softmax(scores) · value over what the row reads.
    pub fn run(&self, attended: &mut [f32], room: &mut Room) {
        assert!(self.sinks.is_empty() || self.sinks.len() == self.heads.heads, "a sink for each head, or none");
        let partials = self.tiles.partials * self.heads.kv_heads;
        let Room { threads, sums, maxima, weights } = room;
        grow(sums, partials * self.heads.value_size);
        grow(maxima, partials);
        grow(weights, partials);
        let targets = Targets {
            attended: Numbers::of(attended),
            sums: Numbers::of(sums),
            maxima: Numbers::of(maxima),
            weights: Numbers::of(weights),
        };
        let units = self.tiles.units.len();
        let tasks = units * self.heads.kv_heads;
        let work = self.tiles.work * self.heads.kv_heads * self.heads.key_size / tasks.max(1);
        self.pool.run(tasks, grain(self.pool, tasks, work), &|range, thread| {
            let mut room = exclusive(&threads[thread]);
            for task in range {
                self.unit(&targets, task % units, task / units, &mut room);
            }
        });
        if self.tiles.partials > 0 {
            self.join(&targets);
        }
    }

    /// One share of a tile for one key head.
    fn unit(&self, targets: &Targets, unit: usize, kv_head: usize, own: &mut ThreadRoom) {
        let size = self.heads.value_size;
        let unit = self.tiles.units[unit];
        let tile = self.tiles.tiles[unit.tile];
        let segment = self.plan.segments[tile.segment];
        let queries = tile.queries();
        let mut running = Running::default();
        let mut rotated: &[i32] = &[];
        for block in unit.block_first..unit.block_end {
            let planned = segment.block_first + block;
            let shifts = self.plan.block_shifts(planned);
            if shifts != rotated {
                self.rotate(&tile, kv_head, segment.row_first, planned, own);
                rotated = shifts;
            }
            let (mut starts, mut limits) = ([0u32; QUERY_TILE], [0u32; QUERY_TILE]);
            for query in 0..queries {
                let row = self.rows[tile.first + query / tile.heads];
                let in_block = |rank: usize| rank.saturating_sub(block * RANK_BLOCK).min(RANK_BLOCK) as u32;
                (starts[query], limits[query]) = (in_block(self.starts[row]), in_block(segment.readable(row)));
            }
            let ThreadRoom { queries: rotated_queries, scores, sums, maxima, weights, .. } = &mut *own;
            let attend = AttendBlock {
                cells: self.cells,
                kv_head,
                pieces: self.plan.block_pieces(planned),
                limits: &limits[..queries],
                starts: &starts[..queries],
                queries: &rotated_queries[..shifts.len() * queries * self.heads.key_size],
                soft_cap: self.heads.cap,
            };
            let mut partial = match unit.partial {
                None => Partial { sums, maxima, weights, scratch: scores },
                Some(first) => {
                    let at = kv_head * self.tiles.partials + first + (block - unit.block_first) * queries;
                    // SAFETY: these queries of this block belong to this unit.
                    unsafe {
                        Partial {
                            sums: targets.sums.part(at * size, queries * size),
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
                    let sums = &partial.sums[query * size..][..size];
                    let out = self.attended(targets, &tile, kv_head, query);
                    running.add(query, partial.maxima[query], partial.weights[query], sums, out);
                }
            }
        }
        if unit.partial.is_none() {
            for query in 0..queries {
                running.finish(query, self.sink(&tile, kv_head, query), self.attended(targets, &tile, kv_head, query));
            }
        }
    }

    /// Rotates the tile's raw queries by p − Δ for each shift: `[shift][query][key size]`.
    /// `block`: in the plan.
    fn rotate(&self, tile: &Tile, kv_head: usize, row_first: usize, block: usize, own: &mut ThreadRoom) {
        let (size, rotary) = (self.heads.key_size, self.rotary);
        let pairs = rotary.pair_count();
        let scale = self.heads.scale * rotary.magnitude;
        let head_first = kv_head * self.heads.of_kv() + tile.head_first;
        let ThreadRoom { queries, cosines, sines, .. } = own;
        let shifts = self.plan.block_shifts(block).iter().zip(self.plan.block_entries(block));
        for (rotation, (shift, entry)) in shifts.enumerate() {
            for row in 0..tile.rows {
                let step_row = self.rows[tile.first + row];
                let raw = &self.queries[step_row * self.stride + head_first * size..];
                let known = self.angles.and_then(|angles| angles.of(entry + step_row - row_first));
                let (cosines, sines) = match known {
                    Some(known) => known,
                    None => {
                        rotary.angles(self.positions[tile.first + row] - shift, cosines, sines);
                        (&cosines[..pairs], &sines[..pairs])
                    }
                };
                for head in 0..tile.heads {
                    let out = &mut queries[((rotation * tile.rows + row) * tile.heads + head) * size..][..size];
                    let query = &raw[head * size..][..size];
                    self.kernels.rotate(rotary.pairs, cosines, sines, scale, query, out);
                }
            }
        }
    }

    /// The head of one query of a tile.
    fn head(&self, tile: &Tile, kv_head: usize, query: usize) -> usize {
        kv_head * self.heads.of_kv() + tile.head_first + query % tile.heads
    }

    fn sink(&self, tile: &Tile, kv_head: usize, query: usize) -> Option<f32> {
        self.sinks.get(self.head(tile, kv_head, query)).copied()
    }

    /// The attended values of one query of a tile.
    fn attended<'a>(&self, targets: &Targets, tile: &Tile, kv_head: usize, query: usize) -> &'a mut [f32] {
        let (size, head) = (self.heads.value_size, self.head(tile, kv_head, query));
        let row = tile.first + query / tile.heads;
        // SAFETY: one unit, or the join after all units, has this query.
        unsafe { targets.attended.part((row * self.heads.heads + head) * size, size) }
    }

    /// Joins the blocks of the tiles that were cut, in rank order.
    fn join(&self, targets: &Targets) {
        let (tiles, size) = (self.tiles, self.heads.value_size);
        let tasks = tiles.tiles.len() * self.heads.kv_heads;
        self.pool.run(tasks, grain(self.pool, tasks, size * tiles.partials / tiles.tiles.len()), &|range, _| {
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
                    running.finish(query, self.sink(tile, kv_head, query), out);
                }
            }
        });
    }
}
