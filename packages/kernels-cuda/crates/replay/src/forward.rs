//! The layers, one after the other, each over all rows at once.

use crate::attention::{Projections, attend};
use crate::multiply::Matrix;
use crate::program::Program;
use palimpsest_kernels::Result;
use palimpsest_model::config::{Activation, Config};
use palimpsest_model::gguf::GgufFile;
use std::f64::consts::PI;

/// A model's tensors by name.
struct Weights<'a> {
    file: &'a GgufFile,
    config: &'a Config,
    threads: usize,
}

impl<'a> Weights<'a> {
    fn matrix(&self, name: &str) -> Result<Matrix<'a>> {
        Ok(Matrix::of(self.file, self.file.required_tensor(name)?))
    }

    fn vector(&self, name: &str) -> Result<Vec<f32>> {
        self.file.decode(self.file.required_tensor(name)?)
    }

    /// x · weightᵀ, plus the bias where there is one.
    fn project(&self, name: &str, bias: bool, x: &[f32]) -> Result<Vec<f32>> {
        let mut out = self.matrix(&format!("{name}.weight"))?.multiply(x, self.threads)?;
        if bias {
            let bias = self.vector(&format!("{name}.bias"))?;
            out.chunks_exact_mut(bias.len()).for_each(|row| add(row, &bias));
        }
        Ok(out)
    }

    /// x / √(mean of x² + ε) · weight, over each stretch as long as the weight.
    fn norm(&self, name: &str, x: &[f32]) -> Result<Vec<f32>> {
        let weight = self.vector(name)?;
        let mut out = x.to_vec();
        for row in out.chunks_exact_mut(weight.len()) {
            let squares: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
            let scale = 1.0 / (squares / weight.len() as f64 + f64::from(self.config.norm_epsilon)).sqrt();
            for (value, weight) in row.iter_mut().zip(&weight) {
                *value = (f64::from(*value) * scale * f64::from(*weight)) as f32;
            }
        }
        Ok(out)
    }
}

pub(crate) fn logits(file: &GgufFile, config: &Config, program: &Program, wanted: &[usize], threads: usize) -> Result<Vec<f32>> {
    let weights = Weights { file, config, threads };
    let mut hidden = embed(&weights, program)?;
    for layer in 0..config.layers.len() {
        let attention = attention_part(&weights, layer, program, &hidden)?;
        add(&mut hidden, &attention);
        let feed_forward = feed_forward_part(&weights, layer, &hidden)?;
        add(&mut hidden, &feed_forward);
    }
    let rows: Vec<f32> =
        wanted.iter().flat_map(|row| &hidden[row * config.embedding_length..][..config.embedding_length]).copied().collect();
    let normed = weights.norm("output_norm.weight", &rows)?;
    let head = if config.tied_embedding { "token_embd" } else { "output" };
    let mut logits = weights.project(head, false, &normed)?;
    if let Some(cap) = config.logit_soft_cap.map(f64::from) {
        logits.iter_mut().for_each(|logit| *logit = (cap * (f64::from(*logit) / cap).tanh()) as f32);
    }
    Ok(logits)
}

fn embed(weights: &Weights, program: &Program) -> Result<Vec<f32>> {
    let table = weights.matrix("token_embd.weight")?;
    let mut hidden = vec![0.0; program.cells() * table.inputs];
    for (row, token) in hidden.chunks_exact_mut(table.inputs).zip(program.tokens) {
        table.row(*token as usize, row)?;
    }
    hidden.iter_mut().for_each(|value| *value *= weights.config.embedding_scale);
    Ok(hidden)
}

fn attention_part(weights: &Weights, layer: usize, program: &Program, hidden: &[f32]) -> Result<Vec<f32>> {
    let config = weights.config;
    let name = |part: &str| format!("blk.{layer}.{part}");
    let normed = weights.norm(&name("attn_norm.weight"), hidden)?;
    let project = |part: &str| weights.project(&name(part), config.attention_bias, &normed);
    let (mut queries, mut keys, values) = (project("attn_q")?, project("attn_k")?, project("attn_v")?);
    if config.query_key_norm {
        queries = weights.norm(&name("attn_q_norm.weight"), &queries)?;
        keys = weights.norm(&name("attn_k_norm.weight"), &keys)?;
    }
    let projections = Projections { queries, keys, values };
    let read = attend(config, &config.layers[layer], program, &projections, weights.threads);
    let out = weights.project(&name("attn_output"), config.attention_output_bias, &read)?;
    if config.post_norms { weights.norm(&name("post_attention_norm.weight"), &out) } else { Ok(out) }
}

fn feed_forward_part(weights: &Weights, layer: usize, hidden: &[f32]) -> Result<Vec<f32>> {
    let config = weights.config;
    let name = |part: &str| format!("blk.{layer}.{part}");
    let normed = weights.norm(&name("ffn_norm.weight"), hidden)?;
    let mut gate = weights.project(&name("ffn_gate"), false, &normed)?;
    let up = weights.project(&name("ffn_up"), false, &normed)?;
    for (gate, up) in gate.iter_mut().zip(&up) {
        *gate = (activate(config.activation, f64::from(*gate)) * f64::from(*up)) as f32;
    }
    let out = weights.project(&name("ffn_down"), false, &gate)?;
    if config.post_norms { weights.norm(&name("post_ffw_norm.weight"), &out) } else { Ok(out) }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
