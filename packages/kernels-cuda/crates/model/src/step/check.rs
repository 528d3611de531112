//! The whole check of a step, before a byte of a cell is written.

use palimpsest_kernels::{Code, Error, Result};

use super::Step;

/// What a step is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Positions 0 … context − 1.
    pub context: usize,
    /// V: rows of the output matrix.
    pub vocabulary: usize,
    /// Ids below this may be sampled: the tokenizer's vocabulary, where the matrix is wider.
    pub sampled: usize,
    /// G.
    pub groups: usize,
    /// Some layers read a window of positions: then positions must rise along each view and its rows.
    pub windows: bool,
    pub pages: usize,
    pub page_size: usize,
    /// Outputs of the previous step, which `token = −1 − j` may name.
    pub previous_outputs: usize,
}

/// Rows in a step at most.
pub const ROWS_MAX: usize = 65_536;
/// Alternatives of an output at most.
pub const TOP_MAX: u8 = 20;

impl Step {
    /// `slots`: room that the check uses.
    ///
    /// Errors: `step_invalid`; `param` names the field, with its index where one entry is at fault.
    pub fn check(&self, facts: &Facts, slots: &mut Vec<(i32, usize)>) -> Result<()> {
        self.check_rows(facts)?;
        self.check_segments(facts)?;
        self.check_runs(facts)?;
        if facts.windows {
            self.check_rising(facts)?;
        }
        self.check_outputs(facts)?;
        self.check_samplers()?;
        self.check_biases(facts)?;
        self.check_masks(facts)?;
        self.check_slots(facts, slots)
    }

    fn check_rows(&self, facts: &Facts) -> Result<()> {
        let rows = self.rows();
        if rows > ROWS_MAX {
            return fail("token", format!("a step has at most {ROWS_MAX} rows, {rows} came"));
        }
        length("position", self.position.len(), rows)?;
        length("cell", self.cell.len(), facts.groups * rows)?;
        length("store", self.store.len(), rows)?;
        let lowest = -(facts.previous_outputs as i64);
        within("token", &self.token, lowest, facts.vocabulary as i64 - 1)?;
        within("position", &self.position, 0, facts.context as i64 - 1)?;
        within("cell", &self.cell, 0, (facts.pages * facts.page_size) as i64 - 1)?;
        bytes_within("store", &self.store, 1)
    }

    fn check_segments(&self, facts: &Facts) -> Result<()> {
        offsets("rowOf", &self.row_of, self.rows(), "rows")?;
        length("viewOf", self.view_of.len(), facts.groups * self.segments() + 1)?;
        offsets("viewOf", &self.view_of, self.runs(), "runs")
    }

    fn check_runs(&self, facts: &Facts) -> Result<()> {
        let runs = self.runs();
        for (name, field) in
            [("runFirst", &self.run_first), ("runLength", &self.run_length), ("runBirth", &self.run_birth), ("runShift", &self.run_shift)]
        {
            length(name, field.len(), runs)?;
        }
        within("pages", &self.pages, 0, facts.pages as i64 - 1)?;
        within("runPage", &self.run_page, 0, self.pages.len() as i64 - 1)?;
        within("runFirst", &self.run_first, 0, facts.page_size as i64 - 1)?;
        within("runLength", &self.run_length, 1, facts.context as i64)?;
        within("runBirth", &self.run_birth, 0, facts.context as i64 - 1)?;
        for run in 0..runs {
            let (page, first, cells) = (self.run_page[run] as usize, self.run_first[run] as usize, self.run_length[run] as usize);
            let pages = (first + cells).div_ceil(facts.page_size);
            if page + pages > self.pages.len() {
                return fail(
                    format!("runLength[{run}]"),
                    format!(
                        "{cells} cells from slot {first} need {pages} pages from entry {page} on, `pages` has {} entries",
                        self.pages.len()
                    ),
                );
            }
            let birth = i64::from(self.run_birth[run]);
            let last = birth + cells as i64 - 1;
            if last >= facts.context as i64 {
                return fail(
                    format!("runBirth[{run}]"),
                    format!("the last cell was born at {last}, positions end at {}", facts.context - 1),
                );
            }
            let shift = i64::from(self.run_shift[run]);
            if birth + shift < 0 || last + shift >= facts.context as i64 {
                return fail(
                    format!("runShift[{run}]"),
                    format!("cells would stand at {} … {}, positions are 0 … {}", birth + shift, last + shift, facts.context - 1),
                );
            }
        }
        Ok(())
    }

    /// Current positions rise along a view, and on along the segment's rows.
    fn check_rising(&self, facts: &Facts) -> Result<()> {
        for (group, segment) in (0..facts.groups).flat_map(|group| (0..self.segments()).map(move |segment| (group, segment))) {
            let mut last = -1;
            for run in self.view(group, segment) {
                let first = self.run_birth[run] + self.run_shift[run];
                if first <= last {
                    let message = format!("the run stands at {first}, not behind the cell at {last}: windows need rising positions");
                    return fail(format!("runShift[{run}]"), message);
                }
                last = first + self.run_length[run] - 1;
            }
            for row in self.segment_rows(segment) {
                if self.position[row] <= last {
                    let message =
                        format!("the row stands at {}, not behind the cell at {last}: windows need rising positions", self.position[row]);
                    return fail(format!("position[{row}]"), message);
                }
                last = self.position[row];
            }
        }
        Ok(())
    }

