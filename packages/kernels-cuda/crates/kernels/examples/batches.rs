//! What a batch costs by itself: `cargo run --release --example batches -- [THREADS]`.

use std::time::Instant;

use palimpsest_kernels::Pool;

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |threads| threads.parse().expect("a number of threads"));
    let pool = Pool::new(threads);
    for (tasks, microseconds) in [(16, 0.0), (16, 0.25), (16, 1.0), (16, 4.0)] {
        let work = |_: std::ops::Range<usize>, _: usize| {
            let start = Instant::now();
            while start.elapsed().as_secs_f64() * 1e6 < microseconds {}
        };
        const BATCHES: u32 = 2000;
        let best = (0..10).fold(f64::INFINITY, |best: f64, _| {
            let start = Instant::now();
            for _ in 0..BATCHES {
                pool.run(tasks, 1, &work);
            }
            best.min(start.elapsed().as_secs_f64() / f64::from(BATCHES))
        });
        let ideal = tasks as f64 * microseconds / threads as f64;
        println!("{tasks} tasks of {microseconds} µs: {:.2} µs a batch, {ideal:.2} of them work", best * 1e6);
    }
}
