//! From the parameters of a rotation to the turn of each pair a position.

use std::f64::consts::TAU;

use palimpsest_kernels::{Pairs, Rotary};

use crate::config::{Pairing, Rotary as Parameters, Scaling};

/// The rotation for positions −context … 2·context.
///
/// Pair i turns by base^(−2i/n) / factor_i a position. Linear scaling divides it. YaRN (arXiv 2309.00071, 3.2 and 3.4) divides slow
/// pairs, keeps fast ones, blends between, and multiplies rotated queries and rotated keys by a magnitude: the stored key's rotation
/// stays pure, so the query carries both.
pub fn rotary(parameters: &Parameters, context: usize) -> Rotary {
    let dimensions = parameters.dimensions as f64;
    let plain = (0..parameters.dimensions / 2).map(|pair| {
        let factor = parameters.frequency_factors.as_ref().map_or(1.0, |factors| f64::from(factors[pair]));
        parameters.base.powf(-2.0 * pair as f64 / dimensions) / factor
    });
    let (frequencies, magnitude) = match parameters.scaling {
        Scaling::None => (plain.collect(), 1.0),
        Scaling::Linear { factor } => (plain.map(|frequency| frequency / factor).collect(), 1.0),
        Scaling::Yarn { factor, original_context_length, beta_fast, beta_slow, extrapolation, magnitude } => {
            // The pair that turns `turns` times over the original context.
            let pair_at = |turns: f64| dimensions * (original_context_length as f64 / (turns * TAU)).ln() / (2.0 * parameters.base.ln());
            let low = pair_at(beta_fast).floor().max(0.0);
            let high = pair_at(beta_slow).ceil().min(dimensions - 1.0);
            let blend = |pair: usize, frequency: f64| {
                let ramp = 1.0 - ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                let kept = ramp * extrapolation;
                frequency / factor * (1.0 - kept) + frequency * kept
            };
            (plain.enumerate().map(|(pair, frequency)| blend(pair, frequency)).collect(), magnitude * magnitude)
        }
    };
    let pairs = match parameters.pairing {
        Pairing::Interleaved => Pairs::Interleaved,
        Pairing::HalfSplit => Pairs::Halves,
    };
    Rotary::new(frequencies, pairs, magnitude as f32, context)
}
