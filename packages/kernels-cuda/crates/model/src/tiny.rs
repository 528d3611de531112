//! Small generated models: valid files of every supported architecture and tensor type, for tests.

use crate::config::Architecture;
use palimpsest_kernels::Result;
use palimpsest_kernels::quant::TensorType;

/// Types of the matrices of a generated model. Norms and biases are F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TinyTypes {
    /// One type for all matrices.
    All(TensorType),
    /// Each matrix takes the next of the types whose blocks fit its rows (K types need rows that are multiples of 256).
    Mixed,
}

/// What to generate. The same values give the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TinyModel {
    pub architecture: Architecture,
    pub seed: u64,
    pub layers: usize,
    pub embedding_length: usize,
    pub feed_forward_length: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    /// At least 259: 256 bytes, merges, three control tokens (the last ids).
    pub vocabulary_size: usize,
    pub context_length: usize,
    pub types: TinyTypes,
    /// The embedding is the head.
    pub tied: bool,
}

impl Default for TinyModel {
    /// `llama`, 2 layers of width 64, 4 heads of 16 over 2 key heads, 512 tokens, context 4,096, F32, tied.
    fn default() -> Self {
        Self {
            architecture: Architecture::Llama,
            seed: 1,
            layers: 2,
            embedding_length: 64,
            feed_forward_length: 128,
            heads: 4,
            kv_heads: 2,
            head_size: 16,
            vocabulary_size: 512,
            context_length: 4096,
            types: TinyTypes::All(TensorType::F32),
            tied: true,
        }
    }
}

impl TinyModel {
    /// The bytes of a GGUF file. Errors: `argument_invalid` that names the field.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        unimplemented!()
    }
}
