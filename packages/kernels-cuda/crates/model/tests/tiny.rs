//! Generated models are valid files of every architecture and tensor type.

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Result};
use palimpsest_model::config::{Architecture, Config, Layer, Pairing, Scaling};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use palimpsest_model::tokenizer_data::TokenizerData;
use std::collections::HashSet;

fn load(model: &TinyModel) -> Result<(GgufFile, Config)> {
    let file = GgufFile::from_bytes(model.bytes()?)?;
    let config = Config::from_gguf(&file)?;
    Ok((file, config))
}

#[test]
fn every_architecture_reads_back_with_the_sizes_that_were_asked_for() {
    for &architecture in Architecture::ALL {
        for tied in [true, false] {
            let model = TinyModel { architecture, tied, layers: 3, head_size: 24, ..TinyModel::default() };
            let (_, config) = load(&model).expect("a valid model");
            assert_eq!(config.architecture, architecture);
            assert_eq!((config.embedding_length, config.feed_forward_length, config.vocabulary_size), (64, 128, 512));
            assert_eq!((config.heads, config.kv_heads, config.head_size, config.group_size()), (4, 2, 24, 2));
            assert_eq!((config.context_length, config.layers.len(), config.tied_embedding), (4096, 3, tied));
            assert_eq!((config.attention_scale, config.rotaries[0].dimensions), ((1.0 / 24f64.sqrt()) as f32, 24));
        }
    }
}

#[test]
fn architectures_differ_by_the_properties_of_their_real_models() {
    let of = |architecture| load(&TinyModel { architecture, layers: 4, ..TinyModel::default() }).expect("a valid model").1;
    let (llama, qwen2, qwen3, gemma3) =
        (of(Architecture::Llama), of(Architecture::Qwen2), of(Architecture::Qwen3), of(Architecture::Gemma3));
    assert_eq!(llama.rotaries[0].pairing, Pairing::Interleaved);
    assert!([&qwen2, &qwen3, &gemma3].iter().all(|config| config.rotaries[0].pairing == Pairing::HalfSplit));
    assert_eq!([&llama, &qwen2, &qwen3, &gemma3].map(|config| config.attention_bias), [false, true, false, false]);
    assert_eq!([&llama, &qwen2, &qwen3, &gemma3].map(|config| config.query_key_norm), [false, false, true, true]);
    assert_eq!([&llama, &qwen2, &qwen3, &gemma3].map(|config| config.post_norms), [false, false, false, true]);
    assert_eq!([&llama, &gemma3].map(|config| config.embedding_scale), [1.0, 8.0]);
    let windowed = Layer { rotary: 1, window: Some(32) };
    let full = Layer { rotary: 0, window: None };
    assert_eq!(gemma3.layers, [windowed.clone(), full.clone(), windowed, full]);
}

#[test]
fn scalings_of_the_rotation_read_back() {
    let yarn = Scaling::Yarn {
        factor: 4.0,
        original_context_length: 1024,
        beta_fast: 32.0,
        beta_slow: 1.0,
        extrapolation: 1.0,
        magnitude: 1.0 + 0.1 * 4f64.ln(),
    };
    for rotary_scaling in [Scaling::None, Scaling::Linear { factor: 8.0 }, yarn] {
        let model = TinyModel { rotary_scaling, rotary_dimensions: Some(8), rotary_base: 500_000.0, ..TinyModel::default() };
        let (_, config) = load(&model).expect("a valid model");
        let rotary = &config.rotaries[0];
        assert_eq!((rotary.scaling, rotary.dimensions, rotary.base), (rotary_scaling, 8, 500_000.0));
        assert_eq!(rotary.frequency_factors, None);
    }
    let (_, config) = load(&TinyModel { frequency_factors: true, ..TinyModel::default() }).expect("a valid model");
    assert_eq!(config.rotaries[0].frequency_factors.as_ref().map(Vec::len), Some(8));
}

