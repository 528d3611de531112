//! Random edited logs, and a small executor of them: what an engine does, with every choice made at random.
#![allow(dead_code, reason = "each test file uses its part")]

use palimpsest_kernels::{CellDtype, Pool};
use palimpsest_model::config::{Architecture, Config};
use palimpsest_model::forward::{CellOptions, Engine, Outcome};
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use palimpsest_model::tiny::TinyModel;
use palimpsest_model::weights;

/// xorshift64*
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// 0 … limit − 1
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// An edited log, cell by cell. n cells in order of birth.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub tokens: Vec<u32>,
    /// Birth positions.
    pub positions: Vec<i32>,
    pub stage_of: Vec<u32>,
    /// For each stage the position of each cell that is visible there.
    pub stages: Vec<Vec<Option<i32>>>,
}

impl Log {
    /// `parts` stretches of up to `part_max` cells, each after a drop, a reposition, both, or a shift of the tail.
    pub fn random(random: &mut Random, vocabulary: usize, context: usize, parts: usize, part_max: usize) -> Self {
        let mut log = Log::default();
        let mut current: Vec<Option<i32>> = Vec::new();
        let mut counter = 0;
        for stage in 0..parts {
            if stage > 0 {
                edit(random, &mut current, &mut counter, context);
            }
            let cells = random.between(1, part_max).min(context.saturating_sub(counter as usize));
            for _ in 0..cells {
                log.tokens.push(random.below(vocabulary) as u32);
                log.positions.push(counter);
                log.stage_of.push(stage as u32);
                current.push(Some(counter));
                counter += 1;
            }
            log.stages.push(current.clone());
        }
        let cells = log.cells();
        log.stages.iter_mut().for_each(|stage| stage.resize(cells, None));
        log
    }

    pub fn cells(&self) -> usize {
        self.tokens.len()
    }

    /// Cells that the row of `cell` reads before itself, in order of position, with their shifts.
    pub fn view(&self, cell: usize) -> Vec<(usize, i32)> {
        let stage = &self.stages[self.stage_of[cell] as usize];
        (0..cell).filter_map(|other| stage[other].map(|position| (other, position - self.positions[other]))).collect()
    }

    /// First cell of the stage of `cell`.
    pub fn stage_start(&self, cell: usize) -> usize {
        self.stage_of.partition_point(|stage| *stage < self.stage_of[cell])
    }

    pub fn stage_end(&self, cell: usize) -> usize {
        self.stage_of.partition_point(|stage| *stage <= self.stage_of[cell])
    }

    /// `stage_positions` and `seen` of the replay.
    pub fn dense(&self) -> (Vec<i32>, Vec<u8>) {
        let cells = self.cells();
        let positions = self.stages.iter().flatten().map(|position| position.unwrap_or(-1)).collect();
        let mut seen = vec![0; cells * cells];
        for row in 0..cells {
            seen[row * cells + row] = 1;
            self.view(row).into_iter().for_each(|(cell, _)| seen[row * cells + cell] = 1);
        }
        (positions, seen)
    }
}

/// One boundary: cells keep their order, positions stay rising.
fn edit(random: &mut Random, current: &mut [Option<i32>], counter: &mut i32, context: usize) {
    let visible: Vec<usize> = (0..current.len()).filter(|cell| current[*cell].is_some()).collect();
    if random.chance(75) && !visible.is_empty() {
        let first = random.below(visible.len());
        let length = random.between(1, visible.len().min(40));
        visible.iter().skip(first).take(length).for_each(|cell| current[*cell] = None);
    }
    if random.chance(60) {
        let mut next = 0;
        for position in current.iter_mut().flatten() {
            *position = next;
            next += 1;
        }
        *counter = next;
    } else if random.chance(40) && *counter as usize + 20 < context {
        // A gap opens before a cell: what follows, and the counter, move up.
        let from = random.below(current.len() + 1);
        let gap = random.between(1, 10) as i32;
        current[from..].iter_mut().flatten().for_each(|position| *position += gap);
        *counter += gap;
    }
}

pub fn tiny(architecture: Architecture, seed: u64) -> TinyModel {
    TinyModel { architecture, seed, context_length: 512, ..TinyModel::default() }
}

pub struct Opened {
    pub engine: Engine,
    pub vocabulary: usize,
    pub context: usize,
}

pub fn open(file: &GgufFile, level: palimpsest_kernels::Level, dtype: CellDtype, pages: usize, page_size: usize, threads: usize) -> Opened {
    let config = Config::from_gguf(file).unwrap();
    let kernels = palimpsest_kernels::kernels(level).unwrap();
    let pool = Pool::new(threads);
    let weights = weights::load(file, &config, usize::MAX, &*kernels, &pool, &mut |_| {}).unwrap();
    let engine = Engine::new(weights, kernels, pool, CellOptions { pages, page_size, dtype }).unwrap();
    Opened { engine, vocabulary: config.vocabulary_size, context: config.context_length }
}

/// A log under execution: which slot each born cell has.
pub struct Running<'a> {
    pub log: &'a Log,
    /// Slot of each cell that was computed.
    pub slots: Vec<usize>,
    /// Logits of each row, as they first came.
    pub logits: Vec<Vec<f32>>,
}

/// How an executor chooses.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub chunk_max: usize,
    /// Percent of places where a run is cut without need.
    pub cut: usize,
    /// Percent of steps in which an old stretch is computed again, into other slots or without storing.
    pub again: usize,
    /// Percent of steps in which each other log takes part.
    pub together: usize,
    /// Percent of free slots that are left between cells.
    pub gaps: usize,
}

/// A step under construction.
#[derive(Default)]
struct Builder {
    step: Step,
    /// For each output: log, cell.
    asked: Vec<(usize, usize)>,
}

