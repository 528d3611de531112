//! Model files without their weights, generated models, and the naive replay.

use std::path::PathBuf;

use napi::Env;
use napi::bindgen_prelude::{Float32Array, Int32Array, Int32ArraySlice, Object, Uint8ArraySlice, Uint32ArraySlice};
use napi_derive::napi;
use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error, Result};
use palimpsest_model::config::{Architecture, Config};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use palimpsest_model::tokenizer_data::TokenizerData;
use palimpsest_replay::{Program, replay};

use crate::engine::off_loop;
use crate::promise::promise;

/// `ModelInfo` of `src/runtime.ts`.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub struct ModelInfoFields {
    pub architecture: String,
    pub name: String,
    pub context_length: u32,
    pub vocabulary_size: u32,
    pub layers: u32,
    pub embedding_length: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_size: u32,
    pub groups: u32,
    pub quantization: String,
    pub parameters: f64,
    pub weight_bytes: f64,
}

impl ModelInfoFields {
    pub fn new(config: &Config, weight_bytes: usize) -> Self {
        Self {
            architecture: config.architecture.name().to_owned(),
            name: config.name.clone(),
            context_length: config.context_length as u32,
            vocabulary_size: config.vocabulary_size as u32,
            layers: config.layers.len() as u32,
            embedding_length: config.embedding_length as u32,
            heads: config.heads as u32,
            kv_heads: config.kv_heads as u32,
            head_size: config.head_size as u32,
            groups: 1,
            quantization: config.quantization.clone(),
            parameters: config.parameters as f64,
            weight_bytes: weight_bytes as f64,
        }
    }
}

/// `TokenizerData` of `src/runtime.ts`.
#[napi(object, object_from_js = false)]
pub struct TokenizerFields {
    pub model: String,
    pub pre: String,
    pub tokens: Vec<String>,
    pub token_types: Int32Array,
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub add_bos: bool,
    pub chat_template: Option<String>,
}

#[napi(object, object_from_js = false)]
pub struct ModelFields {
    pub info: ModelInfoFields,
    pub tokenizer: TokenizerFields,
}

/// Reads header and metadata of a model file, not its weights.
#[napi(catch_unwind)]
pub fn read_model<'env>(env: &'env Env, path: String) -> napi::Result<Object<'env>> {
    let (settle, object) = promise(env, |(info, data): (ModelInfoFields, TokenizerData)| ModelFields { info, tokenizer: tokenizer(data) })?;
    let work = move || {
        let file = GgufFile::open(&PathBuf::from(path))?;
        let config = Config::from_gguf(&file)?;
        let bytes = file.header().tensors.iter().map(|tensor| tensor.range.len()).sum();
        Ok((ModelInfoFields::new(&config, bytes), TokenizerData::from_gguf(&file)?))
    };
    off_loop(work, settle);
    Ok(object)
}

fn tokenizer(data: TokenizerData) -> TokenizerFields {
    TokenizerFields {
        model: data.model,
        pre: data.pre,
        tokens: data.tokens,
        token_types: data.token_types.into(),
        merges: data.merges,
        bos: data.bos,
        eos: data.eos,
        eot: data.eot,
        add_bos: data.add_bos,
        chat_template: data.chat_template,
    }
}

/// `TinyModelOptions` of `src/model.ts`; what is absent takes the default of `TinyModel`.
#[napi(object, object_to_js = false)]
pub struct TinyFields {
    pub architecture: Option<String>,
    pub seed: Option<u32>,
    pub layers: Option<u32>,
    pub embedding_length: Option<u32>,
    pub feed_forward_length: Option<u32>,
    pub heads: Option<u32>,
    pub kv_heads: Option<u32>,
    pub head_size: Option<u32>,
    pub vocabulary_size: Option<u32>,
    pub context_length: Option<u32>,
    /// A tensor type, or "mixed".
    pub types: Option<String>,
    pub tied: Option<bool>,
    pub rotary_dimensions: Option<u32>,
    pub rotary_base: Option<f64>,
    /// llama3: divisors of the frequencies.
    pub frequency_factors: Option<bool>,
    pub window: Option<u32>,
    pub window_period: Option<u32>,
}

