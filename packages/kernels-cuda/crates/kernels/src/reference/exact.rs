//! Norms and rotations in f64, rounded once.
//!
//! A real model multiplies the rounding errors of its early layers by thousands. On logs of random tokens these two steps made half of
//! what the reference lost against the naive replay.

use crate::rotary::Pairs;

/// out = x / √(mean(x²) + epsilon) · weight (RMSNorm, Zhang and Sennrich 2019).
#[inline(always)]
pub fn normalize(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mut lanes = [0f64; 8];
    let (chunks, rest) = x.as_chunks::<8>();
    for chunk in chunks {
        for lane in 0..8 {
            lanes[lane] += f64::from(chunk[lane]) * f64::from(chunk[lane]);
        }
    }
    let squares: f64 = lanes.iter().sum::<f64>() + rest.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let scale = 1.0 / (squares / x.len() as f64 + f64::from(epsilon)).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = (f64::from(*x) * scale * f64::from(*weight)) as f32;
    }
}

/// Turns each pair (a, b) to (a·cos − b·sin, a·sin + b·cos), times `scale`; the rest of the head is only scaled.
#[inline(always)]
pub fn rotate(pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]) {
    let count = cosines.len();
    let turn = |a: f32, b: f32, i: usize| {
        let (a, b, cosine, sine) = (f64::from(a), f64::from(b), f64::from(cosines[i]), f64::from(sines[i]));
        (((a * cosine - b * sine) * f64::from(scale)) as f32, ((a * sine + b * cosine) * f64::from(scale)) as f32)
    };
    let (turned, rest) = x.split_at(2 * count);
    let (out_turned, out_rest) = out.split_at_mut(2 * count);
    match pairs {
        Pairs::Halves => {
            let (a, b) = turned.split_at(count);
            let (out_a, out_b) = out_turned.split_at_mut(count);
            for i in 0..count {
                (out_a[i], out_b[i]) = turn(a[i], b[i], i);
            }
        }
        Pairs::Interleaved => {
            let (turned, out_turned) = (turned.as_chunks::<2>().0, out_turned.as_chunks_mut::<2>().0);
            for i in 0..count {
                let [a, b] = turned[i];
                let (a, b) = turn(a, b, i);
                out_turned[i] = [a, b];
            }
        }
    }
    for (out, x) in out_rest.iter_mut().zip(rest) {
        *out = x * scale;
    }
}
