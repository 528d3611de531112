//! A model with its weights and cells, as JavaScript holds it.

use std::path::PathBuf;

use napi::Env;
use napi::bindgen_prelude::{Function, Int32Array, Int32ArraySlice, Object};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use palimpsest_kernels::{CellDtype, CellShape, Code, Error, Level, Pool, Result, kernels};
use palimpsest_model::config::Config;
use palimpsest_model::forward::{CellOptions, Engine};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tokenizer_data::TokenizerData;
use palimpsest_model::weights;

use crate::engine::{CancelFlag, EngineThread, Job, PanicAt, off_loop};
use crate::errors::to_napi;
use crate::model::ModelInfoFields;
use crate::promise::promise;
use crate::step::{StepFields, StepResultFields};

/// Pages and cells of a page at most: slots are 32-bit numbers.
const SLOTS_MAX: usize = i32::MAX as usize;
/// Cells of a page at most: offsets inside a page are 16-bit numbers.
const PAGE_SIZE_MAX: u32 = 4096;

#[napi(object, object_to_js = false)]
pub struct OpenOptions {
    pub kernels: String,
    pub cache_dtype: String,
    pub pages: u32,
    pub page_size: u32,
    /// 0 = the cores of this machine.
    pub threads: u32,
    pub panic_at: Option<PanicAtFields>,
}

#[napi(object, object_to_js = false)]
pub struct PanicAtFields {
    pub step: u32,
    pub layer: u32,
    pub in_pool: bool,
}

#[napi]
pub struct NativeRuntime {
    pub(crate) engine: EngineThread,
    info: ModelInfoFields,
    pub(crate) facts: Facts,
}

#[derive(Clone, Copy)]
pub(crate) struct Facts {
    level: Level,
    pub(crate) shape: CellShape,
    threads: usize,
}

#[napi(object, object_from_js = false)]
pub struct RuntimeFacts {
    pub level: String,
    pub cache_dtype: String,
    pub pages: u32,
    pub page_size: u32,
    pub page_bytes: f64,
    pub cell_bytes: f64,
    pub threads: u32,
}

#[napi(object, object_from_js = false)]
pub struct MemoryFields {
    pub weights: f64,
    pub cells: f64,
    pub scratch: f64,
}

/// Reads a model and packs its weights on a thread of its own.
#[napi(catch_unwind)]
pub fn open_runtime<'env>(
    env: &'env Env,
    path: String,
    options: OpenOptions,
    on_progress: Option<Function<'_, f64, ()>>,
) -> napi::Result<Object<'env>> {
    let progress = match on_progress {
        Some(function) => Some(function.build_threadsafe_function().weak::<true>().build()?),
        None => None,
    };
    let (settle, object) = promise(env, |runtime: NativeRuntime| runtime)?;
    let work = move || {
        let mut reported = -1.0;
        open(&PathBuf::from(path), &options, &mut |fraction| {
            // A hundred calls tell enough.
            if let Some(progress) = &progress
                && (fraction - reported >= 0.01 || fraction == 1.0 && reported < 1.0)
            {
                reported = fraction;
                progress.call(fraction, ThreadsafeFunctionCallMode::NonBlocking);
            }
        })
    };
    off_loop(work, settle);
    Ok(object)
}

