//! From a checked file to packed weights.

use palimpsest_kernels::{Arena, Gate, Kernels, Pool, RawMatrix, Result};

use super::{HeadNorms, Layer, Linear, Shape, Weights, turns};
use crate::attention::Heads;
use crate::config::{Activation, Config};
use crate::gguf::GgufFile;

/// Reads and packs all weights for a level. `sampled`: ids below it may be drawn. `progress` is called with 0 … 1.
///
/// Errors: `model_file_damaged` (a tensor is missing), `tensor_type_unsupported`, `cells_exceed_memory`.
pub fn load(
    file: &GgufFile,
    config: &Config,
    sampled: usize,
    kernels: &dyn Kernels,
    pool: &Pool,
    progress: &mut dyn FnMut(f64),
) -> Result<Weights> {
    let total = file.header().tensors.iter().map(|tensor| tensor.range.len()).sum::<usize>().max(1);
    let mut loader = Loader { file, kernels, pool, arena: Arena::new(), progress, done: 0, total };
    (loader.progress)(0.0);
    let embedding = loader.linear("token_embd", false)?;
    let layers = (0..config.layers.len()).map(|layer| loader.layer(config, layer)).collect::<Result<Vec<_>>>()?;
    let output_norm = loader.vector("output_norm.weight")?;
    let head = if config.tied_embedding { None } else { Some(loader.linear("output", false)?) };
    (loader.progress)(1.0);
    let rotaries = config.rotaries.iter().map(|rotary| turns::rotary(rotary, config.context_length)).collect();
    let windows = windows(config);
    Ok(Weights { shape: shape(config, sampled), embedding, layers, output_norm, head, rotaries, windows })
}

/// Each window once.
fn windows(config: &Config) -> Vec<Option<usize>> {
    let mut windows = Vec::new();
    for layer in &config.layers {
        if !windows.contains(&layer.window) {
            windows.push(layer.window);
        }
    }
    windows
}

fn shape(config: &Config, sampled: usize) -> Shape {
    Shape {
        context: config.context_length,
        vocabulary: config.vocabulary_size,
        sampled: sampled.min(config.vocabulary_size),
        embedding: config.embedding_length,
        feed: config.feed_forward_length,
        heads: Heads {
            heads: config.heads,
            kv_heads: config.kv_heads,
            key_size: config.head_size,
            value_size: config.head_size,
            scale: config.attention_scale,
            cap: config.attention_soft_cap.unwrap_or(0.0),
        },
        epsilon: config.norm_epsilon,
        embedding_scale: config.embedding_scale,
        logit_cap: config.logit_soft_cap.unwrap_or(0.0),
        gate: match config.activation {
            Activation::Silu => Gate::Silu,
            Activation::GeluTanh => Gate::GeluTanh,
        },
    }
}

struct Loader<'a> {
    file: &'a GgufFile,
    kernels: &'a dyn Kernels,
    pool: &'a Pool,
    arena: Arena,
    progress: &'a mut dyn FnMut(f64),
    /// Bytes of tensors that were read.
    done: usize,
    total: usize,
}

impl Loader<'_> {
    fn layer(&mut self, config: &Config, layer: usize) -> Result<Layer> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let head_norms = if config.query_key_norm {
            let (query, key) = (self.vector(&name("attn_q_norm.weight"))?, self.vector(&name("attn_k_norm.weight"))?);
            Some(HeadNorms { query, key })
        } else {
            None
        };
        let query_key_value = ["attn_q", "attn_k", "attn_v"]
            .into_iter()
            .map(|part| self.linear(&name(part), config.attention_bias))
            .collect::<Result<Vec<_>>>()?;
        let gate_up = ["ffn_gate", "ffn_up"].into_iter().map(|part| self.linear(&name(part), false)).collect::<Result<Vec<_>>>()?;
        let mut post_norm = |part: &str| if config.post_norms { self.vector(&name(part)).map(Some) } else { Ok(None) };
        let (attention_post_norm, feed_post_norm) = (post_norm("post_attention_norm.weight")?, post_norm("post_ffw_norm.weight")?);
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm.weight"))?,
            query_key_value,
            head_norms,
            attention_output: self.linear(&name("attn_output"), config.attention_output_bias)?,
            attention_post_norm,
            feed_norm: self.vector(&name("ffn_norm.weight"))?,
            gate_up,
            down: self.linear(&name("ffn_down"), false)?,
            feed_post_norm,
            rotary: config.layers[layer].rotary,
            window: windows(config).iter().position(|window| *window == config.layers[layer].window).expect("a window of the list"),
        })
    }

    fn linear(&mut self, name: &str, with_bias: bool) -> Result<Linear> {
        let tensor = self.file.required_tensor(&format!("{name}.weight"))?;
        let raw = RawMatrix {
            tensor_type: tensor.tensor_type,
            rows: tensor.rows(),
            columns: tensor.columns(),
            bytes: self.file.tensor_bytes(tensor),
        };
        let matrix = self
            .kernels
            .pack(&raw, self.pool, &self.arena)
            .map_err(|error| palimpsest_kernels::Error { message: format!("tensor {}: {}", tensor.name, error.message), ..error })?;
        self.advance(raw.bytes.len());
        let bias = if with_bias { Some(self.vector(&format!("{name}.bias"))?) } else { None };
        Ok(Linear { matrix, bias })
    }

    fn vector(&mut self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.file.required_tensor(name)?;
        self.advance(tensor.range.len());
        self.file.decode(tensor)
    }

    fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        (self.progress)(self.done as f64 / self.total as f64);
    }
}
