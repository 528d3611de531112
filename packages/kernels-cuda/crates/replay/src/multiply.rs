//! Products with weights, decoded as they are read.

use palimpsest_kernels::Result;
use palimpsest_kernels::quant::{self, TensorType};
use palimpsest_model::gguf::{GgufFile, TensorInfo};
use std::sync::Mutex;

/// Outputs computed together: so many independent sums for each row.
const PANEL: usize = 16;
/// Products that are summed in f32 before the sum goes on in f64.
const BLOCK: usize = 32;
/// Products below which threads cost more than they bring.
const PARALLEL_MIN: usize = 1 << 20;

/// A matrix of the file: `outputs` rows of `inputs` numbers.
pub(crate) struct Matrix<'a> {
    tensor_type: TensorType,
    bytes: &'a [u8],
    row_bytes: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl<'a> Matrix<'a> {
    pub(crate) fn of(file: &'a GgufFile, tensor: &TensorInfo) -> Self {
        Self {
            tensor_type: tensor.tensor_type,
            bytes: file.tensor_bytes(tensor),
            row_bytes: tensor.row_bytes(),
            inputs: tensor.columns(),
            outputs: tensor.rows(),
        }
    }

    /// One row, decoded.
    pub(crate) fn row(&self, index: usize, out: &mut [f32]) -> Result<()> {
        quant::decode(self.tensor_type, &self.bytes[index * self.row_bytes..][..self.row_bytes], out)
    }

    /// The outputs of each row of `x` (rows · inputs): rows · outputs.
    pub(crate) fn multiply(&self, x: &[f32], threads: usize) -> Result<Vec<f32>> {
        let rows = x.len() / self.inputs;
        // Panel after panel, rows · PANEL each; panels are handed out one by one, so a sleeping thread costs one.
        let mut panels = vec![0.0; self.outputs.div_ceil(PANEL) * PANEL * rows];
        let work = Mutex::new(panels.chunks_exact_mut(PANEL * rows).enumerate());
        let next = || work.lock().expect("no thread panics while it takes work").next();
        let run = || -> Result<()> {
            let mut weights = vec![0.0; PANEL * self.inputs];
            while let Some((panel, out)) = next() {
                self.decode_panel(panel, &mut weights)?;
                multiply_panel(x, self.inputs, &weights, out);
            }
            Ok(())
        };
        if threads == 1 || rows * self.inputs * self.outputs < PARALLEL_MIN {
            run()?;
        } else {
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
                let own = run();
                others.into_iter().map(|thread| thread.join().expect("products do not panic")).fold(own, Result::and)
            })?;
        }
        let mut out = vec![0.0; rows * self.outputs];
        for (panel, values) in panels.chunks_exact(PANEL * rows).enumerate() {
            let first = panel * PANEL;
            let width = PANEL.min(self.outputs - first);
            for (row, values) in values.chunks_exact(PANEL).enumerate() {
                out[row * self.outputs + first..][..width].copy_from_slice(&values[..width]);
            }
        }
        Ok(out)
    }

    /// Outputs 16·panel … of the matrix, input-major: `[inputs][PANEL]`; outputs beyond the last are 0.
    fn decode_panel(&self, panel: usize, weights: &mut [f32]) -> Result<()> {
        let mut row = vec![0.0; self.inputs];
        for lane in 0..PANEL {
            match panel * PANEL + lane {
                output if output < self.outputs => self.row(output, &mut row)?,
                _ => row.fill(0.0),
            }
            for (input, value) in row.iter().enumerate() {
                weights[input * PANEL + lane] = *value;
            }
        }
        Ok(())
    }
}

fn multiply_panel(x: &[f32], inputs: usize, weights: &[f32], out: &mut [f32]) {
    let pairs = x.chunks(2 * inputs).zip(out.chunks_mut(2 * PANEL));
    for (x, out) in pairs {
        let (first, second) = x.split_at(inputs);
        // The last row of an odd number goes twice, and its second result is dropped.
        let sums = dot_panel(first, if second.is_empty() { first } else { second }, weights);
        for (out, sum) in out.iter_mut().zip(sums.as_flattened()) {
            *out = *sum as f32;
        }
    }
}

/// Two rows times sixteen outputs.
fn dot_panel(first: &[f32], second: &[f32], weights: &[f32]) -> [[f64; PANEL]; 2] {
    let mut sums = [[0.0f64; PANEL]; 2];
    let blocks = first.chunks(BLOCK).zip(second.chunks(BLOCK)).zip(weights.chunks(BLOCK * PANEL));
    for ((first, second), weights) in blocks {
        for (sums, block) in sums.iter_mut().zip(dot_block(first, second, weights)) {
            sums.iter_mut().zip(block).for_each(|(sum, value)| *sum += f64::from(value));
        }
    }
    sums
}

/// Kept out of its caller: by itself it compiles to registers only, which makes it more than twice as fast.
#[inline(never)]
fn dot_block(first: &[f32], second: &[f32], weights: &[f32]) -> [[f32; PANEL]; 2] {
    let (mut left, mut right) = ([0.0f32; PANEL], [0.0f32; PANEL]);
    for ((x, y), weights) in first.iter().zip(second).zip(weights.as_chunks::<PANEL>().0) {
        for lane in 0..PANEL {
            left[lane] += x * weights[lane];
        }
        for lane in 0..PANEL {
            right[lane] += y * weights[lane];
        }
    }
    [left, right]
}
