//! Cosines and sines of a step, made once for all layers that have one rotary table.

use palimpsest_kernels::{Pool, Rotary};

use super::plan::Plan;
use crate::shared::{Numbers, grain, grow, held};

/// Bytes that are kept at most. A step that needs more makes its angles where it rotates.
const BYTES_MAX: usize = 16 << 20;

/// Of each (segment, distinct shift, row) the turn p − Δ.
#[derive(Default)]
pub struct Angles {
    pairs: usize,
    entries: usize,
    /// `[entry][cosines, sines]`
    numbers: Vec<f32>,
}

impl Angles {
    /// `positions`: of the rows of the step.
    pub fn build(&mut self, plan: &Plan, positions: &[i32], rotary: &Rotary, pool: &Pool) {
        self.pairs = rotary.pair_count();
        let width = 2 * self.pairs;
        self.entries = if plan.turned_rows * width * size_of::<f32>() <= BYTES_MAX { plan.turned_rows } else { 0 };
        if self.entries == 0 {
            return;
        }
        grow(&mut self.numbers, self.entries * width);
        let numbers = Numbers::of(&mut self.numbers);
        let turns = plan.turns.len();
        pool.run(turns, grain(pool, turns, 8 * width * self.entries / turns), &|range, _| {
            for turn in &plan.turns[range] {
                for (at, position) in positions[turn.row_first..turn.row_end].iter().enumerate() {
                    // SAFETY: an entry belongs to one turn, a turn to one task.
                    let (cosines, sines) = unsafe { numbers.part((turn.entry + at) * width, width) }.split_at_mut(self.pairs);
                    rotary.angles(position - turn.shift, cosines, sines);
                }
            }
        });
    }

    /// Cosines and sines of an entry; `None` where there were too many.
    pub fn of(&self, entry: usize) -> Option<(&[f32], &[f32])> {
        (entry < self.entries).then(|| self.numbers[2 * entry * self.pairs..][..2 * self.pairs].split_at(self.pairs))
    }

    pub fn bytes(&self) -> usize {
        held(&self.numbers)
    }
}
