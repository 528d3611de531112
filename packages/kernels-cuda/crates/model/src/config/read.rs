//! From a file to a configuration: every key is read with its bounds, then compared with the tensors.

use super::architecture::{Architecture, Bias, Traits, Windows};
use super::keys::Keys;
use super::rotary::{Rotary, Scaling};
use super::tensors::{self, FREQUENCY_FACTORS};
use super::{Config, Layer};
use crate::gguf::{Array, GgufFile, Header, Value};
use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error, Result};

impl Config {
    /// Reads and checks. Errors: `model_file_damaged` (a key or tensor is missing or does not fit the others),
    /// `architecture_unsupported` (its name, or the feature that is not handled), `rotary_unsupported` (the scaling).
    pub fn from_gguf(file: &GgufFile) -> Result<Self> {
        let header = file.header();
        let traits = read_architecture(header)?.traits();
        let keys = Keys { header, prefix: traits.name };
        refuse_features(&keys, traits)?;
        let layer_count = keys.required_size("block_count")?;
        if layer_count > header.tensors.len() {
            return Err(keys.damaged("block_count", format!("is {layer_count}, the file has {} tensors", header.tensors.len())));
        }
        let embedding_length = keys.required_size("embedding_length")?;
        let context_length = keys.required_size("context_length")?;
        let (heads, kv_heads, head_size) = read_heads(&keys, layer_count, embedding_length)?;
        let global = Rotary::read(&keys, head_size, traits.pairing, context_length)?;
        let global = Rotary { frequency_factors: read_frequency_factors(file, &global)?, ..global };
        let (layers, rotaries) = read_layers(&keys, traits, layer_count, global)?;
        let scale_size = if traits.wide_scale_layers == Some(layer_count) { embedding_length / heads } else { head_size };
        let feed_forward_length = keys.layer_size("feed_forward_length", layer_count)?.filter(|&length| length > 0);
        let config = Config {
            architecture: traits.architecture,
            name: header.string("general.name")?.unwrap_or_default().to_owned(),
            context_length,
            vocabulary_size: read_vocabulary_size(file)?,
            embedding_length,
            feed_forward_length: feed_forward_length.ok_or_else(|| Header::missing(&keys.name("feed_forward_length")))?,
            heads,
            kv_heads,
            head_size,
            norm_epsilon: read_epsilon(&keys)?,
            rotaries,
            layers,
            tied_embedding: file.tensor("output.weight").is_none(),
            embedding_scale: if traits.scaled_embedding { (embedding_length as f32).sqrt() } else { 1.0 },
            attention_scale: (1.0 / (scale_size as f64).sqrt()) as f32,
            attention_bias: match traits.attention_bias {
                Bias::Required => true,
                Bias::Never => false,
                Bias::Optional => file.tensor("blk.0.attn_q.bias").is_some(),
            },
            attention_output_bias: traits.attention_bias == Bias::Optional && file.tensor("blk.0.attn_output.bias").is_some(),
            query_key_norm: traits.query_key_norm,
            post_norms: traits.post_norms,
            activation: traits.activation,
            attention_soft_cap: read_cap(&keys, "attn_logit_softcapping")?,
            logit_soft_cap: read_cap(&keys, "final_logit_softcapping")?,
            quantization: quantization(file)?,
            parameters: header.tensors.iter().map(|tensor| tensor.elements()).sum(),
        };
        tensors::check(file, &config)?;
        Ok(config)
    }
}

fn read_architecture(header: &Header) -> Result<Architecture> {
    const KEY: &str = "general.architecture";
    let name = header.string(KEY)?.ok_or_else(|| Header::missing(KEY))?;
    Architecture::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Architecture::ALL.iter().map(|architecture| architecture.name()).collect();
        Error::at(Code::ArchitectureUnsupported, KEY, format!("architecture \"{name}\" is not handled; handled are {}", known.join(", ")))
    })
}

