//! The step call: the same fields as `src/step.ts`, and their check.

mod check;

pub use check::{Facts, ROWS_MAX};

/// How one output is drawn. Ranges as in `src/step.ts`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// 0 = greedy.
    pub temperature: f32,
    /// 0 = off.
    pub top_k: u32,
    /// 1 = off.
    pub top_p: f32,
    /// 0 = off.
    pub min_p: f32,
    pub seed: u64,
    /// Number of the draw under this seed.
    pub draw: u64,
}

impl Sampler {
    pub const GREEDY: Sampler = Sampler { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0, draw: 0 };
}

/// One forward step as it came over the border. Letters, shapes and meanings: `src/step.ts`. Owned, because the caller's arrays may
/// change while a step runs; the vectors are reused from step to step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub token: Vec<i32>,
    pub position: Vec<i32>,
    pub cell: Vec<i32>,
    pub store: Vec<u8>,
    pub row_of: Vec<i32>,
    pub view_of: Vec<i32>,
    pub run_page: Vec<i32>,
    pub run_first: Vec<i32>,
    pub run_length: Vec<i32>,
    pub run_birth: Vec<i32>,
    pub run_shift: Vec<i32>,
    pub pages: Vec<i32>,
    pub out_row: Vec<i32>,
    pub out_target: Vec<i32>,
    pub out_top: Vec<u8>,
    pub out_sampler: Vec<i32>,
    pub samplers: Vec<Sampler>,
    /// Empty: no biases. Otherwise O + 1 entries.
    pub bias_of: Vec<i32>,
    pub bias_id: Vec<i32>,
    pub bias_value: Vec<f32>,
    /// Empty: no masks. Otherwise O entries.
    pub mask_of: Vec<i32>,
    pub mask: Vec<u32>,
    /// Length of the array that receives the logits, when the caller wants them.
    pub logits: Option<usize>,
}

impl Step {
    pub fn rows(&self) -> usize {
        self.token.len()
    }

    pub fn segments(&self) -> usize {
        self.row_of.len() - 1
    }

    pub fn runs(&self) -> usize {
        self.run_page.len()
    }

    pub fn outputs(&self) -> usize {
        self.out_row.len()
    }

    /// Rows of a segment. The step was checked.
    pub fn segment_rows(&self, segment: usize) -> std::ops::Range<usize> {
        self.row_of[segment] as usize..self.row_of[segment + 1] as usize
    }

    /// Runs of a segment's view in a group. The step was checked.
    pub fn view(&self, group: usize, segment: usize) -> std::ops::Range<usize> {
        let at = group * self.segments() + segment;
        self.view_of[at] as usize..self.view_of[at + 1] as usize
    }

    /// Whether some output looks at more than the highest logit.
    pub fn draws_from_candidates(&self) -> bool {
        let sampled = self.samplers.iter().any(|sampler| sampler.temperature > 0.0);
        sampled || self.out_top.iter().any(|top| *top > 0) || !self.bias_id.is_empty() || !self.mask_of.is_empty()
    }

    /// Cells of a view.
    pub fn view_cells(&self, group: usize, segment: usize) -> usize {
        self.view(group, segment).map(|run| self.run_length[run] as usize).sum()
    }
}
