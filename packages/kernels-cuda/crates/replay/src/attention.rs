//! Attention with dense masks: at each stage all keys are rotated to where their cells stand, then every row of the stage reads.

use crate::program::Program;
use crate::rotation::Rotation;
use palimpsest_model::config::{Config, Layer};
use std::sync::Mutex;

/// What a layer made of all rows: unrotated queries (n · heads · head_size), keys and values (n · kv_heads · head_size).
pub(crate) struct Projections {
    pub(crate) queries: Vec<f32>,
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// n · heads · head_size.
pub(crate) fn attend(config: &Config, layer: &Layer, program: &Program, projections: &Projections, threads: usize) -> Vec<f32> {
    let rotation = Rotation::new(&config.rotaries[layer.rotary]);
    let (query_size, key_size) = (config.heads * config.head_size, config.kv_heads * config.head_size);
    let mut out = vec![0.0; program.cells() * query_size];
    for stage in 0..program.stages() {
        let positions = program.positions_at(stage);
        let mut keys = projections.keys.clone();
        for (key, &position) in keys.chunks_exact_mut(key_size).zip(positions) {
            if position >= 0 {
                rotation.rotate(key, config.head_size, position);
            }
        }
        let of_stage = |(row, _): &(usize, &mut [f32])| program.stage_of[*row] as usize == stage;
        let work = Mutex::new(out.chunks_exact_mut(query_size).enumerate().filter(of_stage));
        let next = || work.lock().expect("no thread panics while it takes work").next();
        let run = || {
            while let Some((row, out)) = next() {
                let mut query = projections.queries[row * query_size..][..query_size].to_vec();
                rotation.rotate(&mut query, config.head_size, program.positions[row]);
                let cells = read_cells(program.seen_by(row), positions, program.positions[row], layer.window);
                attend_row(config, &query, &keys, &projections.values, &cells, out);
            }
        };
        // Rows share their keys: only a stage of many is worth a thread.
        if threads == 1 || program.cells() * program.cells() * query_size < 1 << 21 {
            run();
        } else {
            std::thread::scope(|scope| {
                (1..threads).for_each(|_| drop(scope.spawn(run)));
                run();
            });
        }
    }
    out
}

/// The cells that a row at `position` reads.
fn read_cells(seen: &[u8], positions: &[i32], position: i32, window: Option<usize>) -> Vec<usize> {
    let in_window = |cell: &usize| window.is_none_or(|window| i64::from(position) - i64::from(positions[*cell]) < window as i64);
    (0..seen.len()).filter(|cell| seen[*cell] == 1).filter(in_window).collect()
}

fn attend_row(config: &Config, query: &[f32], keys: &[f32], values: &[f32], cells: &[usize], out: &mut [f32]) {
    let (size, key_size) = (config.head_size, config.kv_heads * config.head_size);
    let heads = query.chunks_exact(size).zip(out.chunks_exact_mut(size)).enumerate();
    for (head, (query, out)) in heads {
        let shared = head / config.group_size() * size;
        let mut scores: Vec<f64> = cells.iter().map(|cell| dot(query, &keys[cell * key_size + shared..][..size])).collect();
        for score in &mut scores {
            *score *= f64::from(config.attention_scale);
            if let Some(cap) = config.attention_soft_cap.map(f64::from) {
                *score = cap * (*score / cap).tanh();
            }
        }
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
        let total: f64 = scores.iter().sum();
        let mut sums = vec![0.0f64; size];
        for (cell, weight) in cells.iter().zip(&scores) {
            for (sum, value) in sums.iter_mut().zip(&values[cell * key_size + shared..][..size]) {
                *sum += weight * f64::from(*value);
            }
        }
        for (out, sum) in out.iter_mut().zip(&sums) {
            *out = (sum / total) as f32;
        }
    }
}

/// Eight independent sums.
fn dot(x: &[f32], y: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    let ((x, x_left), (y, y_left)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    for (x, y) in x.iter().zip(y) {
        for lane in 0..8 {
            sums[lane] += f64::from(x[lane]) * f64::from(y[lane]);
        }
    }
    let rest: f64 = x_left.iter().zip(y_left).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    sums.iter().sum::<f64>() + rest
}
