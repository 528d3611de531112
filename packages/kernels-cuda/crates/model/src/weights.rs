//! The weights of a model, packed for one level.

mod load;
mod turns;

use crate::attention::Heads;
use palimpsest_kernels::{Gate, Matrix, Rotary};

pub use load::load;

/// A matrix with what is added to its outputs.
pub struct Linear {
    pub matrix: Matrix,
    pub bias: Option<Vec<f32>>,
}

impl Linear {
    pub fn bytes(&self) -> usize {
        self.matrix.bytes() + self.bias.as_ref().map_or(0, |bias| bias.len() * 4)
    }
}

/// Norms over each head of queries and keys, before the rotation.
pub struct HeadNorms {
    pub query: Vec<f32>,
    pub key: Vec<f32>,
}

pub struct Layer {
    pub attention_norm: Vec<f32>,
    /// Queries, keys, values: they read the same activations and stand side by side in one output row.
    pub query_key_value: Vec<Linear>,
    pub head_norms: Option<HeadNorms>,
    pub attention_output: Linear,
    /// Applied to the attention's output before it joins the residual stream.
    pub attention_post_norm: Option<Vec<f32>>,
    pub feed_norm: Vec<f32>,
    /// Gate, up: side by side.
    pub gate_up: Vec<Linear>,
    pub down: Linear,
    pub feed_post_norm: Option<Vec<f32>>,
    /// In `Weights::rotaries`.
    pub rotary: usize,
    /// In `Weights::windows`.
    pub window: usize,
}

/// Sizes and constants of the forward pass.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub context: usize,
    pub vocabulary: usize,
    /// Ids that may be sampled.
    pub sampled: usize,
    pub embedding: usize,
    pub feed: usize,
    pub heads: Heads,
    pub epsilon: f32,
    /// Multiplies an embedding.
    pub embedding_scale: f32,
    /// logit = cap · tanh(logit / cap); 0 = none.
    pub logit_cap: f32,
    pub gate: Gate,
}

pub struct Weights {
    pub shape: Shape,
    pub embedding: Linear,
    pub layers: Vec<Layer>,
    pub output_norm: Vec<f32>,
    /// `None`: the embedding is the head as well.
    pub head: Option<Linear>,
    pub rotaries: Vec<Rotary>,
    /// The windows that layers have: a query at position p reads cells at current positions above p − window; `None` = all.
    pub windows: Vec<Option<usize>>,
}

impl Weights {
    pub fn head(&self) -> &Linear {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes held, rotary tables and norms included.
    pub fn bytes(&self) -> usize {
        let norms = |layer: &Layer| {
            let head = layer.head_norms.as_ref().map_or(0, |norms| norms.query.len() + norms.key.len());
            let posts = [&layer.attention_post_norm, &layer.feed_post_norm].into_iter().flatten().map(Vec::len).sum::<usize>();
            4 * (layer.attention_norm.len() + layer.feed_norm.len() + head + posts)
        };
        let layer = |layer: &Layer| {
            let stacks = layer.query_key_value.iter().chain(&layer.gate_up).chain([&layer.attention_output, &layer.down]);
            stacks.map(Linear::bytes).sum::<usize>() + norms(layer)
        };
        self.embedding.bytes()
            + self.head.as_ref().map_or(0, Linear::bytes)
            + self.layers.iter().map(layer).sum::<usize>()
            + self.output_norm.len() * 4
            + self.rotaries.iter().map(Rotary::bytes).sum::<usize>()
    }
}
