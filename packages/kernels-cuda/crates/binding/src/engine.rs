//! The thread that steps: it owns the engine and takes one job after another, so that no step ever runs on the event loop.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use palimpsest_kernels::{Code, Error, Result};
use palimpsest_model::forward::{Engine, Memory, Outcome};
use palimpsest_model::step::Step;

use crate::errors::{from_panic, guard};

/// The first number of the caller's shared array. JavaScript keeps the array alive until the step has resolved.
#[derive(Clone, Copy)]
pub struct CancelFlag(*const AtomicI32);

// SAFETY: read as an atomic; the memory is shared and outlives the step (see `new`).
unsafe impl Send for CancelFlag {}

impl CancelFlag {
    /// # Safety
    /// `address` points to four aligned bytes that live until the step has resolved.
    pub unsafe fn new(address: *const i32) -> Self {
        Self(address.cast())
    }

    fn raised(self) -> bool {
        // SAFETY: the promise of `new`.
        unsafe { &*self.0 }.load(Ordering::Relaxed) != 0
    }
}

/// Where a test wants a panic: in the `step`-th step (0 = the first), before `layer`; in a worker of the pool, or on this thread.
#[derive(Clone, Copy, Debug)]
pub struct PanicAt {
    pub step: u32,
    pub layer: u32,
    pub in_pool: bool,
}

pub type Settle<T> = Box<dyn FnOnce(Result<T>) + Send>;

pub enum Job {
    Step { step: Box<Step>, cancel: CancelFlag, settle: Settle<Outcome> },
    ClearPages { pages: Vec<i32> },
    ReadCells { slots: Vec<i32>, settle: Settle<Vec<u8>> },
    WriteCells { slots: Vec<i32>, bytes: Vec<u8>, settle: Settle<()> },
    ClearCells { slots: Vec<i32>, settle: Settle<()> },
    Dispose { settle: Settle<()> },
}

/// The sending half. Dropping it ends the thread, and with it weights and cells.
pub struct EngineThread {
    jobs: Mutex<Option<Sender<Job>>>,
    memory: Arc<Mutex<Memory>>,
}

impl EngineThread {
    /// Takes the engine to a thread of its own.
    pub fn start(engine: Engine, panic_at: Option<PanicAt>) -> Result<Self> {
        let (sender, receiver) = channel();
        let memory = Arc::new(Mutex::new(engine.memory()));
        let shared = Arc::clone(&memory);
        let thread = std::thread::Builder::new().name("palimpsest-engine".to_owned());
        thread
            .spawn(move || Worker { engine, panic_at, steps: 0, memory: shared }.serve(&receiver))
            .map_err(|cause| Error::new(Code::CellsExceedMemory, format!("the system gave no thread: {cause}")))?;
        Ok(Self { jobs: Mutex::new(Some(sender)), memory })
    }

    /// Queues a job. Gives it back when the runtime is disposed of.
    pub fn send(&self, job: Job) -> std::result::Result<(), Job> {
        match self.jobs.lock().expect("no panic while held").as_ref() {
            Some(jobs) => jobs.send(job).map_err(|back| back.0),
            None => Err(job),
        }
    }

    /// Queues the last job. `settle` is called when all before it have ended, or at once when this was called before.
    pub fn dispose(&self, settle: Settle<()>) {
        let jobs = self.jobs.lock().expect("no panic while held").take();
        let Some(jobs) = jobs else { return settle(Ok(())) };
        if let Err(back) = jobs.send(Job::Dispose { settle })
            && let Job::Dispose { settle } = back.0
        {
            settle(Ok(()));
        }
    }

    pub fn memory(&self) -> Memory {
        *self.memory.lock().expect("no panic while held")
    }
}

struct Worker {
    engine: Engine,
    panic_at: Option<PanicAt>,
    /// Steps that began.
    steps: u32,
    memory: Arc<Mutex<Memory>>,
}

impl Worker {
    fn serve(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Step { step, cancel, settle } => {
                    let result = self.step(&step, cancel);
                    *self.memory.lock().expect("no panic while held") = self.engine.memory();
                    settle(result);
                }
                // Pages were checked before they were queued.
                Job::ClearPages { pages } => self.engine.clear_pages(&pages).expect("pages inside the pool"),
                Job::ReadCells { slots, settle } => settle(guard(|| self.engine.read_cells(&slots))),
                Job::WriteCells { slots, bytes, settle } => settle(guard(|| self.engine.write_cells(&slots, &bytes))),
                Job::ClearCells { slots, settle } => settle(guard(|| self.engine.clear_cells(&slots))),
                Job::Dispose { settle } => {
                    drop(self);
                    return settle(Ok(()));
                }
            }
        }
    }

    fn step(&mut self, step: &Step, cancel: CancelFlag) -> Result<Outcome> {
        let number = self.steps;
        self.steps += 1;
        let panic_at = self.panic_at.filter(|at| at.step == number);
        let pool = panic_at.map(|_| palimpsest_kernels::Pool::new(2));
        let engine = &mut self.engine;
        let checkpoint = |layer: usize| {
            if cancel.raised() {
                return Err(Error::new(Code::StepCancelled, format!("cancelled before layer {layer}; the cells it stored are undefined")));
            }
            if let (Some(at), Some(pool)) = (panic_at, &pool)
                && at.layer as usize == layer
            {
                if at.in_pool {
                    let inside = AtomicU32::new(0);
                    pool.run(2, 1, &|_, thread| {
                        // Each thread waits for the other, so that the worker surely has a task.
                        inside.fetch_add(1, Ordering::SeqCst);
                        while inside.load(Ordering::SeqCst) < 2 {
                            std::thread::yield_now();
                        }
                        assert!(thread == 0, "injected in the pool, step {number}, layer {layer}");
                    });
                }
                panic!("injected, step {number}, layer {layer}");
            }
            Ok(())
        };
        let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.step(step, &checkpoint)));
        stepped.unwrap_or_else(|payload| Err(from_panic(payload)))
    }
}

/// Runs `work` on a thread of its own and settles with what it gives; a panic becomes `native_panic`.
pub fn off_loop<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static, settle: Settle<T>) {
    let thread = std::thread::Builder::new().name("palimpsest-work".to_owned());
    let settle = Arc::new(Mutex::new(Some(settle)));
    let own = Arc::clone(&settle);
    let take = |cell: &Mutex<Option<Settle<T>>>| cell.lock().expect("no panic while held").take();
    let spawned = thread.spawn(move || {
        let result = guard(work);
        if let Some(settle) = take(&own) {
            settle(result);
        }
    });
    if let Err(cause) = spawned
        && let Some(settle) = take(&settle)
    {
        settle(Err(Error::new(Code::CellsExceedMemory, format!("the system gave no thread: {cause}"))));
    }
}
