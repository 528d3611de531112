//! Rotary angles as pure functions of an integer position.

use std::f64::consts::TAU;

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// (0, 1), (2, 3), …
    Interleaved,
    /// (0, n/2), (1, n/2 + 1), … for n rotated elements.
    Halves,
}

/// How frequencies are stretched for a longer context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stretch {
    None,
    /// Each divided by `factor`.
    Linear {
        factor: f64,
    },
    /// Llama 3: slow pairs are divided, fast ones kept, those between blended by wavelength. With λ = 2π / frequency, L the original
    /// context: λ < L / high → kept; λ > L / low → divided; else blended by (L / λ − low) / (high − low).
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
    /// YaRN (arXiv 2309.00071, 3.2): slow pairs are divided, fast ones kept, those between blended by number. `fast` and `slow` are
    /// turns over the original context, `extrapolation` how much of the blend is used (1 = all).
    Yarn {
        factor: f64,
        fast: f64,
        slow: f64,
        original: f64,
        extrapolation: f64,
    },
}

/// Radians a position for each of `dimensions / 2` pairs: base^(−2i / dimensions), divided by the pair's own factor where there are
/// factors, then stretched.
pub fn frequencies(dimensions: usize, base: f64, factors: Option<&[f32]>, stretch: Stretch) -> Vec<f64> {
    let n = dimensions as f64;
    let plain = (0..dimensions / 2).map(|pair| base.powf(-2.0 * pair as f64 / n) / factors.map_or(1.0, |factors| f64::from(factors[pair])));
    match stretch {
        Stretch::None => plain.collect(),
        Stretch::Linear { factor } => plain.map(|frequency| frequency / factor).collect(),
        Stretch::Llama3 { factor, low, high, original } => plain
            .map(|frequency| {
                let turns = original * frequency / TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                frequency / factor * (1.0 - kept) + frequency * kept
            })
            .collect(),
        Stretch::Yarn { factor, fast, slow, original, extrapolation } => {
            // The pair that turns so many times over the original context.
            let pair_at = |turns: f64| n * (original / (turns * TAU)).ln() / (2.0 * base.ln());
            let first = pair_at(fast).floor().max(0.0);
            let last = pair_at(slow).ceil().min(n - 1.0);
            plain
                .enumerate()
                .map(|(pair, frequency)| {
                    let kept = extrapolation * (1.0 - ((pair as f64 - first) / (last - first).max(0.001)).clamp(0.0, 1.0));
                    frequency / factor * (1.0 - kept) + frequency * kept
                })
                .collect()
        }
    }
}

/// The rotation of one kind of layer: pair i turns by `position · frequencies[i]`.
///
/// Angles are made in f64 from two small tables: position = 256·a + b, and the turn of 256·a is composed with the turn of b. So a
/// position's cosines and sines are the same bits whenever they are asked for, at any distance (p − Δ runs from −context to twice
/// the context), without a table of that length.
pub struct Rotary {
    pub pairs: Pairs,
    /// Pairs that turn; elements 2·pairs … of a head have no position.
    frequencies: Vec<f64>,
    /// Multiplies the query's rotation, once: what YaRN calls mscale, squared (it belongs to query and key).
    pub magnitude: f32,
    /// Cosine and sine of b · frequency, `[b][pair]`, b = 0 … 255.
    fine: Vec<(f64, f64)>,
    /// Cosine and sine of 256 · a · frequency, `[a − first][pair]`.
    coarse: Vec<(f64, f64)>,
    coarse_first: i32,
}

const FINE: i32 = 256;

impl Rotary {
    /// Covers positions −context … 2·context. `frequencies` in radians a position, scaling already applied.
    pub fn new(frequencies: Vec<f64>, pairs: Pairs, magnitude: f32, context: usize) -> Self {
        let context = context as i32;
        let coarse_first = (-context).div_euclid(FINE);
        let coarse_last = (2 * context).div_euclid(FINE);
        let turns = |positions: std::ops::RangeInclusive<i32>, step: i32| {
            let frequencies = &frequencies;
            positions
                .flat_map(|n| frequencies.iter().map(move |frequency| (f64::from(n * step) * frequency).sin_cos()))
                .map(|(sine, cosine)| (cosine, sine))
                .collect::<Vec<_>>()
        };
        let fine = turns(0..=FINE - 1, 1);
        let coarse = turns(coarse_first..=coarse_last, FINE);
        Self { pairs, frequencies, magnitude, fine, coarse, coarse_first }
    }

    /// Pairs that turn.
    pub fn pair_count(&self) -> usize {
        self.frequencies.len()
    }

    /// Writes cosine and sine of every pair at `position` (−context … 2·context).
    pub fn angles(&self, position: i32, cosines: &mut [f32], sines: &mut [f32]) {
        let pairs = self.frequencies.len();
        let fine = &self.fine[position.rem_euclid(FINE) as usize * pairs..][..pairs];
        let coarse = &self.coarse[(position.div_euclid(FINE) - self.coarse_first) as usize * pairs..][..pairs];
        let out = cosines[..pairs].iter_mut().zip(&mut sines[..pairs]);
        for (((cosine, sine), (fine_cosine, fine_sine)), (coarse_cosine, coarse_sine)) in out.zip(fine).zip(coarse) {
            *cosine = (coarse_cosine * fine_cosine - coarse_sine * fine_sine) as f32;
            *sine = (coarse_sine * fine_cosine + coarse_cosine * fine_sine) as f32;
        }
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        (self.fine.len() + self.coarse.len()) * size_of::<(f64, f64)>()
    }
}
