//! Parts of the forward pass that stand alone: products with a packed matrix, and attention over paged cells.

use palimpsest_kernels::buffer::Arena;
use palimpsest_kernels::level::PANEL_ROWS;
use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{CellShape, Cells, Code, Error, Kernels, Matrix, Output, Pool, RawMatrix, Result, Rotary};

use crate::attention::{Attention, Heads, Plan, Room, Tiles};
use crate::forward::{ActivationStore, Forms};
use crate::shared::grain;
use crate::step::{Facts, ROWS_MAX, Step};

/// Positions at most: beyond it the tables of angles take more than a hundred megabytes.
pub const CONTEXT_MAX: usize = 1 << 22;
/// Elements of a head at most.
pub const HEAD_SIZE_MAX: usize = 1024;
/// Heads at most.
pub const HEADS_MAX: usize = 1024;
/// Cells of a page at most: offsets inside a page are 16-bit numbers.
pub const PAGE_SIZE_MAX: usize = 4096;
/// Layers of a pool of pages at most.
pub const LAYERS_MAX: usize = 1024;
/// Rows of activations that pass through a product together.
const ROW_CHUNK: usize = 256;

fn invalid<T>(param: impl Into<String>, message: String) -> Result<T> {
    Err(Error::at(Code::ArgumentInvalid, param, message))
}

/// Zeroed numbers. Errors: `cells_exceed_memory`.
fn numbers(rows: usize, columns: usize) -> Result<Vec<f32>> {
    let mut numbers = Vec::new();
    let room = rows.checked_mul(columns).filter(|count| numbers.try_reserve_exact(*count).is_ok());
    let Some(count) = room else {
        return Err(Error::new(Code::CellsExceedMemory, format!("{rows} rows of {columns} numbers do not fit into memory")));
    };
    numbers.resize(count, 0.0);
    Ok(numbers)
}

fn finite(param: &str, numbers: &[f32]) -> Result<()> {
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(at) => invalid(format!("{param}[{at}]"), format!("a finite number is expected, {} came", numbers[at])),
        None => Ok(()),
    }
}

fn length(param: &str, came: usize, expected: usize) -> Result<()> {
    if came == expected { Ok(()) } else { invalid(param, format!("{expected} numbers are expected, {came} came")) }
}

fn between(param: &str, came: usize, lowest: usize, highest: usize) -> Result<()> {
    if (lowest..=highest).contains(&came) { Ok(()) } else { invalid(param, format!("{lowest} … {highest} is expected, {came} came")) }
}

/// A level and its threads.
pub struct Compute {
    pub kernels: Box<dyn Kernels>,
    pub pool: Pool,
    /// Packed matrices lie side by side.
    arena: Arena,
    /// Kept from product to product.
    activations: ActivationStore,
}

impl Compute {
    pub fn new(kernels: Box<dyn Kernels>, pool: Pool) -> Self {
        Self { kernels, pool, arena: Arena::new(), activations: ActivationStore::default() }
    }

    /// Packs rows of a GGUF type for this level.
    ///
    /// Errors: `argument_invalid` that names `columns` or `bytes`, `tensor_type_unsupported`, `cells_exceed_memory`.
    pub fn pack(&self, tensor_type: TensorType, rows: usize, columns: usize, bytes: &[u8]) -> Result<Matrix> {
        let Some(row_bytes) = tensor_type.bytes_of(columns).filter(|bytes| *bytes > 0) else {
            let block = tensor_type.block_size();
            return invalid("columns", format!("{columns} columns are no whole number of {} blocks of {block}", tensor_type.name()));
        };
        if rows == 0 || row_bytes.checked_mul(rows) != Some(bytes.len()) {
            return invalid("bytes", format!("{rows} rows of {row_bytes} bytes are expected, {} bytes came", bytes.len()));
        }
        self.kernels.pack(&RawMatrix { tensor_type, rows, columns, bytes }, &self.pool, &self.arena)
    }

