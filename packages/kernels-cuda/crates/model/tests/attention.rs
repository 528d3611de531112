//! Attention of whole steps, without a model, against a computation in f64 from what the cells hold.

mod support;

use palimpsest_kernels::{CellDtype, CellShape, Cells, Kernels, Level, Pool, Rotary, levels, rotary};
use palimpsest_model::attention::{Angles, Attention, Heads, Plan, Room, Tiles};
use palimpsest_model::step::Step;
use support::{Random, bits};

const PAGE_SIZE: usize = 16;
const CONTEXT: usize = 4096;

/// A layer's attention and what it is asked.
struct Case {
    heads: Heads,
    sinks: Vec<f32>,
    window: Option<usize>,
    rotary: Rotary,
    cells: Cells,
    step: Step,
    /// Raw queries, `[row][head][key size]`.
    queries: Vec<f32>,
}

struct Shape {
    heads: usize,
    kv_heads: usize,
    size: usize,
    value_size: usize,
    cap: f32,
    sinks: bool,
    window: Option<usize>,
    dtype: CellDtype,
    /// Rows and cells of the view of each segment.
    segments: Vec<(usize, usize)>,
    run_max: usize,
    shifted: bool,
}

fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

impl Case {
    fn random(random: &mut Random, shape: &Shape) -> Self {
        let Shape { heads, kv_heads, size, value_size, cap, window, dtype, .. } = *shape;
        let scale = 4.0 / (size as f32).sqrt();
        let heads = Heads { heads, kv_heads, key_size: size, value_size, scale, cap };
        let frequencies = rotary::frequencies(size / 2 * 2, 10_000.0, None, rotary::Stretch::None);
        let rotary = Rotary::new(frequencies, rotary::Pairs::Halves, 1.0, CONTEXT);
        let mut step = Step { row_of: vec![0], view_of: vec![0], ..Step::default() };
        let mut slot = 0;
        for (rows, cached) in &shape.segments {
            slot = segment(random, &mut step, *rows, *cached, shape, slot);
        }
        let pages = slot.div_ceil(PAGE_SIZE) + 1;
        let cells = Cells::new(CellShape { layers: 1, kv_heads, key_size: size, value_size, pages, page_size: PAGE_SIZE, dtype }).unwrap();
        for slot in 0..slot {
            for head in 0..kv_heads {
                let (key, value) = (numbers(random, size), numbers(random, value_size));
                // SAFETY: one thread.
                unsafe { cells.layer(0).store(slot, head, &key, &value) };
            }
        }
        let sinks = if shape.sinks { numbers(random, heads.heads).iter().map(|sink| 6.0 * sink).collect() } else { Vec::new() };
        let queries = numbers(random, step.rows() * heads.key_at());
        Self { heads, sinks, window, rotary, cells, step, queries }
    }

    /// attended[row left][head][value size]
    fn run(&self, kernels: &dyn Kernels, threads: usize, rows: &[usize], room: &mut Room) -> Vec<f32> {
        let pool = Pool::new(threads);
        let (mut plan, mut tiles) = (Plan::default(), Tiles::default());
        plan.build(&self.step, 0, PAGE_SIZE, &[self.window]);
        tiles.build(&plan, rows, &plan.starts[0], &self.heads, &pool);
        let mut angles = Angles::default();
        angles.build(&plan, &self.step.position, &self.rotary, &pool);
        room.shape(&self.heads, self.cells.shape(), threads, plan.shifts_of_block_max());
        let positions: Vec<i32> = rows.iter().map(|row| self.step.position[*row]).collect();
        let mut attended = vec![f32::NAN; rows.len() * self.heads.attended()];
        let attention = Attention {
            kernels,
            pool: &pool,
            cells: self.cells.layer(0),
            rotary: &self.rotary,
            angles: (threads != 1).then_some(&angles),
            heads: &self.heads,
            sinks: &self.sinks,
            plan: &plan,
            tiles: &tiles,
            rows,
            positions: &positions,
            starts: &plan.starts[0],
            queries: &self.queries,
            stride: self.heads.key_at(),
        };
        attention.run(&mut attended, room);
        attended
    }

    fn all_rows(&self) -> Vec<usize> {
        (0..self.step.rows()).collect()
    }

