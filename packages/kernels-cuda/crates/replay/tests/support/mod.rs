//! Logs with drops, written out as programs cell by cell.

use palimpsest_replay::Program;

/// Before token `boundary` the cells `first` … `end − 1` are dropped; with `moves` the rest then moves together.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    pub boundary: usize,
    pub first: usize,
    pub end: usize,
    pub moves: bool,
}

pub struct Log {
    pub tokens: Vec<u32>,
    pub positions: Vec<i32>,
    pub stage_of: Vec<u32>,
    pub stage_positions: Vec<i32>,
    pub seen: Vec<u8>,
}

impl Log {
    /// `edits` in the order of their boundaries; each begins a stage.
    pub fn new(tokens: &[u32], edits: &[Edit]) -> Self {
        let cells = tokens.len();
        let mut log = Log { tokens: tokens.to_vec(), positions: vec![], stage_of: vec![], stage_positions: vec![], seen: vec![] };
        let mut stands: Vec<i32> = vec![-1; cells];
        let mut counter = 0;
        for stage in 0..=edits.len() {
            let begin = if stage == 0 { 0 } else { edits[stage - 1].boundary };
            let end = edits.get(stage).map_or(cells, |edit| edit.boundary);
            if stage > 0 {
                let edit = edits[stage - 1];
                stands[edit.first..edit.end].fill(-1);
                if edit.moves {
                    counter = 0;
                    for place in stands.iter_mut().filter(|place| **place >= 0) {
                        *place = counter;
                        counter += 1;
                    }
                }
            }
            for row in begin..end {
                stands[row] = counter;
                counter += 1;
                log.positions.push(stands[row]);
                log.stage_of.push(stage as u32);
                log.seen.extend(stands.iter().map(|place| u8::from(*place >= 0)));
            }
            log.stage_positions.extend(&stands);
        }
        log
    }

    pub fn program(&self) -> Program<'_> {
        let Log { tokens, positions, stage_of, stage_positions, seen } = self;
        Program { tokens, positions, stage_of, stage_positions, seen }
    }
}
