//! Random weights at scales that keep a small model lively.

use super::{TinyModel, TinyTypes};
use crate::config::{Config, TensorSpec, expected_tensors};
use crate::gguf::Writer;
use palimpsest_kernels::Result;
use palimpsest_kernels::quant::TensorType;

/// Spread of embeddings: logits of a normed vector then spread by this times √width.
const EMBEDDING_SPREAD: f64 = 0.35;

/// Spread of what a matrix gives for a normed vector; name, spread. Queries and keys of 1.4 make scores that spread by 2.
const MATRIX_SPREADS: &[(&str, f64)] = &[
    ("attn_q.weight", 1.4),
    ("attn_k.weight", 1.4),
    ("attn_v.weight", 1.5),
    ("attn_output.weight", 1.5),
    ("ffn_gate.weight", 1.5),
    ("ffn_up.weight", 1.0),
    ("ffn_down.weight", 1.5),
];

/// Norm weights are spread around this; name, middle. Queries and keys that are normed need it for scores that spread by 2, and
/// layers whose output is normed have to weigh against an embedding that was multiplied by √width.
const NORM_MIDDLES: &[(&str, f64)] =
    &[("attn_q_norm.weight", 1.4), ("attn_k_norm.weight", 1.4), ("post_attention_norm.weight", 6.0), ("post_ffw_norm.weight", 6.0)];
const NORM_SPREAD: f64 = 0.15;
const BIAS_SPREAD: f64 = 0.3;

pub(super) fn write(writer: &mut Writer, model: &TinyModel, config: &Config) -> Result<()> {
    let mut random = Random { state: model.seed };
    let mut matrices = 0;
    for spec in expected_tensors(config) {
        let values = values_of(&spec, &mut random);
        let is_matrix = spec.shape.len() > 1;
        let tensor_type = if is_matrix { matrix_type(model.types, spec.shape[0], matrices) } else { TensorType::F32 };
        matrices += usize::from(is_matrix);
        writer.tensor(spec.name, &spec.shape, tensor_type, &values)?;
    }
    if model.frequency_factors {
        let pairs = model.rotary_dimensions.unwrap_or(model.head_size) / 2;
        let factors: Vec<f32> = (0..pairs).map(|pair| 1.0 + 7.0 * pair as f32 / pairs as f32).collect();
        writer.tensor("rope_freqs.weight", &[pairs], TensorType::F32, &factors)?;
    }
    Ok(())
}

fn values_of(spec: &TensorSpec, random: &mut Random) -> Vec<f32> {
    let count = spec.shape.iter().product();
    let named = |table: &[(&str, f64)]| table.iter().find(|(name, _)| spec.name.ends_with(&format!(".{name}"))).map(|(_, value)| *value);
    let (middle, spread) = if spec.shape.len() > 1 {
        let spread = named(MATRIX_SPREADS).map_or(EMBEDDING_SPREAD, |spread| spread / (spec.shape[0] as f64).sqrt());
        (0.0, spread)
    } else if spec.name.ends_with(".bias") {
        (0.0, BIAS_SPREAD)
    } else {
        let middle = named(NORM_MIDDLES).unwrap_or(1.0);
        (middle, middle * NORM_SPREAD)
    };
    (0..count).map(|_| (middle + spread * random.normal()) as f32).collect()
}

/// The type of the `index`-th matrix, whose rows have `columns` numbers.
fn matrix_type(types: TinyTypes, columns: usize, index: usize) -> TensorType {
    match types {
        TinyTypes::All(tensor_type) => tensor_type,
        TinyTypes::Mixed => {
            let fit = |tensor_type: &&TensorType| columns.is_multiple_of(tensor_type.block_size());
            let fitting: Vec<&TensorType> = TensorType::ALL.iter().filter(fit).collect();
            *fitting[index % fitting.len()]
        }
    }
}

/// SplitMix64.
struct Random {
    state: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Mean 0, variance 1, nearly normal: four uniform numbers summed, so that no platform's `ln` or `cos` is in the bytes.
    fn normal(&mut self) -> f64 {
        let sum: f64 = (0..4).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 2.0) * 3f64.sqrt()
    }
}
