//! The rotation of cached keys against a plain twin in f64.

mod support;

use half::{bf16, f16};
use palimpsest_kernels::Pairs;
use palimpsest_kernels::keys::{KeyDtype, KeyShape, rotate_keys};
use palimpsest_kernels::quant::{TensorType, decode, encode};
use palimpsest_kernels::rotary::{Stretch, frequencies};
use support::Random;

fn bytes_of(dtype: KeyDtype, numbers: &[f32]) -> Vec<u8> {
    let tensor_type = match dtype {
        KeyDtype::F32 => TensorType::F32,
        KeyDtype::F16 => TensorType::F16,
        KeyDtype::Bf16 => TensorType::BF16,
        KeyDtype::Q8_0 => TensorType::Q8_0,
    };
    let mut bytes = vec![0; tensor_type.bytes_of(numbers.len()).unwrap()];
    encode(tensor_type, numbers, &mut bytes).unwrap();
    bytes
}

fn numbers_of(dtype: KeyDtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        KeyDtype::F32 => bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect(),
        KeyDtype::F16 => bytes.as_chunks::<2>().0.iter().map(|chunk| f16::from_le_bytes(*chunk).to_f32()).collect(),
        KeyDtype::Bf16 => bytes.as_chunks::<2>().0.iter().map(|chunk| bf16::from_le_bytes(*chunk).to_f32()).collect(),
        KeyDtype::Q8_0 => {
            let mut numbers = vec![0.0; bytes.len() / 34 * 32];
            decode(TensorType::Q8_0, bytes, &mut numbers).unwrap();
            numbers
        }
    }
}

/// What a dtype may lose of a number, with numbers up to about 1.5 in a block.
fn step(dtype: KeyDtype, number: f64) -> f64 {
    match dtype {
        KeyDtype::F32 => number.abs() * 6e-8 + 1e-9,
        KeyDtype::F16 => number.abs() * 4.9e-4 + 1e-7,
        KeyDtype::Bf16 => number.abs() * 3.95e-3 + 1e-7,
        KeyDtype::Q8_0 => 1.5 / 127.0 / 2.0 * 1.01 + 1e-3,
    }
}

#[test]
fn every_dtype_and_pairing_turns_as_the_twin_does() {
    let seed = 31;
    println!("seed {seed}");
    let mut random = Random(seed);
    for dtype in KeyDtype::ALL.iter().copied() {
        for pairs in [Pairs::Interleaved, Pairs::Halves] {
            for (heads, head_size, turning) in [(3, 64, 64), (1, 96, 96), (2, 128, 64), (1, 32, 2), (4, 64, 32)] {
                let rows = 7;
                let table = frequencies(turning, 10_000.0, None, Stretch::None);
                let deltas: Vec<i32> = (0..rows).map(|row| [0, -1, 17, 17, -4096, 131_072, -7][row]).collect();
                let mut bytes = bytes_of(dtype, &random.numbers(rows * heads * head_size));
                let before_bytes = bytes.clone();
                let before = numbers_of(dtype, &bytes);
                rotate_keys(&mut bytes, KeyShape { dtype, heads, head_size }, pairs, &table, &deltas).unwrap();
                let after = numbers_of(dtype, &bytes);
                let row_bytes = bytes.len() / rows;
                assert_eq!(bytes[..row_bytes], before_bytes[..row_bytes], "a turn by 0 changes no byte");
                for (key, head) in before.chunks_exact(head_size).enumerate() {
                    let delta = f64::from(deltas[key / heads]);
                    for i in 0..turning / 2 {
                        let (first, second) = if pairs == Pairs::Interleaved { (2 * i, 2 * i + 1) } else { (i, i + turning / 2) };
                        let (a, b) = (f64::from(head[first]), f64::from(head[second]));
                        let angle = delta * 10_000f64.powf(-2.0 * i as f64 / turning as f64);
                        let exact = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos());
                        for (place, exact) in [(first, exact.0), (second, exact.1)] {
                            let ours = f64::from(after[key * head_size + place]);
                            assert!((ours - exact).abs() <= step(dtype, exact), "{dtype:?} {pairs:?}: {ours} for {exact}");
                        }
                    }
                    if dtype != KeyDtype::Q8_0 || turning % 32 == 0 {
                        assert_eq!(after[key * head_size + turning..(key + 1) * head_size], head[turning..], "what does not turn stays");
                    }
                }
            }
        }
    }
}

#[test]
fn one_turn_by_the_sum_is_better_than_many_small_ones() {
    let mut random = Random(32);
    let table = frequencies(64, 10_000.0, None, Stretch::None);
    let shape = KeyShape { dtype: KeyDtype::Bf16, heads: 1, head_size: 64 };
    let start = bytes_of(KeyDtype::Bf16, &random.numbers(64));
    let (mut once, mut often) = (start.clone(), start.clone());
    rotate_keys(&mut once, shape, Pairs::Halves, &table, &[-1000]).unwrap();
    for _ in 0..1000 {
        rotate_keys(&mut often, shape, Pairs::Halves, &table, &[-1]).unwrap();
    }
    let exact = {
        let mut wide = bytes_of(KeyDtype::F32, &numbers_of(KeyDtype::Bf16, &start));
        rotate_keys(&mut wide, KeyShape { dtype: KeyDtype::F32, ..shape }, Pairs::Halves, &table, &[-1000]).unwrap();
        numbers_of(KeyDtype::F32, &wide)
    };
    let error = |bytes: &[u8]| {
        let squares = numbers_of(KeyDtype::Bf16, bytes).iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        squares.sqrt()
    };
    println!("bf16 after one turn: {:e}, after a thousand: {:e}", error(&once), error(&often));
    assert!(error(&once) * 8.0 < error(&often));
}

