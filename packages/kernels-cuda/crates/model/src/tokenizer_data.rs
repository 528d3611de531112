//! What a tokenizer needs, as the model file has it.

use crate::gguf::GgufFile;
use palimpsest_kernels::Result;

/// Vocabulary, merges and special tokens. The same shape as `TokenizerData` in src/runtime.ts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerData {
    /// `tokenizer.ggml.model`: "gpt2" is byte-level BPE.
    pub model: String,
    /// `tokenizer.ggml.pre`: the pre-tokenizer, "" when absent.
    pub pre: String,
    pub tokens: Vec<String>,
    /// 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; one for each token.
    pub token_types: Vec<i32>,
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub add_bos: bool,
    pub chat_template: Option<String>,
}

impl TokenizerData {
    /// Errors: `model_file_damaged` that names the key.
    pub fn from_gguf(file: &GgufFile) -> Result<Self> {
        let _ = file;
        unimplemented!()
    }
}