    /// The cells that a row reads in rank order: slot and shift.
    fn read_by(&self, segment: usize, row: usize) -> Vec<(usize, i32)> {
        let step = &self.step;
        let mut cells = Vec::new();
        for run in step.view(0, segment) {
            for i in 0..step.run_length[run] as usize {
                let offset = step.run_first[run] as usize + i;
                let page = step.pages[step.run_page[run] as usize + offset / PAGE_SIZE] as usize;
                cells.push((page * PAGE_SIZE + offset % PAGE_SIZE, step.run_birth[run] + i as i32, step.run_shift[run]));
            }
        }
        cells.extend((step.segment_rows(segment).start..=row).map(|row| (step.cell[row] as usize, step.position[row], 0)));
        let reach = self.window.map_or(i32::MAX, |window| window as i32);
        let inside = cells.iter().filter(|(_, birth, shift)| step.position[row] - (birth + shift) < reach);
        inside.map(|(slot, _, shift)| (*slot, *shift)).collect()
    }

    /// One row and head in f64.
    fn exact(&self, segment: usize, row: usize, head: usize) -> Vec<f64> {
        let (size, value_size) = (self.heads.key_size, self.heads.value_size);
        let raw = &self.queries[(row * self.heads.heads + head) * size..][..size];
        let query: Vec<f64> = turn(&raw.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), self.step.position[row]);
        let (mut scores, mut values) = (Vec::new(), Vec::new());
        for (slot, shift) in self.read_by(segment, row) {
            let (mut key, mut value) = (vec![0.0; size], vec![0.0; value_size]);
            // SAFETY: one thread.
            unsafe { self.cells.layer(0).read(slot, head / self.heads.of_kv(), &mut key, &mut value) };
            let key = turn(&key.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), shift);
            let score: f64 = query.iter().zip(&key).map(|(q, k)| q * k).sum::<f64>() * f64::from(self.heads.scale);
            let cap = f64::from(self.heads.cap);
            scores.push(if cap > 0.0 { cap * (score / cap).tanh() } else { score });
            values.push(value);
        }
        let sink = self.sinks.get(head).map(|sink| f64::from(*sink));
        let highest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
        let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - highest).exp());
        (0..value_size)
            .map(|d| weights.iter().zip(&values).map(|(weight, value)| weight * f64::from(value[d])).sum::<f64>() / total)
            .collect()
    }
}

/// Rotation by a position, in halves.
fn turn(head: &[f64], position: i32) -> Vec<f64> {
    let half = head.len() / 2;
    let mut out = head.to_vec();
    for pair in 0..half {
        let angle = f64::from(position) * 10_000f64.powf(-(2.0 * pair as f64) / (2 * half) as f64);
        let (sine, cosine) = angle.sin_cos();
        out[pair] = head[pair] * cosine - head[pair + half] * sine;
        out[pair + half] = head[pair] * sine + head[pair + half] * cosine;
    }
    out
}

/// Appends a segment whose cells lie from `slot` on; returns the next free slot.
fn segment(random: &mut Random, step: &mut Step, rows: usize, cached: usize, shape: &Shape, mut slot: usize) -> usize {
    let (mut position, mut left) = (0, cached);
    while left > 0 {
        let length = random.between(1, shape.run_max).min(left);
        slot += random.below(4);
        let birth = if shape.shifted { random.below(CONTEXT - length) as i32 } else { position };
        step.run_page.push(step.pages.len() as i32);
        step.run_first.push((slot % PAGE_SIZE) as i32);
        step.run_length.push(length as i32);
        step.run_birth.push(birth);
        step.run_shift.push(position - birth);
        step.pages.extend((slot / PAGE_SIZE..=(slot + length - 1) / PAGE_SIZE).map(|page| page as i32));
        slot += length;
        position += length as i32;
        left -= length;
    }
    for _ in 0..rows {
        step.token.push(0);
        step.position.push(position);
        step.cell.push(slot as i32);
        step.store.push(1);
        position += 1;
        slot += 1;
    }
    step.row_of.push(step.token.len() as i32);
    step.view_of.push(step.run_page.len() as i32);
    slot
}

const PLAIN: Shape = Shape {
    heads: 6,
    kv_heads: 2,
    size: 64,
    value_size: 64,
    cap: 0.0,
    sinks: false,
    window: None,
    dtype: CellDtype::F32,
    segments: Vec::new(),
    run_max: 90,
    shifted: true,
};

