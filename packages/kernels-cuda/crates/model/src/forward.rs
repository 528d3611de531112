//! One forward step: rows in, cells written, outputs drawn.
//!
//! In each layer the keys and values of all rows are written first, then every row attends to its own view; products and
//! feed-forward run over all rows at once. Which rows are computed together changes no bit of any of them.

mod head;
mod rows;
mod scratch;

use std::sync::atomic::{AtomicU64, Ordering};

use palimpsest_kernels::{CellDtype, CellShape, Cells, Code, Error, Kernels, Pool, Result};

use crate::attention::Plan;
use crate::step::{Facts, Step};
use crate::weights::Weights;
use scratch::Scratch;

pub use head::Draws;
pub(crate) use scratch::{ActivationStore, Forms};

/// What does not change during a step. Cells are written through shared references, each slot by the row that owns it.
pub struct Machine {
    pub weights: Weights,
    pub kernels: Box<dyn Kernels>,
    pub pool: Pool,
    pub cells: Cells,
    products: ProductCounts,
}

/// Pages of a runtime.
#[derive(Clone, Copy, Debug)]
pub struct CellOptions {
    pub pages: usize,
    pub page_size: usize,
    pub dtype: CellDtype,
}

/// A model with its cells, ready to step.
pub struct Engine {
    machine: Machine,
    scratch: Scratch,
    /// What the outputs of the last resolved step came to.
    previous: Vec<i32>,
}

/// Counts of one step: see `StepCounts` in `src/step.ts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub rows: usize,
    pub cells_stored: usize,
    pub cells_read: usize,
    pub rotations: usize,
    pub bytes_moved: usize,
    /// Packed weights that products read, once for each product.
    pub weight_bytes: u64,
    /// Multiply-adds of the products.
    pub multiplications: u64,
    /// Pages that runs name, summed over runs.
    pub pages_read: usize,
}

/// What products did since the step began.
#[derive(Debug, Default)]
struct ProductCounts {
    weight_bytes: AtomicU64,
    multiplications: AtomicU64,
}

impl ProductCounts {
    fn clear(&self) {
        self.weight_bytes.store(0, Ordering::Relaxed);
        self.multiplications.store(0, Ordering::Relaxed);
    }

    fn add(&self, weight_bytes: usize, multiplications: usize) {
        self.weight_bytes.fetch_add(weight_bytes as u64, Ordering::Relaxed);
        self.multiplications.fetch_add(multiplications as u64, Ordering::Relaxed);
    }
}

/// What a step came to. Its vectors keep their room from step to step.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub draws: Draws,
    /// O · V when the step asks for them, else empty.
    pub logits: Vec<f32>,
    pub counts: Counts,
}

/// Bytes held by an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub weights: usize,
    pub cells: usize,
    pub scratch: usize,
}

/// What is asked between two layers: whether to go on.
pub type Checkpoint<'a> = dyn Fn(usize) -> Result<()> + 'a;

impl Engine {
    /// Errors: `cells_exceed_memory`.
    pub fn new(weights: Weights, kernels: Box<dyn Kernels>, pool: Pool, options: CellOptions) -> Result<Self> {
        let shape = &weights.shape;
        let cells = Cells::new(CellShape {
            layers: weights.layers.len(),
            kv_heads: shape.heads.kv_heads,
            key_size: shape.heads.key_size,
            value_size: shape.heads.value_size,
            pages: options.pages,
            page_size: options.page_size,
            dtype: options.dtype,
        })?;
        Ok(Self {
            machine: Machine { weights, kernels, pool, cells, products: ProductCounts::default() },
            scratch: Scratch::default(),
            previous: Vec::new(),
        })
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn memory(&self) -> Memory {
        Memory { weights: self.machine.weights.bytes(), cells: self.machine.cells.bytes(), scratch: self.scratch.bytes() }
    }

    /// Zeroes whole pages. Errors: `argument_invalid` for a page outside the pool; then none is zeroed.
    pub fn clear_pages(&mut self, pages: &[i32]) -> Result<()> {
        let count = self.machine.cells.shape().pages;
        if let Some(at) = pages.iter().position(|page| !(0..count as i64).contains(&i64::from(*page))) {
            let message = format!("pages are 0 … {}, {} came", count as i64 - 1, pages[at]);
            return Err(Error::at(Code::ArgumentInvalid, format!("pages[{at}]"), message));
        }
        for page in pages {
            self.machine.cells.clear_page(*page as usize);
        }
        Ok(())
    }

    /// The bytes of single cells, one after another (`CellShape::cell_bytes` each). Errors: `argument_invalid`.
    pub fn read_cells(&self, slots: &[i32]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; slots.len() * self.machine.cells.shape().cell_bytes()];
        self.machine.cells.read(slots, &mut bytes).map(|()| bytes)
    }

