//! The architectures that are read: one row of properties each. Nothing outside this folder asks which architecture a model has.

use super::{Activation, Pairing};

/// `general.architecture` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Llama,
    Qwen2,
    Qwen3,
    Gemma3,
}

/// Whether a model has biases of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bias {
    Required,
    /// As the file has them.
    Optional,
    Never,
}

/// Layers that read a window of the latest positions, between layers that read all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Windows {
    /// Layers `period − 1`, `2 · period − 1`, … read all, where the file names no period.
    pub period: usize,
    /// Rotary base of layers with a window, where the file names none. Their angles are not scaled.
    pub base: f64,
}

/// What distinguishes an architecture.
#[derive(Debug, PartialEq)]
pub(super) struct Traits {
    pub architecture: Architecture,
    pub name: &'static str,
    pub pairing: Pairing,
    pub activation: Activation,
    pub attention_bias: Bias,
    pub query_key_norm: bool,
    pub post_norms: bool,
    /// Embeddings are multiplied by √embedding_length.
    pub scaled_embedding: bool,
    pub windows: Option<Windows>,
    /// A model of this many layers scales scores by 1/√(embedding_length / heads) in place of 1/√head_size (Gemma 3 27B, whose files
    /// say it no other way).
    pub wide_scale_layers: Option<usize>,
}

const PLAIN: Traits = Traits {
    architecture: Architecture::Llama,
    name: "llama",
    pairing: Pairing::Interleaved,
    activation: Activation::Silu,
    attention_bias: Bias::Optional,
    query_key_norm: false,
    post_norms: false,
    scaled_embedding: false,
    windows: None,
    wide_scale_layers: None,
};

static TRAITS: [Traits; 4] = [
    PLAIN,
    Traits { architecture: Architecture::Qwen2, name: "qwen2", pairing: Pairing::HalfSplit, attention_bias: Bias::Required, ..PLAIN },
    Traits {
        architecture: Architecture::Qwen3,
        name: "qwen3",
        pairing: Pairing::HalfSplit,
        attention_bias: Bias::Never,
        query_key_norm: true,
        ..PLAIN
    },
    Traits {
        architecture: Architecture::Gemma3,
        name: "gemma3",
        pairing: Pairing::HalfSplit,
        activation: Activation::GeluTanh,
        attention_bias: Bias::Never,
        query_key_norm: true,
        post_norms: true,
        scaled_embedding: true,
        windows: Some(Windows { period: 6, base: 10_000.0 }),
        wide_scale_layers: Some(62),
    },
];

impl Architecture {
    pub const ALL: &[Architecture] = &[Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma3];

    /// As the file writes it.
    pub fn name(self) -> &'static str {
        self.traits().name
    }

    pub fn from_name(name: &str) -> Option<Self> {
        TRAITS.iter().find(|row| row.name == name).map(|row| row.architecture)
    }

    /// Some of its layers may read a window of positions.
    pub fn has_windows(self) -> bool {
        self.traits().windows.is_some()
    }

    pub(super) fn traits(self) -> &'static Traits {
        TRAITS.iter().find(|row| row.architecture == self).expect("one row for each architecture")
    }
}
