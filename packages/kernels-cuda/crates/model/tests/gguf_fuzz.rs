//! Mutated headers: no panic, no read outside the file, bounded time.
//!
//! Every read of the parser goes through a checked slice, so a read outside the file would be a panic, and a panic fails the test.
//! `PALIMPSEST_LONG=1` tries ten times as many; `PALIMPSEST_SEED` takes another seed.

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Kind};
use palimpsest_model::config::Config;
use palimpsest_model::gguf::{Array, GgufFile, Value, Writer};
use palimpsest_model::tiny::TinyModel;
use palimpsest_model::tokenizer_data::TokenizerData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A valid model of one layer of width 2, with a value of every kind in its metadata.
fn small_file() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.set("general.architecture", Value::String("llama".into())).set("general.alignment", Value::U32(32));
    let sizes =
        ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv"];
    for (key, size) in sizes.iter().zip([1, 64, 4, 4, 2, 1]) {
        writer.set(format!("llama.{key}"), Value::U32(size));
    }
    writer
        .set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5))
        .set("llama.rope.scaling.type", Value::String("linear".into()))
        .set("llama.rope.scaling.factor", Value::F64(2.0))
        .set("tokenizer.ggml.model", Value::String("gpt2".into()))
        .set("tokenizer.ggml.tokens", Value::Array(Array::String(["a", "b", "ab"].map(str::to_owned).to_vec())))
        .set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1, 1, 3])))
        .set("tokenizer.ggml.merges", Value::Array(Array::String(vec!["a b".into()])))
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .set("tokenizer.ggml.eos_token_id", Value::U64(2))
        .set("nested", Value::Array(Array::Array(vec![Array::U8(vec![1]), Array::Array(vec![Array::I16(vec![-1])])])));
    let mut tensor = |name: &str, shape: &[usize]| {
        let values = vec![0.5; shape.iter().product()];
        writer.tensor(name, shape, TensorType::F32, &values).expect("whole blocks");
    };
    tensor("token_embd.weight", &[4, 3]);
    tensor("output_norm.weight", &[4]);
    for (name, shape) in [("attn_norm", &[4][..]), ("ffn_norm", &[4]), ("attn_q", &[4, 4]), ("attn_k", &[4, 2]), ("attn_v", &[4, 2])] {
        tensor(&format!("blk.0.{name}.weight"), shape);
    }
    for name in ["attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        tensor(&format!("blk.0.{name}.weight"), &[4, 4]);
    }
    writer.finish()
}

/// Values at which comparisons and products turn over.
const EDGES: [u64; 12] = [0, 1, 2, 31, 255, 1 << 16, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];

fn mutate(bytes: &mut Vec<u8>, header_bytes: usize, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let header = header_bytes.min(bytes.len());
        if header == 0 {
            return;
        }
        let at = random.below(header);
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 | 3 => overwrite(bytes, at, &EDGES[random.below(EDGES.len())].to_le_bytes()),
            4 => overwrite(bytes, at, &(EDGES[random.below(EDGES.len())] as u32).to_le_bytes()),
            5 => bytes.truncate(random.below(bytes.len()) + 1),
            6 => {
                let piece = bytes[at..(at + random.below(24)).min(header)].to_vec();
                let to = random.below(header);
                overwrite(bytes, to, &piece);
            }
            _ => {
                // A small number where a length, count or type may stand: plausible, and wrong.
                overwrite(bytes, at, &(random.below(64) as u32).to_le_bytes());
            }
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    let end = (at + with.len()).min(bytes.len());
    bytes[at..end].copy_from_slice(&with[..end - at]);
}

/// Reads all that a server would. Returns how far it came.
fn read(bytes: Vec<u8>) -> Result<GgufFile, Code> {
    let file_bytes = bytes.len();
    let file = GgufFile::from_bytes(bytes).map_err(|error| error.code)?;
    for tensor in &file.header().tensors {
        assert!(tensor.range.end <= file_bytes && tensor.range.start <= tensor.range.end);
        assert_eq!(file.tensor_bytes(tensor).len(), tensor.tensor_type.bytes_of(tensor.elements()).expect("whole blocks"));
        file.decode(tensor).map_err(|error| error.code)?;
    }
    Config::from_gguf(&file).map_err(|error| error.code)?;
    TokenizerData::from_gguf(&file).map_err(|error| error.code)?;
    Ok(file)
}

struct Outcome {
    accepted: usize,
    refused: [usize; Code::ALL.len()],
}

fn fuzz(base: &[u8], count: usize, seed: u64) -> Outcome {
    let header_bytes = GgufFile::from_bytes(base.to_vec()).expect("a valid file").header().data_start;
    let mut random = Random(seed);
    let mut outcome = Outcome { accepted: 0, refused: [0; Code::ALL.len()] };
    for index in 0..count {
        let before = random.0;
        let mut bytes = base.to_vec();
        mutate(&mut bytes, header_bytes, &mut random);
        match catch_unwind(AssertUnwindSafe(|| read(bytes))) {
            Ok(Ok(_)) => outcome.accepted += 1,
            Ok(Err(code)) => {
                assert!(matches!(code.kind(), Kind::Data | Kind::Unsupported), "mutation {index}, state {before:#x}: {code:?}");
                outcome.refused[Code::ALL.iter().position(|other| *other == code).expect("a known code")] += 1;
            }
            Err(_) => panic!("mutation {index} of seed {seed:#x} panicked (state {before:#x})"),
        }
    }
    outcome
}

fn scale() -> usize {
    if std::env::var("PALIMPSEST_LONG").as_deref() == Ok("1") { 10 } else { 1 }
}

fn seed() -> u64 {
    std::env::var("PALIMPSEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed)
}

#[test]
fn a_million_mutations_of_a_small_header_end_in_a_model_or_an_error() {
    let (count, seed, start) = (1_000_000 * scale(), seed(), Instant::now());
    let outcome = fuzz(&small_file(), count, seed);
    let refused = |code| outcome.refused[Code::ALL.iter().position(|other| *other == code).expect("a known code")];
    println!("seed {seed:#x}: {count} in {:.1} s, {} accepted", start.elapsed().as_secs_f64(), outcome.accepted);
    // The mutations reach every way out, so they test more than the first check.
    assert!(outcome.accepted > count / 100, "{} accepted", outcome.accepted);
    for code in [
        Code::ModelFileDamaged,
        Code::ModelFormatUnsupported,
        Code::ArchitectureUnsupported,
        Code::TensorTypeUnsupported,
        Code::RotaryUnsupported,
    ] {
        assert!(refused(code) > 100, "{code:?}: {}", refused(code));
    }
}

#[test]
fn mutations_of_a_generated_model_end_in_a_model_or_an_error() {
    let model =
        TinyModel { layers: 1, vocabulary_size: 280, embedding_length: 8, heads: 2, kv_heads: 1, head_size: 4, ..TinyModel::default() };
    let outcome = fuzz(&model.bytes().expect("valid"), 10_000 * scale(), seed());
    assert!(outcome.accepted > 0);
}