    /// out[r][o] = Σ_k x[r][k] · matrix[o][k]. A row's bits depend neither on the other rows nor on threads.
    ///
    /// Errors: `argument_invalid` that names `x` when it is no whole number of rows or holds what is not finite, `cells_exceed_memory`.
    pub fn multiply(&mut self, matrix: &Matrix, x: &[f32]) -> Result<Vec<f32>> {
        let Matrix { rows: outputs, columns, .. } = *matrix;
        if !x.len().is_multiple_of(columns) {
            return invalid("x", format!("{} numbers are no whole number of rows of {columns}", x.len()));
        }
        finite("x", x)?;
        let rows = x.len() / columns;
        let mut out = numbers(rows, outputs)?;
        for first in (0..rows).step_by(ROW_CHUNK) {
            let count = ROW_CHUNK.min(rows - first);
            self.activations.shape(count, columns, Forms::of(self.kernels.wants_codes(matrix.format)));
            let writer = self.activations.writer();
            self.pool.run(count, grain(&self.pool, count, 2 * columns), &|range, _| {
                for row in range {
                    // SAFETY: each row belongs to one task.
                    self.kernels.quantize(&x[(first + row) * columns..][..columns], &mut unsafe { writer.row(row) });
                }
            });
            let activations = self.activations.view(count);
            let target = &Output { start: out[first * outputs..].as_mut_ptr(), stride: outputs, bias: None, add: false };
            let panels = matrix.panels();
            self.pool.run(panels, grain(&self.pool, panels, count * columns * PANEL_ROWS), &|range, _| {
                // SAFETY: `out` holds every output of these rows, and these panels' belong to this task.
                unsafe { self.kernels.multiply(matrix, range, &activations, *target) };
            });
        }
        Ok(out)
    }
}

/// What a pool of pages is asked for.
pub struct CellPagesShape {
    pub cells: CellShape,
    pub heads: Heads,
    /// Positions 0 … context − 1.
    pub context: usize,
    /// A row at position p reads cells at current positions above p − window.
    pub window: Option<usize>,
}

impl CellPagesShape {
    /// Errors: `argument_invalid` in the names of the face, before anything is reserved.
    pub fn check(&self, rotary_dimensions: usize) -> Result<()> {
        let CellShape { layers, pages, page_size, key_size, kv_heads, .. } = self.cells;
        between("layers", layers, 1, LAYERS_MAX)?;
        between("pageSize", page_size, 1, PAGE_SIZE_MAX)?;
        between("pages", pages, 1, i32::MAX as usize / page_size)?;
        between("headSize", key_size, 1, HEAD_SIZE_MAX)?;
        between("kvHeads", kv_heads, 1, HEADS_MAX)?;
        between("heads", self.heads.heads, 1, HEADS_MAX)?;
        if !self.heads.heads.is_multiple_of(kv_heads) {
            return invalid("heads", format!("{} heads are no whole number of groups of {kv_heads} key heads", self.heads.heads));
        }
        between("contextLength", self.context, 1, CONTEXT_MAX)?;
        between("rotary.dimensions", rotary_dimensions, 2, key_size)
    }
}

/// New cells of one layer: one entry a row, `[row][key head][size]`.
#[derive(Clone, Copy)]
pub struct NewCells<'a> {
    pub slots: &'a [i32],
    pub positions: &'a [i32],
    pub keys: &'a [f32],
    pub values: &'a [f32],
    /// The keys are rotated to their positions already.
    pub rotated: bool,
}

/// Paged cells, and the attention of segments over them.
pub struct CellPages {
    cells: Cells,
    heads: Heads,
    rotary: Rotary,
    context: usize,
    windows: [Option<usize>; 1],
    plan: Plan,
    tiles: Tiles,
    room: Room,
    rows: Vec<usize>,
    slots: Vec<(i32, usize)>,
}

impl CellPages {
    /// Zeroed pages of a shape that was checked. Errors: `cells_exceed_memory`.
    pub fn new(shape: CellPagesShape, rotary: Rotary) -> Result<Self> {
        let CellPagesShape { cells, heads, context, window } = shape;
        let (plan, tiles, room, rows, slots) = Default::default();
        Ok(Self { cells: Cells::new(cells)?, heads, rotary, context, windows: [window], plan, tiles, room, rows, slots })
    }

    pub fn bytes(&self) -> usize {
        self.cells.bytes()
    }

    pub fn shape(&self) -> &CellShape {
        self.cells.shape()
    }

    fn check_layer(&self, layer: usize) -> Result<()> {
        between("layer", layer, 0, self.cells.shape().layers - 1)
    }

