//! Rotary position embedding, straight from its definition: one sine and one cosine in f64 for each pair and position.

use palimpsest_model::config::{Pairing, Rotary, Scaling};
use std::f64::consts::PI;

/// Radians that pair `pair` turns for each position.
fn frequency(rotary: &Rotary, pair: usize) -> f64 {
    let dimensions = rotary.dimensions as f64;
    let mut plain = rotary.base.powf(-2.0 * pair as f64 / dimensions);
    if let Some(factors) = &rotary.frequency_factors {
        plain /= f64::from(factors[pair]);
    }
    match rotary.scaling {
        Scaling::None => plain,
        Scaling::Linear { factor } => plain / factor,
        Scaling::Yarn { factor, original_context_length, beta_fast, beta_slow, extrapolation, .. } => {
            let turns_at = |beta: f64| dimensions * (original_context_length as f64 / (beta * 2.0 * PI)).ln() / (2.0 * rotary.base.ln());
            let low = turns_at(beta_fast).floor().max(0.0);
            let high = turns_at(beta_slow).ceil().min(dimensions - 1.0);
            let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            let mix = extrapolation * (1.0 - ramp);
            plain / factor * (1.0 - mix) + plain * mix
        }
    }
}

fn magnitude(rotary: &Rotary) -> f64 {
    match rotary.scaling {
        Scaling::Yarn { magnitude, .. } => magnitude,
        _ => 1.0,
    }
}

/// One layer's rotation, with the frequencies of its pairs.
pub(crate) struct Rotation<'a> {
    rotary: &'a Rotary,
    frequencies: Vec<f64>,
}

impl<'a> Rotation<'a> {
    pub(crate) fn new(rotary: &'a Rotary) -> Self {
        Self { rotary, frequencies: (0..rotary.dimensions / 2).map(|pair| frequency(rotary, pair)).collect() }
    }

    /// Rotates every head of a cell's vector (`heads · head_size`) to `position`.
    pub(crate) fn rotate(&self, vector: &mut [f32], head_size: usize, position: i32) {
        let magnitude = magnitude(self.rotary);
        for (pair, frequency) in self.frequencies.iter().enumerate() {
            let (sine, cosine) = (f64::from(position) * frequency).sin_cos();
            let (first, second) = match self.rotary.pairing {
                Pairing::Interleaved => (2 * pair, 2 * pair + 1),
                Pairing::HalfSplit => (pair, pair + self.rotary.dimensions / 2),
            };
            for head in vector.chunks_exact_mut(head_size) {
                let (x, y) = (f64::from(head[first]), f64::from(head[second]));
                head[first] = (magnitude * (x * cosine - y * sine)) as f32;
                head[second] = (magnitude * (x * sine + y * cosine)) as f32;
            }
        }
    }
}
