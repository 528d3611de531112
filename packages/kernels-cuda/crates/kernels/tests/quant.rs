//! Block decoding and encoding against the Python package `gguf`, and against each other.

use palimpsest_kernels::quant::{TensorType, decode, encode};
use palimpsest_kernels::{Code, Result};

/// Written by scripts/golden_quant.py.
const GOLDEN: &str = include_str!("data/quant.txt");

struct Case {
    tensor_type: TensorType,
    from: Vec<u8>,
    to: Vec<u8>,
}

fn golden(act: &str) -> Vec<Case> {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
    };
    let cases = GOLDEN.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|words| words[0] == act);
    cases
        .map(|words| Case {
            tensor_type: TensorType::from_name(words[1]).expect("a known type"),
            from: bytes(words[2]),
            to: bytes(words[3]),
        })
        .collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

fn encoded(tensor_type: TensorType, values: &[f32]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; tensor_type.bytes_of(values.len()).expect("whole blocks")];
    encode(tensor_type, values, &mut bytes).map(|()| bytes)
}

/// Numbers in −1 … 1 (xorshift), the same for a seed.
fn random_values(count: usize, mut state: u64) -> Vec<f32> {
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn every_type_decodes_to_the_bits_of_an_independent_implementation() {
    let cases = golden("decode");
    assert_eq!(cases.len(), TensorType::ALL.len());
    for case in cases {
        let expected = floats(&case.to);
        let mut out = vec![f32::NAN; expected.len()];
        decode(case.tensor_type, &case.from, &mut out).expect("whole blocks");
        for (i, (got, want)) in out.iter().zip(&expected).enumerate() {
            assert_eq!(got.to_bits(), want.to_bits(), "{} number {i}: {got} instead of {want}", case.tensor_type.name());
        }
    }
}

#[test]
fn types_with_one_scale_for_a_block_encode_to_the_bytes_of_an_independent_implementation() {
    let cases = golden("encode");
    assert_eq!(cases.len(), 7);
    for case in cases {
        assert_eq!(encoded(case.tensor_type, &floats(&case.from)).expect("whole blocks"), case.to, "{}", case.tensor_type.name());
    }
}

#[test]
fn encoded_numbers_come_back_within_a_step_of_their_type() {
    // The largest error over blocks of numbers in −1 … 1: half a level, and what the rounding of scales and minima adds.
    let bounds = [
        (TensorType::F32, 0.0),
        (TensorType::F16, 0.0003),
        (TensorType::BF16, 0.002),
        (TensorType::Q4_0, 0.126),
        (TensorType::Q4_1, 0.068),
        (TensorType::Q5_0, 0.063),
        (TensorType::Q5_1, 0.033),
        (TensorType::Q8_0, 0.0045),
        (TensorType::Q4_K, 0.09),
        (TensorType::Q5_K, 0.055),
        (TensorType::Q6_K, 0.035),
    ];
    let values = random_values(256 * 64, 0x9e37_79b9_7f4a_7c15);
    for (tensor_type, bound) in bounds {
        let bytes = encoded(tensor_type, &values).expect("whole blocks");
        let mut out = vec![f32::NAN; values.len()];
        decode(tensor_type, &bytes, &mut out).expect("whole blocks");
        let worst = values.iter().zip(&out).map(|(value, out)| (value - out).abs()).fold(0.0, f32::max);
        assert!(worst <= bound, "{}: {worst} > {bound}", tensor_type.name());
        assert!(worst > bound / 4.0 || bound == 0.0, "{}: the bound {bound} says nothing about {worst}", tensor_type.name());
    }
}

#[test]
fn blocks_of_zeros_stay_zero_in_every_type() {
    for &tensor_type in TensorType::ALL {
        let bytes = encoded(tensor_type, &[0.0; 512]).expect("whole blocks");
        let mut out = vec![f32::NAN; 512];
        decode(tensor_type, &bytes, &mut out).expect("whole blocks");
        assert!(out.iter().all(|&value| value == 0.0), "{}", tensor_type.name());
    }
}

#[test]
fn wrong_lengths_and_numbers_that_no_type_holds_are_refused() {
    let mut out = [0.0; 32];
    let short = decode(TensorType::Q4_0, &[0; 17], &mut out).expect_err("a byte is missing");
    assert_eq!((short.code, short.param.as_deref()), (Code::ArgumentInvalid, Some("bytes")));
    let part = decode(TensorType::Q4_K, &[0; 144], &mut out).expect_err("no whole block");
    assert_eq!((part.code, part.param.as_deref()), (Code::ArgumentInvalid, Some("elements")));
    for wrong in [f32::NAN, f32::INFINITY, 70_000.0] {
        let mut values = [0.0; 32];
        values[5] = wrong;
        let error = encoded(TensorType::Q8_0, &values).expect_err("no half-precision scale");
        assert_eq!((error.code, error.param.as_deref()), (Code::ArgumentInvalid, Some("values")));
    }
}

#[test]
fn ids_and_names_lead_back_to_their_type() {
    for &tensor_type in TensorType::ALL {
        assert_eq!(TensorType::from_ggml_id(tensor_type.ggml_id()), Some(tensor_type));
        assert_eq!(TensorType::from_name(tensor_type.name()), Some(tensor_type));
        assert_eq!(tensor_type.bytes_of(tensor_type.block_size()), Some(tensor_type.block_bytes()));
    }
    assert_eq!(TensorType::from_ggml_id(9), None);
    assert_eq!(TensorType::Q6_K.bytes_of(255), None);
    assert_eq!(TensorType::F32.bytes_of(usize::MAX), None);
}
