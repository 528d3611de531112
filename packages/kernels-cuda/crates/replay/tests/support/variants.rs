//! Small models that llama.cpp reads too: one of each architecture and of each way to rotate.

use palimpsest_model::config::{Architecture, Scaling};
use palimpsest_model::tiny::TinyModel;

const YARN: Scaling = Scaling::Yarn {
    factor: 4.0,
    original_context_length: 64,
    beta_fast: 32.0,
    beta_slow: 1.0,
    extrapolation: 1.0,
    // 1 + 0.1 · ln 4
    magnitude: 1.138_629_436_111_989,
};

/// Name and description.
pub fn variants() -> Vec<(&'static str, TinyModel)> {
    let of = |architecture| TinyModel { architecture, ..TinyModel::default() };
    let scaled = |rotary_scaling| TinyModel { rotary_scaling, ..TinyModel::default() };
    let windowed = TinyModel { layers: 4, window: 16, ..of(Architecture::Gemma3) };
    vec![
        ("llama", of(Architecture::Llama)),
        ("llama-untied-mha", TinyModel { tied: false, kv_heads: 4, ..TinyModel::default() }),
        ("llama-linear", scaled(Scaling::Linear { factor: 4.0 })),
        ("llama-yarn", scaled(YARN)),
        ("llama-llama3", TinyModel { frequency_factors: true, ..TinyModel::default() }),
        ("qwen2", of(Architecture::Qwen2)),
        ("qwen2-yarn", TinyModel { rotary_scaling: YARN, ..of(Architecture::Qwen2) }),
        ("qwen3", TinyModel { head_size: 24, ..of(Architecture::Qwen3) }),
        ("gemma3", windowed.clone()),
        ("gemma3-linear", TinyModel { rotary_scaling: Scaling::Linear { factor: 8.0 }, ..windowed }),
    ]
}
