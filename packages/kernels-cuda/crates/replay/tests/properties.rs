//! What must hold for any log, on generated models of every architecture.

use palimpsest_kernels::{Code, Result};
use palimpsest_model::config::{Architecture, Config, Scaling};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use palimpsest_replay::{Program, replay};
use support::{Edit, Log};

mod support;

const YARN: Scaling = Scaling::Yarn {
    factor: 4.0,
    original_context_length: 64,
    beta_fast: 32.0,
    beta_slow: 1.0,
    extrapolation: 1.0,
    magnitude: 1.138_629_436_111_989,
};

fn load(model: &TinyModel) -> (GgufFile, Config) {
    let file = GgufFile::from_bytes(model.bytes().expect("a valid description")).expect("a valid file");
    let config = Config::from_gguf(&file).expect("a known architecture");
    (file, config)
}

fn tokens(count: usize, salt: usize) -> Vec<u32> {
    (0..count).map(|at| ((at * 7919 + salt * 104_729 + at * at * 31) % 509) as u32).collect()
}

/// Logits of all rows, each row by itself.
fn run(model: &(GgufFile, Config), log: &Log) -> Vec<Vec<f32>> {
    let rows: Vec<usize> = (0..log.tokens.len()).collect();
    let logits = replay(&model.0, &model.1, &log.program(), &rows, 2).expect("a valid program");
    logits.chunks_exact(model.1.vocabulary_size).map(<[f32]>::to_vec).collect()
}

fn difference(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

fn variants() -> Vec<TinyModel> {
    let architectures = Architecture::ALL.iter().map(|&architecture| TinyModel { architecture, layers: 3, ..TinyModel::default() });
    let scalings = [Scaling::Linear { factor: 4.0 }, YARN].map(|rotary_scaling| TinyModel { rotary_scaling, ..TinyModel::default() });
    let partial = TinyModel { rotary_dimensions: Some(8), architecture: Architecture::Qwen2, ..TinyModel::default() };
    let factors = TinyModel { frequency_factors: true, tied: false, ..TinyModel::default() };
    let mixed = TinyModel { types: TinyTypes::Mixed, kv_heads: 4, ..TinyModel::default() };
    architectures.chain(scalings).chain([partial, factors, mixed]).collect()
}

#[test]
fn only_distances_count_so_a_log_that_begins_later_has_the_same_logits() {
    for description in variants() {
        let model = load(&description);
        let log = Log::new(&tokens(60, 1), &[]);
        let mut later = Log::new(&tokens(60, 1), &[]);
        later.positions.iter_mut().chain(&mut later.stage_positions).for_each(|position| *position += 1000);
        let (here, there) = (run(&model, &log), run(&model, &later));
        let worst = here.iter().zip(&there).map(|(x, y)| difference(x, y)).fold(0.0, f32::max);
        assert!(worst < 2e-4, "{description:?}: {worst}");
    }
}

#[test]
fn dropping_the_whole_past_and_moving_up_equals_a_fresh_log() {
    for description in variants() {
        let model = load(&description);
        let all = tokens(50, 2);
        let edited = run(&model, &Log::new(&all, &[Edit { boundary: 30, first: 0, end: 30, moves: true }]));
        let fresh = run(&model, &Log::new(&all[30..], &[]));
        for (row, (edited, fresh)) in edited[30..].iter().zip(&fresh).enumerate() {
            assert!(difference(edited, fresh) < 1e-5, "{description:?}, row {row}");
        }
    }
}

#[test]
fn stages_without_an_effect_change_nothing() {
    let nothing = |boundary| Edit { boundary, first: 3, end: 3, moves: true };
    for description in variants() {
        let model = load(&description);
        let plain = run(&model, &Log::new(&tokens(40, 3), &[]));
        let staged = run(&model, &Log::new(&tokens(40, 3), &[nothing(10), nothing(10), nothing(25)]));
        assert_eq!(plain, staged, "{description:?}");
    }
}

#[test]
fn a_drop_and_a_move_each_change_what_follows_and_nothing_before() {
    for description in variants() {
        let model = load(&description);
        let all = tokens(60, 4);
        let drop = |moves| run(&model, &Log::new(&all, &[Edit { boundary: 40, first: 10, end: 30, moves }]));
        let (plain, dropped, moved) = (run(&model, &Log::new(&all, &[])), drop(false), drop(true));
        for row in 0..40 {
            assert_eq!(plain[row], dropped[row], "{description:?}, row {row}");
            assert_eq!(plain[row], moved[row], "{description:?}, row {row}");
        }
        let change = |x: &[Vec<f32>], y: &[Vec<f32>]| (40..60).map(|row| difference(&x[row], &y[row])).fold(0.0, f32::max);
        assert!(change(&plain, &dropped) > 0.1, "{description:?}: a drop must be seen");
        assert!(change(&dropped, &moved) > 0.1, "{description:?}: a move must be seen");
    }
}

#[test]
fn windows_follow_current_positions() {
    let description = TinyModel { architecture: Architecture::Gemma3, layers: 1, window: 16, ..TinyModel::default() };
    let model = load(&description);
    let all = tokens(60, 5);
    let mut other = all.clone();
    other[20] = (other[20] + 1) % 500;
    let difference_at = |edits: &[Edit], row: usize| {
        let (x, y) = (run(&model, &Log::new(&all, edits)), run(&model, &Log::new(&other, edits)));
        difference(&x[row], &y[row])
    };
    // One layer, window 16: row 45 reads cells 30 … 45. Without 21 … 40 and moved together, it reads cell 20 again.
    let come_closer = |moves| Edit { boundary: 44, first: 21, end: 41, moves };
    assert_eq!(difference_at(&[], 45), 0.0);
    assert_eq!(difference_at(&[come_closer(false)], 45), 0.0);
    assert!(difference_at(&[come_closer(true)], 45) > 1e-3);
    assert!(difference_at(&[], 35) > 1e-3, "cell 20 is the last in the window of row 35");
    assert_eq!(difference_at(&[], 36), 0.0);
}

#[test]
fn generated_models_are_lively_enough_for_a_test_to_fail() {
    for description in variants() {
        let model = load(&description);
        let logits = run(&model, &Log::new(&tokens(60, 6), &[]));
        let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).expect("a vocabulary");
        let top: Vec<f32> = logits.iter().map(|row| probability(row, best(row))).collect();
        let mean = top.iter().sum::<f32>() / top.len() as f32;
        assert!((0.05..0.9).contains(&mean), "{description:?}: the best token has {mean} on average");
        let repeats = logits.iter().zip(tokens(60, 6)).filter(|(row, token)| best(row) == *token as usize).count();
        assert!(repeats < 30, "{description:?}: {repeats} of 60 rows repeat their token");
    }
}

