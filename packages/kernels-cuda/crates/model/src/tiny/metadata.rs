//! The model's part of the metadata.

use super::TinyModel;
use crate::config::{Architecture, Scaling};
use crate::gguf::{Value, Writer};

/// The pre-tokenizer that real files of this architecture name.
pub(super) fn pre_tokenizer(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Llama => "smollm",
        _ => "qwen2",
    }
}

pub(super) fn write(writer: &mut Writer, model: &TinyModel) {
    let name = model.architecture.name();
    writer
        .set("general.architecture", Value::String(name.into()))
        .set("general.name", Value::String(format!("tiny {name} {}", model.seed)));
    let mut size = |key: &str, value: usize| {
        writer.set(format!("{name}.{key}"), Value::U32(value as u32));
    };
    size("block_count", model.layers);
    size("context_length", model.context_length);
    size("embedding_length", model.embedding_length);
    size("feed_forward_length", model.feed_forward_length);
    size("attention.head_count", model.heads);
    size("attention.head_count_kv", model.kv_heads);
    size("attention.key_length", model.head_size);
    size("attention.value_length", model.head_size);
    size("vocab_size", model.vocabulary_size);
    size("rope.dimension_count", model.rotary_dimensions.unwrap_or(model.head_size));
    if model.architecture.has_windows() {
        size("attention.sliding_window", model.window);
        size("attention.sliding_window_pattern", model.window_period);
    }
    let mut float = |key: &str, value: f64| {
        writer.set(format!("{name}.{key}"), Value::F32(value as f32));
    };
    float("attention.layer_norm_rms_epsilon", 1e-5);
    float("rope.freq_base", model.rotary_base);
    write_scaling(writer, name, model.rotary_scaling);
}

fn write_scaling(writer: &mut Writer, name: &str, scaling: Scaling) {
    let mut set = |key: &str, value: Value| {
        writer.set(format!("{name}.rope.scaling.{key}"), value);
    };
    match scaling {
        Scaling::None => {}
        Scaling::Linear { factor } => {
            set("type", Value::String("linear".into()));
            set("factor", Value::F32(factor as f32));
        }
        Scaling::Yarn { factor, original_context_length, beta_fast, beta_slow, extrapolation, magnitude } => {
            set("type", Value::String("yarn".into()));
            set("factor", Value::F32(factor as f32));
            set("original_context_length", Value::U32(original_context_length as u32));
            set("yarn_beta_fast", Value::F32(beta_fast as f32));
            set("yarn_beta_slow", Value::F32(beta_slow as f32));
            set("yarn_ext_factor", Value::F32(extrapolation as f32));
            set("attn_factor", Value::F32((magnitude / (1.0 + 0.1 * factor.ln())) as f32));
        }
    }
}
