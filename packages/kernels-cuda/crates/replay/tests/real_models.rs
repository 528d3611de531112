//! Logits of real models against a computation in f64 that shares nothing with this repository (scripts/golden_logits.py).
//!
//! Models come from the cache folder ($PALIMPSEST_HOME, default ~/.cache/palimpsest). Where one is missing its test says so and
//! passes, except under CI=true.

use palimpsest_model::config::Config;
use palimpsest_model::gguf::GgufFile;
use palimpsest_replay::{Program, replay};
use std::path::PathBuf;
use std::time::Instant;

/// DESIGN.md: logits of real models agree to this.
const TOLERANCE: f64 = 1e-3;

struct Row {
    row: usize,
    logits: Vec<(usize, f64)>,
}

struct Golden {
    tokens: Vec<u32>,
    cases: Vec<(String, Vec<Row>)>,
}

impl Golden {
    fn parse(text: &str) -> Self {
        let mut golden = Golden { tokens: Vec::new(), cases: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "tokens" => golden.tokens = words[1..].iter().map(|word| word.parse().expect("a token id")).collect(),
                "case" => golden.cases.push((words[1].to_owned(), Vec::new())),
                "row" => {
                    let row = words[1].parse().expect("a row");
                    let pairs = words[2..].iter().map(|word| word.split_once(':').expect("id:logit"));
                    let logits = pairs.map(|(id, logit)| (id.parse().expect("an id"), logit.parse().expect("a logit"))).collect();
                    golden.cases.last_mut().expect("a case before rows").1.push(Row { row, logits });
                }
                other => panic!("{other} in the golden file"),
            }
        }
        golden
    }
}

/// The logs of the script, written down by hand: what stands where at each stage, and who reads whom.
struct Log {
    positions: Vec<i32>,
    stage_of: Vec<u32>,
    stage_positions: Vec<i32>,
    seen: Vec<u8>,
}

fn plain(cells: usize) -> Log {
    Log {
        positions: (0..cells as i32).collect(),
        stage_of: vec![0; cells],
        stage_positions: (0..cells as i32).collect(),
        seen: (0..cells * cells).map(|at| u8::from(at % cells <= at / cells)).collect(),
    }
}

/// Before token 100 the cells 40…69 are dropped and the rest moves together; before token 130 the cells 10…19 are dropped.
fn edited(cells: usize) -> Log {
    let stage_of: Vec<u32> = (0..cells).map(|cell| u32::from(cell >= 100) + u32::from(cell >= 130)).collect();
    let moved = |cell: usize| if cell < 40 { cell as i32 } else { cell as i32 - 30 };
    let stands = |stage: u32, cell: usize| match stage {
        0 => cell as i32,
        1 if (40..70).contains(&cell) => -1,
        2 if (40..70).contains(&cell) || (10..20).contains(&cell) => -1,
        _ => moved(cell),
    };
    let born = |cell: usize, stage: u32| stage_of[cell] <= stage;
    let stage_positions: Vec<i32> = (0..3)
        .flat_map(|stage| (0..cells).map(move |cell| (stage, cell)))
        .map(|(s, c)| if born(c, s) { stands(s, c) } else { -1 })
        .collect();
    let positions = (0..cells).map(|cell| stands(stage_of[cell], cell)).collect();
    let sees = |row: usize, cell: usize| cell <= row && stands(stage_of[row], cell) >= 0;
    let seen = (0..cells * cells).map(|at| u8::from(sees(at / cells, at % cells))).collect();
    Log { positions, stage_of, stage_positions, seen }
}

fn open(name: &str) -> Option<(GgufFile, Config)> {
    let home = std::env::var_os("PALIMPSEST_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/palimpsest")))?;
    let path = home.join("models").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there, `palimpsest pull` fetches it", path.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI=true and {} is missing", path.display());
        return None;
    }
    let file = GgufFile::open(&path).expect("a readable model");
    let config = Config::from_gguf(&file).expect("a known architecture");
    Some((file, config))
}

fn check(name: &str, golden: &str) {
    let Some((file, config)) = open(name) else { return };
    let golden = Golden::parse(golden);
    let cells = golden.tokens.len();
    assert_eq!(golden.cases.len(), 2);
    for (case, rows) in &golden.cases {
        let log = if case == "plain" { plain(cells) } else { edited(cells) };
        let Log { positions, stage_of, stage_positions, seen } = &log;
        let program = Program { tokens: &golden.tokens, positions, stage_of, stage_positions, seen };
        let wanted: Vec<usize> = rows.iter().map(|row| row.row).collect();
        let start = Instant::now();
        let logits = replay(&file, &config, &program, &wanted, 2).expect("a valid program");
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
    check("SmolLM2-135M-Instruct.Q4_1.gguf", include_str!("data/SmolLM2-135M-Instruct.Q4_1.txt"));
}

#[test]
fn qwen_coder_gives_the_logits_of_an_independent_computation() {
    check("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", include_str!("data/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.txt"));
}
