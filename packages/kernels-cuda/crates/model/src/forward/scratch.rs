//! Memory of a step that is kept for the next one: it grows to the largest step and is then allocated no more.

use std::sync::Mutex;

use palimpsest_kernels::level::BLOCK;
use palimpsest_kernels::{ActivationBlock, ActivationRow, Activations};

use super::Machine;
use super::head::{Drawn, LOGIT_ROWS};
use super::rows::ROW_CHUNK;
use crate::attention::{Angles, Plan, Room, Tiles};
use crate::shared::{exclusive, grow, held};
use crate::step::Step;
use crate::weights::Shape;

/// Forms of a row of activations. What nobody reads is not written.
#[derive(Clone, Copy, Default)]
pub struct Forms {
    pub values: bool,
    /// Codes and their blocks.
    pub codes: bool,
}

impl Forms {
    /// What a product with one matrix reads.
    pub fn of(wants_codes: bool) -> Self {
        Self { values: !wants_codes, codes: wants_codes }
    }
}

/// Rows of activations in the forms that the next products read.
#[derive(Default)]
pub struct ActivationStore {
    rows: usize,
    columns: usize,
    forms: Forms,
    values: Vec<f32>,
    codes: Vec<i8>,
    blocks: Vec<ActivationBlock>,
}

impl ActivationStore {
    /// Makes room for `rows` rows of `columns`.
    pub fn shape(&mut self, rows: usize, columns: usize, forms: Forms) {
        (self.rows, self.columns, self.forms) = (rows, columns, forms);
        if forms.values {
            grow(&mut self.values, rows * columns);
        }
        if forms.codes {
            grow(&mut self.codes, rows * columns);
            grow(&mut self.blocks, rows * columns.div_ceil(BLOCK));
        }
    }

    pub fn view(&self, rows: usize) -> Activations<'_> {
        let blocks = if self.forms.codes { rows * self.columns.div_ceil(BLOCK) } else { 0 };
        let codes = if self.forms.codes { rows * self.columns } else { 0 };
        let values = if self.forms.values { rows * self.columns } else { 0 };
        Activations {
            rows,
            columns: self.columns,
            values: &self.values[..values],
            codes: &self.codes[..codes],
            blocks: &self.blocks[..blocks],
        }
    }

    /// Rows for threads that each write their own.
    pub fn writer(&mut self) -> ActivationWriter {
        ActivationWriter {
            columns: self.columns,
            rows: self.rows,
            forms: self.forms,
            values: self.values.as_mut_ptr(),
            codes: self.codes.as_mut_ptr(),
            blocks: self.blocks.as_mut_ptr(),
        }
    }

    pub fn bytes(&self) -> usize {
        held(&self.values) + held(&self.codes) + held(&self.blocks)
    }
}

#[derive(Clone, Copy)]
pub struct ActivationWriter {
    columns: usize,
    rows: usize,
    forms: Forms,
    values: *mut f32,
    codes: *mut i8,
    blocks: *mut ActivationBlock,
}

// SAFETY: addresses into a store that outlives the batch; each row is written by one thread (see `row`).
unsafe impl Send for ActivationWriter {}
// SAFETY: as above.
unsafe impl Sync for ActivationWriter {}

impl ActivationWriter {
    /// # Safety
    /// The store lives and is not touched otherwise, and no other thread holds this row.
    pub unsafe fn row<'a>(&self, row: usize) -> ActivationRow<'a> {
        assert!(row < self.rows);
        let blocks = self.columns.div_ceil(BLOCK);
        let (codes, blocks_here) = if self.forms.codes { (self.columns, blocks) } else { (0, 0) };
        let values = if self.forms.values { self.columns } else { 0 };
        // SAFETY: the row lies inside the store and is ours (caller).
        unsafe {
            ActivationRow {
                values: std::slice::from_raw_parts_mut(self.values.wrapping_add(row * values), values),
                codes: std::slice::from_raw_parts_mut(self.codes.wrapping_add(row * codes), codes),
                blocks: std::slice::from_raw_parts_mut(self.blocks.wrapping_add(row * blocks_here), blocks_here),
            }
        }
    }
}

/// What one thread needs between products.
#[derive(Default)]
pub struct ThreadScratch {
    pub cosines: Vec<f32>,
    pub sines: Vec<f32>,
    pub head: Vec<f32>,
    /// A row of the residual stream.
    pub row: Vec<f32>,
    pub sampler: crate::sampler::Workspace,
}

impl ThreadScratch {
    /// `candidates`: ids that a draw sorts.
    fn shape(&mut self, shape: &Shape, candidates: usize) {
        grow(&mut self.cosines, shape.heads.key_size);
        grow(&mut self.sines, shape.heads.key_size);
        grow(&mut self.head, shape.heads.key_size);
        grow(&mut self.row, shape.embedding);
        self.sampler.reserve(candidates);
    }

    fn bytes(&self) -> usize {
        held(&self.cosines) + held(&self.sines) + held(&self.head) + held(&self.row) + self.sampler.bytes()
    }
}

