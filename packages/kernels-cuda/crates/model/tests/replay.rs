//! Fold = replay: the paged step against the naive replay, on random edited logs.

mod support;

use palimpsest_kernels::{CellDtype, Level};
use palimpsest_model::config::{Architecture, Config};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use palimpsest_replay::{Program, replay};
use support::{Habits, Log, Random, execute, open, tiny};

/// Highest difference of a logit, over all rows, between the replay and an execution at random.
fn difference(file: &GgufFile, logs: &[Log], page_size: usize, threads: usize, habits: Habits, random: &mut Random) -> f32 {
    let config = Config::from_gguf(file).unwrap();
    let cells: usize = logs.iter().map(Log::cells).sum();
    let mut opened = open(file, Level::Reference, CellDtype::F32, (cells * 4).div_ceil(page_size) + 40, page_size, threads);
    let computed = execute(&mut opened, logs, habits, random);
    let mut highest = 0f32;
    for (log, computed) in logs.iter().zip(computed) {
        let (stage_positions, seen) = log.dense();
        let program =
            Program { tokens: &log.tokens, positions: &log.positions, stage_of: &log.stage_of, stage_positions: &stage_positions, seen: &seen };
        let wanted: Vec<usize> = (0..log.cells()).collect();
        let exact = replay(file, &config, &program, &wanted, 2).unwrap();
        assert_eq!(exact.len(), log.cells() * opened.vocabulary);
        for (computed, exact) in computed.iter().zip(exact.chunks_exact(opened.vocabulary)) {
            for (computed, exact) in computed.iter().zip(exact) {
                highest = highest.max((computed - exact).abs());
                assert!(computed.is_finite() && exact.is_finite());
            }
        }
    }
    highest
}

fn models() -> Vec<(&'static str, TinyModel)> {
    let llama = |seed| tiny(Architecture::Llama, seed);
    vec![
        ("llama", llama(1)),
        ("qwen2", tiny(Architecture::Qwen2, 2)),
        ("qwen3", tiny(Architecture::Qwen3, 3)),
        ("partial rotary", TinyModel { rotary_dimensions: Some(8), ..llama(4) }),
        ("llama3 factors", TinyModel { frequency_factors: true, rotary_base: 500_000.0, ..llama(5) }),
        ("one key head", TinyModel { heads: 4, kv_heads: 1, head_size: 32, ..llama(6) }),
        ("wide group", TinyModel { heads: 24, kv_heads: 1, head_size: 8, ..llama(7) }),
        ("no group", TinyModel { heads: 3, kv_heads: 3, head_size: 10, embedding_length: 36, feed_forward_length: 50, ..llama(8) }),
        ("own head, mixed types", TinyModel { tied: false, types: TinyTypes::Mixed, embedding_length: 256, feed_forward_length: 256, heads: 8, head_size: 32, ..llama(9) }),
    ]
}

#[test]
fn random_edited_logs_give_the_replay_s_logits() {
    let long = std::env::var("PALIMPSEST_LONG").is_ok_and(|value| value == "1");
    for seed in 0..if long { 2_000 } else { 120 } {
        let mut random = Random::new(seed);
        let models = models();
        let (name, model) = &models[seed as usize % models.len()];
        let file = GgufFile::from_bytes(TinyModel { seed, ..model.clone() }.bytes().unwrap()).unwrap();
        let logs: Vec<Log> = (0..random.between(1, 3))
            .map(|_| {
                let parts = random.between(1, 9);
                Log::random(&mut random, model.vocabulary_size, model.context_length, parts, 30)
            })
            .collect();
        let page_size = [1, 5, 16][random.below(3)];
        let chunk_max = random.between(1, 256);
        let habits = Habits { chunk_max, cut: random.below(30), again: random.below(30), together: random.below(100), gaps: random.below(10) };
        let threads = random.between(1, 2);
        let highest = difference(&file, &logs, page_size, threads, habits, &mut random);
        assert!(highest < 1e-4, "seed {seed}, {name}: a logit is off by {highest:e}");
    }
}
