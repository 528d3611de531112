//! Attention over one block of ranks, every level of this machine.

mod support;

use palimpsest_kernels::level::QUERY_TILE;
use palimpsest_kernels::{AttendBlock, CellDtype, CellShape, Cells, Kernels, Level, Partial, levels};
use support::{Layout, Random, Sequence, lay};

struct Outcome {
    sums: Vec<f32>,
    maxima: Vec<f32>,
    weights: Vec<f32>,
}

impl Outcome {
    fn bits(&self, queries: std::ops::Range<usize>, size: usize) -> Vec<u32> {
        let sums = &self.sums[queries.start * size..queries.end * size];
        sums.iter().chain(&self.maxima[queries.clone()]).chain(&self.weights[queries]).map(|x| x.to_bits()).collect()
    }
}

fn run(kernels: &dyn Kernels, layout: &Layout, head: usize, limits: &[u32], queries: &[f32], soft_cap: f32) -> Outcome {
    run_from(kernels, layout, head, &[], limits, queries, soft_cap)
}

fn run_from(
    kernels: &dyn Kernels,
    layout: &Layout,
    head: usize,
    starts: &[u32],
    limits: &[u32],
    queries: &[f32],
    soft_cap: f32,
) -> Outcome {
    let size = layout.cells.shape().value_size;
    let mut outcome =
        Outcome { sums: vec![f32::NAN; limits.len() * size], maxima: vec![f32::NAN; limits.len()], weights: vec![f32::NAN; limits.len()] };
    let shape = layout.cells.shape();
    let rotations = queries.len() / (limits.len() * shape.key_size);
    let mut scratch = vec![f32::NAN; AttendBlock::scratch(shape, rotations)];
    let block = AttendBlock { cells: layout.cells.layer(0), kv_head: head, pieces: &layout.pieces, starts, limits, queries, soft_cap };
    let mut partial =
        Partial { sums: &mut outcome.sums, maxima: &mut outcome.maxima, weights: &mut outcome.weights, scratch: &mut scratch };
    kernels.attend(&block, &mut partial);
    outcome
}

/// The same in f64 and in the plainest way.
fn naive(
    sequence: &Sequence,
    kv_heads: usize,
    head: usize,
    size: usize,
    rotations: &[u32],
    limit: usize,
    query: &dyn Fn(u32) -> Vec<f32>,
    cap: f32,
) -> Vec<f64> {
    let scores: Vec<f64> = (0..limit)
        .map(|rank| {
            let key = &sequence.keys[(rank * kv_heads + head) * size..][..size];
            let score: f64 = query(rotations[rank]).iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
            if cap > 0.0 { f64::from(cap) * (score / f64::from(cap)).tanh() } else { score }
        })
        .collect();
    let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
    let total: f64 = weights.iter().sum();
    (0..size)
        .map(|d| {
            let value = |rank: usize| f64::from(sequence.values[(rank * kv_heads + head) * size + d]);
            weights.iter().enumerate().map(|(rank, weight)| weight * value(rank)).sum::<f64>() / total
        })
        .collect()
}

/// Numbers as cells of the dtype hold them.
fn sequence(random: &mut Random, ranks: usize, kv_heads: usize, size: usize, dtype: CellDtype) -> Sequence {
    let shape = CellShape { layers: 1, kv_heads: 1, key_size: size, value_size: size, pages: 1, page_size: 1, dtype };
    let cell = Cells::new(shape).unwrap();
    let count = ranks * kv_heads * size;
    let mut sequence = Sequence { keys: random.numbers(count), values: random.numbers(count) };
    for (key, value) in sequence.keys.chunks_exact_mut(size).zip(sequence.values.chunks_exact_mut(size)) {
        // SAFETY: one thread.
        unsafe {
            cell.layer(0).store(0, 0, key, value);
            cell.layer(0).read(0, 0, key, value);
        }
    }
    sequence
}

const SHAPES: &[(usize, usize, usize)] =
    &[(1, 64, 1), (2, 64, 77), (3, 80, 512), (1, 96, 130), (2, 128, 300), (1, 16, 33), (2, 8, 512), (1, 256, 64)];

