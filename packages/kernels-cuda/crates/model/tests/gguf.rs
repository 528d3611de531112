//! GGUF files: what is read back, and what is refused by name.

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error, Kind};
use palimpsest_model::gguf::{Array, GgufFile, Value, Writer};
use palimpsest_model::tiny::TinyModel;
use std::path::PathBuf;

/// A file written field by field, so that each can be wrong.
struct Raw {
    magic: [u8; 4],
    version: u32,
    tensor_count: Option<u64>,
    metadata_count: Option<u64>,
    metadata: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data_bytes: usize,
}

impl Default for Raw {
    fn default() -> Self {
        let tensors = vec![tensor("weights", &[8, 2], 0, 0), tensor("norm", &[4], 0, 64)];
        let metadata = vec![pair("a.size", 4, &7u32.to_le_bytes())];
        Self { magic: *b"GGUF", version: 3, tensor_count: None, metadata_count: None, metadata, tensors, data_bytes: 80 }
    }
}

impl Raw {
    fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.metadata_count.unwrap_or(self.metadata.len() as u64).to_le_bytes());
        out.extend(self.metadata.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(32) + self.data_bytes, 0);
        out
    }

    fn error(&self) -> Error {
        parse(self.bytes()).expect_err("a wrong file")
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn pair(key: &str, value_type: u32, value: &[u8]) -> Vec<u8> {
    [text(key), value_type.to_le_bytes().to_vec(), value.to_vec()].concat()
}

fn tensor(name: &str, shape: &[u64], tensor_type: u32, offset: u64) -> Vec<u8> {
    let mut out = [text(name), (shape.len() as u32).to_le_bytes().to_vec()].concat();
    shape.iter().for_each(|size| out.extend(size.to_le_bytes()));
    out.extend(tensor_type.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

fn array(element_type: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&element_type.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

fn parse(bytes: Vec<u8>) -> Result<(), Error> {
    GgufFile::from_bytes(bytes).map(drop)
}

#[track_caller]
fn assert_damaged(error: &Error, param: &str, words: &str) {
    assert_eq!((error.code, error.code.kind()), (Code::ModelFileDamaged, Kind::Data), "{error}");
    assert_eq!(error.param.as_deref(), Some(param), "{error}");
    assert!(error.message.contains(words), "{error}");
}

#[test]
fn a_written_file_reads_back_with_every_type_of_value() {
    let values = [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-30_000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-2_000_000_000)),
        ("u64", Value::U64(1 << 60)),
        ("i64", Value::I64(-(1 << 60))),
        ("f32", Value::F32(1.5)),
        ("f64", Value::F64(-2.5)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("Ġpage".into())),
        ("strings", Value::Array(Array::String(vec!["a".into(), String::new()]))),
        ("u8s", Value::Array(Array::U8(vec![1, 2]))),
        ("i8s", Value::Array(Array::I8(vec![-1, 2]))),
        ("u16s", Value::Array(Array::U16(vec![1, 2]))),
        ("i16s", Value::Array(Array::I16(vec![-1, 2]))),
        ("u32s", Value::Array(Array::U32(vec![1, 2]))),
        ("i32s", Value::Array(Array::I32(vec![-1, 2]))),
        ("u64s", Value::Array(Array::U64(vec![1, 2]))),
        ("i64s", Value::Array(Array::I64(vec![-1, 2]))),
        ("f32s", Value::Array(Array::F32(vec![0.5]))),
        ("f64s", Value::Array(Array::F64(vec![0.5]))),
        ("bools", Value::Array(Array::Bool(vec![true, false]))),
        ("nested", Value::Array(Array::Array(vec![Array::U8(vec![1]), Array::Array(vec![])]))),
    ];
    let mut writer = Writer::new();
    for (key, value) in &values {
        writer.set(*key, value.clone());
    }
    writer.tensor("matrix", &[32, 2], TensorType::Q8_0, &[0.5; 64]).expect("whole blocks");
    writer.tensor("vector", &[3], TensorType::F32, &[1.0, 2.0, 3.0]).expect("whole blocks");
    let file = GgufFile::from_bytes(writer.finish()).expect("a valid file");
    for (key, value) in &values {
        assert_eq!(file.header().value(key), Some(value));
    }
    assert_eq!(file.header().keys().count(), values.len());
    let (matrix, vector) = (file.tensor("matrix").expect("written"), file.tensor("vector").expect("written"));
    assert_eq!((matrix.columns(), matrix.rows(), matrix.row_bytes(), matrix.range.len()), (32, 2, 34, 68));
    assert_eq!(file.decode(vector).expect("whole blocks"), [1.0, 2.0, 3.0]);
    assert!(file.decode(matrix).expect("whole blocks").iter().all(|value| (value - 0.5).abs() < 1e-4));
}

#[test]
fn versions_2_and_3_are_read_and_others_are_unsupported() {
    for version in [2, 3] {
        let file = GgufFile::from_bytes(Raw { version, ..Raw::default() }.bytes()).expect("a valid file");
        assert_eq!((file.header().version, file.header().size("a.size")), (version, Ok(Some(7))));
    }
    for (version, words) in [(0, "version 0"), (1, "version 1"), (4, "version 4"), (3u32.swap_bytes(), "big-endian")] {
        let error = Raw { version, ..Raw::default() }.error();
        assert_eq!((error.code, error.param.as_deref()), (Code::ModelFormatUnsupported, Some("version")));
        assert!(error.message.contains(words), "{error}");
    }
    assert_damaged(&Raw { magic: *b"GGML", ..Raw::default() }.error(), "magic", "not a GGUF file");
}

#[test]
fn a_file_cut_at_any_byte_is_damaged_and_never_read_beyond_its_end() {
    let whole = TinyModel { layers: 1, vocabulary_size: 259, embedding_length: 16, ..TinyModel::default() }.bytes().expect("valid");
    let header_bytes = GgufFile::from_bytes(whole.clone()).expect("a valid file").header().data_start;
    for length in (0..header_bytes).chain((header_bytes..whole.len()).step_by(97)) {
        let error = parse(whole[..length].to_vec()).expect_err("a cut file");
        assert_eq!(error.code, Code::ModelFileDamaged, "{length} bytes: {error}");
        assert!(error.param.is_some() && error.message.contains("cut short") || error.message.contains("more than"), "{error}");
    }
    let error = parse(whole[..whole.len() - 1].to_vec()).expect_err("a cut file");
    assert_damaged(&error, "output_norm.weight", "the file is cut short: tensor output_norm.weight ends");
}

#[test]
fn counts_and_lengths_beyond_the_file_are_refused_before_anything_is_allocated() {
    for huge in [1 << 20, 1 << 40, u64::MAX, i64::MAX as u64] {
        assert_damaged(&Raw { tensor_count: Some(huge), ..Raw::default() }.error(), "tensor_count", "more than");
        assert_damaged(&Raw { metadata_count: Some(huge), ..Raw::default() }.error(), "metadata_kv_count", "more than");
        let with = |value_type, value: &[u8]| Raw { metadata: vec![pair("key", value_type, value)], ..Raw::default() }.error();
        assert_damaged(&with(8, &huge.to_le_bytes()), "key", "cut short");
        for element in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] {
            assert_damaged(&with(9, &array(element, huge, &[])), "key", "cut short");
        }
        let long_key = [huge.to_le_bytes().to_vec(), vec![0; 5]].concat();
        assert_damaged(&Raw { metadata: vec![long_key], ..Raw::default() }.error(), "a key of the metadata", "at most 65535");
        let long_name = [huge.to_le_bytes().to_vec(), vec![0; 64]].concat();
        assert_damaged(&Raw { tensors: vec![long_name], ..Raw::default() }.error(), "a tensor's name", "at most 64");
    }
}

#[test]
fn values_of_wrong_types_are_refused_by_their_key() {
    let with = |value_type, value: &[u8]| Raw { metadata: vec![pair("key", value_type, value)], ..Raw::default() }.error();
    assert_damaged(&with(13, &[]), "key", "value type 13");
    assert_damaged(&with(9, &array(13, 1, &[0; 8])), "key", "array of type 13");
    assert_damaged(&with(7, &[2]), "key", "boolean that is 2");
    assert_damaged(&with(8, &[&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat()), "key", "not UTF-8");
    let nested = |depth: usize| (0..depth).fold(array(0, 0, &[]), |inner, _| array(9, 1, &inner));
    assert_damaged(&with(9, &nested(4)), "key", "nested deeper than 4");
    let shallow = Raw { metadata: vec![pair("key", 9, &nested(3))], ..Raw::default() };
    assert_eq!(parse(shallow.bytes()), Ok(()));
    let bomb = (0..10_000).fold(Vec::new(), |inner, _| [inner, array(9, 1, &[])].concat());
    assert_damaged(&with(9, &bomb), "key", "nested deeper than 4");
    let twice = vec![pair("key", 0, &[1]), pair("key", 0, &[2])];
    assert_damaged(&Raw { metadata: twice, ..Raw::default() }.error(), "key", "stands twice");
    assert_damaged(&Raw { metadata: vec![pair("", 0, &[1])], ..Raw::default() }.error(), "a key of the metadata", "empty");
}

#[test]
fn keys_read_as_what_they_are_not_are_refused_by_name() {
    let mut writer = Writer::new();
    writer.set("text", Value::String("x".into())).set("negative", Value::I32(-1)).set("endless", Value::F32(f32::INFINITY));
    let file = GgufFile::from_bytes(writer.finish()).expect("a valid file");
    let header = file.header();
    assert_damaged(&header.size("text").expect_err("a string"), "text", "of type string");
    assert_damaged(&header.size("negative").expect_err("below 0"), "negative", "whole number");
    assert_damaged(&header.float("endless").expect_err("infinite"), "endless", "inf");
    assert_damaged(&header.strings("text").expect_err("no array"), "text", "array of strings");
    assert_damaged(&header.bool("text").expect_err("no boolean"), "text", "boolean");
    assert_eq!(header.size("absent"), Ok(None));
}

#[test]
fn shapes_that_cannot_be_are_refused_by_their_tensor() {
    let with = |shape: &[u64], tensor_type| Raw { tensors: vec![tensor("w", shape, tensor_type, 0)], ..Raw::default() }.error();
    assert_damaged(&with(&[], 0), "w", "0 dimensions");
    assert_damaged(&with(&[1; 5], 0), "w", "5 dimensions");
    assert_damaged(&with(&[8, 0], 0), "w", "dimension of 0");
    assert_damaged(&with(&[u64::MAX, 2], 0), "w", "more elements than can be counted");
    assert_damaged(&with(&[1 << 32, 1 << 32], 0), "w", "more elements than can be counted");
    assert_damaged(&with(&[1 << 62, 1], 0), "w", "more bytes than can be counted");
    assert_damaged(&with(&[33], 2), "w", "no whole number of Q4_0 blocks");
    assert_damaged(&with(&[1 << 40], 0), "w", "cut short");
    let wide = [text("w"), u32::MAX.to_le_bytes().to_vec(), vec![0; 64]].concat();
    assert_damaged(&Raw { tensors: vec![wide], ..Raw::default() }.error(), "w", "4294967295 dimensions");
}

#[test]
fn tensors_that_lie_outside_the_file_or_over_each_other_are_refused_by_name() {
    let with = |tensors: Vec<Vec<u8>>| Raw { tensors, ..Raw::default() }.error();
    assert_damaged(&with(vec![tensor("w", &[8], 0, 31)]), "w", "no multiple of the alignment");
    assert_damaged(&with(vec![tensor("w", &[8], 0, 64)]), "w", "cut short");
    assert_damaged(&with(vec![tensor("w", &[8], 0, u64::MAX - 31)]), "w", "beyond any file");
    assert_damaged(&with(vec![tensor("w", &[8], 0, i64::MAX as u64 + 1)]), "w", "cut short");
    assert_damaged(&with(vec![tensor("b", &[8], 0, 32), tensor("a", &[9], 0, 0)]), "b", "tensor b overlaps tensor a");
    assert_damaged(&with(vec![tensor("w", &[8], 0, 0), tensor("w", &[8], 0, 32)]), "w", "stands twice");
}

#[test]
fn types_that_are_not_read_are_unsupported_and_named_with_their_tensor() {
    for (id, name) in [(10, "Q2_K"), (20, "IQ4_NL"), (39, "MXFP4"), (4, "unknown"), (999, "unknown")] {
        let error = Raw { tensors: vec![tensor("blk.0.ffn_up.weight", &[256], id, 0)], ..Raw::default() }.error();
        assert_eq!((error.code, error.code.kind()), (Code::TensorTypeUnsupported, Kind::Unsupported));
        assert_eq!(error.param.as_deref(), Some("blk.0.ffn_up.weight"));
        assert!(error.message.contains(name) && error.message.contains("Q4_K"), "{error}");
    }
}

#[test]
fn alignments_that_cannot_be_are_refused() {
    let with = |value: Vec<u8>| Raw { metadata: vec![value], ..Raw::default() }.error();
    for alignment in [0u32, 1, 4, 24, 33, 1 << 21, u32::MAX] {
        let error = with(pair("general.alignment", 4, &alignment.to_le_bytes()));
        assert_damaged(&error, "general.alignment", "power of two");
    }
    assert_damaged(&with(pair("general.alignment", 8, &text("32"))), "general.alignment", "expected a u32");
    let mut wide = Raw { metadata: vec![pair("general.alignment", 4, &64u32.to_le_bytes())], ..Raw::default() };
    wide.data_bytes += 64;
    let file = GgufFile::from_bytes(wide.bytes()).expect("a valid file");
    assert_eq!((file.header().alignment, file.header().data_start % 64), (64, 0));
    assert_eq!(file.tensor("norm").expect("written").range, file.header().data_start + 64..file.header().data_start + 80);
}

#[test]
fn paths_that_cannot_be_read_are_unreadable_and_named() {
    let folder = std::env::temp_dir().join(format!("palimpsest-gguf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = |name: &str| -> PathBuf { folder.join(name) };
    for missing in [path("absent.gguf"), folder.clone()] {
        let error = GgufFile::open(&missing).err().expect("nothing to read");
        assert_eq!(error.code, Code::ModelFileUnreadable);
        assert!(error.message.contains(&missing.display().to_string()), "{error}");
    }
    std::fs::write(path("empty.gguf"), []).expect("written");
    assert_damaged(&GgufFile::open(&path("empty.gguf")).err().expect("an empty file"), "magic", "cut short");
    let bytes = TinyModel::default().bytes().expect("valid");
    std::fs::write(path("whole.gguf"), &bytes).expect("written");
    let file = GgufFile::open(&path("whole.gguf")).expect("a valid file");
    assert_eq!(file.bytes(), bytes);
    drop(file);
    std::fs::remove_dir_all(&folder).expect("ours to remove");
}
