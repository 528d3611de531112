//! Fold = replay: the paged step against the naive replay, on random edited logs.

mod support;

use palimpsest_kernels::{CellDtype, Level};
use palimpsest_model::config::{Architecture, Config, Scaling};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use palimpsest_replay::{Program, replay};
use support::{Habits, Log, Random, execute, open, tiny};

/// Highest difference of a logit, over all rows, between the replay and an execution at random.
fn difference(file: &GgufFile, logs: &[Log], page_size: usize, threads: usize, habits: Habits, random: &mut Random) -> f32 {
    difference_of(CellDtype::F32, file, logs, page_size, threads, habits, random)
}

fn difference_of(
    dtype: CellDtype,
    file: &GgufFile,
    logs: &[Log],
    page_size: usize,
    threads: usize,
    habits: Habits,
    random: &mut Random,
) -> f32 {
    let config = Config::from_gguf(file).unwrap();
    let cells: usize = logs.iter().map(Log::cells).sum();
    let mut opened = open(file, Level::Reference, dtype, (cells * 4).div_ceil(page_size) + 40, page_size, threads);
    let computed = execute(&mut opened, logs, habits, random);
    let mut highest = 0f32;
    for (log, computed) in logs.iter().zip(computed) {
        let (stage_positions, seen) = log.dense();
        let program = Program {
            tokens: &log.tokens,
            positions: &log.positions,
            stage_of: &log.stage_of,
            stage_positions: &stage_positions,
            seen: &seen,
        };
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
    let yarn = Scaling::Yarn {
        factor: 4.0,
        original_context_length: 128,
        beta_fast: 32.0,
        beta_slow: 1.0,
        extrapolation: 1.0,
        magnitude: 1.0 + 0.1 * 4f64.ln(),
    };
    vec![
        ("llama", llama(1)),
        ("qwen2", tiny(Architecture::Qwen2, 2)),
        ("qwen3", tiny(Architecture::Qwen3, 3)),
        ("gemma3", TinyModel { layers: 4, window: 17, window_period: 2, ..tiny(Architecture::Gemma3, 12) }),
        ("partial rotary", TinyModel { rotary_dimensions: Some(8), ..llama(4) }),
        ("llama3 factors", TinyModel { frequency_factors: true, rotary_base: 500_000.0, ..llama(5) }),
        ("linear scaling", TinyModel { rotary_scaling: Scaling::Linear { factor: 4.0 }, ..llama(10) }),
        ("yarn", TinyModel { rotary_scaling: yarn, head_size: 32, ..llama(11) }),
        ("one key head", TinyModel { heads: 4, kv_heads: 1, head_size: 32, ..llama(6) }),
        ("wide group", TinyModel { heads: 24, kv_heads: 1, head_size: 8, ..llama(7) }),
        ("no group", TinyModel { heads: 3, kv_heads: 3, head_size: 10, embedding_length: 36, feed_forward_length: 50, ..llama(8) }),
        (
            "own head, mixed types",
            TinyModel {
                tied: false,
                types: TinyTypes::Mixed,
                embedding_length: 256,
                feed_forward_length: 256,
                heads: 8,
                head_size: 32,
                ..llama(9)
            },
        ),
    ]
}

#[test]
fn random_edited_logs_give_the_replay_s_logits() {
    for seed in 0..if long() { 2_000 } else { 120 } {
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
        let habits =
            Habits { chunk_max, cut: random.below(30), again: random.below(30), together: random.below(100), gaps: random.below(10) };
        let threads = random.between(1, 2);
        let highest = difference(&file, &logs, page_size, threads, habits, &mut random);
        assert!(highest < 1e-4, "seed {seed}, {name}: a logit is off by {highest:e}");
    }
}

/// What cells of codes lose against f32 cells: by replay, so along any history of edits and wherever a cell stands now.
#[test]
fn cells_of_codes_stay_near_the_replay_s_logits() {
    let (mut worst_f16, mut worst) = (0f32, 0f32);
    for seed in 0..if long() { 600 } else { 60 } {
        let mut random = Random::new(seed);
        let models = models();
        let (name, model) = &models[seed as usize % models.len()];
        let file = GgufFile::from_bytes(TinyModel { seed, ..model.clone() }.bytes().unwrap()).unwrap();
        let parts = random.between(1, 9);
        let logs = [Log::random(&mut random, model.vocabulary_size, model.context_length, parts, 30)];
        let habits = Habits { chunk_max: random.between(1, 256), cut: random.below(30), again: random.below(30), together: 0, gaps: 5 };
        let page_size = [1, 5, 16][random.below(3)];
        let f16 = difference_of(CellDtype::F16, &file, &logs, page_size, 1, habits, &mut random);
        let q8_0 = difference_of(CellDtype::Q8_0, &file, &logs, page_size, 1, habits, &mut random);
        (worst_f16, worst) = (worst_f16.max(f16), worst.max(q8_0));
        println!("seed {seed}, {name}: f16 {f16:e}, q8_0 {q8_0:e}");
        assert!(q8_0 < 1.5 && q8_0 < 100.0 * f16, "seed {seed}, {name}: a logit is off by {q8_0:e}");
    }
    println!("f16 {worst_f16:e}, q8_0 {worst:e}");
}

/// The file of a real model, where the tests of the whole stack have fetched it. `None` skips by name, and fails where `CI=true`.
fn real_model(file: &str) -> Option<GgufFile> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let home = variable("PALIMPSEST_HOME").or_else(|| variable("HOME").map(|home| format!("{home}/.cache/palimpsest")))?;
    let path = std::path::Path::new(&home).join("models").join(file);
    if path.exists() {
        return Some(GgufFile::open(&path).unwrap());
    }
    assert!(variable("CI").is_none_or(|value| value != "true"), "{} is missing", path.display());
    println!("skipped: {} is missing", path.display());
    None
}

fn real(file: &str, cases: u64, part_max: usize) {
    let Some(file) = real_model(file) else { return };
    let config = Config::from_gguf(&file).unwrap();
    for seed in 0..cases {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let parts = random.between(2, 5);
        let logs = [Log::random(&mut random, config.vocabulary_size, config.context_length, parts, part_max)];
        let habits = Habits { chunk_max: random.between(1, 64), cut: 5, again: 0, together: 0, gaps: 5 };
        let page_size = [16, 5, 1][seed as usize % 3];
        let highest = difference(&file, &logs, page_size, 2, habits, &mut random);

        assert!(highest < 1e-3, "seed {seed}: a logit is off by {highest:e}");
    }
}

#[test]
fn smollm2_gives_the_replay_s_logits() {
    real("SmolLM2-135M-Instruct.Q4_1.gguf", if long() { 12 } else { 3 }, 40);
}

#[test]
fn qwen_gives_the_replay_s_logits() {
    real("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", if long() { 3 } else { 1 }, 12);
}

#[test]
fn gemma3_gives_the_replay_s_logits() {
    real("gemma-3-270m-q4_k_m.gguf", if long() { 3 } else { 1 }, 12);
}

fn long() -> bool {
    std::env::var("PALIMPSEST_LONG").is_ok_and(|value| value == "1")
}