/// Keys that change what a model computes in a way that is not handled, unless they hold the neutral value.
const FEATURES: &[(&str, f64)] = &[
    ("expert_count", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.scale", 0.0),
    ("attention.temperature_length", 0.0),
    ("attention.chunk_size", 0.0),
    ("attention.sliding_window", 0.0),
    ("embedding_scale", 1.0),
    ("residual_scale", 1.0),
    ("logit_scale", 1.0),
    ("rope.scaling.alpha", 0.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
];

fn refuse_features(keys: &Keys, traits: &Traits) -> Result<()> {
    for &(key, neutral) in FEATURES {
        if traits.windows.is_some() && key == "attention.sliding_window" {
            continue;
        }
        let Some(value) = keys.value(key) else { continue };
        if value.as_f64().or_else(|| value.as_u64().map(|value| value as f64)) != Some(neutral) {
            let name = keys.name(key);
            return Err(Error::at(Code::ArchitectureUnsupported, &name, format!("{name} is {value:?}, which is not handled")));
        }
    }
    if keys.value("attention.causal").and_then(Value::as_bool) == Some(false) {
        let name = keys.name("attention.causal");
        return Err(Error::at(Code::ArchitectureUnsupported, &name, format!("{name} is false: only causal models are handled")));
    }
    if keys.header.size("split.count")?.is_some_and(|count| count > 1) {
        let message = "the model is split over several files, join them first (gguf-split --merge)";
        return Err(Error::at(Code::ModelFormatUnsupported, "split.count", message));
    }
    Ok(())
}

/// Query heads, key heads, head size.
fn read_heads(keys: &Keys, layers: usize, embedding_length: usize) -> Result<(usize, usize, usize)> {
    let missing = || Header::missing(&keys.name("attention.head_count"));
    let heads = keys.layer_size("attention.head_count", layers)?.filter(|&heads| heads > 0).ok_or_else(missing)?;
    let kv_heads = keys.layer_size("attention.head_count_kv", layers)?.unwrap_or(heads);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(keys.damaged("attention.head_count_kv", format!("is {kv_heads}, expected a divisor of {heads} heads")));
    }
    let key_size = match keys.size("attention.key_length")? {
        Some(size) => size,
        None if embedding_length.is_multiple_of(heads) => embedding_length / heads,
        None => {
            let message = format!("is {heads}, no divisor of the embedding length {embedding_length}");
            return Err(keys.damaged("attention.head_count", message));
        }
    };
    if key_size == 0 {
        return Err(keys.damaged("attention.key_length", "is 0".into()));
    }
    let value_size = keys.size("attention.value_length")?.unwrap_or(key_size);
    if value_size != key_size {
        let name = keys.name("attention.value_length");
        let message = format!("{name} is {value_size} and keys have {key_size}: different sizes are not handled");
        return Err(Error::at(Code::ArchitectureUnsupported, name, message));
    }
    Ok((heads, kv_heads, key_size))
}

fn read_epsilon(keys: &Keys) -> Result<f32> {
    const KEY: &str = "attention.layer_norm_rms_epsilon";
    match keys.float(KEY)? {
        Some(epsilon) if epsilon > 0.0 && epsilon < 1.0 => Ok(epsilon as f32),
        Some(epsilon) => Err(keys.damaged(KEY, format!("is {epsilon}, expected between 0 and 1"))),
        None => Err(Header::missing(&keys.name(KEY))),
    }
}

/// A soft cap; 0 and absent mean none.
fn read_cap(keys: &Keys, key: &str) -> Result<Option<f32>> {
    match keys.float(key)? {
        Some(cap) if cap < 0.0 => Err(keys.damaged(key, format!("is {cap}, expected at least 0"))),
        cap => Ok(cap.map(|cap| cap as f32).filter(|&cap| cap > 0.0)),
    }
}

/// Rows of the embedding. A vocabulary in the file must have as many tokens.
fn read_vocabulary_size(file: &GgufFile) -> Result<usize> {
    const KEY: &str = "tokenizer.ggml.tokens";
    let rows = file.required_tensor("token_embd.weight")?.rows();
    match file.header().strings(KEY)? {
        Some(tokens) if tokens.len() != rows => Err(Error::at(
            Code::ModelFileDamaged,
            KEY,
            format!("{KEY} has {} tokens, tensor token_embd.weight has {rows} rows", tokens.len()),
        )),
        _ if rows > i32::MAX as usize => {
            Err(Error::at(Code::ModelFileDamaged, "token_embd.weight", format!("tensor token_embd.weight has {rows} rows")))
        }
        _ => Ok(rows),
    }
}

fn read_frequency_factors(file: &GgufFile, rotary: &Rotary) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = file.tensor(FREQUENCY_FACTORS) else { return Ok(None) };
    let damaged = |what: String| Error::at(Code::ModelFileDamaged, FREQUENCY_FACTORS, format!("tensor {FREQUENCY_FACTORS} {what}"));
    if tensor.shape != [rotary.dimensions / 2] {
        return Err(damaged(format!("has shape {:?}, expected [{}]", tensor.shape, rotary.dimensions / 2)));
    }
    let factors = file.decode(tensor)?;
    match factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
        Some(wrong) => Err(damaged(format!("has a factor {wrong}, expected more than 0"))),
        None => Ok(Some(factors)),
    }
}

