//! Products of packed weights: every level gives the bits of the scalar twin, whatever the tile, and the twin is right.

mod support;

use std::ops::Range;

use palimpsest_kernels::level::{ActivationBlock, Activations, BLOCK, Matrix, Output, RawMatrix};
use palimpsest_kernels::quant::{TensorType, decode};
use palimpsest_kernels::{Arena, Kernels, Level, Pool, levels};
use support::Random;

struct Quantized {
    columns: usize,
    values: Vec<f32>,
    codes: Vec<i8>,
    blocks: Vec<ActivationBlock>,
}

fn quantized(kernels: &dyn Kernels, rows: usize, columns: usize, random: &mut Random) -> Quantized {
    let values = random.numbers(rows * columns);
    let (mut codes, mut blocks) = (vec![0; rows * columns], vec![ActivationBlock::default(); rows * columns / BLOCK]);
    for row in 0..rows {
        let codes = &mut codes[row * columns..(row + 1) * columns];
        let blocks = &mut blocks[row * columns / BLOCK..(row + 1) * columns / BLOCK];
        let mut out = palimpsest_kernels::ActivationRow { values: &mut [], codes, blocks };
        kernels.quantize(&values[row * columns..(row + 1) * columns], &mut out);
    }
    Quantized { columns, values, codes, blocks }
}

/// Multiplies rows `rows` by panels cut at `cut`, and returns `[row][output]`.
fn multiply(kernels: &dyn Kernels, matrix: &Matrix, x: &Quantized, rows: Range<usize>, cut: usize) -> Vec<f32> {
    let columns = x.columns;
    let mut out = vec![f32::NAN; rows.len() * matrix.rows];
    let x = Activations {
        rows: rows.len(),
        columns,
        values: &x.values[rows.start * columns..rows.end * columns],
        codes: &x.codes[rows.start * columns..rows.end * columns],
        blocks: &x.blocks[rows.start * columns / BLOCK..rows.end * columns / BLOCK],
    };
    let to = Output { start: out.as_mut_ptr(), stride: matrix.rows, bias: None, add: false };
    for panels in [0..cut, cut..matrix.panels()] {
        // SAFETY: `out` holds every row, and one thread writes.
        unsafe { kernels.multiply(matrix, panels, &x, to) };
    }
    out
}

/// Random bytes of a tensor, every bit of every code possible, scales finite.
fn random_tensor(tensor_type: TensorType, elements: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0u8; tensor_type.bytes_of(elements).expect("whole blocks")];
    bytes.fill_with(|| random.next() as u8);
    let scales: &[usize] = match tensor_type {
        TensorType::F32 => &[3],
        TensorType::F16 | TensorType::BF16 => &[1],
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 => &[1],
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4_K | TensorType::Q5_K => &[1, 3],
        TensorType::Q6_K => &[209],
    };
    for block in bytes.chunks_exact_mut(tensor_type.block_bytes()) {
        for at in scales {
            // The exponent's highest bit: no infinity, no NaN, magnitudes below 2.
            block[*at] &= 0xbf;
        }
    }
    bytes
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_level_and_tile_gives_the_bits_of_the_scalar_twin() {
    let (pool, arena) = (Pool::new(2), Arena::new());
    let scalar = palimpsest_kernels::scalar::Scalar;
    let scalar: &dyn Kernels = &scalar;
    for tensor_type in TensorType::ALL.iter().copied() {
        for (seed, (outputs, blocks)) in [(1, 1), (15, 3), (16, 2), (17, 5), (33, 1), (80, 3)].into_iter().enumerate() {
            let columns = (blocks * BLOCK).next_multiple_of(tensor_type.block_size());
            let mut random = Random(seed as u64 + 1);
            let bytes = random_tensor(tensor_type, outputs * columns, &mut random);
            let raw = RawMatrix { tensor_type, rows: outputs, columns, bytes: &bytes };
            let x = quantized(scalar, 13, columns, &mut random);
            let matrix = scalar.pack(&raw, &pool, &arena).expect("a good tensor");
            let expected = multiply(scalar, &matrix, &x, 0..13, 0);
            for level in levels().iter().filter(|level| level.level() != Level::Reference) {
                let matrix = level.pack(&raw, &pool, &arena).expect("a good tensor");
                for rows in [0..13, 0..1, 3..5, 4..7, 2..6, 1..12, 6..12, 12..13] {
                    let cut = random.below(matrix.panels() + 1);
                    let got = multiply(&**level, &matrix, &x, rows.clone(), cut);
                    let expected = &expected[rows.start * outputs..rows.end * outputs];
                    let name = level.level().name();
                    assert_eq!(bits(&got), bits(expected), "{name}, {tensor_type:?}, {outputs} x {columns}, rows {rows:?}, cut {cut}");
                }
            }
        }
    }
}

#[test]
fn packing_loses_nothing() {
    let (pool, arena) = (Pool::new(2), Arena::new());
    let mut random = Random(31);
    for tensor_type in TensorType::ALL.iter().copied() {
        for (rows, blocks) in [(1, 1), (16, 2), (17, 3), (50, 5)] {
            let columns = (blocks * BLOCK).next_multiple_of(tensor_type.block_size());
            let bytes = random_tensor(tensor_type, rows * columns, &mut random);
            let mut decoded = vec![0.0; rows * columns];
            decode(tensor_type, &bytes, &mut decoded).expect("whole blocks");
            for level in levels().iter().filter(|level| level.level() != Level::Reference) {
                let matrix = level.pack(&RawMatrix { tensor_type, rows, columns, bytes: &bytes }, &pool, &arena).expect("a good tensor");
                let mut row = vec![f32::NAN; columns];
                for (number, decoded) in decoded.chunks_exact(columns).enumerate() {
                    level.unpack_row(&matrix, number, &mut row);
                    assert_eq!(bits(&row), bits(decoded), "{}, {tensor_type:?}, row {number} of {rows}", level.level().name());
                }
            }
        }
    }
}

#[test]
fn a_packed_matrix_is_no_wider_than_its_file() {
    let (pool, arena) = (Pool::new(1), Arena::new());
    for (tensor_type, most) in
        [(TensorType::Q4_0, 1.0), (TensorType::Q4_1, 1.0), (TensorType::Q8_0, 1.0), (TensorType::Q4_K, 1.03), (TensorType::Q6_K, 1.02)]
    {
        let bytes = vec![0; tensor_type.bytes_of(64 * 1024).expect("whole blocks")];
        for level in levels().iter().filter(|level| level.level() != Level::Reference) {
            let matrix =
                level.pack(&RawMatrix { tensor_type, rows: 64, columns: 1024, bytes: &bytes }, &pool, &arena).expect("a good tensor");
            assert!(matrix.bytes() as f64 <= most * bytes.len() as f64, "{tensor_type:?}: {} for {}", matrix.bytes(), bytes.len());
        }
    }
}
