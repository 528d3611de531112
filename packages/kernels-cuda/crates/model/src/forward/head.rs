//! From the last layer to ids and log-probabilities.

use std::slice::from_ref;
use std::sync::Mutex;

use palimpsest_kernels::softmax::log_sum;

use super::scratch::Scratch;
use super::{Machine, Outcome};
use crate::sampler::{Constraints, Workspace, draw, top};
use crate::shared::{Numbers, exclusive, grain, held};
use crate::step::Step;

/// Rows whose logits are held at a time.
pub const LOGIT_ROWS: usize = 16;

/// What the outputs of a step came to: see `StepResult` in `src/step.ts`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    pub ids: Vec<i32>,
    pub logprobs: Vec<f32>,
    pub top_ids: Vec<i32>,
    pub top_logprobs: Vec<f32>,
}

impl Draws {
    fn clear(&mut self) {
        self.ids.clear();
        self.logprobs.clear();
        self.top_ids.clear();
        self.top_logprobs.clear();
    }

    fn push(&mut self, output: &Drawn) {
        self.ids.push(output.id);
        self.logprobs.push(output.logprob);
        self.top_ids.extend(output.top.iter().map(|(id, _)| *id as i32));
        self.top_logprobs.extend(output.top.iter().map(|(_, logprob)| logprob));
    }
}

/// One output.
#[derive(Debug, Default)]
pub struct Drawn {
    id: i32,
    logprob: f32,
    top: Vec<(u32, f32)>,
}

impl Drawn {
    pub fn bytes(&self) -> usize {
        held(&self.top)
    }
}

impl Machine {
    /// Logits of the wanted rows, and what each output draws from them.
    pub fn outputs(&self, step: &Step, scratch: &mut Scratch, outcome: &mut Outcome) {
        let (shape, outputs) = (&self.weights.shape, step.outputs());
        outcome.logits.clear();
        outcome.logits.resize(step.logits.unwrap_or(0), 0.0);
        scratch.drawn.resize_with(outputs.max(scratch.drawn.len()), Mutex::default);
        // Outputs in the order of their rows; rows that are left stand in the same order.
        scratch.output_order.clear();
        scratch.output_order.extend(0..outputs);
        scratch.output_order.sort_unstable_by_key(|output| step.out_row[*output]);
        let mut next = 0;
        for first in (0..scratch.rows).step_by(LOGIT_ROWS) {
            let rows = LOGIT_ROWS.min(scratch.rows - first);
            self.logits(first, rows, scratch);
            let Scratch { threads, rows_left, logits, drawn, output_order, .. } = &*scratch;
            let rows = &rows_left[first..first + rows];
            let last = *rows.last().expect("a row");
            let here = &output_order[next..];
            let here = &here[..here.partition_point(|output| step.out_row[*output] as usize <= last)];
            next += here.len();
            let copies = Numbers::of(&mut outcome.logits);
            self.pool.run(here.len(), grain(&self.pool, here.len(), 10 * shape.vocabulary), &|range, thread| {
                let mut own = exclusive(&threads[thread]);
                for output in &here[range] {
                    let row = rows.binary_search(&(step.out_row[*output] as usize)).expect("a wanted row");
                    let logits = &logits[row * shape.vocabulary..][..shape.vocabulary];
                    if step.logits.is_some() {
                        // SAFETY: each output belongs to one task.
                        unsafe { copies.part(*output * shape.vocabulary, shape.vocabulary) }.copy_from_slice(logits);
                    }
                    draw_output(step, *output, logits, shape.sampled, &mut own.sampler, &mut exclusive(&drawn[*output]));
                }
            });
        }
        outcome.draws.clear();
        scratch.drawn[..outputs].iter_mut().for_each(|drawn| outcome.draws.push(&exclusive(drawn)));
    }

    /// scratch.logits[row] = head(norm(hidden[first + row]))
    fn logits(&self, first: usize, rows: usize, scratch: &mut Scratch) {
        let shape = &self.weights.shape;
        let hidden = &scratch.hidden[first * shape.embedding..];
        let head = from_ref(self.weights.head());
        self.normalize(hidden, &self.weights.output_norm, rows, head, &mut scratch.activations);
        self.multiply(head, &scratch.activations.view(rows), Numbers::of(&mut scratch.logits), false);
        if shape.logit_cap > 0.0 {
            let logits = &mut scratch.logits[..rows * shape.vocabulary];
            logits.iter_mut().for_each(|logit| *logit = shape.logit_cap * (*logit / shape.logit_cap).tanh());
        }
    }
}

fn draw_output(step: &Step, output: usize, logits: &[f32], sampled: usize, workspace: &mut Workspace, drawn: &mut Drawn) {
    let sum = log_sum(logits);
    let target = step.out_target[output];
    drawn.id = if target >= 0 {
        target
    } else {
        let sampler = &step.samplers[step.out_sampler[output] as usize];
        draw(logits, &sum, sampled, sampler, &constraints(step, output, logits.len()), workspace) as i32
    };
    let logprob = |id: usize| (f64::from(logits[id]) - sum.log_sum) as f32;
    drawn.logprob = logprob(drawn.id as usize);
    drawn.top.clear();
    if step.out_top[output] > 0 {
        let best = top(logits, sampled, step.out_top[output] as usize, workspace);
        drawn.top.extend(best.iter().map(|(_, id)| (*id, logprob(*id as usize))));
    }
}

fn constraints(step: &Step, output: usize, vocabulary: usize) -> Constraints<'_> {
    let biases = if step.bias_of.is_empty() { 0..0 } else { step.bias_of[output] as usize..step.bias_of[output + 1] as usize };
    let words = vocabulary.div_ceil(32);
    let mask = step.mask_of.get(output).filter(|mask| **mask >= 0).map(|mask| &step.mask[*mask as usize * words..][..words]);
    Constraints { bias_id: &step.bias_id[biases.clone()], bias_value: &step.bias_value[biases], mask }
}
