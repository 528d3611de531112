use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use palimpsest_kernels::Pool;

#[test]
fn every_task_runs_once_for_any_size_grain_and_number_of_threads() {
    for threads in [1, 2, 3, 8] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads);
        for tasks in [0, 1, 2, 7, 64, 1000] {
            for grain in [0, 1, 3, 5000] {
                let ran: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                pool.run(tasks, grain, &|range, thread| {
                    assert!(thread < threads);
                    for task in range {
                        ran[task].fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(ran.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{threads} threads, {tasks} tasks by {grain}");
            }
        }
    }
}

#[test]
fn batches_that_follow_each_other_closely_are_not_mixed_up() {
    let pool = Pool::new(3);
    let total = AtomicU32::new(0);
    for batch in 0..20_000u32 {
        let local = AtomicU32::new(0);
        pool.run(6, 1, &|range, _| {
            local.fetch_add(range.len() as u32, Ordering::Relaxed);
            total.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(local.load(Ordering::Relaxed), 6, "batch {batch}");
    }
    assert_eq!(total.load(Ordering::Relaxed), 120_000);
}

#[test]
fn parked_workers_wake_again() {
    let pool = Pool::new(2);
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(3));
        let threads = AtomicU32::new(0);
        // Each task waits for the other, so the batch ends only if both threads come.
        pool.run(2, 1, &|_, _| {
            threads.fetch_add(1, Ordering::SeqCst);
            while threads.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn a_panic_in_any_thread_reaches_the_caller_and_the_pool_goes_on() {
    let pool = Pool::new(3);
    for task in [0, 5, 99] {
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(100, 1, &|range, _| assert!(!range.contains(&task), "task {task}"))));
        let message = *result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("task {task}"));
        let count = AtomicU32::new(0);
        pool.run(100, 7, &|range, _| {
            count.fetch_add(range.len() as u32, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 100);
    }
}
