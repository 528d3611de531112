//! What a softmax over a whole vocabulary needs, fast: the highest logit and ln Σ e^logit.
//!
//! No part of a level: logits are f32 on every one.

use crate::lanes::{LANES, Lanes, exp};

/// The denominator of a softmax.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSum {
    /// The highest logit, NaN left out; −∞ when there is none.
    pub highest: f32,
    /// ln Σ e^logit, NaN left out: `highest` plus the logarithm of at least 1. Infinite as `highest` is.
    pub log_sum: f64,
}

/// One pass for the highest, one for the sum: 16 sums in f64 by index modulo 16.
pub fn log_sum(logits: &[f32]) -> LogSum {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the features.
            return unsafe { avx512(logits) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the features.
            return unsafe { avx2(logits) };
        }
    }
    plain::<{ crate::reference::ALWAYS_FUSED }>(logits)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn avx512(logits: &[f32]) -> LogSum {
    plain::<true>(logits)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(logits: &[f32]) -> LogSum {
    plain::<true>(logits)
}

#[inline(always)]
fn plain<const FUSED: bool>(logits: &[f32]) -> LogSum {
    let highest = highest(logits);
    if !highest.is_finite() {
        return LogSum { highest, log_sum: f64::from(highest) };
    }
    let mut sums = [0f64; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        add::<FUSED>(chunk, highest, &mut sums);
    }
    if !rest.is_empty() {
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        add::<FUSED>(&last, highest, &mut sums);
    }
    LogSum { highest, log_sum: f64::from(highest) + sums.iter().sum::<f64>().ln() }
}

#[inline(always)]
fn highest(logits: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |highest, number| if *number > highest { *number } else { highest })
}

#[inline(always)]
fn add<const FUSED: bool>(chunk: &Lanes, highest: f32, sums: &mut [f64; LANES]) {
    for lane in 0..LANES {
        let weight = exp::<FUSED>(chunk[lane] - highest);
        sums[lane] += f64::from(if chunk[lane].is_nan() { 0.0 } else { weight });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_f64_in_every_version() {
        let logits: Vec<f32> = (0..5003).map(|i| ((i * 7919) % 997) as f32 / 40.0 - 9.0).collect();
        let exact = logits.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>().ln();
        for ours in [log_sum(&logits), plain::<true>(&logits), plain::<false>(&logits)] {
            assert!((ours.log_sum - exact).abs() < 1e-6);
            assert_eq!(ours.highest, logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }

    #[test]
    fn nan_counts_nothing_and_infinities_stay() {
        let sum = log_sum(&[f32::NAN, 1.0, f32::NAN, 1.0, f32::NEG_INFINITY]);
        assert_eq!(sum.highest, 1.0);
        assert!((sum.log_sum - (1.0 + 2f64.ln())).abs() < 1e-6);
        assert_eq!(log_sum(&[f32::NAN; 20]).log_sum, f64::NEG_INFINITY);
        assert_eq!(log_sum(&[]).highest, f32::NEG_INFINITY);
        assert_eq!(log_sum(&[f32::INFINITY, 3.0]).log_sum, f64::INFINITY);
    }
}
