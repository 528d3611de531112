//! Products and attention without a model: on a thread of their own, one after the other, in the order of the calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use napi::Env;
use napi::bindgen_prelude::{Float32Array, Float32ArraySlice, Int32ArraySlice, Object, Uint8ArraySlice};
use napi_derive::napi;
use palimpsest_kernels::{CellDtype, CellShape, Code, Error, Level, Matrix, Pool, Result, Rotary};
use palimpsest_model::attention::Heads;
use palimpsest_model::library::{CellPages, CellPagesShape, Compute, NewCells, asking};
use palimpsest_model::step::Step;

use crate::engine::Settle;
use crate::errors::{guard, to_napi};
use crate::library::{RotaryFields, invalid, tensor_type};
use crate::promise::promise;
use crate::runtime::choose;

enum Job {
    Run(Box<dyn FnOnce(&mut Compute) + Send>),
    Dispose(Settle<()>),
}

/// The sending half. When the last holder drops it, the thread ends.
struct Queue {
    jobs: Mutex<Option<Sender<Job>>>,
}

fn disposed(what: &str) -> Error {
    Error::new(Code::RuntimeDisposed, format!("{what} disposed of; open others"))
}

/// Locks what no panic can leave half done.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn serve(mut compute: Compute, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Run(work) => work(&mut compute),
            Job::Dispose(settle) => {
                drop(compute);
                return settle(Ok(()));
            }
        }
    }
}

impl Queue {
    /// Queues `work`; a panic in it becomes `native_panic`.
    fn run<T: Send + 'static>(&self, settle: Settle<T>, work: impl FnOnce(&mut Compute) -> Result<T> + Send + 'static) {
        match locked(&self.jobs).as_ref() {
            // The thread serves for as long as there is a sender.
            Some(jobs) => drop(jobs.send(Job::Run(Box::new(move |compute| settle(guard(|| work(compute))))))),
            None => settle(Err(disposed("the threads were"))),
        }
    }
}

/// A level and its threads.
#[napi]
pub struct NativeCompute {
    queue: Arc<Queue>,
    level: Level,
    threads: usize,
}

#[napi]
impl NativeCompute {
    /// `threads`: 0 = the cores of this machine.
    #[napi(constructor, catch_unwind)]
    pub fn new(level: String, threads: u32) -> napi::Result<Self> {
        let kernels = choose(&level).map_err(to_napi)?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let pool = Pool::new(if threads == 0 { cores } else { threads as usize });
        let (level, threads) = (kernels.level(), pool.threads());
        let compute = Compute::new(kernels, pool);
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("palimpsest-compute".to_owned());
        thread
            .spawn(move || serve(compute, &receiver))
            .map_err(|cause| to_napi(Error::new(Code::CellsExceedMemory, format!("the system gave no thread: {cause}"))))?;
        Ok(Self { queue: Arc::new(Queue { jobs: Mutex::new(Some(sender)) }), level, threads })
    }

    #[napi(getter, catch_unwind)]
    pub fn level(&self) -> String {
        self.level.name().to_owned()
    }

    #[napi(getter, catch_unwind)]
    pub fn threads(&self) -> u32 {
        self.threads as u32
    }

