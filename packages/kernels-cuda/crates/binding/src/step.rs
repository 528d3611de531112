//! A step as it comes from JavaScript, and its result.

use napi::bindgen_prelude::{
    BigUint64Array, Float32Array, Float32ArraySlice, Float64ArraySlice, Int32Array, Int32ArraySlice, Uint8ArraySlice, Uint32ArraySlice,
};
use napi_derive::napi;
use palimpsest_model::forward::Outcome;
use palimpsest_model::step::{Sampler, Step};

/// The fields of `Step` in `src/step.ts`, flat. The face has checked their types; ranges and lengths are checked by the engine.
#[napi(object, object_to_js = false)]
pub struct StepFields<'env> {
    pub token: Int32ArraySlice<'env>,
    pub position: Int32ArraySlice<'env>,
    pub cell: Int32ArraySlice<'env>,
    pub store: Uint8ArraySlice<'env>,
    pub row_of: Int32ArraySlice<'env>,
    pub view_of: Int32ArraySlice<'env>,
    pub run_page: Int32ArraySlice<'env>,
    pub run_first: Int32ArraySlice<'env>,
    pub run_length: Int32ArraySlice<'env>,
    pub run_birth: Int32ArraySlice<'env>,
    pub run_shift: Int32ArraySlice<'env>,
    pub pages: Int32ArraySlice<'env>,
    pub out_row: Int32ArraySlice<'env>,
    pub out_target: Int32ArraySlice<'env>,
    pub out_top: Uint8ArraySlice<'env>,
    pub out_sampler: Int32ArraySlice<'env>,
    /// Five numbers a sampler: temperature, top k, top p, min p, draw.
    pub samplers: Float64ArraySlice<'env>,
    /// One a sampler.
    pub seeds: BigUint64Array,
    pub bias_of: Option<Int32ArraySlice<'env>>,
    pub bias_id: Option<Int32ArraySlice<'env>>,
    pub bias_value: Option<Float32ArraySlice<'env>>,
    pub mask_of: Option<Int32ArraySlice<'env>>,
    pub mask: Option<Uint32ArraySlice<'env>>,
    /// Length of the caller's array for logits.
    pub logits: Option<u32>,
}

const SAMPLER_NUMBERS: usize = 5;

impl StepFields<'_> {
    /// A copy that the caller can no longer change.
    pub fn to_step(&self) -> Step {
        let samplers = self.samplers.chunks_exact(SAMPLER_NUMBERS).zip(self.seeds.iter());
        Step {
            token: self.token.to_vec(),
            position: self.position.to_vec(),
            cell: self.cell.to_vec(),
            store: self.store.to_vec(),
            row_of: self.row_of.to_vec(),
            view_of: self.view_of.to_vec(),
            run_page: self.run_page.to_vec(),
            run_first: self.run_first.to_vec(),
            run_length: self.run_length.to_vec(),
            run_birth: self.run_birth.to_vec(),
            run_shift: self.run_shift.to_vec(),
            pages: self.pages.to_vec(),
            out_row: self.out_row.to_vec(),
            out_target: self.out_target.to_vec(),
            out_top: self.out_top.to_vec(),
            out_sampler: self.out_sampler.to_vec(),
            samplers: samplers.map(|(numbers, seed)| sampler(numbers, *seed)).collect(),
            bias_of: self.bias_of.as_ref().map_or_else(Vec::new, |field| field.to_vec()),
            bias_id: self.bias_id.as_ref().map_or_else(Vec::new, |field| field.to_vec()),
            bias_value: self.bias_value.as_ref().map_or_else(Vec::new, |field| field.to_vec()),
            mask_of: self.mask_of.as_ref().map_or_else(Vec::new, |field| field.to_vec()),
            mask: self.mask.as_ref().map_or_else(Vec::new, |field| field.to_vec()),
            logits: self.logits.map(|length| length as usize),
        }
    }
}

/// Casts saturate: numbers that do not fit were refused by the face.
fn sampler(numbers: &[f64], seed: u64) -> Sampler {
    Sampler {
        temperature: numbers[0] as f32,
        top_k: numbers[1] as u32,
        top_p: numbers[2] as f32,
        min_p: numbers[3] as f32,
        seed,
        draw: numbers[4] as u64,
    }
}

#[napi(object, object_from_js = false)]
pub struct StepCountFields {
    pub rows: u32,
    pub cells_stored: u32,
    /// As f64: views of many segments may name more than 2^32 cells.
    pub cells_read: f64,
    pub rotations: u32,
    pub bytes_moved: u32,
    pub weight_bytes: f64,
    pub multiplications: f64,
    pub pages_read: u32,
}

#[napi(object, object_from_js = false)]
pub struct StepResultFields {
    pub ids: Int32Array,
    pub logprobs: Float32Array,
    pub top_ids: Int32Array,
    pub top_logprobs: Float32Array,
    pub counts: StepCountFields,
    pub logits: Option<Float32Array>,
}

impl StepResultFields {
    /// `with_logits`: whether the step asked for them.
    pub fn new(outcome: Outcome, with_logits: bool) -> Self {
        let (draws, counts) = (outcome.draws, outcome.counts);
        Self {
            ids: draws.ids.into(),
            logprobs: draws.logprobs.into(),
            top_ids: draws.top_ids.into(),
            top_logprobs: draws.top_logprobs.into(),
            counts: StepCountFields {
                rows: counts.rows as u32,
                cells_stored: counts.cells_stored as u32,
                cells_read: counts.cells_read as f64,
                rotations: counts.rotations as u32,
                bytes_moved: counts.bytes_moved as u32,
                weight_bytes: counts.weight_bytes as f64,
                multiplications: counts.multiplications as f64,
                pages_read: counts.pages_read as u32,
            },
            logits: with_logits.then(|| outcome.logits.into()),
        }
    }
}