fn shapes() -> Vec<Shape> {
    let segments = || vec![(1, 700), (9, 0), (3, 1100), (1, 5)];
    vec![
        Shape { segments: segments(), ..PLAIN },
        Shape { segments: segments(), sinks: true, ..PLAIN },
        Shape { segments: segments(), cap: 5.0, size: 80, value_size: 80, ..PLAIN },
        Shape { segments: segments(), cap: 2.0, sinks: true, size: 96, value_size: 96, heads: 4, kv_heads: 4, ..PLAIN },
        Shape { segments: segments(), sinks: true, window: Some(100), size: 128, value_size: 64, ..PLAIN },
        Shape { segments: vec![(2, 600)], sinks: true, size: 192, value_size: 128, heads: 20, kv_heads: 1, ..PLAIN },
        Shape { segments: vec![(4, 600)], cap: 30.0, window: Some(512), size: 256, value_size: 256, heads: 4, kv_heads: 1, ..PLAIN },
        Shape { segments: segments(), size: 10, value_size: 14, run_max: 3, sinks: true, ..PLAIN },
    ]
}

#[test]
fn every_level_agrees_with_f64_with_windows_soft_caps_and_sinks() {
    for (number, shape) in shapes().into_iter().enumerate() {
        for dtype in CellDtype::ALL.iter().copied() {
            let mut random = Random::new(number as u64 + 40);
            let case = Case::random(&mut random, &Shape { dtype, segments: shape.segments.clone(), ..shape });
            let mut exact = Vec::new();
            for segment in 0..case.step.segments() {
                for row in case.step.segment_rows(segment) {
                    (0..case.heads.heads).for_each(|head| exact.extend(case.exact(segment, row, head)));
                }
            }
            for kernels in levels() {
                let attended = case.run(&*kernels, 1, &case.all_rows(), &mut Room::default());
                let worst = attended.iter().zip(&exact).map(|(ours, exact)| (f64::from(*ours) - exact).abs()).fold(0.0, f64::max);
                println!("{} {dtype:?} shape {number}: off by {worst:.1e}", kernels.level().name());
                // Cells of codes are read with queries and weights of 15 bits.
                let bound = if dtype == CellDtype::Q8_0 && kernels.level() != Level::Reference { 3e-4 } else { 5e-5 };
                assert!(worst < bound, "{} {dtype:?} shape {number}: off by {worst:e}", kernels.level().name());
                assert!(attended.iter().all(|number| number.is_finite()));
            }
        }
    }
}

#[test]
fn a_row_is_the_same_bits_on_any_number_of_threads_alone_or_among_others() {
    for (number, shape) in shapes().into_iter().enumerate() {
        for dtype in CellDtype::ALL.iter().copied() {
            let mut random = Random::new(number as u64 + 90);
            let case = Case::random(&mut random, &Shape { dtype, segments: shape.segments.clone(), ..shape });
            for kernels in levels() {
                let mut room = Room::default();
                let all = case.run(&*kernels, 1, &case.all_rows(), &mut room);
                let width = case.heads.attended();
                assert_eq!(
                    bits(&all),
                    bits(&case.run(&*kernels, 3, &case.all_rows(), &mut room)),
                    "{} shape {number}",
                    kernels.level().name()
                );
                let row = random.below(case.step.rows());
                let alone = case.run(&*kernels, 2, &[row], &mut room);
                assert_eq!(bits(&all[row * width..][..width]), bits(&alone), "{} shape {number} row {row}", kernels.level().name());
            }
        }
    }
}

#[test]
fn a_sink_takes_weight_and_gives_no_value() {
    let mut random = Random::new(7);
    let plain = Case::random(&mut random, &Shape { segments: vec![(1, 40)], ..PLAIN });
    let mut sunk = Case::random(&mut Random::new(7), &Shape { segments: vec![(1, 40)], ..PLAIN });
    let kernels = palimpsest_kernels::kernels(Level::Reference).unwrap();
    let without = plain.run(&*kernels, 1, &[0], &mut Room::default());
    sunk.sinks = vec![f32::NEG_INFINITY; sunk.heads.heads];
    assert_eq!(bits(&without), bits(&sunk.run(&*kernels, 1, &[0], &mut Room::default())));
    sunk.sinks = vec![1e4; sunk.heads.heads];
    assert!(sunk.run(&*kernels, 1, &[0], &mut Room::default()).iter().all(|number| number.abs() < 1e-30));
}
