//! What an engine says it holds is what it holds.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{CellDtype, Level};
use palimpsest_model::config::Architecture;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use palimpsest_model::tiny::{TinyModel, TinyTypes};
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

/// Tests of this file count the same heap.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

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
    let _one = ONE_AT_A_TIME.lock();
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
                // Allocators round up, and vectors grow ahead of their need.
                assert!(memory.scratch <= taken && taken <= memory.scratch + memory.scratch / 8 + 16_384, "{} of {taken}", memory.scratch);
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

#[test]
fn weights_are_as_wide_as_the_file_has_them_and_cells_as_the_pool_says() {
    let _one = ONE_AT_A_TIME.lock();
    for types in TensorType::ALL.iter().copied() {
        let model = TinyModel { embedding_length: 256, feed_forward_length: 512, head_size: 64, ..tiny(Architecture::Llama, 5) };
        let model = TinyModel { types: TinyTypes::All(types), ..model };
        let file = GgufFile::from_bytes(model.bytes().unwrap()).unwrap();
        let bytes: usize = file.header().tensors.iter().map(|tensor| tensor.range.len()).sum();
        for level in palimpsest_kernels::levels().iter().filter(|level| level.level() != Level::Reference) {
            let engine = open(&file, level.level(), CellDtype::F16, 10, 16, 1).engine;
            let memory = engine.memory();
            let rotary: usize = engine.machine().weights.rotaries.iter().map(|rotary| rotary.bytes()).sum();
            let packed = memory.weights - rotary;
            println!("{types:?} on {}: {bytes} bytes in the file, {packed} packed", level.level().name());
            assert!(packed <= bytes + bytes / 16 + 4096, "{types:?}: {packed} of {bytes}");
            let shape = engine.machine().cells.shape();
            assert_eq!(memory.cells, 10 * shape.page_bytes());
            assert_eq!(shape.page_bytes(), 16 * 2 * 2 * (shape.kv_heads * shape.layers * shape.key_size));
        }
    }
}
