//! Configurations: what is read from real and generated files, and what is refused by name.

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error};
use palimpsest_model::config::{Architecture, Config, Scaling, expected_tensors};
use palimpsest_model::gguf::{Array, GgufFile, Value, Writer};
use palimpsest_model::tiny::TinyModel;
use palimpsest_model::tokenizer_data::TokenizerData;

/// A generated model taken apart, to be put together wrong.
struct Parts {
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<usize>)>,
}

impl Parts {
    fn of(architecture: Architecture) -> Self {
        let model = TinyModel { architecture, vocabulary_size: 259, ..TinyModel::default() };
        let file = GgufFile::from_bytes(model.bytes().expect("valid")).expect("a valid file");
        let header = file.header();
        let mut metadata: Vec<(String, Value)> =
            header.keys().map(|key| (key.to_owned(), header.value(key).expect("listed").clone())).collect();
        metadata.sort_by(|a, b| a.0.cmp(&b.0));
        let tensors = header.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect();
        Self { metadata, tensors }
    }

    fn set(mut self, key: &str, value: Value) -> Self {
        self.metadata.retain(|(other, _)| other != key);
        self.metadata.push((key.to_owned(), value));
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(other, _)| other != key);
        self
    }

    fn tensor(mut self, name: &str, shape: &[usize]) -> Self {
        self.tensors.retain(|(other, _)| other != name);
        self.tensors.push((name.to_owned(), shape.to_vec()));
        self
    }

    fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|(other, _)| other != name);
        self
    }

    fn file(&self) -> GgufFile {
        let mut writer = Writer::new();
        for (key, value) in &self.metadata {
            writer.set(key.as_str(), value.clone());
        }
        for (name, shape) in &self.tensors {
            writer.tensor(name.as_str(), shape, TensorType::F32, &vec![1.0; shape.iter().product()]).expect("whole blocks");
        }
        GgufFile::from_bytes(writer.finish()).expect("a valid file")
    }

    fn config(&self) -> Result<Config, Error> {
        Config::from_gguf(&self.file())
    }
}

fn llama() -> Parts {
    Parts::of(Architecture::Llama)
}

#[track_caller]
fn assert_refused<T>(result: Result<T, Error>, code: Code, param: &str, words: &str) {
    let error = result.err().expect("a wrong model");
    assert_eq!((error.code, error.param.as_deref()), (code, Some(param)), "{error}");
    assert!(error.message.contains(words), "{error}");
}

#[test]
fn unknown_architectures_are_refused_with_the_known_ones() {
    let mamba = llama().set("general.architecture", Value::String("mamba".into()));
    assert_refused(mamba.config(), Code::ArchitectureUnsupported, "general.architecture", "handled are llama, qwen2, qwen3, gemma3");
    assert_refused(llama().without("general.architecture").config(), Code::ModelFileDamaged, "general.architecture", "missing");
    let number = llama().set("general.architecture", Value::U32(1));
    assert_refused(number.config(), Code::ModelFileDamaged, "general.architecture", "of type u32");
}

#[test]
fn keys_that_must_be_there_are_named_when_they_are_not() {
    let keys = [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ];
    for key in keys.map(|key| format!("llama.{key}")) {
        assert_refused(llama().without(&key).config(), Code::ModelFileDamaged, &key, "missing");
        assert!(llama().set(&key, Value::U32(0)).config().is_err(), "{key} of 0");
        assert_refused(llama().set(&key, Value::String("x".into())).config(), Code::ModelFileDamaged, &key, "of type string");
    }
}

#[test]
fn sizes_that_do_not_fit_each_other_are_refused_by_key() {
    let refused = |key: &str, value: u32, words: &str| {
        assert_refused(llama().set(key, Value::U32(value)).config(), Code::ModelFileDamaged, key, words);
    };
    refused("llama.block_count", 1_000_000, "the file has");
    refused("llama.embedding_length", u32::MAX, "at most");
    refused("llama.attention.head_count_kv", 3, "divisor of 4 heads");
    refused("llama.attention.head_count_kv", 0, "divisor of 4 heads");
    refused("llama.attention.key_length", 0, "is 0");
    refused("llama.rope.dimension_count", 7, "even number up to 16");
    refused("llama.rope.dimension_count", 18, "even number up to 16");
    let uneven = llama().without("llama.attention.key_length").set("llama.attention.head_count", Value::U32(6));
    let uneven = uneven.set("llama.attention.head_count_kv", Value::U32(2));
    assert_refused(uneven.config(), Code::ModelFileDamaged, "llama.attention.head_count", "no divisor of the embedding length 64");
    let wide_values = llama().set("llama.attention.value_length", Value::U32(32));
    assert_refused(wide_values.config(), Code::ArchitectureUnsupported, "llama.attention.value_length", "different sizes");
}