    fn check_outputs(&self, facts: &Facts) -> Result<()> {
        let outputs = self.outputs();
        length("outTarget", self.out_target.len(), outputs)?;
        length("outTop", self.out_top.len(), outputs)?;
        length("outSampler", self.out_sampler.len(), outputs)?;
        within("outRow", &self.out_row, 0, self.rows() as i64 - 1)?;
        within("outTarget", &self.out_target, -1, facts.vocabulary as i64 - 1)?;
        bytes_within("outTop", &self.out_top, TOP_MAX.min(u8::try_from(facts.sampled).unwrap_or(u8::MAX)))?;
        for (output, sampler) in self.out_sampler.iter().enumerate() {
            if self.out_target[output] < 0 && !(0..self.samplers.len() as i64).contains(&i64::from(*sampler)) {
                return fail(
                    format!("outSampler[{output}]"),
                    format!("{} samplers came, number {sampler} is asked for", self.samplers.len()),
                );
            }
        }
        match self.logits {
            Some(numbers) => length("logits", numbers, outputs * facts.vocabulary),
            None => Ok(()),
        }
    }

    fn check_samplers(&self) -> Result<()> {
        for (number, sampler) in self.samplers.iter().enumerate() {
            let at = |field: &str| format!("samplers[{number}].{field}");
            if !(sampler.temperature >= 0.0 && sampler.temperature.is_finite()) {
                return fail(at("temperature"), format!("a finite number from 0 on is expected, {} came", sampler.temperature));
            }
            for (field, share) in [("topP", sampler.top_p), ("minP", sampler.min_p)] {
                if !(0.0..=1.0).contains(&share) {
                    return fail(at(field), format!("a number from 0 to 1 is expected, {share} came"));
                }
            }
        }
        Ok(())
    }

    fn check_biases(&self, facts: &Facts) -> Result<()> {
        length("biasValue", self.bias_value.len(), self.bias_id.len())?;
        if self.bias_of.is_empty() {
            return length("biasId", self.bias_id.len(), 0);
        }
        length("biasOf", self.bias_of.len(), self.outputs() + 1)?;
        offsets("biasOf", &self.bias_of, self.bias_id.len(), "biases")?;
        within("biasId", &self.bias_id, 0, facts.vocabulary as i64 - 1)?;
        match self.bias_value.iter().position(|value| value.is_nan() || *value == f32::INFINITY) {
            Some(at) => fail(format!("biasValue[{at}]"), format!("a number below infinity is expected, {} came", self.bias_value[at])),
            None => Ok(()),
        }
    }

    fn check_masks(&self, facts: &Facts) -> Result<()> {
        let words = facts.vocabulary.div_ceil(32);
        if !self.mask.len().is_multiple_of(words) {
            return fail("mask", format!("masks have {words} words each, {} words came", self.mask.len()));
        }
        if self.mask_of.is_empty() {
            return Ok(());
        }
        length("maskOf", self.mask_of.len(), self.outputs())?;
        within("maskOf", &self.mask_of, -1, (self.mask.len() / words) as i64 - 1)?;
        for (output, mask) in self.mask_of.iter().enumerate() {
            if *mask < 0 || self.out_target[output] >= 0 {
                continue;
            }
            let words = &self.mask[*mask as usize * words..][..words];
            let allowed = (0..facts.sampled).any(|id| words[id / 32] >> (id % 32) & 1 == 1);
            if !allowed {
                return fail(format!("maskOf[{output}]"), format!("mask {mask} allows no id of the vocabulary"));
            }
        }
        Ok(())
    }

    /// No slot of a group is stored twice.
    fn check_slots(&self, facts: &Facts, slots: &mut Vec<(i32, usize)>) -> Result<()> {
        let rows = self.rows();
        for group in 0..facts.groups {
            slots.clear();
            slots.extend((0..rows).filter(|row| self.store[*row] == 1).map(|row| (self.cell[group * rows + row], group * rows + row)));
            slots.sort_unstable();
            if let Some(pair) = slots.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let ((slot, first), (_, second)) = (pair[0], pair[1]);
                return fail(format!("cell[{second}]"), format!("slot {slot} is stored a second time, cell[{first}] stores it already"));
            }
        }
        Ok(())
    }
}

fn fail<T>(param: impl Into<String>, message: impl Into<String>) -> Result<T> {
    Err(Error::at(Code::StepInvalid, param, message))
}

fn length(name: &str, came: usize, expected: usize) -> Result<()> {
    if came == expected { Ok(()) } else { fail(name, format!("{expected} entries are expected, {came} came")) }
}

fn within(name: &str, field: &[i32], lowest: i64, highest: i64) -> Result<()> {
    match field.iter().position(|entry| !(lowest..=highest).contains(&i64::from(*entry))) {
        None => Ok(()),
        Some(at) if highest < lowest => fail(format!("{name}[{at}]"), format!("no value is possible here, {} came", field[at])),
        Some(at) => fail(format!("{name}[{at}]"), format!("{lowest} … {highest} is expected, {} came", field[at])),
    }
}

fn bytes_within(name: &str, field: &[u8], highest: u8) -> Result<()> {
    match field.iter().position(|entry| *entry > highest) {
        None => Ok(()),
        Some(at) => fail(format!("{name}[{at}]"), format!("0 … {highest} is expected, {} came", field[at])),
    }
}

/// 0, never falling, ending at `total`.
fn offsets(name: &str, field: &[i32], total: usize, of: &str) -> Result<()> {
    let (Some(first), Some(last)) = (field.first(), field.last()) else {
        return fail(name, "at least one entry, 0, is expected, none came");
    };
    if *first != 0 {
        return fail(format!("{name}[0]"), format!("0 is expected, {first} came"));
    }
    if let Some(at) = field.windows(2).position(|pair| pair[1] < pair[0]) {
        return fail(format!("{name}[{}]", at + 1), format!("offsets may not fall, {} came after {}", field[at + 1], field[at]));
    }
    if *last as usize != total {
        return fail(format!("{name}[{}]", field.len() - 1), format!("the last offset is the number of {of}, {total}; {last} came"));
    }
    Ok(())
}