#[test]
fn mixed_models_hold_every_tensor_type_that_fits_their_rows() {
    let wide =
        TinyModel { types: TinyTypes::Mixed, embedding_length: 256, feed_forward_length: 256, head_size: 64, ..TinyModel::default() };
    let (file, _) = load(&wide).expect("a valid model");
    let types: HashSet<TensorType> = file.header().tensors.iter().map(|tensor| tensor.tensor_type).collect();
    assert_eq!(types.len(), TensorType::ALL.len());
    let (file, _) = load(&TinyModel { types: TinyTypes::Mixed, ..TinyModel::default() }).expect("a valid model");
    let types: HashSet<TensorType> = file.header().tensors.iter().map(|tensor| tensor.tensor_type).collect();
    assert_eq!(types.len(), TensorType::ALL.len() - 3);
}

#[test]
fn every_tensor_type_makes_a_model() {
    for &tensor_type in TensorType::ALL {
        let types = TinyTypes::All(tensor_type);
        let model = TinyModel { types, embedding_length: 256, feed_forward_length: 512, head_size: 64, ..TinyModel::default() };
        let (file, config) = load(&model).expect("a valid model");
        assert_eq!(config.quantization, if tensor_type == TensorType::F32 { "F32" } else { tensor_type.name() });
        let embedding = file.required_tensor("token_embd.weight").expect("it is there");
        assert_eq!(embedding.tensor_type, tensor_type);
        let values = file.decode(embedding).expect("whole blocks");
        let spread = (values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        assert!((0.3..0.4).contains(&spread), "{}: {spread}", tensor_type.name());
    }
}

#[test]
fn the_same_values_give_the_same_bytes_and_another_seed_gives_others() {
    let model = TinyModel::default();
    assert_eq!(model.bytes(), model.bytes());
    assert_ne!(model.bytes(), TinyModel { seed: 2, ..model }.bytes());
}

#[test]
fn the_vocabulary_is_a_byte_level_bpe_whose_merges_make_its_tokens() {
    for vocabulary_size in [259, 512, 1500] {
        let (file, _) = load(&TinyModel { vocabulary_size, ..TinyModel::default() }).expect("a valid model");
        let data = TokenizerData::from_gguf(&file).expect("a valid vocabulary");
        assert_eq!((data.model.as_str(), data.tokens.len()), ("gpt2", vocabulary_size));
        assert_eq!(data.merges.len(), vocabulary_size - 259);
        let distinct: HashSet<&String> = data.tokens.iter().collect();
        assert_eq!(distinct.len(), vocabulary_size, "no token stands twice");
        let mut known: HashSet<String> = data.tokens[..256].iter().cloned().collect();
        for (merge, token) in data.merges.iter().zip(&data.tokens[256..]) {
            let (left, right) = merge.split_once(' ').expect("two pieces");
            assert!(known.contains(left) && known.contains(right), "{merge} joins what earlier merges made");
            assert_eq!(&format!("{left}{right}"), token);
            known.insert(token.clone());
        }
        let control = |text: &str| data.tokens.iter().position(|token| token == text).map(|id| id as u32);
        assert_eq!(data.bos, control("<|endoftext|>"));
        assert_eq!((data.eos, data.eot), (control("<|im_end|>"), control("<|im_end|>")));
        assert_eq!(data.token_types.iter().filter(|kind| **kind == 3).count(), 3);
        assert!(!data.add_bos && data.chat_template.is_some_and(|template| template.contains("<|im_start|>")));
    }
}

#[test]
fn what_cannot_be_generated_is_refused_by_the_field_name() {
    let cases = [
        ("kv_heads", TinyModel { kv_heads: 3, ..TinyModel::default() }),
        ("layers", TinyModel { layers: 0, ..TinyModel::default() }),
        ("vocabulary_size", TinyModel { vocabulary_size: 258, ..TinyModel::default() }),
        ("types", TinyModel { types: TinyTypes::All(TensorType::Q4_K), ..TinyModel::default() }),
        ("rotary_dimensions", TinyModel { rotary_dimensions: Some(5), ..TinyModel::default() }),
    ];
    for (param, model) in cases {
        let error = model.bytes().expect_err(param);
        assert_eq!((error.code, error.param.as_deref()), (Code::ArgumentInvalid, Some(param)));
    }
}
