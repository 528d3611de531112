//! Which cells a segment's rows read, in rank order and in fixed blocks; once a step and group, for all layers.
//!
//! ```text
//! view   run ──────┐run ───┐run ──────────┐ own rows of the segment
//! ranks  0 …                              │ n …
//! pieces ├──┼───┼──┤├──┼───┤├──┼───┼───┼──┤├─┼──   one page, one shift, cut by blocks
//! blocks ├──────── 512 ────────┼──────── 512 ────
//! ```

use std::collections::HashMap;
use std::ops::Range;

use palimpsest_kernels::Piece;
use palimpsest_kernels::level::RANK_BLOCK;

use crate::shared::held;
use crate::step::Step;

/// One block of ranks of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    /// In `Plan::pieces`.
    pub piece_first: usize,
    pub piece_end: usize,
    /// In `Plan::shifts`: the distinct shifts of the block; a piece's `rotation` counts from the first.
    pub shift_first: usize,
    pub shift_end: usize,
}

/// What the rows of one segment read: its row i reads ranks 0 … view_cells + i.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentPlan {
    pub row_first: usize,
    pub view_cells: usize,
    pub block_first: usize,
    pub block_end: usize,
}

impl SegmentPlan {
    /// How many ranks a row of the segment reads, without windows: those of the view, the rows before it, itself.
    pub fn readable(&self, row: usize) -> usize {
        self.view_cells + row - self.row_first + 1
    }
}

/// Cells at consecutive current positions, consecutive in rank.
#[derive(Clone, Copy, Debug)]
struct Span {
    rank: usize,
    position: i32,
    length: usize,
}

/// The rotations of a segment's queries by one shift: entry + i is that of row row_first + i.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    pub shift: i32,
    pub row_first: usize,
    pub row_end: usize,
    pub entry: usize,
}

/// The plan of one step for one group of layers. Vectors keep their room from step to step.
#[derive(Default)]
pub struct Plan {
    pub segments: Vec<SegmentPlan>,
    pub blocks: Vec<Block>,
    pub pieces: Vec<Piece>,
    pub shifts: Vec<i32>,
    /// For each of `shifts` the first entry of its turn: see `turns`.
    pub entries: Vec<usize>,
    /// Distinct (segment, shift) pairs, with the rows of the segment.
    pub turns: Vec<Turn>,
    /// Rows of all turns.
    pub turned_rows: usize,
    /// Distinct (segment, shift) pairs with a shift other than 0, of the views.
    pub rotations: usize,
    /// For each window of the model and each row the first rank that the row reads.
    pub starts: Vec<Vec<usize>>,
    /// Of one segment.
    spans: Vec<Span>,
    builder: Builder,
}

/// A shift that the segment has.
struct Known {
    block: usize,
    /// In that block.
    rotation: u32,
    /// First entry of its turn.
    entry: usize,
}

/// Where the block under construction stands.
#[derive(Default)]
struct Builder {
    /// Ranks in the open block.
    filled: usize,
    /// Where each shift of the segment was last used.
    known: HashMap<i32, Known>,
    rows: Range<usize>,
    last: Option<(i32, u32)>,
}

impl Plan {
    /// Plans a checked step. `windows`: those of the model's layers, `None` = all positions.
    pub fn build(&mut self, step: &Step, group: usize, page_size: usize, windows: &[Option<usize>]) {
        self.segments.clear();
        self.blocks.clear();
        self.pieces.clear();
        self.shifts.clear();
        self.entries.clear();
        self.turns.clear();
        self.turned_rows = 0;
        self.rotations = 0;
        self.starts.resize_with(windows.len(), Vec::new);
        self.starts.iter_mut().for_each(Vec::clear);
        for segment in 0..step.segments() {
            let rows = step.segment_rows(segment);
            let block_first = self.blocks.len();
            self.builder.known.clear();
            self.builder.rows = rows.clone();
            self.open();
            for run in step.view(group, segment) {
                self.run(step, run, page_size);
            }
            self.rotations += self.builder.known.keys().filter(|shift| **shift != 0).count();
            self.own_rows(step, group, rows.clone(), page_size);
            self.close();
            self.segments.push(SegmentPlan {
                row_first: rows.start,
                view_cells: step.view_cells(group, segment),
                block_first,
                block_end: self.blocks.len(),
            });
            self.windows(step, group, segment, windows);
        }
    }

    /// First ranks of a segment's rows. A row at position p reads the cells at current positions above p − window; positions rise with
    /// rank (checked for models with windows).
    fn windows(&mut self, step: &Step, group: usize, segment: usize, windows: &[Option<usize>]) {
        let rows = step.segment_rows(segment);
        if windows.iter().all(Option::is_none) {
            self.starts.iter_mut().for_each(|starts| starts.resize(rows.end, 0));
            return;
        }
        self.spans.clear();
        let mut rank = 0;
        let runs = step.view(group, segment).map(|run| (step.run_birth[run] + step.run_shift[run], step.run_length[run] as usize));
        for (position, length) in runs.chain(rows.clone().map(|row| (step.position[row], 1))) {
            match self.spans.last_mut() {
                Some(last) if last.position + last.length as i32 == position => last.length += length,
                _ => self.spans.push(Span { rank, position, length }),
            }
            rank += length;
        }
        for (starts, window) in self.starts.iter_mut().zip(windows) {
            for row in rows.clone() {
                // The last position that is out of reach.
                let below = step.position[row] - window.map_or(i32::MAX / 2, |window| window as i32);
                let span = self.spans.partition_point(|span| span.position <= below);
                let start = self.spans[..span].last().map_or(0, |span| span.rank + span.length.min((below - span.position) as usize + 1));
                starts.push(start);
            }
        }
    }

