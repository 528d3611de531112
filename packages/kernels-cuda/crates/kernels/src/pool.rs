//! Threads that share the tasks of one batch at a time.
//!
//! Each thread has its part of the tasks, takes chunk after chunk of it, and then helps with the parts of the others: a thread that the
//! system has put to sleep costs one chunk and not the whole batch, and neighbouring tasks mostly follow each other on one thread, which
//! reads memory faster than taking turns does (products of one row: 1.5 times). Workers spin for some microseconds between batches of a
//! step, then park. A worker that wakes too late joins nothing.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a worker looks for the next batch before it parks. A step's batches follow each other within a few microseconds.
const SPIN: Duration = Duration::from_micros(40);

/// Called with a range of tasks and the number of the thread (0 = the caller of `run`).
type Work<'a> = dyn Fn(Range<usize>, usize) + Sync + 'a;

pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(Thread, JoinHandle<()>)>,
    /// One batch at a time.
    running: Mutex<()>,
}

struct Shared {
    /// Epoch of the batch, workers inside it, and whether it can be joined: see `State`.
    state: AtomicU64,
    batch: UnsafeCell<Option<Batch>>,
    /// One a thread: the next chunk of its part.
    next: Vec<Counter>,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
    /// One a worker: it is parked, or about to.
    parked: Vec<AtomicBool>,
    stop: AtomicBool,
}

/// Alone on its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

#[derive(Clone, Copy)]
struct Batch {
    work: *const Work<'static>,
    shares: Shares,
}

/// How the tasks of a batch are cut.
///
/// ```text
/// chunks   0 1 2 3 4 | 5 6 7 8 9 | …      each of `grain` tasks, the last of what is left
/// parts        0     |     1     | …      one for each thread
/// ```
#[derive(Clone, Copy)]
struct Shares {
    tasks: usize,
    grain: usize,
    chunks: usize,
    parts: usize,
}

impl Shares {
    fn new(tasks: usize, grain: usize, threads: usize) -> Self {
        let chunks = tasks.div_ceil(grain);
        Self { tasks, grain, chunks, parts: threads.min(chunks) }
    }

    /// First chunk of a part; of part `parts`, the number of chunks.
    fn start(&self, part: usize) -> usize {
        self.chunks * part / self.parts
    }

    fn tasks_of(&self, chunk: usize) -> Range<usize> {
        chunk * self.grain..((chunk + 1) * self.grain).min(self.tasks)
    }
}

// SAFETY: `batch` is written only while no worker is inside (state closed, count 0) and read only by workers inside.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `batch` is used only while `run`, which owns what it points to, waits.
unsafe impl Send for Shared {}

// bit 0: open; bits 1 … 15: workers inside; bits 16 …: epoch
const OPEN: u64 = 1;
const INSIDE: u64 = 2;
const INSIDE_MASK: u64 = 0xfffe;
const EPOCH_SHIFT: u32 = 16;