#[test]
fn head_sizes_follow_from_the_embedding_where_no_key_gives_them() {
    let config = llama().without("llama.attention.key_length").without("llama.attention.value_length").config();
    assert_eq!(config.map(|config| config.head_size), Ok(16));
    let without_groups = llama().without("llama.attention.head_count_kv").config();
    assert_refused(without_groups, Code::ModelFileDamaged, "blk.0.attn_k.weight", "expected [64, 64]");
}

#[test]
fn sizes_by_layer_are_read_when_all_layers_agree() {
    let by_layer = |sizes: Vec<u32>| llama().set("llama.attention.head_count_kv", Value::Array(Array::U32(sizes))).config();
    assert_eq!(by_layer(vec![2, 2]).map(|config| config.kv_heads), Ok(2));
    assert_refused(by_layer(vec![2, 4]), Code::ArchitectureUnsupported, "llama.attention.head_count_kv", "differs between layers");
    assert_refused(by_layer(vec![2]), Code::ModelFileDamaged, "llama.attention.head_count_kv", "expected 2 whole numbers");
}

#[test]
fn every_expected_tensor_is_named_when_it_is_missing_or_has_another_shape() {
    for &architecture in Architecture::ALL {
        let config = Parts::of(architecture).config().expect("a valid model");
        for spec in expected_tensors(&config) {
            let missing = Parts::of(architecture).without_tensor(&spec.name).config();
            assert_refused(missing, Code::ModelFileDamaged, &spec.name, "is missing");
            if spec.name == "token_embd.weight" {
                continue;
            }
            let mut shape = spec.shape.clone();
            *shape.last_mut().expect("a dimension") += 1;
            let wrong = Parts::of(architecture).tensor(&spec.name, &shape).config();
            assert_refused(wrong, Code::ModelFileDamaged, &spec.name, &format!("expected {:?}", spec.shape));
        }
    }
}

#[test]
fn tensors_that_would_be_ignored_are_refused_by_name() {
    for (name, shape) in
        [("blk.0.ffn_gate_inp.weight", &[64, 8][..]), ("blk.1.attn_q_norm.weight", &[16]), ("blk.2.attn_norm.weight", &[64])]
    {
        assert_refused(llama().tensor(name, shape).config(), Code::ArchitectureUnsupported, name, "not part of llama");
    }
}

#[test]
fn features_that_change_the_result_are_refused_by_key() {
    let features = [
        ("llama.expert_count", Value::U32(8)),
        ("llama.attention.clamp_kqv", Value::F32(8.0)),
        ("llama.attention.max_alibi_bias", Value::F32(8.0)),
        ("llama.attention.sliding_window", Value::U32(4096)),
        ("llama.attention.causal", Value::Bool(false)),
        ("llama.logit_scale", Value::F32(0.5)),
    ];
    for (key, value) in features {
        assert_refused(llama().set(key, value).config(), Code::ArchitectureUnsupported, key, key);
    }
    let neutral =
        [("llama.expert_count", Value::U32(0)), ("llama.attention.causal", Value::Bool(true)), ("llama.logit_scale", Value::F32(1.0))];
    for (key, value) in neutral {
        assert_eq!(llama().set(key, value).config(), llama().config(), "{key} that changes nothing");
    }
    let split = llama().set("split.count", Value::U16(2));
    assert_refused(split.config(), Code::ModelFormatUnsupported, "split.count", "join them first");
}

#[test]
fn rotary_scalings_are_read_or_refused_by_name() {
    let with = |kind: &str, factor: f32| {
        let parts = llama().set("llama.rope.scaling.type", Value::String(kind.into()));
        parts.set("llama.rope.scaling.factor", Value::F32(factor)).config().map(|config| config.rotaries[0].scaling)
    };
    assert_eq!(with("none", 4.0), Ok(Scaling::None));
    assert_eq!(with("linear", 4.0), Ok(Scaling::Linear { factor: 4.0 }));
    assert_eq!(with("linear", 1.0), Ok(Scaling::None));
    assert_eq!(with("linear", 0.0), Ok(Scaling::None));
    assert!(matches!(with("yarn", 4.0), Ok(Scaling::Yarn { original_context_length: 4096, .. })));
    assert_refused(with("longrope", 4.0), Code::RotaryUnsupported, "llama.rope.scaling.type", "\"longrope\" is not handled");
    assert_refused(with("linear", 0.5), Code::ModelFileDamaged, "llama.rope.scaling.factor", "at least 1");
    let factors = |count: usize| llama().tensor("rope_freqs.weight", &[count]).config();
    assert_eq!(factors(8).map(|config| config.rotaries[0].frequency_factors.clone()), Ok(Some(vec![1.0; 8])));
    assert_refused(factors(16), Code::ModelFileDamaged, "rope_freqs.weight", "expected [8]");
    let magnitude = llama().set("llama.rope.scaling.attn_factor", Value::F32(1.2)).config();
    assert_refused(magnitude, Code::RotaryUnsupported, "llama.rope.scaling.attn_factor", "with yarn only");
    let base = llama().set("llama.rope.freq_base", Value::F32(-1.0)).config();
    assert_refused(base, Code::ModelFileDamaged, "llama.rope.freq_base", "more than 1");
}

