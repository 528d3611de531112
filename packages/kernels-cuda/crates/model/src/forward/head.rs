//! From the last layer to ids and log-probabilities.

use std::slice::from_ref;
use std::sync::Mutex;

use super::Machine;
use super::rows::grain;
use super::scratch::{Numbers, Scratch, exclusive};
use crate::sampler::{Constraints, Workspace, draw, log_sum, top};
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

/// One output.
#[derive(Clone, Debug, Default)]
struct Drawn {
    id: i32,
    logprob: f32,
    top: Vec<(u32, f32)>,
}

impl Machine {
    /// Logits of the wanted rows, and what each output draws from them.
    pub fn outputs(&self, step: &Step, scratch: &mut Scratch) -> (Draws, Option<Vec<f32>>) {
        let (shape, outputs) = (&self.weights.shape, step.outputs());
        let mut logits = step.logits.map(|numbers| vec![0f32; numbers]);
        let drawn: Vec<Mutex<Drawn>> = (0..outputs).map(|_| Mutex::default()).collect();
        // Outputs in the order of their rows; rows that are left stand in the same order.
        let mut order: Vec<usize> = (0..outputs).collect();
        order.sort_by_key(|output| step.out_row[*output]);
        let mut next = 0;
        for first in (0..scratch.rows).step_by(LOGIT_ROWS) {
            let rows = LOGIT_ROWS.min(scratch.rows - first);
            self.logits(first, rows, scratch);
            let last_row = scratch.rows_left[first + rows - 1];
            let here = order[next..].iter().take_while(|output| step.out_row[**output] as usize <= last_row).count();
            let here = &order[next..next + here];
            next += here.len();
            let all = logits.as_mut().map(|logits| Numbers::of(logits));
            let Scratch { threads, rows_left, logits: numbers, .. } = &*scratch;
            self.pool.run(here.len(), grain(&self.pool, here.len(), 10 * shape.vocabulary), &|range, thread| {
                let mut own = exclusive(&threads[thread]);
                for output in &here[range] {
                    let row = rows_left[first..first + rows].binary_search(&(step.out_row[*output] as usize)).expect("a wanted row");
                    let row_logits = &numbers[row * shape.vocabulary..][..shape.vocabulary];
                    if let Some(all) = &all {
                        // SAFETY: each output belongs to one task.
                        unsafe { all.part(*output * shape.vocabulary, shape.vocabulary) }.copy_from_slice(row_logits);
                    }
                    *exclusive(&drawn[*output]) = draw_output(step, *output, row_logits, shape.sampled, &mut own.sampler);
                }
            });
        }
        (collect(drawn), logits)
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

fn draw_output(step: &Step, output: usize, logits: &[f32], sampled: usize, workspace: &mut Workspace) -> Drawn {
    let target = step.out_target[output];
    let id = if target >= 0 {
        target
    } else {
        let sampler = &step.samplers[step.out_sampler[output] as usize];
        draw(logits, sampled, sampler, &constraints(step, output, logits.len()), workspace) as i32
    };
    let total = log_sum(logits);
    let logprob = |id: usize| (f64::from(logits[id]) - total) as f32;
    let best = top(logits, sampled, step.out_top[output] as usize, workspace);
    Drawn { id, logprob: logprob(id as usize), top: best.iter().map(|(_, id)| (*id, logprob(*id as usize))).collect() }
}

fn constraints(step: &Step, output: usize, vocabulary: usize) -> Constraints<'_> {
    let biases = if step.bias_of.is_empty() { 0..0 } else { step.bias_of[output] as usize..step.bias_of[output + 1] as usize };
    let words = vocabulary.div_ceil(32);
    let mask = step.mask_of.get(output).filter(|mask| **mask >= 0).map(|mask| &step.mask[*mask as usize * words..][..words]);
    Constraints { bias_id: &step.bias_id[biases.clone()], bias_value: &step.bias_value[biases], mask }
}

fn collect(drawn: Vec<Mutex<Drawn>>) -> Draws {
    let mut draws = Draws::default();
    for output in drawn {
        let output = output.into_inner().expect("no panic while held");
        draws.ids.push(output.id);
        draws.logprobs.push(output.logprob);
        draws.top_ids.extend(output.top.iter().map(|(id, _)| *id as i32));
        draws.top_logprobs.extend(output.top.iter().map(|(_, logprob)| logprob));
    }
    draws
}
