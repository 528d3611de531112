//! The tensors that a configuration asks for, with their shapes.

use super::Config;

/// A tensor that must be in the file. `shape`: the fastest dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub shape: Vec<usize>,
}

/// All tensors of a model, in the order of use.
pub fn expected_tensors(config: &Config) -> Vec<TensorSpec> {
    let _ = config;
    unimplemented!()
}
