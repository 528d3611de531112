//! The work between products, row by row, in plain Rust. Levels that have nothing better use it as it is.

use crate::lanes::{LANES, Lanes, exp, multiply_add, sum};
use crate::level::Gate;
use crate::rotary::Pairs;

/// Σ x², in 16 lanes by index modulo 16, then the lanes.
#[inline(always)]
pub fn sum_of_squares<const FUSED: bool>(x: &[f32]) -> f32 {
    let mut lanes: Lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = multiply_add::<FUSED>(chunk[i], chunk[i], lanes[i]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = multiply_add::<FUSED>(*x, *x, *lane);
    }
    sum(lanes)
}

/// out = x / √(mean(x²) + epsilon) · weight (RMSNorm, Zhang and Sennrich 2019).
#[inline(always)]
pub fn normalize<const FUSED: bool>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let scale = 1.0 / (sum_of_squares::<FUSED>(x) / x.len() as f32 + epsilon).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

#[inline(always)]
pub fn gate_value<const FUSED: bool>(kind: Gate, x: f32) -> f32 {
    match kind {
        Gate::Silu => x / (1.0 + exp::<FUSED>(-x)),
        Gate::GeluTanh => {
            // 0.5 · x · (1 + tanh(z)) = x / (1 + e^(−2z))
            let z = 0.797_884_6 * multiply_add::<FUSED>(0.044_715 * x * x, x, x);
            x / (1.0 + exp::<FUSED>(-2.0 * z))
        }
    }
}

/// out = gate(g) · u.
#[inline(always)]
pub fn gate<const FUSED: bool>(kind: Gate, g: &[f32], u: &[f32], out: &mut [f32]) {
    for ((out, g), u) in out.iter_mut().zip(g).zip(u) {
        *out = gate_value::<FUSED>(kind, *g) * u;
    }
}

/// Turns each pair (a, b) to (a·cos − b·sin, a·sin + b·cos), times `scale`; the rest of the head is only scaled.
///
/// Products are rounded before they are added, at every level: a key's bits are those of any other way to rotate it.
#[inline(always)]
pub fn rotate(pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
    let count = cosines.len();
    let (turned, rest) = x.split_at(2 * count);
    let (out_turned, out_rest) = out.split_at_mut(2 * count);
    match pairs {
        Pairs::Halves => {
            let (a, b) = turned.split_at(count);
            let (out_a, out_b) = out_turned.split_at_mut(count);
            for i in 0..count {
                out_a[i] = (a[i] * cosines[i] - b[i] * sines[i]) * scale;
                out_b[i] = (a[i] * sines[i] + b[i] * cosines[i]) * scale;
            }
        }
        Pairs::Interleaved => {
            let (turned, out_turned) = (turned.as_chunks::<2>().0, out_turned.as_chunks_mut::<2>().0);
            for i in 0..count {
                let [a, b] = turned[i];
                out_turned[i] = [(a * cosines[i] - b * sines[i]) * scale, (a * sines[i] + b * cosines[i]) * scale];
            }
        }
    }
    for (out, x) in out_rest.iter_mut().zip(rest) {
        *out = x * scale;
    }
}
