//! The work of a layer that needs one row at a time, and the products between.

use std::slice::from_ref;

use palimpsest_kernels::level::PANEL_ROWS;
use palimpsest_kernels::{ActivationRow, Activations, Output};

use super::Machine;
use super::scratch::{ActivationStore, Forms, Scratch, ThreadScratch};
use crate::attention::Attention;
use crate::shared::{Numbers, exclusive, grain};
use crate::step::Step;
use crate::weights::Linear;

/// Rows that pass through the products together: enough to pay for one pass over the weights, few enough to stay in a cache.
pub const ROW_CHUNK: usize = 256;

impl Machine {
    /// hidden[row] = embedding of the row's token.
    pub fn embed(&self, step: &Step, previous: &[i32], scratch: &mut Scratch) {
        let shape = &self.weights.shape;
        let hidden = Numbers::of(&mut scratch.hidden);
        self.pool.run(step.rows(), grain(&self.pool, step.rows(), shape.embedding), &|rows, _| {
            for row in rows {
                let token = step.token[row];
                let token = if token < 0 { previous[(-1 - token) as usize] } else { token };
                // SAFETY: each row belongs to one task.
                let out = unsafe { hidden.part(row * shape.embedding, shape.embedding) };
                self.kernels.unpack_row(&self.weights.embedding.matrix, token as usize, out);
                if shape.embedding_scale != 1.0 {
                    out.iter_mut().for_each(|number| *number *= shape.embedding_scale);
                }
            }
        });
    }

    /// Queries, keys and values of all rows; keys are rotated to their birth position and written with the values.
    pub fn project(&self, layer: usize, step: &Step, scratch: &mut Scratch) {
        let (shape, weights) = (&self.weights.shape, &self.weights.layers[layer]);
        let width = shape.heads.query_key_value();
        for first in (0..step.rows()).step_by(ROW_CHUNK) {
            let rows = ROW_CHUNK.min(step.rows() - first);
            self.normalize(
                &scratch.hidden[first * shape.embedding..],
                &weights.attention_norm,
                rows,
                &weights.query_key_value,
                &mut scratch.activations,
            );
            let out = Numbers::of(&mut scratch.query_key_value[first * width..(first + rows) * width]);
            self.multiply(&weights.query_key_value, &scratch.activations.view(rows), out, false);
        }
        let matrix = Numbers::of(&mut scratch.query_key_value);
        let threads = &scratch.threads;
        self.pool.run(step.rows(), grain(&self.pool, step.rows(), 4 * width), &|rows, thread| {
            let mut own = exclusive(&threads[thread]);
            for row in rows {
                // SAFETY: each row belongs to one task.
                let numbers = unsafe { matrix.part(row * width, width) };
                self.store(layer, step, row, numbers, &mut own);
            }
        });
    }

    /// One row: norms of its heads, then its key and value into its cell.
    fn store(&self, layer: usize, step: &Step, row: usize, numbers: &mut [f32], own: &mut ThreadScratch) {
        let (shape, weights) = (&self.weights.shape, &self.weights.layers[layer]);
        if let Some(norms) = &weights.head_norms {
            let (queries, rest) = numbers.split_at_mut(shape.heads.key_at());
            let keys = &mut rest[..shape.heads.kv_heads * shape.heads.key_size];
            for (heads, weight) in [(queries, &norms.query), (keys, &norms.key)] {
                for head in heads.chunks_exact_mut(shape.heads.key_size) {
                    own.head[..shape.heads.key_size].copy_from_slice(head);
                    self.kernels.normalize(&own.head[..shape.heads.key_size], weight, shape.epsilon, &mut values_only(head));
                }
            }
        }
        if step.store[row] == 0 {
            return;
        }
        let rotary = &self.weights.rotaries[weights.rotary];
        let pairs = rotary.pair_count();
        rotary.angles(step.position[row], &mut own.cosines, &mut own.sines);
        let (keys, values) = numbers[shape.heads.key_at()..].split_at(shape.heads.kv_heads * shape.heads.key_size);
        for head in 0..shape.heads.kv_heads {
            let key = &keys[head * shape.heads.key_size..][..shape.heads.key_size];
            let rotated = &mut own.head[..shape.heads.key_size];
            self.kernels.rotate(rotary.pairs, &own.cosines[..pairs], &own.sines[..pairs], 1.0, key, rotated);
            let value = &values[head * shape.heads.value_size..][..shape.heads.value_size];
            // SAFETY: the step's slots are inside the pool and distinct (checked); nobody reads cells before this batch has ended.
            unsafe { self.cells.layer(layer).store(step.cell[row] as usize, head, rotated, value) };
        }
    }

