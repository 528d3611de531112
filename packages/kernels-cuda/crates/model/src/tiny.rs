//! Small generated models: valid files of every supported architecture and tensor type, for tests.
//!
//! Weights are random, scaled so that a test can fail: scores spread over several units, layers add as much as they are given, and
//! logits rank their tokens clearly.

mod metadata;
mod vocabulary;
mod weights;

use crate::config::{Architecture, Config, Scaling};
use crate::gguf::Writer;
use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error, Result};

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
    /// Elements of a head that turn. `None` = all.
    pub rotary_dimensions: Option<usize>,
    pub rotary_base: f64,
    pub rotary_scaling: Scaling,
    /// Writes `rope_freqs.weight` with divisors between 1 and 8, as llama3 has.
    pub frequency_factors: bool,
    /// Window of the layers that have one, in positions. Only architectures with windows read it.
    pub window: usize,
    /// Every n-th layer reads all positions, where there are windows.
    pub window_period: usize,
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
            rotary_dimensions: None,
            rotary_base: 10_000.0,
            rotary_scaling: Scaling::None,
            frequency_factors: false,
            window: 32,
            window_period: 2,
        }
    }
}

impl TinyModel {
    /// The bytes of a GGUF file. Errors: `argument_invalid` that names the field.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.check()?;
        let config = self.config();
        let mut writer = Writer::new();
        metadata::write(&mut writer, self);
        vocabulary::write(&mut writer, metadata::pre_tokenizer(self.architecture), self.vocabulary_size);
        weights::write(&mut writer, self, &config)?;
        Ok(writer.finish())
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("layers", self.layers, 1, 64),
            ("embedding_length", self.embedding_length, 1, 4096),
            ("feed_forward_length", self.feed_forward_length, 1, 16_384),
            ("heads", self.heads, 1, 128),
            ("kv_heads", self.kv_heads, 1, self.heads),
            ("head_size", self.head_size, 2, 512),
            ("vocabulary_size", self.vocabulary_size, vocabulary::SIZE_MIN, vocabulary::SIZE_MAX),
            ("context_length", self.context_length, 1, 1 << 20),
            ("rotary_dimensions", self.rotary_dimensions.unwrap_or(2), 2, self.head_size),
            ("window", self.window, 1, 1 << 20),
            ("window_period", self.window_period, 1, 64),
        ];
        if let Some((name, size, low, high)) = sizes.into_iter().find(|(_, size, low, high)| size < low || size > high) {
            return Err(invalid(name, format!("{name} is {size}, expected {low} to {high}")));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(invalid("kv_heads", format!("kv_heads is {}, expected a divisor of {} heads", self.kv_heads, self.heads)));
        }
        if !self.rotary_dimensions.unwrap_or(self.head_size).is_multiple_of(2) {
            return Err(invalid("rotary_dimensions", "the elements of a head that turn must be even".into()));
        }
        let TinyTypes::All(tensor_type) = self.types else { return Ok(()) };
        let rows = [self.embedding_length, self.feed_forward_length, self.heads * self.head_size];
        match rows.into_iter().find(|row| !row.is_multiple_of(tensor_type.block_size())) {
            None => Ok(()),
            Some(row) => Err(invalid("types", format!("rows of {row} are no whole number of {} blocks", tensor_type.name()))),
        }
    }

    /// What the file will say, as far as shapes depend on it.
    fn config(&self) -> Config {
        Config::shaped(self.architecture, self.layers, |config| {
            config.vocabulary_size = self.vocabulary_size;
            config.embedding_length = self.embedding_length;
            config.feed_forward_length = self.feed_forward_length;
            config.heads = self.heads;
            config.kv_heads = self.kv_heads;
            config.head_size = self.head_size;
            config.tied_embedding = self.tied;
        })
    }
}

fn invalid(param: &str, message: String) -> Error {
    Error::at(Code::ArgumentInvalid, param, message)
}