/// Runs all logs to their ends and returns the logits of every row of every log. Asserts that rows that are asked again repeat.
pub fn execute(opened: &mut Opened, logs: &[Log], habits: Habits, random: &mut Random) -> Vec<Vec<Vec<f32>>> {
    let shape = *opened.engine.machine().cells.shape();
    let mut free: Vec<usize> = (0..shape.pages * shape.page_size).rev().collect();
    if shape.page_size > 1 && random.chance(50) {
        // Pages in random order, slots inside them in order.
        let mut pages: Vec<usize> = (0..shape.pages).collect();
        for i in (1..pages.len()).rev() {
            pages.swap(i, random.below(i + 1));
        }
        free = pages.into_iter().flat_map(|page| (page * shape.page_size..(page + 1) * shape.page_size).rev()).collect();
    }
    let mut running: Vec<Running> = logs.iter().map(|log| Running { log, slots: Vec::new(), logits: Vec::new() }).collect();
    while running.iter().any(|log| log.slots.len() < log.log.cells()) {
        let mut builder = Builder::default();
        builder.step.row_of.push(0);
        builder.step.view_of.push(0);
        builder.step.samplers.push(Sampler::GREEDY);
        let forced = random.below(running.len());
        for (number, log) in running.iter_mut().enumerate() {
            if number == forced || random.chance(habits.together) {
                builder.advance(number, log, habits, &mut free, shape.page_size, random);
            }
            if !log.logits.is_empty() && random.chance(habits.again) {
                builder.again(number, log, habits, &mut free, shape.page_size, random);
            }
        }
        let Builder { mut step, asked } = builder;
        step.logits = Some(step.outputs() * opened.vocabulary);
        let outcome = opened.engine.step(&step, &|_| Ok(())).unwrap_or_else(|error| panic!("{error}"));
        collect(&outcome, &asked, &mut running, opened.vocabulary);
    }
    running.into_iter().map(|log| log.logits).collect()
}

fn collect(outcome: &Outcome, asked: &[(usize, usize)], running: &mut [Running], vocabulary: usize) {
    for ((log, cell), row) in asked.iter().zip(outcome.logits.chunks_exact(vocabulary)) {
        let known = &mut running[*log].logits;
        if *cell == known.len() {
            known.push(row.to_vec());
        } else {
            assert!(bits(&known[*cell]) == bits(row), "log {log}, row {cell}: another answer when asked again");
        }
    }
}

pub fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

impl Builder {
    /// The next cells of a log.
    fn advance(
        &mut self,
        number: usize,
        running: &mut Running,
        habits: Habits,
        free: &mut Vec<usize>,
        page_size: usize,
        random: &mut Random,
    ) {
        let first = running.slots.len();
        if first == running.log.cells() {
            return;
        }
        let length = random.between(1, habits.chunk_max).min(running.log.stage_end(first) - first);
        for _ in 0..length {
            if random.chance(habits.gaps) {
                free.pop();
            }
            running.slots.push(free.pop().expect("enough slots"));
        }
        let slots = running.slots.clone();
        self.segment(number, running.log, &slots, first..first + length, 1, habits, page_size, random);
    }

    /// An old stretch once more: asked only, or computed into other slots as after an eviction.
    fn again(
        &mut self,
        number: usize,
        running: &mut Running,
        habits: Habits,
        free: &mut Vec<usize>,
        page_size: usize,
        random: &mut Random,
    ) {
        let first = random.below(running.logits.len());
        let end = running.log.stage_end(first).min(running.logits.len()).min(first + random.between(1, habits.chunk_max));
        let store = random.chance(50);
        if store {
            // Segments that this step has already keep naming the old slots, which stay as they are.
            for cell in first..end {
                running.slots[cell] = free.pop().expect("enough slots");
            }
        }
        let slots = running.slots.clone();
        self.segment(number, running.log, &slots, first..end, u8::from(store), habits, page_size, random);
    }

    fn segment(
        &mut self,
        number: usize,
        log: &Log,
        slots: &[usize],
        rows: std::ops::Range<usize>,
        store: u8,
        habits: Habits,
        page_size: usize,
        random: &mut Random,
    ) {
        let step = &mut self.step;
        for row in rows.clone() {
            step.token.push(log.tokens[row] as i32);
            step.position.push(log.positions[row]);
            step.cell.push(slots[row] as i32);
            step.store.push(store);
            step.out_row.push(step.token.len() as i32 - 1);
            step.out_target.push(-1);
            step.out_top.push(0);
            step.out_sampler.push(0);
            self.asked.push((number, row));
        }
        let mut last: Option<(usize, i32, i32)> = None;
        for (cell, shift) in log.view(rows.start) {
            let (slot, birth) = (slots[cell], log.positions[cell]);
            let joins = match last {
                None => false,
                Some((last_slot, last_birth, last_shift)) => {
                    let next_page = last_slot % page_size == page_size - 1 && slot % page_size == 0;
                    let next_slot = last_slot % page_size < page_size - 1 && slot == last_slot + 1;
                    (next_slot || next_page) && birth == last_birth + 1 && shift == last_shift && !random.chance(habits.cut)
                }
            };
            if joins {
                *step.run_length.last_mut().unwrap() += 1;
                if slot % page_size == 0 {
                    step.pages.push((slot / page_size) as i32);
                }
            } else {
                step.run_page.push(step.pages.len() as i32);
                step.run_first.push((slot % page_size) as i32);
                step.run_length.push(1);
                step.run_birth.push(birth);
                step.run_shift.push(shift);
                step.pages.push((slot / page_size) as i32);
            }
            last = Some((slot, birth, shift));
        }
        step.row_of.push(step.token.len() as i32);
        step.view_of.push(step.run_page.len() as i32);
    }
}
