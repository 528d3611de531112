//! The tensors that a configuration asks for, with their shapes, and what the file has.

use super::Config;
use crate::gguf::GgufFile;
use palimpsest_kernels::{Code, Error, Result};
use std::collections::HashSet;

/// A tensor that must be in the file. `shape`: the fastest dimension first, so a matrix is `[inputs, outputs]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub shape: Vec<usize>,
}

/// Divisors of the rotary frequencies; belongs to no layer and need not be there.
pub(super) const FREQUENCY_FACTORS: &str = "rope_freqs.weight";

/// All tensors of a model, in the order of use.
pub fn expected_tensors(config: &Config) -> Vec<TensorSpec> {
    let width = config.embedding_length;
    let mut specs = vec![TensorSpec { name: "token_embd.weight".into(), shape: vec![width, config.vocabulary_size] }];
    for layer in 0..config.layers.len() {
        for (name, shape) in layer_tensors(config) {
            specs.push(TensorSpec { name: format!("blk.{layer}.{name}"), shape });
        }
    }
    specs.push(TensorSpec { name: "output_norm.weight".into(), shape: vec![width] });
    if !config.tied_embedding {
        specs.push(TensorSpec { name: "output.weight".into(), shape: vec![width, config.vocabulary_size] });
    }
    specs
}

/// Names without `blk.N.`, with shapes.
fn layer_tensors(config: &Config) -> Vec<(&'static str, Vec<usize>)> {
    let width = config.embedding_length;
    let queries = config.heads * config.head_size;
    let keys = config.kv_heads * config.head_size;
    let mut tensors = vec![
        ("attn_norm.weight", vec![width]),
        ("attn_q.weight", vec![width, queries]),
        ("attn_k.weight", vec![width, keys]),
        ("attn_v.weight", vec![width, keys]),
    ];
    if config.attention_bias {
        tensors.extend([("attn_q.bias", vec![queries]), ("attn_k.bias", vec![keys]), ("attn_v.bias", vec![keys])]);
    }
    if config.query_key_norm {
        tensors.extend([("attn_q_norm.weight", vec![config.head_size]), ("attn_k_norm.weight", vec![config.head_size])]);
    }
    tensors.push(("attn_output.weight", vec![queries, width]));
    if config.attention_output_bias {
        tensors.push(("attn_output.bias", vec![width]));
    }
    if config.post_norms {
        tensors.push(("post_attention_norm.weight", vec![width]));
    }
    tensors.extend([
        ("ffn_norm.weight", vec![width]),
        ("ffn_gate.weight", vec![width, config.feed_forward_length]),
        ("ffn_up.weight", vec![width, config.feed_forward_length]),
        ("ffn_down.weight", vec![config.feed_forward_length, width]),
    ]);
    if config.post_norms {
        tensors.push(("post_ffw_norm.weight", vec![width]));
    }
    tensors
}

/// Every expected tensor is there with its shape, and nothing that would change the result is left over.
///
/// Errors: `model_file_damaged` (missing, wrong shape), `architecture_unsupported` (a tensor that is not used): both name the tensor.
pub(super) fn check(file: &GgufFile, config: &Config) -> Result<()> {
    let specs = expected_tensors(config);
    for spec in &specs {
        let tensor = file.required_tensor(&spec.name)?;
        if tensor.shape != spec.shape {
            return Err(Error::at(
                Code::ModelFileDamaged,
                &spec.name,
                format!("tensor {} has shape {:?}, expected {:?}", spec.name, tensor.shape, spec.shape),
            ));
        }
    }
    let known: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).chain([FREQUENCY_FACTORS]).collect();
    match file.header().tensors.iter().find(|tensor| !known.contains(tensor.name.as_str())) {
        None => Ok(()),
        Some(tensor) => Err(Error::at(
            Code::ArchitectureUnsupported,
            &tensor.name,
            format!("tensor {} is not part of {} as it is handled here", tensor.name, config.architecture.name()),
        )),
    }
}
