//! Products, norms, gates and rotations, every level of this machine.

mod support;

use palimpsest_kernels::level::{BLOCK, PANEL_ROWS};
use palimpsest_kernels::quant::{TensorType, decode, encode};
use palimpsest_kernels::{
    ActivationBlock, ActivationRow, Activations, Arena, Gate, Kernels, Matrix, Output, Pairs, Pool, RawMatrix, Rotary, levels,
};
use support::Random;

/// Rows of activations in every form.
struct Owned {
    columns: usize,
    values: Vec<f32>,
    codes: Vec<i8>,
    blocks: Vec<ActivationBlock>,
}

impl Owned {
    fn new(rows: usize, columns: usize) -> Self {
        let blocks = rows * columns.div_ceil(BLOCK);
        Self {
            columns,
            values: vec![0.0; rows * columns],
            codes: vec![0; rows * columns],
            blocks: vec![ActivationBlock::default(); blocks],
        }
    }

    fn row(&mut self, row: usize) -> ActivationRow<'_> {
        let (columns, blocks) = (self.columns, self.columns.div_ceil(BLOCK));
        ActivationRow {
            values: &mut self.values[row * columns..][..columns],
            codes: &mut self.codes[row * columns..][..columns],
            blocks: &mut self.blocks[row * blocks..][..blocks],
        }
    }

    fn view(&self, rows: std::ops::Range<usize>) -> Activations<'_> {
        let (columns, blocks) = (self.columns, self.columns.div_ceil(BLOCK));
        Activations {
            rows: rows.len(),
            columns,
            values: &self.values[rows.start * columns..rows.end * columns],
            codes: &self.codes[rows.start * columns..rows.end * columns],
            blocks: &self.blocks[rows.start * blocks..rows.end * blocks],
        }
    }

    /// What a product with `matrix` reads of this row.
    fn read(&self, kernels: &dyn Kernels, matrix: &Matrix, row: usize, column: usize) -> f64 {
        if kernels.wants_codes(matrix.format) {
            let scale = self.blocks[row * self.columns.div_ceil(BLOCK) + column / BLOCK].scale;
            f64::from(self.codes[row * self.columns + column]) * f64::from(scale)
        } else {
            f64::from(self.values[row * self.columns + column])
        }
    }
}

fn product(kernels: &dyn Kernels, matrix: &Matrix, x: &Activations<'_>, bias: Option<&[f32]>, start: &[f32], cut: usize) -> Vec<f32> {
    let mut out = start.to_vec();
    let output = Output { start: out.as_mut_ptr(), stride: matrix.rows, bias, add: true };
    let cut = cut.min(matrix.panels());
    // SAFETY: `out` has `rows` outputs in each row of x; one thread.
    unsafe {
        kernels.multiply(matrix, cut..matrix.panels(), x, output);
        kernels.multiply(matrix, 0..cut, x, output);
    }
    out
}

#[test]
fn every_type_multiplies_as_its_decoded_numbers_do() {
    let seed = 21;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (pool, arena) = (Pool::new(2), Arena::new());
    for kernels in levels() {
        for tensor_type in TensorType::ALL.iter().copied() {
            for (rows, columns, count) in [(16, 256, 1), (40, 512, 3), (7, 768, 13), (33, 256, 30)] {
                let weights = random.numbers(rows * columns);
                let mut bytes = vec![0; tensor_type.bytes_of(rows * columns).unwrap()];
                encode(tensor_type, &weights, &mut bytes).unwrap();
                let mut decoded = vec![0.0; rows * columns];
                decode(tensor_type, &bytes, &mut decoded).unwrap();
                let matrix = kernels.pack(&RawMatrix { tensor_type, rows, columns, bytes: &bytes }, &pool, &arena).unwrap();
                let name = format!("{} {} {rows}×{columns}", kernels.level().name(), tensor_type.name());

                let mut row = vec![0.0; columns];
                kernels.unpack_row(&matrix, rows - 1, &mut row);
                for (ours, exact) in row.iter().zip(&decoded[(rows - 1) * columns..]) {
                    assert!((ours - exact).abs() <= 2e-7 * (1.0 + exact.abs()), "{name}: {ours} for {exact}");
                }

                let mut x = Owned::new(count, columns);
                for row in 0..count {
                    kernels.quantize(&random.numbers(columns), &mut x.row(row));
                }
                let (bias, start) = (random.numbers(rows), random.numbers(rows * count));
                let out = product(&*kernels, &matrix, &x.view(0..count), Some(&bias), &start, random.below(4));
                for r in 0..count {
                    for o in 0..rows {
                        let exact: f64 = (0..columns).map(|k| x.read(&*kernels, &matrix, r, k) * f64::from(decoded[o * columns + k])).sum();
                        let exact = exact + f64::from(bias[o]) + f64::from(start[r * rows + o]);
                        let ours = f64::from(out[r * rows + o]);
                        assert!((ours - exact).abs() < 4e-5 * (1.0 + exact.abs()), "{name}, row {r} output {o}: {ours} for {exact}");
                    }
                }
                for r in 0..count {
                    let alone = product(&*kernels, &matrix, &x.view(r..r + 1), Some(&bias), &start[r * rows..(r + 1) * rows], 0);
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&alone), bits(&out[r * rows..(r + 1) * rows]), "{name}, row {r} alone");
                }
            }
        }
    }
}

