//! Same log, same bits: whatever the batch, the chunks, the pages, the cuts, the threads.

mod support;

use palimpsest_kernels::{CellDtype, Level};
use palimpsest_model::config::Architecture;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::TinyModel;
use support::{Habits, Log, Random, bits, execute, open, tiny};

const PLAIN: Habits = Habits { chunk_max: usize::MAX, cut: 0, again: 0, together: 0, gaps: 0 };

fn levels() -> Vec<Level> {
    palimpsest_kernels::levels().iter().map(|kernels| kernels.level()).collect()
}

#[test]
fn rows_are_the_same_bits_whole_in_chunks_alone_together_on_any_pages_and_threads() {
    for seed in 0..cases(2) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let architecture = [Architecture::Llama, Architecture::Gemma3, Architecture::Qwen2, Architecture::Qwen3][seed as usize % 4];
        let model = TinyModel { layers: 3, window: 23, ..tiny(architecture, seed) };
        let file = GgufFile::from_bytes(model.bytes().unwrap()).unwrap();
        let logs: Vec<Log> = (0..3).map(|_| Log::random(&mut random, 512, 512, 5, 60)).collect();
        for level in levels() {
            for dtype in CellDtype::ALL.iter().copied() {
                let mut first = Vec::new();
                for log in &logs {
                    let mut opened = open(&file, level, dtype, 64, 16, 1);
                    first.extend(execute(&mut opened, std::slice::from_ref(log), PLAIN, &mut random));
                }
                for (page_size, threads, chunk_max) in [(16, 2, 7), (5, 1, 64), (1, 2, 300), (16, 3, 1), (48, 2, 20)] {
                    let habits = Habits { chunk_max, cut: 10, again: 20, together: 60, gaps: 5 };
                    let mut opened = open(&file, level, dtype, 6_000 / page_size, page_size, threads);
                    let again = execute(&mut opened, &logs, habits, &mut random);
                    for (log, (first, again)) in first.iter().zip(&again).enumerate() {
                        for (row, (first, again)) in first.iter().zip(again).enumerate() {
                            let name = level.name();
                            assert!(
                                bits(first) == bits(again),
                                "{name} {dtype:?}, log {log}, row {row}, page {page_size}, {threads} threads"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn long_views_are_joined_from_blocks_in_one_order() {
    let seed = 77;
    let mut random = Random::new(seed);
    let file = GgufFile::from_bytes(TinyModel { context_length: 4096, ..tiny(Architecture::Llama, seed) }.bytes().unwrap()).unwrap();
    let log = Log::random(&mut random, 512, 4096, 5, 700);
    for (level, dtype) in levels().into_iter().flat_map(|level| [(level, CellDtype::F16), (level, CellDtype::Q8_0)]) {
        let whole = execute(&mut open(&file, level, dtype, 300, 16, 1), std::slice::from_ref(&log), PLAIN, &mut random);
        for (threads, chunk_max) in [(2, 500), (4, 33)] {
            let habits = Habits { chunk_max, cut: 2, again: 10, together: 0, gaps: 0 };
            let again = execute(&mut open(&file, level, dtype, 700, 16, threads), std::slice::from_ref(&log), habits, &mut random);
            for (row, (first, again)) in whole[0].iter().zip(&again[0]).enumerate() {
                assert!(bits(first) == bits(again), "{} {dtype:?}, row {row}, {threads} threads, chunks to {chunk_max}", level.name());
            }
        }
    }
}

fn cases(few: u64) -> u64 {
    if std::env::var("PALIMPSEST_LONG").is_ok_and(|value| value == "1") { few * 60 } else { few }
}
