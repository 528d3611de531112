//! Speed of attention: `cargo run --release --example attention -- [CELLS] [THREADS] [LEVEL] [f32|f16|q8_0] [RUN] [ROTATIONS]`.
//!
//! SmolLM2-135M's shape: 30 layers, 9 heads on 3 key heads of 64; pages of 16 in shuffled order, runs of `RUN` cells. One row, then 126 rows.

mod support;

use palimpsest_kernels::level::{QUERY_TILE, RANK_BLOCK};
use palimpsest_kernels::{AttendBlock, CellDtype, CellShape, Cells, Kernels, Level, Partial, Piece, Pool, kernels};

const LAYERS: usize = 30;
const KV_HEADS: usize = 3;
const GROUP: usize = 3;
const SIZE: usize = 64;
const PAGE: usize = 16;
const ROWS: usize = 126;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (ranks, threads, run, rotations) = (number(1, 6144), number(2, 2), number(5, 1 << 20), number(6, 1));
    let level =
        arguments.get(3).map_or(Some(Level::Avx512), |level| Level::from_name(level)).and_then(kernels).expect("a level of this machine");
    let named = |name: &String| CellDtype::ALL.iter().copied().find(|dtype| dtype.name() == name).expect("a dtype");
    let dtype = arguments.get(4).map_or(CellDtype::F16, named);
    let pieces = pieces(ranks, run, rotations);
    let pages = pieces.iter().map(|piece| piece.page as usize + 1).max().expect("a page");
    let shape = CellShape { layers: LAYERS, kv_heads: KV_HEADS, key_size: SIZE, value_size: SIZE, pages, page_size: PAGE, dtype };
    let cells = Cells::new(shape).expect("memory");
    fill(&cells);
    let blocks: Vec<Vec<Piece>> = blocks(&pieces);
    let pool = Pool::new(threads);
    let work = Work { level: &*level, cells: &cells, blocks: &blocks, rotations };
    let (mut decode, mut prefill) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..6 {
        decode = decode.min(work.time(&pool, LAYERS, 1));
        prefill = prefill.min(work.time(&pool, 3, ROWS) * LAYERS as f64 / 3.0);
    }
    let bytes = (shape.page_bytes() * ranks / PAGE) as f64;
    let operations = 4.0 * (LAYERS * KV_HEADS * GROUP * ROWS * ranks * SIZE) as f64;
    println!(
        "{} {} {ranks} cells, {threads} threads, {} pieces, {rotations} rotations: 1 row {:.2} ms, {:.1} GB/s; {ROWS} rows {:.0} ms, {:.0} GFLOP/s",
        level.level().name(),
        dtype.name(),
        pieces.len(),
        decode * 1e3,
        bytes / decode / 1e9,
        prefill * 1e3,
        operations / prefill / 1e9
    );
}

struct Work<'a> {
    level: &'a dyn Kernels,
    cells: &'a Cells,
    blocks: &'a [Vec<Piece>],
    rotations: usize,
}

impl Work<'_> {
    /// Seconds for `rows` rows in `layers` layers.
    fn time(&self, pool: &Pool, layers: usize, rows: usize) -> f64 {
        support::seconds(pool.threads(), || (0..layers).for_each(|layer| self.layer(pool, layer, rows)))
    }

    fn layer(&self, pool: &Pool, layer: usize, rows: usize) {
        let tiles = (rows * GROUP).div_ceil(QUERY_TILE / GROUP * GROUP);
        let tasks = tiles * KV_HEADS * self.blocks.len();
        pool.run(tasks, (tasks / 64).max(1), &|range, _| {
            let mut scratch = vec![0.0; AttendBlock::scratch(self.cells.shape(), self.rotations.min(64))];
            let (mut sums, mut maxima, mut weights) = ([0.0; QUERY_TILE * SIZE], [0.0; QUERY_TILE], [0.0; QUERY_TILE]);
            let queries = vec![0.01f32; self.rotations.min(64) * QUERY_TILE * SIZE];
            for task in range {
                let tile = task / (KV_HEADS * self.blocks.len());
                let count = (rows * GROUP - tile * (QUERY_TILE / GROUP * GROUP)).min(QUERY_TILE / GROUP * GROUP);
                let pieces = &self.blocks[task % self.blocks.len()];
                let ranks: u32 = pieces.iter().map(|piece| u32::from(piece.count)).sum();
                let block = AttendBlock {
                    cells: self.cells.layer(layer),
                    kv_head: task / self.blocks.len() % KV_HEADS,
                    pieces,
                    limits: &vec![ranks; count],
                    starts: &[],
                    queries: &queries[..self.rotations.min(64) * count * SIZE],
                    soft_cap: 0.0,
                };
                let mut out = Partial { sums: &mut sums, maxima: &mut maxima, weights: &mut weights, scratch: &mut scratch };
                self.level.attend(&block, &mut out);
            }
        });
    }
}

/// Runs of `run` cells, three slots apart, over pages in an order that no prefetcher guesses.
fn pieces(ranks: usize, run: usize, rotations: usize) -> Vec<Piece> {
    let (mut pieces, mut slot, mut left) = (Vec::new(), 0, ranks);
    let most = ranks / PAGE + (ranks / run + 1) + 8;
    let pages = (most..).find(|pages| pages % 37 != 0).expect("a number");
    for number in 0.. {
        let mut rest = run.min(left);
        left -= rest;
        while rest > 0 {
            let count = rest.min(PAGE - slot % PAGE);
            let page = (slot / PAGE * 37 % pages) as u32;
            pieces.push(Piece { page, first: (slot % PAGE) as u16, count: count as u16, rotation: (number % rotations) as u32 });
            slot += count;
            rest -= count;
        }
        slot += 3;
        if left == 0 {
            return pieces;
        }
    }
    unreachable!("runs end")
}

/// Pieces by blocks of ranks, cut where a block ends. Rotations are counted within a block.
fn blocks(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let (mut blocks, mut room) = (vec![Vec::new()], RANK_BLOCK as u16);
    for piece in pieces {
        let mut piece = Piece { rotation: piece.rotation % 64, ..*piece };
        while piece.count > 0 {
            if room == 0 {
                blocks.push(Vec::new());
                room = RANK_BLOCK as u16;
            }
            let count = piece.count.min(room);
            blocks.last_mut().expect("a block").push(Piece { count, ..piece });
            (piece.first, piece.count, room) = (piece.first + count, piece.count - count, room - count);
        }
    }
    blocks
}

fn fill(cells: &Cells) {
    let shape = cells.shape();
    for layer in 0..shape.layers {
        for slot in 0..shape.pages * shape.page_size {
            let number = |i: usize| ((slot * 31 + i * 17 + layer) % 101) as f32 / 101.0 - 0.5;
            let (key, value): (Vec<f32>, Vec<f32>) = (0..SIZE).map(|i| (number(i), number(i + 5))).unzip();
            for head in 0..shape.kv_heads {
                // SAFETY: one thread.
                unsafe { cells.layer(layer).store(slot, head, &key, &value) };
            }
        }
    }
}
