//! What a model is, read from the metadata and checked against the tensors.
//!
//! Architectures differ by data: rows of one table say which tensors a layer has, how heads are rotated, normed and masked. The forward
//! pass and the replay read the properties and never ask for the architecture's name.

mod architecture;
mod keys;
mod read;
mod rotary;
mod tensors;

pub use architecture::Architecture;
pub use rotary::{Pairing, Rotary, Scaling};
pub use tensors::{TensorSpec, expected_tensors};

/// Gate of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x)
    Silu,
    /// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
    GeluTanh,
}

/// What differs between layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Index into `Config::rotaries`.
    pub rotary: usize,
    /// A query at position p reads cells at current positions > p − window. `None` = all.
    pub window: Option<usize>,
}

/// Everything that the forward pass needs to know besides the weights. Sizes are in elements, positions in tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub architecture: Architecture,
    pub name: String,
    /// Positions 0 … context_length − 1.
    pub context_length: usize,
    pub vocabulary_size: usize,
    pub embedding_length: usize,
    pub feed_forward_length: usize,
    /// Query heads; a multiple of `kv_heads`. Query head h reads key head h / (heads / kv_heads).
    pub heads: usize,
    pub kv_heads: usize,
    /// Of queries, keys and values.
    pub head_size: usize,
    /// Added to the mean of squares in every norm.
    pub norm_epsilon: f32,
    /// The rotations that layers use.
    pub rotaries: Vec<Rotary>,
    pub layers: Vec<Layer>,
    /// The head is `token_embd.weight`.
    pub tied_embedding: bool,
    /// Embeddings are multiplied by it.
    pub embedding_scale: f32,
    /// Scores are multiplied by it before softmax.
    pub attention_scale: f32,
    /// `attn_{q,k,v}.bias` in every layer.
    pub attention_bias: bool,
    /// `attn_output.bias` in every layer.
    pub attention_output_bias: bool,
    /// RMS norm of each query and key head before the rotation: `attn_{q,k}_norm.weight`.
    pub query_key_norm: bool,
    /// RMS norm of what attention and feed-forward give, before it is added: `post_attention_norm.weight`, `post_ffw_norm.weight`.
    pub post_norms: bool,
    pub activation: Activation,
    /// Scores become cap · tanh(score / cap) (after `attention_scale`, before the mask).
    pub attention_soft_cap: Option<f32>,
    /// Logits become cap · tanh(logit / cap).
    pub logit_soft_cap: Option<f32>,
    /// The file's own name for its mix of types, or the type of most numbers: "Q4_1", "Q4_K_M".
    pub quantization: String,
    /// Numbers in all tensors.
    pub parameters: usize,
}

impl Config {
    /// A configuration of which only the shapes matter: what `set` leaves alone is 1, off or empty.
    pub(crate) fn shaped(architecture: Architecture, layers: usize, set: impl FnOnce(&mut Config)) -> Self {
        let traits = architecture.traits();
        let mut config = Config {
            architecture,
            name: String::new(),
            context_length: 1,
            vocabulary_size: 1,
            embedding_length: 1,
            feed_forward_length: 1,
            heads: 1,
            kv_heads: 1,
            head_size: 1,
            norm_epsilon: 1e-5,
            rotaries: Vec::new(),
            layers: vec![Layer { rotary: 0, window: None }; layers],
            tied_embedding: true,
            embedding_scale: 1.0,
            attention_scale: 1.0,
            attention_bias: traits.attention_bias == architecture::Bias::Required,
            attention_output_bias: false,
            query_key_norm: traits.query_key_norm,
            post_norms: traits.post_norms,
            activation: traits.activation,
            attention_soft_cap: None,
            logit_soft_cap: None,
            quantization: String::new(),
            parameters: 0,
        };
        set(&mut config);
        config
    }

    /// Query heads that share a key head.
    pub fn group_size(&self) -> usize {
        self.heads / self.kv_heads
    }
}
