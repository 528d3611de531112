//! Rotary position embedding: parameters as the file gives them. Who rotates makes the angles from them, in f64.

use super::keys::Keys;
use palimpsest_kernels::{Code, Error, Result};

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
    /// YaRN (arXiv 2309.00071). With θ the plain angle and i the pair:
    ///
    /// ```text
    /// pair(n) = dimensions · ln(original_context_length / (2π · n)) / (2 · ln base)
    /// low     = max(0, ⌊pair(beta_fast)⌋)      high = min(dimensions − 1, ⌈pair(beta_slow)⌉)
    /// mix     = extrapolation · (1 − clamp((i − low) / max(0.001, high − low), 0, 1))
    /// angle   = θ / factor · (1 − mix) + θ · mix
    /// ```
    ///
    /// Rotated queries and rotated keys are each multiplied by `magnitude` (already made of factor and file).
    Yarn {
        factor: f64,
        original_context_length: usize,
        beta_fast: f64,
        beta_slow: f64,
        extrapolation: f64,
        magnitude: f64,
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

const BASE_DEFAULT: f64 = 10_000.0;

impl Rotary {
    /// The rotation of layers without a window. Errors: `model_file_damaged`, `rotary_unsupported`.
    pub(super) fn read(keys: &Keys, head_size: usize, pairing: Pairing, context_length: usize) -> Result<Self> {
        let dimensions = keys.size("rope.dimension_count")?.unwrap_or(head_size);
        if dimensions > head_size || !dimensions.is_multiple_of(2) {
            return Err(keys.damaged("rope.dimension_count", format!("is {dimensions}, expected an even number up to {head_size}")));
        }
        let base = keys.float("rope.freq_base")?.unwrap_or(BASE_DEFAULT);
        if base <= 1.0 {
            return Err(keys.damaged("rope.freq_base", format!("is {base}, expected more than 1")));
        }
        Ok(Self { dimensions, base, pairing, scaling: read_scaling(keys, context_length)?, frequency_factors: None })
    }
}

fn read_scaling(keys: &Keys, context_length: usize) -> Result<Scaling> {
    let factor = match keys.float("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.float("rope.scale_linear")?,
    };
    // Files write 0 for "no scaling".
    let factor = factor.filter(|&factor| factor != 0.0);
    if let Some(wrong) = factor.filter(|&factor| factor < 1.0) {
        return Err(keys.damaged("rope.scaling.factor", format!("is {wrong}, expected at least 1")));
    }
    let kind = keys.string("rope.scaling.type")?;
    if kind != Some("yarn") && keys.float("rope.scaling.attn_factor")?.is_some_and(|factor| factor != 1.0) {
        let name = keys.name("rope.scaling.attn_factor");
        let message = format!("{name} is handled with yarn only");
        return Err(Error::at(Code::RotaryUnsupported, name, message));
    }
    match kind {
        Some("none") => Ok(Scaling::None),
        // llama.cpp reads a factor without a type as linear.
        None | Some("linear") => Ok(factor.filter(|&factor| factor != 1.0).map_or(Scaling::None, |factor| Scaling::Linear { factor })),
        Some("yarn") => read_yarn(keys, factor.unwrap_or(1.0), context_length),
        Some(other) => Err(Error::at(
            Code::RotaryUnsupported,
            keys.name("rope.scaling.type"),
            format!("rotary scaling \"{other}\" is not handled; none, linear, yarn and llama3 (rope_freqs.weight) are"),
        )),
    }
}

fn read_yarn(keys: &Keys, factor: f64, context_length: usize) -> Result<Scaling> {
    let positive = |key: &str, default: f64| match keys.float(key)? {
        Some(value) if value <= 0.0 => Err(keys.damaged(key, format!("is {value}, expected more than 0"))),
        value => Ok(value.unwrap_or(default)),
    };
    let attention_factor = positive("rope.scaling.attn_factor", 1.0)?;
    Ok(Scaling::Yarn {
        factor,
        original_context_length: keys.size("rope.scaling.original_context_length")?.filter(|&length| length > 0).unwrap_or(context_length),
        beta_fast: positive("rope.scaling.yarn_beta_fast", 32.0)?,
        beta_slow: positive("rope.scaling.yarn_beta_slow", 1.0)?,
        extrapolation: positive("rope.scaling.yarn_ext_factor", 1.0)?,
        magnitude: attention_factor * (1.0 + 0.1 * factor.ln()),
    })
}