/// What differs between layers, and the rotations that they name.
fn read_layers(keys: &Keys, traits: &Traits, count: usize, global: Rotary) -> Result<(Vec<Layer>, Vec<Rotary>)> {
    let everywhere = |global: Rotary| (vec![Layer { rotary: 0, window: None }; count], vec![global]);
    let Some(windows) = traits.windows else { return Ok(everywhere(global)) };
    let Some(window) = keys.size("attention.sliding_window")?.filter(|&window| window > 0) else { return Ok(everywhere(global)) };
    let base = keys.float("rope.freq_base_swa")?.unwrap_or(windows.base);
    if base <= 1.0 {
        return Err(keys.damaged("rope.freq_base_swa", format!("is {base}, expected more than 1")));
    }
    let local = Rotary { base, scaling: Scaling::None, frequency_factors: None, ..global.clone() };
    let layers = window_pattern(keys, windows, count)?
        .into_iter()
        .map(|windowed| if windowed { Layer { rotary: 1, window: Some(window) } } else { Layer { rotary: 0, window: None } })
        .collect();
    Ok((layers, vec![global, local]))
}

/// Which layers have a window.
fn window_pattern(keys: &Keys, windows: Windows, count: usize) -> Result<Vec<bool>> {
    const KEY: &str = "attention.sliding_window_pattern";
    if let Some(Value::Array(array)) = keys.value(KEY) {
        // Files hold booleans or numbers.
        let pattern = match array {
            Array::Bool(pattern) => Some(pattern.clone()),
            numbers => numbers.to_u64().map(|numbers| numbers.iter().map(|&number| number != 0).collect()),
        };
        let damaged = || keys.damaged(KEY, format!("is an array, expected {count} booleans"));
        return pattern.filter(|pattern| pattern.len() == count).ok_or_else(damaged);
    }
    let period = keys.size(KEY)?.unwrap_or(windows.period);
    if period == 0 {
        return Err(keys.damaged(KEY, "is 0".into()));
    }
    Ok((0..count).map(|layer| (layer + 1) % period != 0).collect())
}

/// Names of `general.file_type` (llama.cpp's `llama_ftype`) for the types that are read.
const FILE_TYPES: &[(usize, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (32, "BF16"),
];

fn quantization(file: &GgufFile) -> Result<String> {
    let header = file.header();
    let file_type = header.size("general.file_type")?;
    if let Some((_, name)) = FILE_TYPES.iter().find(|(id, _)| Some(*id) == file_type) {
        return Ok((*name).to_owned());
    }
    let numbers = |tensor_type: TensorType| -> usize {
        header.tensors.iter().filter(|tensor| tensor.tensor_type == tensor_type).map(|tensor| tensor.elements()).sum()
    };
    let most = TensorType::ALL.iter().max_by_key(|tensor_type| numbers(**tensor_type));
    Ok(most.map_or("", |tensor_type| tensor_type.name()).to_owned())
}