    /// Bytes held, as near as the map of shifts tells.
    pub fn bytes(&self) -> usize {
        let Self { segments, blocks, pieces, shifts, entries, turns, turned_rows: _, rotations: _, starts, spans, builder } = self;
        let known = builder.known.capacity() * size_of::<(i32, Known)>();
        let starts = held(starts) + starts.iter().map(held).sum::<usize>();
        held(segments) + held(blocks) + held(pieces) + held(shifts) + held(entries) + held(turns) + held(spans) + starts + known
    }

    pub fn block_pieces(&self, block: usize) -> &[Piece] {
        &self.pieces[self.blocks[block].piece_first..self.blocks[block].piece_end]
    }

    pub fn block_shifts(&self, block: usize) -> &[i32] {
        &self.shifts[self.blocks[block].shift_first..self.blocks[block].shift_end]
    }

    /// First entries of the turns of a block's shifts.
    pub fn block_entries(&self, block: usize) -> &[usize] {
        &self.entries[self.blocks[block].shift_first..self.blocks[block].shift_end]
    }

    /// Distinct shifts in one block at most.
    pub fn shifts_of_block_max(&self) -> usize {
        self.blocks.iter().map(|block| block.shift_end - block.shift_first).max().unwrap_or(0)
    }

    fn run(&mut self, step: &Step, run: usize, page_size: usize) {
        let mut entry = step.run_page[run] as usize;
        let mut first = step.run_first[run] as usize;
        let mut left = step.run_length[run] as usize;
        while left > 0 {
            let count = left.min(page_size - first);
            self.cells(step.pages[entry] as u32, first, count, step.run_shift[run]);
            left -= count;
            first = 0;
            entry += 1;
        }
    }

    /// Rows of the segment read each other's cells in row order, at their birth positions.
    fn own_rows(&mut self, step: &Step, group: usize, rows: Range<usize>, page_size: usize) {
        let cells = &step.cell[group * step.rows()..][rows];
        let mut start = 0;
        while start < cells.len() {
            let slot = cells[start] as usize;
            let room = page_size - slot % page_size;
            let next = cells[start..].iter().enumerate().take(room);
            let count = next.take_while(|(i, cell)| **cell as usize == slot + i).count();
            self.cells((slot / page_size) as u32, slot % page_size, count, 0);
            start += count;
        }
    }

    /// Appends cells of one page, cut where a block is full.
    fn cells(&mut self, page: u32, mut first: usize, mut count: usize, shift: i32) {
        while count > 0 {
            if self.builder.filled == RANK_BLOCK {
                self.close();
                self.open();
            }
            let take = count.min(RANK_BLOCK - self.builder.filled);
            let rotation = self.rotation(shift);
            self.append(Piece { page, first: first as u16, count: take as u16, rotation });
            self.builder.filled += take;
            first += take;
            count -= take;
        }
    }

    fn append(&mut self, piece: Piece) {
        let open = self.blocks.last().expect("an open block");
        if self.pieces.len() > open.piece_first
            && let Some(last) = self.pieces.last_mut()
            && (last.page, last.rotation, last.first + last.count) == (piece.page, piece.rotation, piece.first)
        {
            last.count += piece.count;
            return;
        }
        self.pieces.push(piece);
    }

    /// The number of a shift in the open block.
    fn rotation(&mut self, shift: i32) -> u32 {
        if let Some((last, rotation)) = self.builder.last
            && last == shift
        {
            return rotation;
        }
        let block = self.blocks.len() - 1;
        let next = (self.shifts.len() - self.blocks[block].shift_first) as u32;
        let known = self.builder.known.entry(shift).or_insert_with(|| {
            let Range { start: row_first, end: row_end } = self.builder.rows;
            let entry = self.turned_rows;
            self.turns.push(Turn { shift, row_first, row_end, entry });
            self.turned_rows += row_end - row_first;
            Known { block: usize::MAX, rotation: 0, entry }
        });
        if known.block != block {
            (known.block, known.rotation) = (block, next);
            self.shifts.push(shift);
            self.entries.push(known.entry);
        }
        self.builder.last = Some((shift, known.rotation));
        known.rotation
    }

    fn open(&mut self) {
        self.blocks.push(Block { piece_first: self.pieces.len(), shift_first: self.shifts.len(), ..Block::default() });
        self.builder.filled = 0;
        self.builder.last = None;
    }

    fn close(&mut self) {
        if self.builder.filled == 0 {
            // A segment without rows and cells, or a view that ends where a block does.
            self.blocks.pop();
            return;
        }
        let block = self.blocks.last_mut().expect("an open block");
        (block.piece_end, block.shift_end) = (self.pieces.len(), self.shifts.len());
    }
}
