//! The naive replay: an independent, slow and obvious computation of the logits of an edited log.
//!
//! Keys are kept unrotated and rotated to their current positions at each stage, masks are dense, numbers are stored as f32 and summed
//! in f64 where that costs little. It shares nothing with the forward pass but the reading of model files and the decoding of their
//! blocks, so that both agree only when both are right.

mod attention;
mod forward;
mod multiply;
mod program;
mod rotation;

use palimpsest_kernels::{Code, Error, Result};
use palimpsest_model::config::Config;
use palimpsest_model::gguf::GgufFile;

pub use program::Program;

/// Logits of the wanted rows of a program, `wanted.len() · vocabulary_size`, row after row.
///
/// Errors: `argument_invalid` that names the array, when lengths, ids, positions or masks do not fit each other.
pub fn replay(file: &GgufFile, config: &Config, program: &Program, wanted: &[usize], threads: usize) -> Result<Vec<f32>> {
    program.check(config)?;
    if let Some(row) = wanted.iter().find(|row| **row >= program.tokens.len()) {
        let message = format!("row {row} is wanted, the program has {} rows", program.tokens.len());
        return Err(Error::at(Code::ArgumentInvalid, "wanted", message));
    }
    if threads == 0 {
        return Err(Error::at(Code::ArgumentInvalid, "threads", "threads is 0, expected at least 1"));
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    forward::logits(file, config, program, wanted, threads)
}