#[test]
fn stretched_frequencies_follow_their_formulas() {
    let plain = frequencies(128, 500_000.0, None, Stretch::None);
    let linear = frequencies(128, 500_000.0, None, Stretch::Linear { factor: 4.0 });
    assert!(plain.iter().zip(&linear).all(|(plain, linear)| (plain / 4.0 - linear).abs() < 1e-18));
    // Llama 3.1's own numbers: fast pairs as they are, slow ones an eighth, a blend between.
    let llama = frequencies(128, 500_000.0, None, Stretch::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 });
    let wavelength = |frequency: f64| std::f64::consts::TAU / frequency;
    let mut seen = [0; 3];
    for (plain, llama) in plain.iter().zip(&llama) {
        if wavelength(*plain) < 8192.0 / 4.0 {
            assert_eq!(plain, llama);
            seen[0] += 1;
        } else if wavelength(*plain) > 8192.0 {
            assert!((plain / 8.0 - llama).abs() < 1e-18);
            seen[1] += 1;
        } else {
            let smooth = (8192.0 / wavelength(*plain) - 1.0) / 3.0;
            assert!(((1.0 - smooth) * plain / 8.0 + smooth * plain - llama).abs() < 1e-15);
            seen[2] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    let yarn = frequencies(128, 10_000.0, None, Stretch::Yarn { factor: 4.0, fast: 32.0, slow: 1.0, original: 4096.0, extrapolation: 1.0 });
    let plain = frequencies(128, 10_000.0, None, Stretch::None);
    assert_eq!(yarn[0], plain[0], "the fastest pair is kept");
    assert!((yarn[63] - plain[63] / 4.0).abs() < 1e-18, "the slowest is divided");
    let factors: Vec<f32> = (0..64).map(|i| 1.0 + i as f32).collect();
    let divided = frequencies(128, 10_000.0, Some(&factors), Stretch::None);
    assert!((divided[9] - plain[9] / 10.0).abs() < 1e-18);
}

#[test]
fn wrong_lengths_are_refused_and_nothing_is_written() {
    let table = frequencies(64, 10_000.0, None, Stretch::None);
    let refused = |dtype, heads, head_size, bytes: usize, frequencies: &[f64], rows: usize| {
        let mut keys = vec![7; bytes];
        let error = rotate_keys(&mut keys, KeyShape { dtype, heads, head_size }, Pairs::Halves, frequencies, &vec![3; rows]).unwrap_err();
        assert!(keys.iter().all(|byte| *byte == 7));
        error.param.unwrap()
    };
    assert_eq!(refused(KeyDtype::F32, 2, 64, 2 * 64 * 4 - 1, &table, 1), "keys");
    assert_eq!(refused(KeyDtype::F16, 2, 64, 2 * 64 * 2, &table, 2), "keys");
    assert_eq!(refused(KeyDtype::F32, usize::MAX, 64, 256, &table, 2), "keys");
    assert_eq!(refused(KeyDtype::F32, 1, 62, 62 * 4, &table, 1), "frequencies");
    assert_eq!(refused(KeyDtype::Q8_0, 1, 72, 72, &table, 1), "headSize");
    assert_eq!(refused(KeyDtype::F32, 1, 0, 0, &[], 1), "headSize");
}

#[test]
fn a_turned_block_has_the_bytes_of_the_encoder_and_keeps_its_length() {
    let mut random = Random(33);
    let table = frequencies(64, 10_000.0, None, Stretch::None);
    let norm = |key: &[f32]| key.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    for delta in 1..500 {
        let start = bytes_of(KeyDtype::Q8_0, &random.numbers(64));
        let mut turned = start.clone();
        rotate_keys(&mut turned, KeyShape { dtype: KeyDtype::Q8_0, heads: 1, head_size: 64 }, Pairs::Halves, &table, &[delta]).unwrap();
        let mut wide = bytes_of(KeyDtype::F32, &numbers_of(KeyDtype::Q8_0, &start));
        let before = numbers_of(KeyDtype::F32, &wide);
        rotate_keys(&mut wide, KeyShape { dtype: KeyDtype::F32, heads: 1, head_size: 64 }, Pairs::Halves, &table, &[delta]).unwrap();
        let exact = numbers_of(KeyDtype::F32, &wide);
        assert_eq!(turned, bytes_of(KeyDtype::Q8_0, &exact));
        assert!((norm(&exact) / norm(&before) - 1.0).abs() < 1e-7);
    }
}

#[test]
fn what_a_block_cannot_hold_is_not_a_number_and_stays_in_its_block() {
    let table = frequencies(64, 10_000.0, None, Stretch::None);
    let shape = KeyShape { dtype: KeyDtype::Q8_0, heads: 1, head_size: 64 };
    for scale in [f16::NAN, f16::INFINITY, f16::MAX] {
        let mut keys = bytes_of(KeyDtype::Q8_0, &[0.5; 64]);
        let mut sound = keys.clone();
        keys[..2].copy_from_slice(&scale.to_le_bytes());
        rotate_keys(&mut keys, shape, Pairs::Interleaved, &table, &[3]).unwrap();
        rotate_keys(&mut sound, shape, Pairs::Interleaved, &table, &[3]).unwrap();
        assert!(numbers_of(KeyDtype::Q8_0, &keys[..34]).iter().all(|number| number.is_nan()), "{scale}");
        assert_eq!(keys[34..], sound[34..]);
    }
}