    /// hidden += output(attention) over the rows that are left.
    pub fn attend(&self, layer: usize, scratch: &mut Scratch) {
        let (shape, weights) = (&self.weights.shape, &self.weights.layers[layer]);
        let width = shape.heads.attended();
        let attention = Attention {
            kernels: &*self.kernels,
            pool: &self.pool,
            cells: self.cells.layer(layer),
            rotary: &self.weights.rotaries[weights.rotary],
            angles: Some(&scratch.angles[weights.rotary]),
            heads: &shape.heads,
            sinks: &[],
            plan: &scratch.plan,
            tiles: &scratch.tiles[weights.window],
            rows: &scratch.rows_left,
            positions: &scratch.positions,
            starts: &scratch.plan.starts[weights.window],
            queries: &scratch.query_key_value,
            stride: shape.heads.query_key_value(),
        };
        attention.run(&mut scratch.attended, &mut scratch.attention);
        for first in (0..scratch.rows).step_by(ROW_CHUNK) {
            let rows = ROW_CHUNK.min(scratch.rows - first);
            scratch.activations.shape(rows, width, self.forms(from_ref(&weights.attention_output)));
            let (attended, writer) = (&scratch.attended, scratch.activations.writer());
            self.pool.run(rows, grain(&self.pool, rows, 2 * width), &|range, _| {
                for row in range {
                    // SAFETY: each row belongs to one task.
                    self.kernels.quantize(&attended[(first + row) * width..][..width], &mut unsafe { writer.row(row) });
                }
            });
            self.add(&weights.attention_output, weights.attention_post_norm.as_deref(), first, rows, scratch);
        }
    }

    /// hidden += down(gate(norm(hidden))) over the rows that are left.
    pub fn feed(&self, layer: usize, scratch: &mut Scratch) {
        let (shape, weights) = (&self.weights.shape, &self.weights.layers[layer]);
        for first in (0..scratch.rows).step_by(ROW_CHUNK) {
            let rows = ROW_CHUNK.min(scratch.rows - first);
            self.normalize(
                &scratch.hidden[first * shape.embedding..],
                &weights.feed_norm,
                rows,
                &weights.gate_up,
                &mut scratch.activations,
            );
            let both = Numbers::of(&mut scratch.gate_up);
            self.multiply(&weights.gate_up, &scratch.activations.view(rows), both, false);
            scratch.activations.shape(rows, shape.feed, self.forms(from_ref(&weights.down)));
            let (gate_up, writer) = (&scratch.gate_up, scratch.activations.writer());
            self.pool.run(rows, grain(&self.pool, rows, 8 * shape.feed), &|range, _| {
                for row in range {
                    let (gate, up) = gate_up[row * 2 * shape.feed..][..2 * shape.feed].split_at(shape.feed);
                    // SAFETY: each row belongs to one task.
                    self.kernels.gate(shape.gate, gate, up, &mut unsafe { writer.row(row) });
                }
            });
            self.add(&weights.down, weights.feed_post_norm.as_deref(), first, rows, scratch);
        }
    }