fn probability(row: &[f32], id: usize) -> f32 {
    1.0 / row.iter().map(|logit| (logit - row[id]).exp()).sum::<f32>()
}

#[test]
fn threads_do_not_change_a_bit() {
    let model = load(&TinyModel { embedding_length: 256, head_size: 64, feed_forward_length: 512, ..TinyModel::default() });
    let log = Log::new(&tokens(150, 7), &[Edit { boundary: 100, first: 10, end: 40, moves: true }]);
    let of = |threads| replay(&model.0, &model.1, &log.program(), &[149, 0], threads).expect("a valid program");
    assert_eq!(of(1), of(3));
}

#[test]
fn programs_that_contradict_themselves_are_refused_by_the_array_name() {
    let model = load(&TinyModel::default());
    let refused = |param: &str, change: fn(&mut Log)| {
        let mut log = Log::new(&tokens(8, 8), &[Edit { boundary: 4, first: 1, end: 2, moves: true }]);
        change(&mut log);
        let error = wanted(&model, &log.program(), &[7]).expect_err(param);
        assert_eq!((error.code, error.param.as_deref()), (Code::ArgumentInvalid, Some(param)), "{}", error.message);
    };
    refused("tokens", |log| log.tokens[3] = 512);
    refused("positions", |log| log.positions.truncate(7));
    refused("positions", |log| log.positions[2] = -1);
    refused("stage_of", |log| log.stage_of[2] = 2);
    refused("stage_positions", |log| log.stage_positions.truncate(15));
    refused("stage_positions", |log| log.positions[2] = 5);
    refused("seen", |log| log.seen.truncate(63));
    refused("seen", |log| log.seen[2 * 8 + 2] = 0);
    refused("seen", |log| log.seen[2 * 8 + 5] = 1);
    refused("seen", |log| log.seen[6 * 8 + 1] = 1);
    let log = Log::new(&tokens(8, 8), &[]);
    let error = wanted(&model, &log.program(), &[8]).expect_err("there is no row 8");
    assert_eq!(error.param.as_deref(), Some("wanted"));
    assert_eq!(wanted(&model, &log.program(), &[]), Ok(vec![]));
}

fn wanted(model: &(GgufFile, Config), program: &Program, rows: &[usize]) -> Result<Vec<f32>> {
    replay(&model.0, &model.1, program, rows, 1)
}
