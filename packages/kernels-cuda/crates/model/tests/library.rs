//! The parts of the library against f64: products with packed matrices, and attention over pages that were stored to.

mod support;

use palimpsest_kernels::quant::{TensorType, decode, encode};
use palimpsest_kernels::rotary::{Stretch, frequencies};
use palimpsest_kernels::{CellDtype, CellShape, Level, Pairs, Pool, Rotary, levels};
use palimpsest_model::attention::Heads;
use palimpsest_model::library::{CellPages, CellPagesShape, Compute, NewCells, asking};
use palimpsest_model::step::Step;
use support::{Random, bits};

const HEADS: Heads = Heads { heads: 4, kv_heads: 2, key_size: 64, value_size: 64, scale: 0.125, cap: 0.0 };
const CONTEXT: usize = 4096;

fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

fn computes() -> Vec<Compute> {
    levels().into_iter().enumerate().map(|(number, level)| Compute::new(level, Pool::new(1 + number % 2))).collect()
}

#[test]
fn products_of_every_type_are_those_of_f64_as_near_as_codes_of_the_input_allow() {
    let mut random = Random::new(21);
    for mut compute in computes() {
        for tensor_type in TensorType::ALL.iter().copied() {
            let (rows, columns, inputs) = (33, 512, 5);
            let values = numbers(&mut random, rows * columns);
            let mut bytes = vec![0; tensor_type.bytes_of(values.len()).unwrap()];
            encode(tensor_type, &values, &mut bytes).unwrap();
            let mut weights = vec![0.0; values.len()];
            decode(tensor_type, &bytes, &mut weights).unwrap();
            let matrix = compute.pack(tensor_type, rows, columns, &bytes).unwrap();
            let x = numbers(&mut random, inputs * columns);
            let out = compute.multiply(&matrix, &x).unwrap();
            let coded = compute.kernels.wants_codes(matrix.format);
            for (row, x) in x.chunks_exact(columns).enumerate() {
                for (output, weights) in weights.chunks_exact(columns).enumerate() {
                    let pairs = || x.iter().zip(weights).map(|(x, w)| (f64::from(*x), f64::from(*w)));
                    let exact: f64 = pairs().map(|(x, w)| x * w).sum();
                    let codes: f64 = if coded { pairs().map(|(_, w)| w.abs() / 254.0).sum() } else { 0.0 };
                    let error = (f64::from(out[row * rows + output]) - exact).abs();
                    assert!(error <= codes + 1e-4, "{tensor_type:?} on {}: {error}", compute.kernels.level().name());
                }
            }
            let alone = compute.multiply(&matrix, &x[2 * columns..3 * columns]).unwrap();
            assert_eq!(bits(&alone), bits(&out[2 * rows..3 * rows]));
        }
    }
}

fn pages(dtype: CellDtype, window: Option<usize>) -> CellPages {
    let cells = CellShape { layers: 2, kv_heads: 2, key_size: 64, value_size: 64, pages: 8, page_size: 16, dtype };
    let shape = CellPagesShape { cells, heads: HEADS, context: CONTEXT, window };
    shape.check(64).unwrap();
    CellPages::new(shape, Rotary::new(frequencies(64, 10_000.0, None, Stretch::None), Pairs::Halves, 1.0, CONTEXT)).unwrap()
}

/// R(position) · head in halves, in f64.
fn turn(head: &[f32], position: i32) -> Vec<f64> {
    let half = head.len() / 2;
    let mut out = vec![0.0; head.len()];
    for pair in 0..half {
        let (sine, cosine) = (f64::from(position) * 10_000f64.powf(-(pair as f64) / half as f64)).sin_cos();
        let (a, b) = (f64::from(head[pair]), f64::from(head[pair + half]));
        (out[pair], out[pair + half]) = (a * cosine - b * sine, a * sine + b * cosine);
    }
    out
}

/// Cells 0 … 79 in slots 3 … 82 at their numbers; a row at position 60 that reads 0 … 29 and, moved by −20, 50 … 78; its own cell is 79.
fn asked() -> Step {
    asking(Step {
        position: vec![60],
        cell: vec![82],
        row_of: vec![0, 1],
        view_of: vec![0, 2],
        run_page: vec![0, 3],
        run_first: vec![3, 5],
        run_length: vec![30, 29],
        run_birth: vec![0, 50],
        run_shift: vec![0, -20],
        pages: vec![0, 1, 2, 3, 4, 5],
        ..Step::default()
    })
}

