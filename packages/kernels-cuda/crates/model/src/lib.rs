//! Models: files, architectures, the forward step.

pub mod config;
pub mod forward;
pub mod gguf;
pub mod sampler;
pub mod step;
pub mod tiny;
pub mod tokenizer_data;
pub mod weights;
