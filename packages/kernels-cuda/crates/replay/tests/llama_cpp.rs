//! Generated models of every architecture and every way to rotate, against llama.cpp (scripts/golden_llama_cpp.mjs).

use palimpsest_model::config::Config;
use palimpsest_model::gguf::GgufFile;
use palimpsest_replay::replay;
use support::Log;
use variants::variants;

mod support;
#[path = "support/variants.rs"]
mod variants;

const GOLDEN: &str = include_str!("data/llama_cpp.txt");

/// llama.cpp computes in f32 throughout.
const TOLERANCE: f64 = 1e-4;
/// It takes GELU from a table of half-precision numbers.
const TOLERANCE_OF_GELU: f64 = 2e-2;

fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    logits.iter().map(|logit| f64::from(logit - largest) - total.ln()).collect()
}

/// Every row's log-probabilities.
fn replayed(name: &str, tokens: &[u32]) -> Vec<Vec<f64>> {
    let (_, description) = variants().into_iter().find(|(other, _)| *other == name).expect("a model of the list");
    let file = GgufFile::from_bytes(description.bytes().expect("a valid description")).expect("a valid file");
    let config = Config::from_gguf(&file).expect("a known architecture");
    let rows: Vec<usize> = (0..tokens.len()).collect();
    let logits = replay(&file, &config, &Log::new(tokens, &[]).program(), &rows, 1).expect("a valid program");
    logits.chunks_exact(config.vocabulary_size).map(log_probabilities).collect()
}

#[test]
fn every_architecture_and_rotation_gives_what_llama_cpp_gives() {
    let (mut tokens, mut name, mut ours) = (Vec::new(), "", Vec::new());
    let (mut models, mut compared) = (0, 0);
    for line in GOLDEN.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "tokens" => tokens = words[1..].iter().map(|word| word.parse().expect("a token id")).collect(),
            "model" => {
                name = words[1];
                ours = replayed(name, &tokens);
                models += 1;
            }
            _ => {
                let row: usize = words[1].parse().expect("a row");
                let tolerance = if name.starts_with("gemma") { TOLERANCE_OF_GELU } else { TOLERANCE };
                for pair in &words[2..] {
                    let (id, expected) = pair.split_once(':').expect("id:logprob");
                    let (id, expected): (usize, f64) = (id.parse().expect("an id"), expected.parse().expect("a number"));
                    let difference = (ours[row][id] - expected).abs();
                    assert!(difference < tolerance, "{name}, row {row}, token {id}: {} for {expected}", ours[row][id]);
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(models, variants().len());
    assert!(compared > models * 40, "{compared} numbers were compared");
}
