//! The join of blocks.

use palimpsest_kernels::lanes::exp;
use palimpsest_kernels::level::QUERY_TILE;

/// The online softmax over blocks: one join, in rank order, wherever the blocks were computed.
pub struct Running {
    maxima: [f32; QUERY_TILE],
    weights: [f32; QUERY_TILE],
    started: [bool; QUERY_TILE],
}

impl Default for Running {
    fn default() -> Self {
        Self { maxima: [0.0; QUERY_TILE], weights: [0.0; QUERY_TILE], started: [false; QUERY_TILE] }
    }
}

impl Running {
    pub fn add(&mut self, query: usize, maximum: f32, weight: f32, sums: &[f32], out: &mut [f32]) {
        if weight == 0.0 {
            return; // the query reads nothing of this block
        }
        if !self.started[query] {
            (self.maxima[query], self.weights[query], self.started[query]) = (maximum, weight, true);
            out.copy_from_slice(sums);
            return;
        }
        let highest = if maximum > self.maxima[query] { maximum } else { self.maxima[query] };
        let (old, new) = (exp::<false>(self.maxima[query] - highest), exp::<false>(maximum - highest));
        self.maxima[query] = highest;
        self.weights[query] = self.weights[query] * old + weight * new;
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = *out * old + sum * new;
        }
    }

    /// Divides by the sum of all weights. `sink`: a logit that takes its share of that sum, and no value, once a row.
    pub fn finish(&self, query: usize, sink: Option<f32>, out: &mut [f32]) {
        let scale = match sink {
            None => 1.0 / self.weights[query],
            Some(sink) => {
                let maximum = self.maxima[query];
                let highest = if sink > maximum { sink } else { maximum };
                let (read, taken) = (exp::<false>(maximum - highest), exp::<false>(sink - highest));
                read / (self.weights[query] * read + taken)
            }
        };
        out.iter_mut().for_each(|number| *number *= scale);
    }
}