    /// Packs rows of a GGUF type.
    #[napi(catch_unwind)]
    pub fn pack<'env>(
        &self,
        env: &'env Env,
        type_name: String,
        rows: u32,
        columns: u32,
        bytes: Uint8ArraySlice<'_>,
    ) -> napi::Result<Object<'env>> {
        let tensor_type = tensor_type(&type_name).map_err(to_napi)?;
        let (queue, bytes) = (Arc::clone(&self.queue), bytes.to_vec());
        let (settle, object) =
            promise(env, move |matrix: Matrix| NativeMatrix { queue, bytes: matrix.bytes(), matrix: Mutex::new(Some(Arc::new(matrix))) })?;
        self.queue.run(settle, move |compute| compute.pack(tensor_type, rows as usize, columns as usize, &bytes));
        Ok(object)
    }

    /// Reserves pages of cells.
    #[napi(catch_unwind)]
    pub fn cells(&self, fields: CellsFields, rotary: RotaryFields<'_>) -> napi::Result<NativeCellPages> {
        let pages = cell_pages(&fields, &rotary).map_err(to_napi)?;
        let bytes = pages.bytes();
        Ok(NativeCellPages { queue: Arc::clone(&self.queue), bytes, pages: Mutex::new(Some(Arc::new(Mutex::new(pages)))) })
    }

    /// Resolves when what was queued before has ended and the threads are gone.
    #[napi(catch_unwind)]
    pub fn dispose<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let (settle, object) = promise(env, |()| ())?;
        match locked(&self.queue.jobs).take() {
            Some(jobs) => drop(jobs.send(Job::Dispose(settle))),
            None => settle(Ok(())),
        }
        Ok(object)
    }
}

/// A weight matrix, packed for one level.
#[napi]
pub struct NativeMatrix {
    queue: Arc<Queue>,
    bytes: usize,
    matrix: Mutex<Option<Arc<Matrix>>>,
}

#[napi]
impl NativeMatrix {
    #[napi(getter, catch_unwind)]
    pub fn bytes(&self) -> f64 {
        self.bytes as f64
    }

    #[napi(catch_unwind)]
    pub fn multiply<'env>(&self, env: &'env Env, x: Float32ArraySlice<'_>) -> napi::Result<Object<'env>> {
        let matrix = locked(&self.matrix).clone().ok_or_else(|| to_napi(disposed("the matrix was")))?;
        let (settle, object) = promise(env, |out: Vec<f32>| Float32Array::from(out))?;
        let x = x.to_vec();
        self.queue.run(settle, move |compute| compute.multiply(&matrix, &x));
        Ok(object)
    }

    /// Frees the weights when the products that were queued before have ended.
    #[napi(catch_unwind)]
    pub fn dispose(&self) {
        locked(&self.matrix).take();
    }
}

/// `CellsOptions` of `src/library.ts`; the face has checked that numbers are finite.
#[napi(object, object_to_js = false)]
pub struct CellsFields {
    pub dtype: String,
    pub layers: u32,
    pub pages: u32,
    pub page_size: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_size: u32,
    pub context: u32,
    pub scale: f64,
    pub soft_cap: f64,
    /// 0 = none.
    pub window: u32,
    pub magnitude: f64,
}

fn cell_pages(fields: &CellsFields, rotary: &RotaryFields<'_>) -> Result<CellPages> {
    let known: Vec<_> = CellDtype::ALL.iter().map(|dtype| dtype.name()).collect();
    let dtype = CellDtype::ALL.iter().copied().find(|dtype| dtype.name() == fields.dtype);
    let dtype = dtype.ok_or_else(|| invalid("dtype", format!("one of {} is expected, \"{}\" came", known.join(", "), fields.dtype)))?;
    let (size, kv_heads) = (fields.head_size as usize, fields.kv_heads as usize);
    let cells = CellShape {
        layers: fields.layers as usize,
        kv_heads,
        key_size: size,
        value_size: size,
        pages: fields.pages as usize,
        page_size: fields.page_size as usize,
        dtype,
    };
    let (scale, cap, magnitude) = (fields.scale as f32, fields.soft_cap as f32, fields.magnitude as f32);
    let heads = Heads { heads: fields.heads as usize, kv_heads, key_size: size, value_size: size, scale, cap };
    let window = (fields.window > 0).then_some(fields.window as usize);
    let shape = CellPagesShape { cells, heads, context: fields.context as usize, window };
    shape.check(rotary.dimensions as usize)?;
    let rotary = Rotary::new(rotary.frequencies()?, rotary.pairs(), magnitude, shape.context);
    CellPages::new(shape, rotary)
}

