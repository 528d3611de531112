//! Speed of a step: `cargo run --release -p palimpsest-model --example step -- FILE [LEVEL] [THREADS] [PART OF A NAME] [f32|f16|q8_0]`.
//!
//! With one thread the time is that on the processor, so other work on the machine counts little.

use std::time::Instant;

use palimpsest_kernels::{CellDtype, Level, Pool, kernels};
use palimpsest_model::config::Config;
use palimpsest_model::forward::{CellOptions, Engine};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use palimpsest_model::weights;

const PAGE_SIZE: usize = 16;
const DEPTH: usize = 6144;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).expect("a GGUF file");
    let level = arguments.get(2).map_or(Level::Avx512, |name| Level::from_name(name).expect("a level"));
    let threads = arguments.get(3).map_or(1, |threads| threads.parse().expect("a number of threads"));
    let file = GgufFile::open(std::path::Path::new(path)).expect("a model");
    let config = Config::from_gguf(&file).expect("a model");
    let kernels = kernels(level).expect("a level of this machine");
    let pool = Pool::new(threads);
    let loading = Clock::start(threads);
    let weights = weights::load(&file, &config, usize::MAX, &*kernels, &pool, &mut |_| {}).expect("weights");
    println!("load {:.0} ms", loading.milliseconds());
    let named = |name: &String| CellDtype::ALL.iter().copied().find(|dtype| dtype.name() == name).expect("a dtype");
    let dtype = arguments.get(5).map_or(CellDtype::F16, named);
    let options = CellOptions { pages: 1024, page_size: PAGE_SIZE, dtype };
    let mut engine = Engine::new(weights, kernels, pool, options).expect("cells");
    let wanted = arguments.get(4).map_or("", String::as_str);
    let mut time = |name: &str, tokens: usize, rounds: usize, step: &dyn Fn(usize) -> Step| {
        if !name.contains(wanted) {
            return;
        }
        let mut best = f64::INFINITY;
        for round in 0..rounds {
            let step = step(round);
            let clock = Clock::start(threads);
            engine.step(&step, &|_| Ok(())).expect("a step");
            best = best.min(clock.milliseconds());
        }
        println!("{name:<32}{best:>9.2} ms {:>8.0} tokens/s", tokens as f64 / best * 1e3);
    };
    time("prefill 512 from empty", 512, 3, &|_| step(512, 0, 1, &[]));
    time("decode behind 16", 1, 300, &|_| step(1, 16, 1, &[0]));
    time("decode, 4 streams behind 16", 4, 200, &|_| step(1, 16, 4, &[0]));
    time("prefill to 6144", DEPTH - 512, 1, &|_| step(DEPTH - 512, 512, 1, &[0]));
    time("decode behind 6144", 1, 10, &|_| step(1, DEPTH, 1, &[0]));
    let shifts = |count: usize| -> Vec<i32> { (0..count as i32).map(|shift| -shift).collect() };
    time("decode behind 6144, 16 shifts", 1, 10, &|_| step(1, DEPTH, 1, &shifts(16)));
    time("decode behind 6144, 256 shifts", 1, 10, &|_| step(1, DEPTH, 1, &shifts(256)));
    time("prefill 128 behind 6144", 128, 2, &|_| step(128, DEPTH, 1, &[0]));
}

/// `rows` rows of each of `streams` streams behind a view of `cached` cells, in as many runs as there are shifts.
fn step(rows: usize, cached: usize, streams: usize, shifts: &[i32]) -> Step {
    let mut step = Step { row_of: vec![0], view_of: vec![0], samplers: vec![Sampler::GREEDY], ..Step::default() };
    for stream in 0..streams {
        for row in 0..rows {
            step.token.push(((37 * row + 11 * stream) % 40_000) as i32);
            step.position.push((cached + row) as i32);
            step.cell.push((cached + 512 * stream + row) as i32);
            step.store.push(1);
        }
        for (number, shift) in shifts.iter().enumerate() {
            let (first, end) = (number * cached / shifts.len(), (number + 1) * cached / shifts.len());
            step.run_page.push((step.pages.len() + first / PAGE_SIZE) as i32);
            step.run_first.push((first % PAGE_SIZE) as i32);
            step.run_length.push((end - first) as i32);
            step.run_birth.push(first as i32);
            step.run_shift.push((*shift).max(-(first as i32)));
        }
        step.pages.extend(0..cached.div_ceil(PAGE_SIZE) as i32);
        step.row_of.push(step.token.len() as i32);
        step.view_of.push(step.run_page.len() as i32);
        step.out_row.push(step.token.len() as i32 - 1);
        step.out_target.push(-1);
        step.out_top.push(0);
        step.out_sampler.push(0);
    }
    step
}

/// Time on the processor for one thread, else by the wall.
struct Clock {
    wall: Instant,
    processor: Option<f64>,
}

impl Clock {
    fn start(threads: usize) -> Self {
        Self { wall: Instant::now(), processor: if threads == 1 { processor_milliseconds() } else { None } }
    }

    fn milliseconds(&self) -> f64 {
        let wall = self.wall.elapsed().as_secs_f64() * 1e3;
        self.processor.map_or(wall, |start| processor_milliseconds().map_or(wall, |end| end - start))
    }
}

/// What this thread has run, as the system counts it.
#[cfg(target_os = "linux")]
fn processor_milliseconds() -> Option<f64> {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const THREAD: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the struct is the system's `timespec` on 64-bit Linux.
    let result = unsafe { clock_gettime(THREAD, &mut time) };
    (result == 0).then(|| time.seconds as f64 * 1e3 + time.nanoseconds as f64 / 1e6)
}

#[cfg(not(target_os = "linux"))]
fn processor_milliseconds() -> Option<f64> {
    None
}