/// All of it.
#[derive(Default)]
pub struct Scratch {
    /// Rows that are left: all, and in the last layer those that are asked for.
    pub rows: usize,
    /// `[row][embedding]`: the residual stream.
    pub hidden: Vec<f32>,
    /// `[row of the step][queries, keys, values]`
    pub query_key_value: Vec<f32>,
    /// `[row left][head][value size]`
    pub attended: Vec<f32>,
    /// `[row of a chunk][gate, up]`
    pub gate_up: Vec<f32>,
    /// `[row of a chunk][embedding]`: a product on its way through a norm.
    pub product: Vec<f32>,
    pub activations: ActivationStore,
    /// `[row of a chunk][vocabulary]`
    pub logits: Vec<f32>,
    pub plan: Plan,
    /// Rows of the step that are left, and their positions.
    pub rows_left: Vec<usize>,
    pub positions: Vec<i32>,
    /// One for each window of the model.
    pub tiles: Vec<Tiles>,
    /// One for each rotary table of the model.
    pub angles: Vec<Angles>,
    pub attention: Room,
    pub threads: Vec<Mutex<ThreadScratch>>,
    /// Outputs in the order of their rows, and what each drew.
    pub output_order: Vec<usize>,
    pub drawn: Vec<Mutex<Drawn>>,
    /// Of the check.
    pub slots: Vec<(i32, usize)>,
}

impl Scratch {
    /// Makes room for a checked step and plans it.
    pub fn begin(&mut self, step: &Step, machine: &Machine) {
        let shape = &machine.weights.shape;
        let rows = step.rows();
        let chunk = rows.min(ROW_CHUNK);
        self.rows = rows;
        grow(&mut self.hidden, rows * shape.embedding);
        grow(&mut self.query_key_value, rows * shape.heads.query_key_value());
        grow(&mut self.attended, rows * shape.heads.attended());
        grow(&mut self.gate_up, chunk * 2 * shape.feed);
        grow(&mut self.product, chunk * shape.embedding);
        grow(&mut self.logits, rows.min(step.outputs()).min(LOGIT_ROWS) * shape.vocabulary);
        while self.threads.len() < machine.pool.threads() {
            self.threads.push(Mutex::default());
        }
        let windows = &machine.weights.windows;
        self.plan.build(step, 0, machine.cells.shape().page_size, windows);
        // Every thread's memory grows here: who first gets which task is not known.
        let candidates = if step.draws_from_candidates() { shape.sampled } else { 0 };
        for thread in &mut self.threads {
            let thread = thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            thread.shape(shape, candidates);
        }
        self.attention.shape(&shape.heads, machine.cells.shape(), machine.pool.threads(), self.plan.shifts_of_block_max());
        self.tiles.resize_with(windows.len(), Tiles::default);
        self.angles.resize_with(machine.weights.rotaries.len(), Angles::default);
        for (angles, rotary) in self.angles.iter_mut().zip(&machine.weights.rotaries) {
            angles.build(&self.plan, &step.position, rotary, &machine.pool);
        }
        self.rows_left.clear();
        self.rows_left.extend(0..rows);
        self.positions.clone_from(&step.position);
        for window in 0..windows.len() {
            self.tile(window, machine);
        }
    }

    /// Leaves only the rows whose logits are wanted: before the last layer attends, when all cells are written.
    pub fn keep_wanted(&mut self, step: &Step, machine: &Machine) {
        let embedding = machine.weights.shape.embedding;
        self.rows_left.clear();
        self.rows_left.extend(step.out_row.iter().map(|row| *row as usize));
        self.rows_left.sort_unstable();
        self.rows_left.dedup();
        self.rows = self.rows_left.len();
        for (at, row) in self.rows_left.iter().enumerate() {
            self.hidden.copy_within(row * embedding..(row + 1) * embedding, at * embedding);
            self.positions[at] = step.position[*row];
        }
        let last = machine.weights.layers.last().expect("a layer");
        self.tile(last.window, machine);
    }

    fn tile(&mut self, window: usize, machine: &Machine) {
        let starts = &self.plan.starts[window];
        self.tiles[window].build(&self.plan, &self.rows_left, starts, &machine.weights.shape.heads, &machine.pool);
    }

    pub fn bytes(&self) -> usize {
        let numbers = [&self.hidden, &self.query_key_value, &self.attended, &self.gate_up, &self.product, &self.logits];
        let numbers = numbers.iter().map(|numbers| held(numbers)).sum::<usize>();
        let lists = held(&self.rows_left) + held(&self.positions) + held(&self.output_order) + held(&self.slots);
        let tiles = held(&self.tiles) + self.tiles.iter().map(Tiles::bytes).sum::<usize>();
        let threads = held(&self.threads) + self.threads.iter().map(|thread| exclusive(thread).bytes()).sum::<usize>();
        let drawn = held(&self.drawn) + self.drawn.iter().map(|drawn| exclusive(drawn).bytes()).sum::<usize>();
        numbers
            + lists
            + tiles
            + threads
            + drawn
            + self.plan.bytes()
            + self.activations.bytes()
            + self.attention.bytes()
            + held(&self.angles)
            + self.angles.iter().map(Angles::bytes).sum::<usize>()
    }
}