fn open(path: &std::path::Path, options: &OpenOptions, progress: &mut dyn FnMut(f64)) -> Result<NativeRuntime> {
    let kernels = choose(&options.kernels)?;
    let dtype = cell_dtype(&options.cache_dtype)?;
    let cells = CellOptions { pages: options.pages as usize, page_size: options.page_size as usize, dtype };
    if options.pages == 0 || options.page_size == 0 || options.page_size > PAGE_SIZE_MAX || cells.pages * cells.page_size > SLOTS_MAX {
        let message = format!(
            "pages from 1 on, of 1 … {PAGE_SIZE_MAX} cells, {SLOTS_MAX} cells in all; {} pages of {} came",
            options.pages, options.page_size
        );
        return Err(Error::at(Code::ArgumentInvalid, "pages", message));
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = if options.threads == 0 { cores } else { options.threads as usize };
    let file = GgufFile::open(path)?;
    let config = Config::from_gguf(&file)?;
    let sampled = TokenizerData::from_gguf(&file)?.tokens.len();
    let pool = Pool::new(threads);
    let weights = weights::load(&file, &config, sampled, &*kernels, &pool, progress)?;
    let level = kernels.level();
    let engine = Engine::new(weights, kernels, pool, cells)?;
    let facts = Facts { level, shape: *engine.machine().cells.shape(), threads: engine.machine().pool.threads() };
    let panic_at = options.panic_at.as_ref().map(|at| PanicAt { step: at.step, layer: at.layer, in_pool: at.in_pool });
    let info = ModelInfoFields::new(&config, engine.memory().weights);
    Ok(NativeRuntime { engine: EngineThread::start(engine, panic_at)?, info, facts })
}

/// The level by name; "auto" is the fastest of this machine.
pub fn choose(name: &str) -> Result<Box<dyn palimpsest_kernels::Kernels>> {
    if name == "auto" {
        let mut all = palimpsest_kernels::levels();
        return Ok(all.pop().expect("the reference level runs everywhere"));
    }
    let unsupported = |message: String| Error::at(Code::BackendUnsupported, "kernels", message);
    if name == "cuda" {
        return Err(unsupported("the level \"cuda\" is not built yet; use \"auto\"".to_owned()));
    }
    let Some(level) = Level::from_name(name) else {
        let known: Vec<_> = Level::ALL.iter().map(|level| level.name()).collect();
        let message = format!("auto, {} or cuda is expected, \"{name}\" came", known.join(", "));
        return Err(Error::at(Code::ArgumentInvalid, "kernels", message));
    };
    kernels(level).ok_or_else(|| unsupported(format!("this machine has not the instructions of the level \"{name}\"; use \"auto\"")))
}

fn cell_dtype(name: &str) -> Result<CellDtype> {
    CellDtype::ALL
        .iter()
        .copied()
        .find(|dtype| dtype.name() == name)
        .ok_or_else(|| Error::at(Code::ArgumentInvalid, "cacheDtype", format!("f32, f16 or q8_0 is expected, \"{name}\" came")))
}

pub(crate) fn disposed() -> Error {
    Error::new(Code::RuntimeDisposed, "the runtime was disposed of; open another")
}

#[napi]
impl NativeRuntime {
    #[napi(getter, catch_unwind)]
    pub fn info(&self) -> ModelInfoFields {
        self.info.clone()
    }

    #[napi(getter, catch_unwind)]
    pub fn facts(&self) -> RuntimeFacts {
        RuntimeFacts {
            level: self.facts.level.name().to_owned(),
            cache_dtype: self.facts.shape.dtype.name().to_owned(),
            pages: self.facts.shape.pages as u32,
            page_size: self.facts.shape.page_size as u32,
            page_bytes: self.facts.shape.page_bytes() as f64,
            cell_bytes: self.facts.shape.cell_bytes() as f64,
            threads: self.facts.threads as u32,
        }
    }

    /// Bytes held after the last step.
    #[napi(catch_unwind)]
    pub fn memory(&self) -> MemoryFields {
        let memory = self.engine.memory();
        MemoryFields { weights: memory.weights as f64, cells: memory.cells as f64, scratch: memory.scratch as f64 }
    }

    /// Queues a step. `cancel` is over shared memory, and the caller keeps it until the promise has settled.
    #[napi(catch_unwind)]
    pub fn step<'env>(&self, env: &'env Env, fields: StepFields<'_>, cancel: Int32Array) -> napi::Result<Object<'env>> {
        if cancel.is_empty() {
            return Err(to_napi(Error::at(Code::StepInvalid, "cancel", "at least one number is expected, none came")));
        }
        // SAFETY: memory of a SharedArrayBuffer cannot be detached, and the array is held until the promise has settled.
        let flag = unsafe { CancelFlag::new(cancel.as_ptr()) };
        let with_logits = fields.logits.is_some();
        let (settle, object) = promise(env, move |outcome| {
            drop(cancel);
            StepResultFields::new(outcome, with_logits)
        })?;
        let job = Job::Step { step: Box::new(fields.to_step()), cancel: flag, settle };
        if let Err(Job::Step { settle, .. }) = self.engine.send(job) {
            settle(Err(disposed()));
        }
        Ok(object)
    }

    /// Zeroes whole pages after the steps that were queued before.
    #[napi(catch_unwind)]
    pub fn clear_pages(&self, pages: Int32ArraySlice<'_>) -> napi::Result<()> {
        let count = self.facts.shape.pages as i64;
        if let Some(at) = pages.iter().position(|page| !(0..count).contains(&i64::from(*page))) {
            let message = format!("pages are 0 … {}, {} came", count - 1, pages[at]);
            return Err(to_napi(Error::at(Code::ArgumentInvalid, format!("pages[{at}]"), message)));
        }
        self.engine.send(Job::ClearPages { pages: pages.to_vec() }).map_err(|_| to_napi(disposed()))
    }

    /// Resolves when the queued steps have ended and weights and cells are freed.
    #[napi(catch_unwind)]
    pub fn dispose<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let (settle, object) = promise(env, |()| ())?;
        self.engine.dispose(settle);
        Ok(object)
    }
}