impl Pool {
    /// A pool that computes with `threads` threads, the caller of `run` being one of them. 1 ≤ threads ≤ 1024.
    pub fn new(threads: usize) -> Self {
        let threads = threads.clamp(1, 1024);
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            batch: UnsafeCell::new(None),
            next: (0..threads).map(|_| Counter::default()).collect(),
            panicked: Mutex::new(None),
            parked: (1..threads).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let workers = (1..threads)
            .map_while(|number| {
                let shared = Arc::clone(&shared);
                let name = format!("palimpsest-{number}");
                // A system that refuses a thread leaves a smaller pool.
                let handle = std::thread::Builder::new().name(name).spawn(move || shared.serve(number)).ok()?;
                Some((handle.thread().clone(), handle))
            })
            .collect();
        Self { shared, workers, running: Mutex::new(()) }
    }

    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `work` over `0 … tasks`, in ranges of at most `grain`. Returns when all are done. A panic inside is raised again here, after
    /// every thread has left the batch; the pool stays usable.
    pub fn run(&self, tasks: usize, grain: usize, work: &Work<'_>) {
        let grain = grain.max(1);
        if tasks == 0 {
            return;
        }
        if tasks <= grain || self.workers.is_empty() {
            return work(0..tasks, 0);
        }
        let _one = self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; nobody reads the pointer after `close` has returned, and `work` outlives this call.
        let work_static = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        let shares = Shares::new(tasks, grain, self.threads());
        // SAFETY: the last batch is closed and empty, and we hold `running`.
        unsafe { *shared.batch.get() = Some(Batch { work: work_static, shares }) };
        for (part, next) in shared.next.iter().enumerate().take(shares.parts) {
            next.0.store(shares.start(part), Ordering::Relaxed);
        }
        let epoch = (shared.state.load(Ordering::Relaxed) >> EPOCH_SHIFT) + 1;
        shared.state.store(epoch << EPOCH_SHIFT | OPEN, Ordering::SeqCst);
        for (parked, (thread, _)) in shared.parked.iter().zip(&self.workers).take(shares.parts - 1) {
            if parked.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| shared.take(&shares, work, 0)));
        shared.close();
        let theirs = shared.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
    }
}

impl Shared {
    /// Works through the thread's own part, then through what is left of the others.
    fn take(&self, shares: &Shares, work: &Work<'_>, thread: usize) {
        for offset in 0..shares.parts {
            let part = (thread + offset) % shares.parts;
            let end = shares.start(part + 1);
            loop {
                let chunk = self.next[part].0.fetch_add(1, Ordering::Relaxed);
                if chunk >= end {
                    break;
                }
                work(shares.tasks_of(chunk), thread);
            }
        }
    }

    /// Lets nobody in any more and waits for those inside.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut rounds = 0u32;
        while self.state.load(Ordering::Acquire) & INSIDE_MASK != 0 {
            rounds += 1;
            if rounds < 4096 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// The life of worker `number` (1 …).
    fn serve(&self, number: usize) {
        let mut done = 0;
        loop {
            let Some(epoch) = self.join(number, done) else { return };
            done = epoch;
            // SAFETY: we are inside, so `run` waits for us and the batch stands.
            let batch = unsafe { (*self.batch.get()).expect("an open batch") };
            // SAFETY: as above.
            let work = unsafe { &*batch.work };
            let result = catch_unwind(AssertUnwindSafe(|| self.take(&batch.shares, work, number)));
            if let Err(payload) = result {
                // The rest of the batch has no use any more.
                for next in &self.next {
                    next.0.store(batch.shares.chunks, Ordering::Relaxed);
                }
                *self.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(payload);
            }
            self.state.fetch_sub(INSIDE, Ordering::Release);
        }
    }

    /// Waits for a batch after epoch `done` and enters it. `None` when the pool stops.
    fn join(&self, number: usize, done: u64) -> Option<u64> {
        let mut since = Instant::now();
        loop {
            for _ in 0..64 {
                let state = self.state.load(Ordering::Acquire);
                let epoch = state >> EPOCH_SHIFT;
                if state & OPEN != 0 && epoch != done {
                    let entered = self.state.compare_exchange(state, state + INSIDE, Ordering::AcqRel, Ordering::Relaxed);
                    if entered.is_ok() {
                        return Some(epoch);
                    }
                }
                std::hint::spin_loop();
            }
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            if since.elapsed() > SPIN {
                self.park(number, done);
                since = Instant::now();
            }
        }
    }

    fn park(&self, number: usize, done: u64) {
        let parked = &self.parked[number - 1];
        parked.store(true, Ordering::SeqCst);
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if (state & OPEN != 0 && state >> EPOCH_SHIFT != done) || self.stop.load(Ordering::SeqCst) {
                break;
            }
            std::thread::park();
        }
        parked.store(false, Ordering::SeqCst);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (thread, handle) in self.workers.drain(..) {
            thread.unpark();
            // A worker catches panics of the work, so it ends without one.
            let _ = handle.join();
        }
    }
}
