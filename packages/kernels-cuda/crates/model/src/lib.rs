//! Models: files, architectures, the forward step.

pub mod attention;
pub mod config;
pub mod forward;
pub mod gguf;
pub mod library;
pub mod sampler;
mod shared;
pub mod step;
pub mod tiny;
pub mod tokenizer_data;
pub mod weights;