#[test]
fn every_level_agrees_with_f64_on_odd_shapes() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random(seed);
    for kernels in levels() {
        for &(kv_heads, size, ranks) in SHAPES {
            for (dtype, page_size, cap) in [
                (CellDtype::F32, 16, 0.0),
                (CellDtype::F16, 16, 0.0),
                (CellDtype::F32, 5, 0.0),
                (CellDtype::F16, 1, 3.0),
                (CellDtype::F16, 48, 0.0),
                (CellDtype::Q8_0, 16, 0.0),
                (CellDtype::Q8_0, 5, 3.0),
                (CellDtype::Q8_0, 1, 0.0),
                (CellDtype::Q8_0, 48, 0.0),
                (CellDtype::Q8_0, 40, 0.0),
            ] {
                let data = sequence(&mut random, ranks, kv_heads, size, dtype);
                let rotations: Vec<u32> = (0..ranks).map(|rank| (rank / 29 % 3) as u32).collect();
                let layout = lay(&mut random, &data, kv_heads, size, page_size, dtype, &rotations);
                let tile = 1 + random.below(QUERY_TILE);
                let limits: Vec<u32> = (0..tile).map(|_| 1 + random.below(ranks) as u32).collect();
                let queries = random.numbers(3 * tile * size);
                let head = random.below(kv_heads);
                let outcome = run(&*kernels, &layout, head, &limits, &queries, cap);
                for query in 0..tile {
                    let rotated = |rotation: u32| queries[(rotation as usize * tile + query) * size..][..size].to_vec();
                    let exact = naive(&data, kv_heads, head, size, &rotations, limits[query] as usize, &rotated, cap);
                    for d in 0..size {
                        let ours = f64::from(outcome.sums[query * size + d]) / f64::from(outcome.weights[query]);
                        let name = kernels.level().name();
                        // Cells of codes are read with queries and weights of 15 bits.
                        let bound = if dtype == CellDtype::Q8_0 && kernels.level() != Level::Reference { 3e-4 } else { 2e-5 };
                        assert!((ours - exact[d]).abs() < bound, "{name} {dtype:?} page {page_size}, size {size}: {ours} for {}", exact[d]);
                    }
                }
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_pages_cuts_or_the_other_queries() {
    let seed = 12;
    println!("seed {seed}");
    let mut random = Random(seed);
    for kernels in levels() {
        for dtype in CellDtype::ALL.iter().copied() {
            for &(kv_heads, size, ranks) in SHAPES {
                let data = sequence(&mut random, ranks, kv_heads, size, dtype);
                let rotations: Vec<u32> = (0..ranks).map(|rank| (rank / 41 % 2) as u32).collect();
                let tile = QUERY_TILE;
                let limits: Vec<u32> = (0..tile).map(|i| ((ranks * (i + 1)) / tile) as u32).collect();
                let queries = random.numbers(2 * tile * size);
                let first = run(&*kernels, &lay(&mut random, &data, kv_heads, size, 16, dtype, &rotations), 0, &limits, &queries, 0.0);
                for page_size in [1, 5, 16, 16, 40] {
                    let layout = lay(&mut random, &data, kv_heads, size, page_size, dtype, &rotations);
                    let again = run(&*kernels, &layout, 0, &limits, &queries, 0.0);
                    assert_eq!(first.bits(0..tile, size), again.bits(0..tile, size), "{} page {page_size}", kernels.level().name());
                    let (from, count) = (random.below(tile), 1 + random.below(3));
                    let some = from..(from + count).min(tile);
                    let own: Vec<f32> = (0..2)
                        .flat_map(|rotation| queries[(rotation * tile + some.start) * size..(rotation * tile + some.end) * size].to_vec())
                        .collect();
                    let alone = run(&*kernels, &layout, 0, &limits[some.clone()], &own, 0.0);
                    assert_eq!(first.bits(some.clone(), size), alone.bits(0..some.len(), size), "{} {some:?}", kernels.level().name());
                }
            }
        }
    }
}

#[test]
fn a_window_s_start_hides_cells_as_if_they_had_no_weight() {
    let mut random = Random(14);
    for kernels in levels() {
        for (size, ranks) in [(64, 77), (80, 512), (24, 33)] {
            let mut data = sequence(&mut random, ranks, 1, size, CellDtype::F32);
            let rotations = vec![0; ranks];
            let limits: Vec<u32> = (0..11).map(|_| random.below(ranks + 1) as u32).collect();
            let starts: Vec<u32> = (0..11).map(|_| random.below(ranks + 1) as u32).collect();
            let queries = random.numbers(11 * size);
            let layout = lay(&mut Random(6), &data, 1, size, 16, CellDtype::F32, &rotations);
            let outcome = run_from(&*kernels, &layout, 0, &starts, &limits, &queries, 0.0);
            let lowest = *starts.iter().min().unwrap() as usize;
            data.keys[..lowest * size].fill(f32::NAN);
            data.values[..lowest * size].fill(f32::NAN);
            let poisoned = lay(&mut Random(6), &data, 1, size, 16, CellDtype::F32, &rotations);
            let again = run_from(&*kernels, &poisoned, 0, &starts, &limits, &queries, 0.0);
            assert_eq!(outcome.bits(0..11, size), again.bits(0..11, size), "{}", kernels.level().name());
            for query in 0..11 {
                let (start, limit) = (starts[query] as usize, limits[query] as usize);
                if start >= limit {
                    assert_eq!((outcome.maxima[query], outcome.weights[query]), (f32::NEG_INFINITY, 0.0));
                    continue;
                }
                let cut = Sequence { keys: data.keys[start * size..].to_vec(), values: data.values[start * size..].to_vec() };
                let query_numbers = |_| queries[query * size..][..size].to_vec();
                let exact = naive(&cut, 1, 0, size, &rotations, limit - start, &query_numbers, 0.0);
                for d in 0..size {
                    let ours = f64::from(outcome.sums[query * size + d]) / f64::from(outcome.weights[query]);
                    assert!((ours - exact[d]).abs() < 2e-5, "{}: {ours} for {}", kernels.level().name(), exact[d]);
                }
            }
        }
    }
}

#[test]
fn a_cell_past_the_limit_cannot_poison_a_query() {
    let mut random = Random(13);
    for kernels in levels() {
        let mut data = sequence(&mut random, 40, 1, 64, CellDtype::F32);
        let limits = [20, 0, 40, 7, 20];
        let queries = random.numbers(limits.len() * 64);
        let clean = run(&*kernels, &lay(&mut Random(5), &data, 1, 64, 16, CellDtype::F32, &[0; 40]), 0, &limits, &queries, 0.0);
        data.keys[20 * 64..].fill(f32::NAN);
        data.values[20 * 64..].fill(f32::INFINITY);
        let poisoned = run(&*kernels, &lay(&mut Random(5), &data, 1, 64, 16, CellDtype::F32, &[0; 40]), 0, &limits, &queries, 0.0);
        for query in [0, 1, 3, 4] {
            assert_eq!(clean.bits(query..query + 1, 64), poisoned.bits(query..query + 1, 64), "{} query {query}", kernels.level().name());
        }
        assert_eq!((clean.maxima[1], clean.weights[1]), (f32::NEG_INFINITY, 0.0));
        assert!(clean.sums[64..128].iter().all(|sum| *sum == 0.0));
    }
}
