//! How attention is cut into shares, so that one long row, many short rows and a few very long rows all use every thread.

use std::ops::Range;

use palimpsest_kernels::Pool;
use palimpsest_kernels::level::{QUERY_TILE, RANK_BLOCK};

use super::Heads;
use super::plan::Plan;
use crate::shared::held;

/// Rows of one segment and heads of one group that attend together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tile {
    pub segment: usize,
    /// In the list of rows that are left.
    pub first: usize,
    pub rows: usize,
    /// Heads inside the group of a key head.
    pub head_first: usize,
    pub heads: usize,
    /// Blocks of the segment that at least one row of the tile reads.
    pub block_first: usize,
    pub block_end: usize,
}

impl Tile {
    pub fn queries(&self) -> usize {
        self.rows * self.heads
    }

    pub fn blocks(&self) -> Range<usize> {
        self.block_first..self.block_end
    }
}

/// A share of a tile: some of its blocks, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit {
    pub tile: usize,
    pub block_first: usize,
    pub block_end: usize,
    /// Where the partial results of its blocks go; `None`: the unit has all blocks of the tile and joins them itself.
    pub partial: Option<usize>,
}

/// The tiles of a step for layers with one window, and how they are shared out.
#[derive(Default)]
pub struct Tiles {
    pub tiles: Vec<Tile>,
    pub units: Vec<Unit>,
    /// First unit of each tile.
    pub unit_of: Vec<usize>,
    /// Partial results of one key head, in queries.
    pub partials: usize,
    /// Queries times ranks, of one key head.
    pub work: usize,
}

impl Tiles {
    pub fn bytes(&self) -> usize {
        held(&self.tiles) + held(&self.units) + held(&self.unit_of)
    }

    /// Tiles over `rows` of the step (rising); `starts[row of the step]`: first rank that the row reads.
    pub fn build(&mut self, plan: &Plan, rows: &[usize], starts: &[usize], heads_of: &Heads, pool: &Pool) {
        self.tiles.clear();
        let heads = heads_of.of_kv();
        let heads_together = heads.min(QUERY_TILE);
        let rows_together = (QUERY_TILE / heads_together).max(1);
        let mut at = 0;
        for (segment, planned) in plan.segments.iter().enumerate() {
            let next = plan.segments.get(segment + 1).map_or(usize::MAX, |next| next.row_first);
            let end = at + rows[at..].iter().take_while(|row| **row < next).count();
            for first in (at..end).step_by(rows_together) {
                let together = &rows[first..end.min(first + rows_together)];
                let ranks = planned.readable(together[together.len() - 1]);
                let start = together.iter().map(|row| starts[*row]).min().expect("a row");
                for head_first in (0..heads).step_by(heads_together) {
                    self.tiles.push(Tile {
                        segment,
                        first,
                        rows: together.len(),
                        head_first,
                        heads: heads_together.min(heads - head_first),
                        block_first: start / RANK_BLOCK,
                        block_end: ranks.div_ceil(RANK_BLOCK),
                    });
                }
            }
            at = end;
        }
        self.share(pool, heads_of.kv_heads);
    }

    /// Cuts tiles that are long against the whole, so that each thread has about eight shares.
    fn share(&mut self, pool: &Pool, kv_heads: usize) {
        let blocks: usize = self.tiles.iter().map(|tile| tile.queries() * tile.blocks().len()).sum();
        let fair = blocks * kv_heads / (pool.threads() * 8);
        self.work = blocks * RANK_BLOCK;
        self.partials = 0;
        self.units.clear();
        self.unit_of.clear();
        for (number, tile) in self.tiles.iter().enumerate() {
            self.unit_of.push(self.units.len());
            let blocks = tile.blocks();
            let together = if pool.threads() == 1 { blocks.len() } else { (fair / tile.queries()).clamp(1, blocks.len()) };
            if together == blocks.len() {
                self.units.push(Unit { tile: number, block_first: blocks.start, block_end: blocks.end, partial: None });
                continue;
            }
            for block_first in blocks.clone().step_by(together) {
                let block_end = (block_first + together).min(blocks.end);
                self.units.push(Unit { tile: number, block_first, block_end, partial: Some(self.partials) });
                self.partials += (block_end - block_first) * tile.queries();
            }
        }
    }
}