/// Writes a small generated model: to a file beside the path first, then renamed.
#[napi(catch_unwind)]
pub fn write_tiny_model<'env>(env: &'env Env, path: String, fields: TinyFields) -> napi::Result<Object<'env>> {
    let (settle, object) = promise(env, |()| ())?;
    let work = move || {
        let bytes = tiny(&fields)?.bytes().map_err(in_the_names_of_the_face)?;
        let unwritable = |cause: std::io::Error| Error::at(Code::ModelFileUnreadable, "path", format!("{path} cannot be written: {cause}"));
        let part = format!("{path}.{}.part", std::process::id());
        std::fs::write(&part, bytes).map_err(unwritable)?;
        std::fs::rename(&part, &path).map_err(unwritable)
    };
    off_loop(work, settle);
    Ok(object)
}

/// `head_size` is `headSize` there.
fn in_the_names_of_the_face(error: Error) -> Error {
    let param = error.param.map(|param| {
        let mut words = param.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    });
    Error { param, ..error }
}

fn tiny(fields: &TinyFields) -> Result<TinyModel> {
    let unknown = |param: &str, name: &str| Error::at(Code::ArgumentInvalid, param, format!("\"{name}\" is not known"));
    let default = TinyModel::default();
    let size = |field: Option<u32>, default: usize| field.map_or(default, |field| field as usize);
    Ok(TinyModel {
        architecture: match &fields.architecture {
            Some(name) => Architecture::from_name(name).ok_or_else(|| unknown("architecture", name))?,
            None => default.architecture,
        },
        seed: fields.seed.map_or(default.seed, u64::from),
        layers: size(fields.layers, default.layers),
        embedding_length: size(fields.embedding_length, default.embedding_length),
        feed_forward_length: size(fields.feed_forward_length, default.feed_forward_length),
        heads: size(fields.heads, default.heads),
        kv_heads: size(fields.kv_heads, default.kv_heads),
        head_size: size(fields.head_size, default.head_size),
        vocabulary_size: size(fields.vocabulary_size, default.vocabulary_size),
        context_length: size(fields.context_length, default.context_length),
        types: match fields.types.as_deref() {
            Some("mixed") => TinyTypes::Mixed,
            Some(name) => TinyTypes::All(TensorType::from_name(name).ok_or_else(|| unknown("types", name))?),
            None => default.types,
        },
        tied: fields.tied.unwrap_or(default.tied),
        rotary_dimensions: fields.rotary_dimensions.map(|size| size as usize),
        rotary_base: fields.rotary_base.unwrap_or(default.rotary_base),
        rotary_scaling: default.rotary_scaling,
        frequency_factors: fields.frequency_factors.unwrap_or(default.frequency_factors),
        window: size(fields.window, default.window),
        window_period: size(fields.window_period, default.window_period),
    })
}

/// `ReplayProgram` of `src/model.ts`.
#[napi(object, object_to_js = false)]
pub struct ReplayFields<'env> {
    pub tokens: Uint32ArraySlice<'env>,
    pub positions: Int32ArraySlice<'env>,
    pub stage_of: Uint32ArraySlice<'env>,
    pub stage_positions: Int32ArraySlice<'env>,
    pub seen: Uint8ArraySlice<'env>,
    pub wanted: Uint32ArraySlice<'env>,
    pub threads: u32,
}

/// Logits of the wanted rows by the naive replay.
#[napi(catch_unwind)]
pub fn naive_replay<'env>(env: &'env Env, path: String, fields: ReplayFields<'_>) -> napi::Result<Object<'env>> {
    let (settle, object) = promise(env, |logits: Vec<f32>| Float32Array::from(logits))?;
    let (tokens, positions, stage_of) = (fields.tokens.to_vec(), fields.positions.to_vec(), fields.stage_of.to_vec());
    let (stage_positions, seen) = (fields.stage_positions.to_vec(), fields.seen.to_vec());
    let wanted: Vec<usize> = fields.wanted.iter().map(|row| *row as usize).collect();
    let threads = fields.threads.max(1) as usize;
    let work = move || {
        let file = GgufFile::open(&PathBuf::from(path))?;
        let config = Config::from_gguf(&file)?;
        let program =
            Program { tokens: &tokens, positions: &positions, stage_of: &stage_of, stage_positions: &stage_positions, seen: &seen };
        replay(&file, &config, &program, &wanted, threads)
    };
    off_loop(work, settle);
    Ok(object)
}