#[test]
fn attention_over_stored_pages_is_that_of_f64() {
    let mut random = Random::new(22);
    let count = 80;
    let (keys, values) = (numbers(&mut random, count * 128), numbers(&mut random, count * 128));
    let queries = numbers(&mut random, 256);
    let slots: Vec<i32> = (3..83).collect();
    let positions: Vec<i32> = (0..79).chain([60]).collect();
    for compute in computes() {
        for (dtype, tolerance) in [(CellDtype::F32, 1e-5), (CellDtype::F16, 1e-3)] {
            for window in [None, Some(35)] {
                let mut pages = pages(dtype, window);
                let new = NewCells { slots: &slots, positions: &positions, keys: &keys, values: &values, rotated: false };
                pages.store(&compute, 1, &new).unwrap();
                let out = pages.attend(&compute, 1, &asked(), &queries, &[]).unwrap();
                let stand = |cell: usize| {
                    if cell < 30 {
                        cell as i32
                    } else if cell == 79 {
                        60
                    } else {
                        cell as i32 - 20
                    }
                };
                let read = (0..30).chain(50..80).filter(|cell| window.is_none_or(|window| stand(*cell) > 60 - window as i32));
                let read: Vec<usize> = read.collect();
                for head in 0..4 {
                    let part = |numbers: &[f32], cell: usize| numbers[cell * 128 + head / 2 * 64..][..64].to_vec();
                    let query = turn(&queries[head * 64..][..64], 60);
                    let score =
                        |cell: usize| query.iter().zip(turn(&part(&keys, cell), stand(cell))).map(|(q, k)| q * k).sum::<f64>() * 0.125;
                    let scores: Vec<f64> = read.iter().map(|cell| score(*cell)).collect();
                    let total: f64 = scores.iter().map(|score| score.exp()).sum();
                    for d in 0..64 {
                        let value = |(cell, score): (&usize, &f64)| score.exp() * f64::from(part(&values, *cell)[d]);
                        let exact = read.iter().zip(&scores).map(value).sum::<f64>() / total;
                        let error = (f64::from(out[head * 64 + d]) - exact).abs();
                        assert!(error < tolerance, "{:?} {dtype:?} {window:?}: {error}", compute.kernels.level());
                    }
                }
                // The other layer was never written: equal scores, values of zero.
                assert!(pages.attend(&compute, 0, &asked(), &queries, &[]).unwrap().iter().all(|number| *number == 0.0));
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_named_and_nothing_is_written() {
    let compute = Compute::new(palimpsest_kernels::kernels(Level::Reference).unwrap(), Pool::new(1));
    let mut pages = pages(CellDtype::F32, None);
    let ones = vec![1.0; 256];
    let new = NewCells { slots: &[0, 1], positions: &[0, 1], keys: &ones, values: &ones, rotated: false };
    let cases = [
        ("slots[1]", NewCells { slots: &[0, 128], ..new }),
        ("slots[1]", NewCells { slots: &[5, 5], ..new }),
        ("positions[0]", NewCells { positions: &[-1, 0], ..new }),
        ("positions[1]", NewCells { positions: &[0, 4096], ..new }),
        ("positions", NewCells { positions: &[0], ..new }),
        ("keys", NewCells { keys: &ones[1..], ..new }),
        ("values", NewCells { values: &ones[1..], ..new }),
        ("keys[255]", NewCells { keys: &[&ones[1..], &[f32::NAN]].concat(), ..new }),
    ];
    for (param, new) in cases {
        assert_eq!(pages.store(&compute, 0, &new).unwrap_err().param.as_deref(), Some(param));
    }
    assert_eq!(pages.store(&compute, 2, &new).unwrap_err().param.as_deref(), Some("layer"));
    let queries = vec![1.0; 256];
    assert!(pages.attend(&compute, 0, &asked(), &queries, &[]).unwrap().iter().all(|number| *number == 0.0), "nothing was written");
    assert_eq!(pages.attend(&compute, 0, &asked(), &queries[1..], &[]).unwrap_err().param.as_deref(), Some("queries"));
    assert_eq!(pages.attend(&compute, 0, &asked(), &queries, &[0.0]).unwrap_err().param.as_deref(), Some("sinks"));
}
