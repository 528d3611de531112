//! The architectures that are read.

/// `general.architecture` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Llama,
    Qwen2,
}