/// Pages of cells, and the attention over them.
#[napi]
pub struct NativeCellPages {
    queue: Arc<Queue>,
    bytes: usize,
    /// Only the thread of the queue locks the pages.
    pages: Mutex<Option<Arc<Mutex<CellPages>>>>,
}

/// `NewCells` of `src/library.ts`.
#[napi(object, object_to_js = false)]
pub struct NewCellsFields<'env> {
    pub layer: u32,
    pub rotated: bool,
    pub slots: Int32ArraySlice<'env>,
    pub positions: Int32ArraySlice<'env>,
    pub keys: Float32ArraySlice<'env>,
    pub values: Float32ArraySlice<'env>,
}

/// Where rows stand and what they read: fields of a step.
#[napi(object, object_to_js = false)]
pub struct SegmentFields<'env> {
    pub position: Int32ArraySlice<'env>,
    pub cell: Int32ArraySlice<'env>,
    pub row_of: Int32ArraySlice<'env>,
    pub view_of: Int32ArraySlice<'env>,
    pub run_page: Int32ArraySlice<'env>,
    pub run_first: Int32ArraySlice<'env>,
    pub run_length: Int32ArraySlice<'env>,
    pub run_birth: Int32ArraySlice<'env>,
    pub run_shift: Int32ArraySlice<'env>,
    pub pages: Int32ArraySlice<'env>,
}

impl SegmentFields<'_> {
    /// A copy that the caller can no longer change.
    fn to_step(&self) -> Step {
        asking(Step {
            position: self.position.to_vec(),
            cell: self.cell.to_vec(),
            row_of: self.row_of.to_vec(),
            view_of: self.view_of.to_vec(),
            run_page: self.run_page.to_vec(),
            run_first: self.run_first.to_vec(),
            run_length: self.run_length.to_vec(),
            run_birth: self.run_birth.to_vec(),
            run_shift: self.run_shift.to_vec(),
            pages: self.pages.to_vec(),
            ..Step::default()
        })
    }
}

#[napi]
impl NativeCellPages {
    #[napi(getter, catch_unwind)]
    pub fn bytes(&self) -> f64 {
        self.bytes as f64
    }

    #[napi(catch_unwind)]
    pub fn store<'env>(&self, env: &'env Env, fields: NewCellsFields<'_>) -> napi::Result<Object<'env>> {
        let pages = self.pages()?;
        let (settle, object) = promise(env, |()| ())?;
        let NewCellsFields { layer, rotated, .. } = fields;
        let (slots, positions) = (fields.slots.to_vec(), fields.positions.to_vec());
        let (keys, values) = (fields.keys.to_vec(), fields.values.to_vec());
        self.queue.run(settle, move |compute| {
            let new = NewCells { slots: &slots, positions: &positions, keys: &keys, values: &values, rotated };
            locked(&pages).store(compute, layer as usize, &new)
        });
        Ok(object)
    }

    /// `[row][head][head size]`: what each row reads of its view and of the rows before it.
    #[napi(catch_unwind)]
    pub fn attend<'env>(
        &self,
        env: &'env Env,
        layer: u32,
        fields: SegmentFields<'_>,
        queries: Float32ArraySlice<'_>,
        sinks: Float32ArraySlice<'_>,
    ) -> napi::Result<Object<'env>> {
        let pages = self.pages()?;
        let (settle, object) = promise(env, |out: Vec<f32>| Float32Array::from(out))?;
        let (step, queries, sinks) = (fields.to_step(), queries.to_vec(), sinks.to_vec());
        self.queue.run(settle, move |compute| locked(&pages).attend(compute, layer as usize, &step, &queries, &sinks));
        Ok(object)
    }

    /// Frees the pages when what was queued before has ended.
    #[napi(catch_unwind)]
    pub fn dispose(&self) {
        locked(&self.pages).take();
    }

    fn pages(&self) -> napi::Result<Arc<Mutex<CellPages>>> {
        locked(&self.pages).clone().ok_or_else(|| to_napi(disposed("the cells were")))
    }
}