    /// Rotates keys to their positions and writes them with the values into slots.
    ///
    /// Errors: `argument_invalid` that names `layer`, `slots`, `positions`, `keys` or `values`; nothing was written.
    pub fn store(&mut self, compute: &Compute, layer: usize, new: &NewCells<'_>) -> Result<()> {
        self.check_layer(layer)?;
        let shape = *self.cells.shape();
        let NewCells { slots, positions, keys, values, rotated } = *new;
        length("positions", positions.len(), slots.len())?;
        length("keys", keys.len(), slots.len() * shape.kv_heads * shape.key_size)?;
        length("values", values.len(), slots.len() * shape.kv_heads * shape.value_size)?;
        for (name, entries, end) in [("slots", slots, shape.pages * shape.page_size), ("positions", positions, self.context)] {
            if let Some(at) = entries.iter().position(|entry| *entry < 0 || *entry as usize >= end) {
                return invalid(format!("{name}[{at}]"), format!("0 … {} is expected, {} came", end - 1, entries[at]));
            }
        }
        self.check_distinct(slots)?;
        finite("keys", keys)?;
        finite("values", values)?;
        let (cells, rotary, pairs) = (self.cells.layer(layer), &self.rotary, self.rotary.pair_count());
        compute.pool.run(slots.len(), grain(&compute.pool, slots.len(), shape.kv_heads * shape.key_size), &|rows, _| {
            let (mut cosines, mut sines, mut turned) = (vec![0.0; pairs], vec![0.0; pairs], vec![0.0; shape.key_size]);
            for row in rows {
                rotary.angles(positions[row], &mut cosines, &mut sines);
                for head in 0..shape.kv_heads {
                    let at = row * shape.kv_heads + head;
                    let mut key = &keys[at * shape.key_size..][..shape.key_size];
                    if !rotated {
                        compute.kernels.rotate(rotary.pairs, &cosines, &sines, 1.0, key, &mut turned);
                        key = &turned;
                    }
                    let value = &values[at * shape.value_size..][..shape.value_size];
                    // SAFETY: slots are inside the pool and distinct, each row belongs to one task, and we hold the cells.
                    unsafe { cells.store(slots[row] as usize, head, key, value) };
                }
            }
        });
        Ok(())
    }

    fn check_distinct(&mut self, slots: &[i32]) -> Result<()> {
        self.slots.clear();
        self.slots.extend(slots.iter().enumerate().map(|(row, slot)| (*slot, row)));
        self.slots.sort_unstable();
        match self.slots.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => invalid(format!("slots[{}]", pair[1].1), format!("slot {} is stored a second time", pair[1].0)),
            None => Ok(()),
        }
    }

    /// `[row][head][size]`: softmax(scores) · values of what each row reads: its segment's view, then the rows before it, then itself.
    /// Of the step only rows, segments, runs and pages are used. `queries`: raw, `[row][head][size]`. `sinks`: a logit for each head that
    /// joins the denominator of every row's softmax and reads nothing; empty: none.
    ///
    /// Errors: `step_invalid`; `argument_invalid` that names `layer`, `queries` or `sinks`; `cells_exceed_memory`.
    pub fn attend(&mut self, compute: &Compute, layer: usize, step: &Step, queries: &[f32], sinks: &[f32]) -> Result<Vec<f32>> {
        self.check_layer(layer)?;
        let (rows, heads) = (step.position.len(), self.heads);
        if rows > ROWS_MAX {
            return Err(Error::at(Code::StepInvalid, "position", format!("at most {ROWS_MAX} rows attend together, {rows} came")));
        }
        step.check(&self.facts(), &mut self.slots)?;
        length("queries", queries.len(), rows * heads.key_at())?;
        finite("queries", queries)?;
        if !sinks.is_empty() {
            length("sinks", sinks.len(), heads.heads)?;
        }
        finite("sinks", sinks)?;
        let mut attended = numbers(rows, heads.attended())?;
        self.plan.build(step, 0, self.cells.shape().page_size, &self.windows);
        self.room.shape(&heads, self.cells.shape(), compute.pool.threads(), self.plan.shifts_of_block_max());
        self.rows.clear();
        self.rows.extend(0..rows);
        self.tiles.build(&self.plan, &self.rows, &self.plan.starts[0], &heads, &compute.pool);
        let attention = Attention {
            kernels: &*compute.kernels,
            pool: &compute.pool,
            cells: self.cells.layer(layer),
            rotary: &self.rotary,
            angles: None,
            heads: &heads,
            sinks,
            plan: &self.plan,
            tiles: &self.tiles,
            rows: &self.rows,
            positions: &step.position,
            starts: &self.plan.starts[0],
            queries,
            stride: heads.key_at(),
        };
        attention.run(&mut attended, &mut self.room);
        Ok(attended)
    }

    fn facts(&self) -> Facts {
        let shape = self.cells.shape();
        Facts {
            context: self.context,
            vocabulary: 1,
            sampled: 1,
            groups: 1,
            windows: self.windows[0].is_some(),
            pages: shape.pages,
            page_size: shape.page_size,
            previous_outputs: 0,
        }
    }
}

/// The step that asks only where rows stand and what they read.
pub fn asking(step: Step) -> Step {
    let rows = step.position.len();
    Step { token: vec![0; rows], store: vec![0; rows], ..step }
}
