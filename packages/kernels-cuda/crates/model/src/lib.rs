//! Models: files, architectures, the forward step.

pub mod config;
pub mod gguf;
pub mod tiny;
pub mod tokenizer_data;
