//! A decode step allocates nothing once its memory has grown.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use palimpsest_kernels::CellDtype;
use palimpsest_model::config::Architecture;
use palimpsest_model::forward::Outcome;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use support::{open, tiny};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two streams that each add a row behind a view of two runs, one with a shift; one samples, one lists alternatives.
fn decode(number: i32) -> Step {
    Step {
        token: vec![number % 500, -1],
        position: vec![40 + number, 40 + number],
        cell: vec![100 + number, 200 + number],
        store: vec![1, 1],
        row_of: vec![0, 1, 2],
        view_of: vec![0, 2, 4],
        run_page: vec![0, 2, 0, 2],
        run_first: vec![3, 0, 3, 0],
        run_length: vec![20, 10 + number % 5, 20, 10 + number % 5],
        run_birth: vec![0, 30, 0, 30],
        run_shift: vec![0, -7, 0, -7],
        pages: vec![0, 1, 3],
        out_row: vec![1, 0],
        out_target: vec![-1, -1],
        out_top: vec![5, 0],
        out_sampler: vec![0, 1],
        samplers: vec![Sampler::GREEDY, Sampler { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0.01, seed: 1, draw: number as u64 }],
        ..Step::default()
    }
}

/// A thread that starts late allocates for itself.
fn all_threads_are_up(pool: &palimpsest_kernels::Pool) {
    let inside = AtomicUsize::new(0);
    pool.run(pool.threads(), 1, &|_, _| {
        inside.fetch_add(1, Ordering::SeqCst);
        while inside.load(Ordering::SeqCst) < pool.threads() {
            std::thread::yield_now();
        }
    });
}

/// The ceiling in `bench/budgets.json`: the number behind `"allocations":`.
fn allocation_budget() -> usize {
    let budgets = include_str!("../../../../../bench/budgets.json");
    let (_, rest) = budgets.split_once("\"allocations\":").expect("a budget of allocations");
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn a_decode_step_allocates_nothing_after_the_first_ones() {
    let budget = allocation_budget();
    for architecture in [Architecture::Llama, Architecture::Gemma3] {
        let file = GgufFile::from_bytes(tiny(architecture, 5).bytes().unwrap()).unwrap();
        for level in palimpsest_kernels::levels() {
            for (dtype, threads) in CellDtype::ALL.iter().flat_map(|dtype| [(*dtype, 1), (*dtype, 2)]) {
                let mut engine = open(&file, level.level(), dtype, 20, 16, threads).engine;
                let steps: Vec<Step> = (0..60).map(decode).collect();
                let mut outcome = Outcome::default();
                // A stream without a previous output: its first token is an id.
                let first = Step { token: vec![1, 2], ..decode(0) };
                engine.step_into(&first, &|_| Ok(()), &mut outcome).unwrap();
                for step in &steps[..20] {
                    engine.step_into(step, &|_| Ok(()), &mut outcome).unwrap();
                }
                all_threads_are_up(&engine.machine().pool);
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                for step in &steps[20..] {
                    engine.step_into(step, &|_| Ok(()), &mut outcome).unwrap();
                }
                let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
                let name = level.level().name();
                assert!(made <= budget, "{name} with {threads} threads, {dtype:?} cells, {architecture:?}: allocations in 40 steps");
            }
        }
    }
}
