//! What the speed examples share.

use std::time::Instant;

/// Seconds that a piece of work took: of the processor where one thread works, since other work on the machine does not count there.
pub fn seconds(threads: usize, work: impl FnOnce()) -> f64 {
    let (start, spent) = (Instant::now(), on_processor());
    work();
    match (threads, spent, on_processor()) {
        (1, Some(before), Some(after)) => after - before,
        _ => start.elapsed().as_secs_f64(),
    }
}

/// Seconds this thread has run, where the system tells.
#[cfg(target_os = "linux")]
fn on_processor() -> Option<f64> {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    // From the C library that std links already.
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const THREAD_CPUTIME: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` has the layout of the system's timespec with 64-bit time.
    let result = unsafe { clock_gettime(THREAD_CPUTIME, &mut time) };
    (result == 0).then_some(time.seconds as f64 + time.nanoseconds as f64 / 1e9)
}

#[cfg(not(target_os = "linux"))]
fn on_processor() -> Option<f64> {
    None
}
