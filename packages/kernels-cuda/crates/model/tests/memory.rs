//! What an engine says it holds is what it holds. One test: the heap that it counts is that of the whole process.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use palimpsest_kernels::CellDtype;
use palimpsest_model::config::Architecture;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use palimpsest_model::tiny::TinyModel;
use support::{open, tiny};

struct Counting;

/// Bytes of the heap that are in use. Weights and cells come from the system in pages of their own and are not among them.
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `rows` tokens of one stream at the start of a context; the last one is drawn with a temperature.
fn prefill(rows: i32) -> Step {
    Step {
        token: (0..rows).map(|row| row % 500).collect(),
        position: (0..rows).collect(),
        cell: (0..rows).collect(),
        store: vec![1; rows as usize],
        row_of: vec![0, rows],
        view_of: vec![0, 0],
        out_row: vec![rows - 1],
        out_target: vec![-1],
        out_top: vec![3],
        out_sampler: vec![0],
        samplers: vec![Sampler { temperature: 1.0, ..Sampler::GREEDY }],
        ..Step::default()
    }
}

#[test]
fn the_scratch_that_is_reported_is_what_steps_have_taken_from_the_heap() {
    let model = TinyModel { context_length: 2048, ..tiny(Architecture::Llama, 5) };
    let file = GgufFile::from_bytes(model.bytes().unwrap()).unwrap();
    for level in palimpsest_kernels::levels() {
        for (dtype, threads) in [(CellDtype::F32, 1), (CellDtype::F16, 2)] {
            let mut engine = open(&file, level.level(), dtype, 64, 16, threads).engine;
            let (before, first) = (LIVE.load(Ordering::Relaxed), engine.memory());
            assert_eq!(first.scratch, 0);
            let mut last = 0;
            for rows in [1, 30, 1000] {
                drop(engine.step(&prefill(rows), &|_| Ok(())).unwrap());
                let (taken, memory) = (LIVE.load(Ordering::Relaxed) - before, engine.memory());
                let name = level.level().name();
                println!("{name}, {threads} threads, {rows} rows: {} reported, {taken} taken", memory.scratch);
                // Allocators round up, and threads that start late take and give back a little of their own.
                assert!(
                    memory.scratch <= taken + 4096 && taken <= memory.scratch + memory.scratch / 8 + 16_384,
                    "{} of {taken}",
                    memory.scratch
                );
                assert!(memory.scratch > last);
                assert_eq!((memory.weights, memory.cells), (first.weights, first.cells));
                last = memory.scratch;
            }
            let taken = LIVE.load(Ordering::Relaxed);
            drop(engine.step(&prefill(700), &|_| Ok(())).unwrap());
            assert!(LIVE.load(Ordering::Relaxed) <= taken, "a smaller step takes nothing");
        }
    }
}
