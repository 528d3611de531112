//! The naive replay: an independent, slow and obvious computation of the logits of an edited log.
//!
//! Keys are kept unrotated and rotated to their current positions at each stage, masks are dense, numbers are stored as f32 and summed
//! in f64 where that costs little. It shares nothing with the forward pass but the reading of model files, so that both agree only
//! when both are right.

use palimpsest_kernels::Result;
use palimpsest_model::config::Config;
use palimpsest_model::gguf::GgufFile;

/// A log as plain arrays. n = `tokens.len()` cells in order of birth; every cell is a row, born and asked once.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// n: token ids.
    pub tokens: &'a [u32],
    /// n: birth positions, at which rows ask.
    pub positions: &'a [i32],
    /// n: the stage in which a cell was born, 0 … stages − 1.
    pub stage_of: &'a [u32],
    /// stages · n, stage-major: where cell j stands at stage s, −1 = nowhere.
    pub stage_positions: &'a [i32],
    /// n · n, row-major: 1 = row i reads cell j. Row i reads itself, and no later cell.
    pub seen: &'a [u8],
}

/// Logits of the wanted rows of a program, `wanted.len() · vocabulary_size`, row after row.
///
/// Errors: `argument_invalid` that names the array, when lengths, ids, positions or masks do not fit each other.
pub fn replay(file: &GgufFile, config: &Config, program: &Program, wanted: &[usize], threads: usize) -> Result<Vec<f32>> {
    let _ = (file, config, program, wanted, threads);
    unimplemented!()
}