#[test]
fn norm_and_gate_agree_with_f64() {
    let mut random = Random(22);
    for kernels in levels() {
        for columns in [32, 96, 576, 896] {
            let (x, weight) = (random.numbers(columns), random.numbers(columns));
            let mut out = Owned::new(1, columns);
            kernels.normalize(&x, &weight, 1e-5, &mut out.row(0));
            let mean: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / columns as f64;
            for i in 0..columns {
                let exact = f64::from(x[i]) / (mean + 1e-5).sqrt() * f64::from(weight[i]);
                assert!((f64::from(out.values[i]) - exact).abs() < 1e-6 * (1.0 + exact.abs()));
            }
            let g: Vec<f32> = random.numbers(columns).iter().map(|x| x * 20.0).collect();
            kernels.gate(Gate::Silu, &g, &x, &mut out.row(0));
            for i in 0..columns {
                let exact = f64::from(g[i]) / (1.0 + (-f64::from(g[i])).exp()) * f64::from(x[i]);
                assert!((f64::from(out.values[i]) - exact).abs() < 1e-6 * (1.0 + exact.abs()));
            }
            kernels.gate(Gate::GeluTanh, &g, &x, &mut out.row(0));
            for i in 0..columns {
                let g = f64::from(g[i]);
                let tanh = ((2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3))).tanh();
                let exact = 0.5 * g * (1.0 + tanh) * f64::from(x[i]);
                assert!((f64::from(out.values[i]) - exact).abs() < 2e-6 * (1.0 + exact.abs()));
            }
        }
    }
}

#[test]
fn a_code_is_nearest_to_its_number_and_sums_are_those_of_the_codes() {
    let mut random = Random(23);
    for kernels in levels() {
        let mut out = Owned::new(1, 128);
        let mut x = random.numbers(128);
        x[64..96].fill(0.0);
        kernels.quantize(&x, &mut out.row(0));
        assert_eq!(out.values, x, "values are kept as they came");
        if out.blocks.iter().all(|block| block.scale == 0.0) {
            continue; // a level without codes
        }
        for (i, x) in x.iter().enumerate() {
            let scale = out.blocks[i / BLOCK].scale;
            assert!((f32::from(out.codes[i]) * scale - x).abs() <= 0.5001 * scale + 1e-9, "{}", kernels.level().name());
        }
        for (block, codes) in out.blocks.iter().zip(out.codes.chunks(BLOCK)) {
            let sum = |codes: &[i8]| codes.iter().map(|code| i32::from(*code)).sum::<i32>();
            assert_eq!((block.sum, block.first_half_sum), (sum(codes), sum(&codes[..16])));
            assert_eq!(block.weighted_sum, block.scale * block.sum as f32);
        }
    }
}

#[test]
fn rotations_compose_and_keep_length_for_both_pairings() {
    let mut random = Random(24);
    for kernels in levels() {
        for pairs in [Pairs::Halves, Pairs::Interleaved] {
            let frequencies: Vec<f64> = (0..24).map(|i| 10_000f64.powf(-f64::from(i) / 24.0)).collect();
            let rotary = Rotary::new(frequencies, pairs, 1.0, 4096);
            let turn = |position: i32, x: &[f32]| {
                let (mut cosines, mut sines, mut out) = ([0.0; 24], [0.0; 24], vec![0.0; 64]);
                rotary.angles(position, &mut cosines, &mut sines);
                kernels.rotate(pairs, &cosines, &sines, 1.0, x, &mut out);
                out
            };
            let x = random.numbers(64);
            for (a, b) in [(5, 7), (-4096, 100), (4000, 4000), (4096, -4096), (255, 1), (-1, 1)] {
                let (once, twice) = (turn(a + b, &x), turn(b, &turn(a, &x)));
                for (once, twice) in once.iter().zip(&twice) {
                    assert!((once - twice).abs() < 1e-6);
                }
            }
            assert_eq!(turn(77, &x)[48..], x[48..], "elements past the rotated ones stay");
            assert_eq!(turn(0, &x), x);
        }
    }
}

#[test]
fn panels_hold_sixteen_rows() {
    let (pool, arena) = (Pool::new(1), Arena::new());
    for kernels in levels() {
        let matrix = kernels
            .pack(&RawMatrix { tensor_type: TensorType::F32, rows: 17, columns: 32, bytes: &[0; 17 * 32 * 4] }, &pool, &arena)
            .unwrap();
        assert_eq!((matrix.panels(), PANEL_ROWS), (2, 16));
    }
}
