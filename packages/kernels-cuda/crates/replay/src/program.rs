//! The log as plain arrays.

use palimpsest_kernels::{Code, Error, Result};
use palimpsest_model::config::Config;

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

impl Program<'_> {
    /// Cells, and rows.
    pub fn cells(&self) -> usize {
        self.tokens.len()
    }

    pub fn stages(&self) -> usize {
        self.stage_positions.len() / self.cells()
    }

    /// Where each cell stands at a stage.
    pub fn positions_at(&self, stage: usize) -> &[i32] {
        &self.stage_positions[stage * self.cells()..][..self.cells()]
    }

    /// Which cells a row reads.
    pub fn seen_by(&self, row: usize) -> &[u8] {
        &self.seen[row * self.cells()..][..self.cells()]
    }

    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let cells = self.cells();
        let lengths = [
            ("tokens", cells > 0),
            ("positions", self.positions.len() == cells),
            ("stage_of", self.stage_of.len() == cells),
            ("stage_positions", !self.stage_positions.is_empty() && cells > 0 && self.stage_positions.len().is_multiple_of(cells)),
            ("seen", Some(self.seen.len()) == cells.checked_mul(cells)),
        ];
        if let Some((name, _)) = lengths.into_iter().find(|(_, right)| !right) {
            return Err(invalid(name, format!("{name} has the wrong length for {cells} cells")));
        }
        (0..cells).try_for_each(|row| self.check_row(row, config))
    }

    fn check_row(&self, row: usize, config: &Config) -> Result<()> {
        let (token, position, stage) = (self.tokens[row] as usize, self.positions[row], self.stage_of[row] as usize);
        if token >= config.vocabulary_size {
            return Err(invalid("tokens", format!("token {token} of row {row} is beyond the vocabulary of {}", config.vocabulary_size)));
        }
        if position < 0 {
            return Err(invalid("positions", format!("row {row} has position {position}")));
        }
        if stage >= self.stages() {
            return Err(invalid("stage_of", format!("row {row} is of stage {stage}, there are {}", self.stages())));
        }
        let stands = self.positions_at(stage);
        if stands[row] != position {
            let message = format!("row {row} asks at {position} and stands at {} in its own stage {stage}", stands[row]);
            return Err(invalid("stage_positions", message));
        }
        let seen = self.seen_by(row);
        if seen[row] != 1 || seen[row + 1..].iter().any(|&sees| sees != 0) || seen.iter().any(|&sees| sees > 1) {
            return Err(invalid("seen", format!("row {row} must be 0s and 1s, see itself and no later cell")));
        }
        match (0..row).find(|&cell| seen[cell] == 1 && stands[cell] < 0) {
            Some(cell) => Err(invalid("seen", format!("row {row} sees cell {cell}, which stands nowhere at stage {stage}"))),
            None => Ok(()),
        }
    }
}

fn invalid(param: &str, message: String) -> Error {
    Error::at(Code::ArgumentInvalid, param, message)
}
