//! From the logits of one output to an id: a pure function of logits, sampler, biases and mask.

use palimpsest_kernels::softmax::LogSum;

use crate::shared::held;
use crate::step::Sampler;

/// What changes the logits of one output before it is drawn.
#[derive(Clone, Copy, Default)]
pub struct Constraints<'a> {
    pub bias_id: &'a [i32],
    pub bias_value: &'a [f32],
    /// Bit id % 32 of word id / 32 allows the id.
    pub mask: Option<&'a [u32]>,
}

impl Constraints<'_> {
    fn is_empty(&self) -> bool {
        self.bias_id.is_empty() && self.mask.is_none()
    }
}

/// Room that outputs share, so that a draw allocates nothing once it has grown.
#[derive(Default)]
pub struct Workspace {
    /// Candidates: logit (biased, not yet divided by the temperature) and id.
    candidates: Vec<(f32, u32)>,
}

impl Workspace {
    /// Room for so many candidates.
    pub fn reserve(&mut self, candidates: usize) {
        self.candidates.reserve(candidates.saturating_sub(self.candidates.len()));
    }

    pub fn bytes(&self) -> usize {
        held(&self.candidates)
    }
}

/// Whether (logit, id) `a` stands before `b`: higher logits first, then lower ids. NaN was replaced before.
fn order(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The `count` highest raw logits below id `sampled`, best first, lower ids first among equals.
pub fn top<'w>(logits: &[f32], sampled: usize, count: usize, workspace: &'w mut Workspace) -> &'w [(f32, u32)] {
    let candidates = &mut workspace.candidates;
    candidates.clear();
    candidates.extend(logits[..sampled].iter().enumerate().map(|(id, logit)| (plain(*logit), id as u32)));
    keep_best(candidates, count);
    candidates
}

/// A logit that compares: NaN and −∞ are −∞, −0 is 0.
fn plain(logit: f32) -> f32 {
    if logit.is_nan() { f32::NEG_INFINITY } else { logit + 0.0 }
}

/// Keeps the first `count` by `order`, in order.
fn keep_best(candidates: &mut Vec<(f32, u32)>, count: usize) {
    if count < candidates.len() {
        if count > 0 {
            candidates.select_nth_unstable_by(count - 1, order);
        }
        candidates.truncate(count);
    }
    candidates.sort_unstable_by(order);
}

/// Draws one id out of `0 … sampled − 1`. `sum`: that of the raw logits.
///
/// Biases are added and masked ids left out; temperature 0 takes the highest logit (the lowest id among equals). Otherwise logits are
/// divided by the temperature, and candidates are cut by min-p (probability below `min_p` times the highest), then top-k, then top-p
/// (the shortest row of the best whose probability, among those left, reaches `top_p`). The draw inverts the distribution at the
/// number that Philox4x32-10 gives for key `seed` and counter `draw`.
pub fn draw(
    logits: &[f32],
    sum: &LogSum,
    sampled: usize,
    sampler: &Sampler,
    constraints: &Constraints<'_>,
    workspace: &mut Workspace,
) -> u32 {
    if sampler.temperature == 0.0 && constraints.is_empty() {
        // The highest is known, and -0 equals 0. Where it lies past the vocabulary, or is no number, the long way finds the id.
        if let Some(id) = logits[..sampled].iter().position(|logit| *logit == sum.highest) {
            return id as u32;
        }
    }
    let candidates = &mut workspace.candidates;
    gather(&logits[..sampled], constraints, candidates);
    let best = *candidates.iter().min_by(|a, b| order(a, b)).expect("a mask allows at least one id");
    if sampler.temperature == 0.0 || best.0 == f32::NEG_INFINITY {
        return best.1;
    }
    if best.0 == f32::INFINITY {
        // Infinite logits share all the probability.
        candidates.retain(|candidate| candidate.0 == f32::INFINITY);
    }
    // In f64: a temperature near 0 or a difference of large logits neither overflows nor cancels.
    let scaled = |logit: f32| if logit == best.0 { 0.0 } else { (f64::from(logit) - f64::from(best.0)) / f64::from(sampler.temperature) };
    if sampler.min_p > 0.0 {
        let lowest = f64::from(sampler.min_p).ln();
        candidates.retain(|candidate| scaled(candidate.0) >= lowest);
    }
    if sampler.top_k > 0 && (sampler.top_k as usize) < candidates.len() {
        keep_best(candidates, sampler.top_k as usize);
    }
    if sampler.top_p < 1.0 {
        keep_share(candidates, f64::from(sampler.top_p), &scaled);
    }
    invert(candidates, uniform(sampler.seed, sampler.draw), &scaled)
}

/// Biased logits of the allowed ids, in order of id.
fn gather(logits: &[f32], constraints: &Constraints<'_>, candidates: &mut Vec<(f32, u32)>) {
    candidates.clear();
    candidates.extend(logits.iter().enumerate().map(|(id, logit)| (plain(*logit), id as u32)));
    for (id, value) in constraints.bias_id.iter().zip(constraints.bias_value) {
        if let Some(candidate) = candidates.get_mut(*id as usize) {
            candidate.0 = plain(candidate.0 + value);
        }
    }
    if let Some(mask) = constraints.mask {
        candidates.retain(|(_, id)| mask[*id as usize / 32] >> (id % 32) & 1 == 1);
    }
}

/// Keeps the shortest row of the best candidates whose weight reaches `share` of the whole; at least one.
fn keep_share(candidates: &mut Vec<(f32, u32)>, share: f64, scaled: &dyn Fn(f32) -> f64) {
    let total: f64 = candidates.iter().map(|candidate| scaled(candidate.0).exp()).sum();
    // Few candidates carry the share nearly always: sort a growing front of the row instead of all of it.
    let mut sorted = 64.min(candidates.len());
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted - 1, order);
        }
        candidates[..sorted].sort_unstable_by(order);
        let mut reached = 0.0;
        for (count, candidate) in candidates[..sorted].iter().enumerate() {
            reached += scaled(candidate.0).exp();
            if reached >= share * total {
                return candidates.truncate(count + 1);
            }
        }
        if sorted == candidates.len() {
            return;
        }
        sorted = (sorted * 8).min(candidates.len());
    }
}

/// The first candidate at which the running weight passes `at` (0 … 1) of the whole.
fn invert(candidates: &[(f32, u32)], at: f64, scaled: &dyn Fn(f32) -> f64) -> u32 {
    let total: f64 = candidates.iter().map(|candidate| scaled(candidate.0).exp()).sum();
    let mut reached = 0.0;
    let mut last = candidates[0].1;
    for (logit, id) in candidates {
        let weight = scaled(*logit).exp();
        if weight > 0.0 {
            last = *id;
            reached += weight;
            if reached > at * total {
                break;
            }
        }
    }
    last
}

/// A number in [0, 1) of 53 bits, a pure function of seed and draw.
pub fn uniform(seed: u64, draw: u64) -> f64 {
    let [high, low, ..] = philox([draw as u32, (draw >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC11).
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [(second >> 32) as u32 ^ counter[1] ^ key[0], second as u32, (first >> 32) as u32 ^ counter[3] ^ key[1], first as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests;