    /// hidden[first …] += linear(activations), through a norm where the model has one.
    pub fn add(&self, linear: &Linear, post_norm: Option<&[f32]>, first: usize, rows: usize, scratch: &mut Scratch) {
        let embedding = self.weights.shape.embedding;
        let Scratch { hidden, product, activations, threads, .. } = scratch;
        let hidden = Numbers::of(&mut hidden[first * embedding..(first + rows) * embedding]);
        let x = activations.view(rows);
        let Some(norm) = post_norm else {
            return self.multiply(from_ref(linear), &x, hidden, true);
        };
        self.multiply(from_ref(linear), &x, Numbers::of(product), false);
        self.pool.run(rows, grain(&self.pool, rows, 5 * embedding), &|range, thread| {
            let mut own = exclusive(&threads[thread]);
            for row in range {
                let normal = &mut own.row[..embedding];
                let product = &product[row * embedding..][..embedding];
                self.kernels.normalize(product, norm, self.weights.shape.epsilon, &mut values_only(normal));
                // SAFETY: each row belongs to one task.
                let hidden = unsafe { hidden.part(row * embedding, embedding) };
                hidden.iter_mut().zip(normal).for_each(|(hidden, number)| *hidden += *number);
            }
        });
    }

    /// Norm of the first `rows` rows of `hidden`, as activations for the products with `next`.
    pub fn normalize(&self, hidden: &[f32], weight: &[f32], rows: usize, next: &[Linear], out: &mut ActivationStore) {
        let shape = &self.weights.shape;
        out.shape(rows, shape.embedding, self.forms(next));
        let writer = out.writer();
        self.pool.run(rows, grain(&self.pool, rows, 4 * shape.embedding), &|range, _| {
            for row in range {
                let x = &hidden[row * shape.embedding..][..shape.embedding];
                // SAFETY: each row belongs to one task.
                self.kernels.normalize(x, weight, shape.epsilon, &mut unsafe { writer.row(row) });
            }
        });
    }

    /// out[row][all outputs] (+)= every part of the stack, side by side, in one batch.
    pub fn multiply(&self, stack: &[Linear], x: &Activations<'_>, out: Numbers, add: bool) {
        let stride: usize = stack.iter().map(|part| part.matrix.rows).sum();
        // SAFETY: only the bounds of the whole are taken here; panels write disjoint outputs below.
        let start = unsafe { out.part(0, x.rows * stride) }.as_mut_ptr();
        let whole = &Output { start, stride, bias: None, add };
        let panels: usize = stack.iter().map(|part| part.matrix.panels()).sum();
        let bytes: usize = stack.iter().map(|part| part.matrix.bytes()).sum();
        self.products.add(bytes, x.rows * x.columns * stride);
        self.pool.run(panels, grain(&self.pool, panels, x.rows * x.columns * PANEL_ROWS), &|range, _| {
            let (mut panel, mut output) = (0, 0);
            for part in stack {
                let end = panel + part.matrix.panels();
                let (from, to) = (range.start.max(panel), range.end.min(end));
                if from < to {
                    let out = Output { start: whole.start.wrapping_add(output), bias: part.bias.as_deref(), ..*whole };
                    // SAFETY: the outputs of these panels exist in every row and belong to this task.
                    unsafe { self.kernels.multiply(&part.matrix, from - panel..to - panel, x, out) };
                }
                (panel, output) = (end, output + part.matrix.rows);
            }
        });
    }

    /// What the products of the stack read.
    pub fn forms(&self, stack: &[Linear]) -> Forms {
        let wants_codes = |part: &Linear| self.kernels.wants_codes(part.matrix.format);
        Forms { codes: stack.iter().any(wants_codes), values: !stack.iter().all(wants_codes) }
    }
}

/// A row of which only the numbers are wanted.
pub fn values_only(values: &mut [f32]) -> ActivationRow<'_> {
    ActivationRow { values, codes: &mut [], blocks: &mut [] }
}