#[test]
fn biases_of_llama_are_taken_where_the_file_has_them() {
    let mut parts = llama();
    for layer in 0..2 {
        for (name, size) in [("attn_q", 64), ("attn_k", 32), ("attn_v", 32), ("attn_output", 64)] {
            parts = parts.tensor(&format!("blk.{layer}.{name}.bias"), &[size]);
        }
    }
    let config = parts.config().expect("a valid model");
    assert!(config.attention_bias && config.attention_output_bias);
    let half = parts.without_tensor("blk.1.attn_v.bias").config();
    assert_refused(half, Code::ModelFileDamaged, "blk.1.attn_v.bias", "is missing");
}

#[test]
fn windows_of_gemma3_follow_the_file() {
    let with = |value: Value| Parts::of(Architecture::Gemma3).set("gemma3.attention.sliding_window_pattern", value).config();
    let windows = |config: Config| config.layers.iter().map(|layer| layer.window.is_some()).collect::<Vec<_>>();
    assert_eq!(with(Value::Array(Array::Bool(vec![false, true]))).map(windows), Ok(vec![false, true]));
    assert_eq!(with(Value::Array(Array::U32(vec![1, 0]))).map(windows), Ok(vec![true, false]));
    assert_eq!(with(Value::U32(1)).map(windows), Ok(vec![false, false]));
    let key = "gemma3.attention.sliding_window_pattern";
    assert_refused(with(Value::Array(Array::Bool(vec![true]))), Code::ModelFileDamaged, key, "expected 2 booleans");
    assert_refused(with(Value::U32(0)), Code::ModelFileDamaged, key, "is 0");
    let without = Parts::of(Architecture::Gemma3).without("gemma3.attention.sliding_window").config().expect("a valid model");
    assert_eq!((without.rotaries.len(), windows(without)), (1, vec![false, false]));
    let config = Parts::of(Architecture::Gemma3).set("gemma3.rope.freq_base", Value::F32(1e6)).config().expect("a valid model");
    assert_eq!([config.rotaries[0].base, config.rotaries[1].base], [1e6, 1e4]);
}

#[test]
fn vocabularies_that_do_not_fit_are_refused_by_key() {
    let refused = |parts: Parts, key: &str, words: &str| {
        assert_refused(TokenizerData::from_gguf(&parts.file()), Code::ModelFileDamaged, key, words);
    };
    let strings = |texts: &[&str]| Value::Array(Array::String(texts.iter().map(|text| (*text).to_owned()).collect()));
    let one = llama().set("tokenizer.ggml.tokens", strings(&["a"]));
    assert_refused(one.config(), Code::ModelFileDamaged, "tokenizer.ggml.tokens", "has 1 tokens, tensor token_embd.weight has 259 rows");
    refused(llama().without("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens", "missing");
    refused(llama().without("tokenizer.ggml.model"), "tokenizer.ggml.model", "missing");
    refused(llama().set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1]))), "tokenizer.ggml.token_type", "1 types for 259");
    refused(llama().set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![7; 259]))), "tokenizer.ggml.token_type", "a type 7");
    refused(llama().set("tokenizer.ggml.merges", strings(&["ab"])), "tokenizer.ggml.merges", "\"ab\"");
    refused(llama().set("tokenizer.ggml.eos_token_id", Value::U32(259)), "tokenizer.ggml.eos_token_id", "259 tokens");
}

#[test]
fn end_of_turn_and_bos_follow_the_file_and_else_what_is_known() {
    let data = |parts: Parts| TokenizerData::from_gguf(&parts.file()).expect("a valid vocabulary");
    assert_eq!((data(llama()).eot, data(llama().set("tokenizer.ggml.eot_token_id", Value::U32(7))).eot), (Some(258), Some(7)));
    let open = || llama().without("tokenizer.ggml.add_bos_token");
    assert!(!data(open()).add_bos);
    assert!(data(open().set("tokenizer.ggml.pre", Value::String("llama-bpe".into()))).add_bos);
    assert!(data(open().set("tokenizer.ggml.model", Value::String("llama".into()))).add_bos);
}
