//! Rotary position embedding: parameters as the file gives them. Who rotates makes the angles from them, in f64.

/// Which elements of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Elements 2i and 2i + 1 (`llama` files: their query and key rows were permuted for it).
    Interleaved,
    /// Elements i and i + dimensions / 2.
    HalfSplit,
}

/// How angles are stretched for a longer context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    None,
    /// Angle / factor.
    Linear {
        factor: f64,
    },
    /// YaRN (arXiv 2309.00071), with the blend and magnitude of llama.cpp's `rope_yarn`.
    Yarn {
        factor: f64,
        original_context_length: usize,
        beta_fast: f64,
        beta_slow: f64,
        /// 1 = blend fully, 0 = plain interpolation.
        extrapolation: f64,
        /// Further factor of the magnitude.
        attention_factor: f64,
    },
}

/// One rotation. Pair i of `dimensions / 2` turns by `position · base^(−2i / dimensions) / frequency_factors[i]`, then scaled.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Leading elements of a head that turn; even, at most the head size. The rest stays as it is.
    pub dimensions: usize,
    pub base: f64,
    pub pairing: Pairing,
    pub scaling: Scaling,
    /// dimensions / 2 divisors of the frequencies (`rope_freqs.weight`: llama3 scaling). `None` = all 1.
    pub frequency_factors: Option<Vec<f32>>,
}