    /// The inverse. Errors: `argument_invalid`; then nothing is written.
    pub fn write_cells(&mut self, slots: &[i32], from: &[u8]) -> Result<()> {
        self.machine.cells.write(slots, from)
    }

    /// Zeroes single cells. Errors: `argument_invalid`; then none is zeroed.
    pub fn clear_cells(&mut self, slots: &[i32]) -> Result<()> {
        self.machine.cells.clear(slots)
    }

    /// What a step is checked against now.
    pub fn facts(&self) -> Facts {
        let (shape, cells) = (&self.machine.weights.shape, self.machine.cells.shape());
        Facts {
            context: shape.context,
            vocabulary: shape.vocabulary,
            sampled: shape.sampled,
            groups: 1,
            windows: self.machine.weights.windows.iter().any(Option::is_some),
            pages: cells.pages,
            page_size: cells.page_size,
            previous_outputs: self.previous.len(),
        }
    }

    /// Runs one step. `checkpoint` is asked before each layer; its error ends the step (cells stored until then are undefined).
    ///
    /// Errors: `step_invalid` (nothing was written), and those of `checkpoint`.
    pub fn step(&mut self, step: &Step, checkpoint: &Checkpoint<'_>) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        self.step_into(step, checkpoint, &mut outcome)?;
        Ok(outcome)
    }

    /// The same into what an earlier step came to. A step of a shape that was seen before allocates nothing.
    pub fn step_into(&mut self, step: &Step, checkpoint: &Checkpoint<'_>, outcome: &mut Outcome) -> Result<()> {
        step.check(&self.facts(), &mut self.scratch.slots)?;
        let Self { machine, scratch, previous } = self;
        machine.products.clear();
        scratch.begin(step, machine);
        machine.embed(step, previous, scratch);
        let last = machine.weights.layers.len() - 1;
        for layer in 0..=last {
            checkpoint(layer)?;
            machine.project(layer, step, scratch);
            if layer == last {
                scratch.keep_wanted(step, machine);
            }
            machine.attend(layer, scratch);
            machine.feed(layer, scratch);
        }
        machine.outputs(step, scratch, outcome);
        outcome.counts = counts(step, &scratch.plan, machine);
        previous.clone_from(&outcome.draws.ids);
        Ok(())
    }
}

fn counts(step: &Step, plan: &Plan, machine: &Machine) -> Counts {
    let page_size = machine.cells.shape().page_size;
    let pages = |(first, length): (&i32, &i32)| (*first as usize + *length as usize).div_ceil(page_size);
    Counts {
        rows: step.rows(),
        cells_stored: step.store.iter().filter(|store| **store == 1).count(),
        cells_read: plan.segments.iter().map(|segment| segment.view_cells).sum(),
        rotations: plan.rotations,
        bytes_moved: 0,
        weight_bytes: machine.products.weight_bytes.load(Ordering::Relaxed),
        multiplications: machine.products.multiplications.load(Ordering::Relaxed),
        pages_read: step.run_first.iter().zip(&step.run_length).map(pages).sum(),
    }
}
