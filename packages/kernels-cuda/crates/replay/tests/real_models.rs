//! Logits of real models against a computation in f64 that shares nothing with this repository (scripts/golden_logits.py).
//!
//! Models come from the cache folder ($PALIMPSEST_HOME, default ~/.cache/palimpsest). Where one is missing its test says so and
//! passes; under CI=true it fails when `npm test` fetches that model.

use palimpsest_model::config::Config;
use palimpsest_model::gguf::GgufFile;
use palimpsest_replay::replay;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use support::{Edit, Log};

mod support;

/// DESIGN.md: logits of real models agree to this.
const TOLERANCE: f64 = 1e-3;

struct Row {
    row: usize,
    logits: Vec<(usize, f64)>,
}

struct Golden {
    tokens: Vec<u32>,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    edits: Vec<Edit>,
    rows: Vec<Row>,
}

impl Golden {
    fn parse(text: &str) -> Self {
        let mut golden = Golden { tokens: Vec::new(), cases: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "tokens" => golden.tokens = words[1..].iter().map(|word| word.parse().expect("a token id")).collect(),
                "case" => golden.cases.push(Case { name: words[1].to_owned(), edits: Vec::new(), rows: Vec::new() }),
                "edit" => {
                    let numbers: Vec<usize> = words[1..].iter().map(|word| word.parse().expect("a number")).collect();
                    let edit = Edit { boundary: numbers[0], first: numbers[1], end: numbers[2], moves: numbers[3] == 1 };
                    golden.cases.last_mut().expect("a case before edits").edits.push(edit);
                }
                "row" => {
                    let row = words[1].parse().expect("a row");
                    let pairs = words[2..].iter().map(|word| word.split_once(':').expect("id:logit"));
                    let logits = pairs.map(|(id, logit)| (id.parse().expect("an id"), logit.parse().expect("a logit"))).collect();
                    golden.cases.last_mut().expect("a case before rows").rows.push(Row { row, logits });
                }
                other => panic!("{other} in the golden file"),
            }
        }
        golden
    }
}

/// Whether `npm test` fetches the model.
#[derive(Clone, Copy, PartialEq)]
enum Fetched {
    Always,
    ByHand,
}

fn open(name: &str, fetched: Fetched) -> Option<(GgufFile, Config)> {
    let home = std::env::var_os("PALIMPSEST_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/palimpsest")))?;
    let path = home.join("models").join(name);
    if !path.exists() {
        // Past the test harness, which keeps what passing tests print.
        let _ = writeln!(std::io::stderr(), "skipped: no {}", path.display());
        let in_ci = std::env::var("CI").as_deref() == Ok("true");
        assert!(!in_ci || fetched == Fetched::ByHand, "CI=true and {} is missing", path.display());
        return None;
    }
    let file = GgufFile::open(&path).expect("a readable model");
    let config = Config::from_gguf(&file).expect("a known architecture");
    Some((file, config))
}

fn check(name: &str, fetched: Fetched, golden: &str) {
    let Some((file, config)) = open(name, fetched) else { return };
    let golden = Golden::parse(golden);
    assert_eq!(golden.cases.len(), 2);
    for Case { name: case, edits, rows } in &golden.cases {
        let log = Log::new(&golden.tokens, edits);
        let wanted: Vec<usize> = rows.iter().map(|row| row.row).collect();
        let start = Instant::now();
        let logits = replay(&file, &config, &log.program(), &wanted, 2).expect("a valid program");
        let mut worst = 0.0;
        for (row, logits) in rows.iter().zip(logits.chunks_exact(config.vocabulary_size)) {
            for &(id, expected) in &row.logits {
                worst = f64::max(worst, (f64::from(logits[id]) - expected).abs());
            }
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            assert_eq!(best, Some(row.logits[0].0), "{name}, {case}: the best token of row {}", row.row);
        }
        eprintln!("{name}, {case}: worst difference {worst:.1e}, {:.1} s", start.elapsed().as_secs_f64());
        assert!(worst < TOLERANCE, "{name}, {case}: {worst}");
    }
}

#[test]
fn smollm2_gives_the_logits_of_an_independent_computation() {
    check("SmolLM2-135M-Instruct.Q4_1.gguf", Fetched::Always, include_str!("data/SmolLM2-135M-Instruct.Q4_1.txt"));
}

#[test]
fn qwen_coder_gives_the_logits_of_an_independent_computation() {
    check("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", Fetched::Always, include_str!("data/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.txt"));
}

#[test]
fn gemma3_gives_the_logits_of_an_independent_computation_inside_and_beyond_its_window() {
    check("gemma-3-270m-q4_k_m.gguf", Fetched::ByHand, include_str!("data/gemma-3-270m-q4_k_m.txt"));
}
