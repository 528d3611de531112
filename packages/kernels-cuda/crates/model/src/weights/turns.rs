//! From the parameters of a file to the rotation of its layers.

use palimpsest_kernels::rotary::{Stretch, frequencies};
use palimpsest_kernels::{Pairs, Rotary};

use crate::config::{Pairing, Rotary as Parameters, Scaling};

/// The rotation for positions −context … 2·context.
///
/// YaRN multiplies rotated queries and rotated keys by a magnitude: the stored key's rotation stays pure, so the query carries both.
pub fn rotary(parameters: &Parameters, context: usize) -> Rotary {
    let (stretch, magnitude) = match parameters.scaling {
        Scaling::None => (Stretch::None, 1.0),
        Scaling::Linear { factor } => (Stretch::Linear { factor }, 1.0),
        Scaling::Yarn { factor, original_context_length, beta_fast, beta_slow, extrapolation, magnitude } => {
            let original = original_context_length as f64;
            (Stretch::Yarn { factor, fast: beta_fast, slow: beta_slow, original, extrapolation }, magnitude * magnitude)
        }
    };
    let pairs = match parameters.pairing {
        Pairing::Interleaved => Pairs::Interleaved,
        Pairing::HalfSplit => Pairs::Halves,
    };
    let factors = parameters.frequency_factors.as_deref();
    Rotary::new(frequencies(parameters.dimensions, parameters.base, factors, stretch), pairs, magnitude as f32, context)
}
