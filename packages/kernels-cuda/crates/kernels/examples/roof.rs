//! What this machine can do at most: `cargo run --release --example roof -- [THREADS]`, one line of JSON.
//!
//! Bytes a second that all threads read from memory, and multiplications and additions of bytes a second in registers (two operations for
//! each product, as is usual). Figures of a model are shares of these two.

use std::time::Instant;

use palimpsest_kernels::Pool;

const READ_BYTES: usize = 1 << 30;
const ROUNDS: usize = 5;

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |threads| threads.parse().expect("a number of threads"));
    let pool = Pool::new(threads);
    println!("{{\"threads\":{threads},\"readGBs\":{:.1},\"int8Gops\":{:.0}}}", read_rate(&pool) / 1e9, int8_rate(&pool) / 1e9);
}

/// Best of some rounds of `work`, in units a second.
fn rate(units: f64, mut work: impl FnMut()) -> f64 {
    (0..ROUNDS).fold(0.0f64, |best, _| {
        let start = Instant::now();
        work();
        best.max(units / start.elapsed().as_secs_f64())
    })
}

fn read_rate(pool: &Pool) -> f64 {
    // Written once: pages that were never written are all the same page of zeros.
    let numbers = vec![1u64; READ_BYTES / 8];
    const PART: usize = 1 << 17;
    rate(READ_BYTES as f64, || {
        pool.run(numbers.len() / PART, 4, &|parts, _| {
            for part in parts {
                let mut sums = [0u64; 32];
                for line in numbers[part * PART..(part + 1) * PART].as_chunks::<32>().0 {
                    for (sum, number) in sums.iter_mut().zip(line) {
                        *sum = sum.wrapping_add(*number);
                    }
                }
                std::hint::black_box(sums);
            }
        });
    })
}

/// Instructions of one call of `multiply`, and products of bytes in each.
const INSTRUCTIONS: usize = 12 * 1_000_000;

fn int8_rate(pool: &Pool) -> f64 {
    let calls = pool.threads() * 4;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
        return rate(2.0 * 64.0 * (INSTRUCTIONS * calls) as f64, || {
            // SAFETY: the processor was asked.
            pool.run(calls, 1, &|calls, _| calls.for_each(|_| unsafe { x86::avx512() }))
        });
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        return rate(2.0 * 32.0 * (INSTRUCTIONS * calls) as f64, || {
            // SAFETY: the processor was asked.
            pool.run(calls, 1, &|calls, _| calls.for_each(|_| unsafe { x86::avx2() }))
        });
    }
    let _ = calls;
    f64::NAN
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::INSTRUCTIONS;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn avx512() {
        let (codes, activations) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(1)));
        let mut sums: [__m512i; 12] = black_box(std::array::from_fn(|i| _mm512_set1_epi32(i as i32)));
        for _ in 0..INSTRUCTIONS / 12 {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, codes, activations);
            }
        }
        black_box(sums);
    }

    /// Without VNNI three instructions multiply and add 32 bytes. The sums stand for the codes, so that none is left out.
    #[target_feature(enable = "avx2")]
    pub fn avx2() {
        let (activations, ones) = (black_box(_mm256_set1_epi8(1)), _mm256_set1_epi16(1));
        let mut sums: [__m256i; 12] = black_box(std::array::from_fn(|i| _mm256_set1_epi32(i as i32)));
        for _ in 0..INSTRUCTIONS / 12 {
            for sum in &mut sums {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_maddubs_epi16(*sum, activations), ones));
            }
        }
        black_box(sums);
    }
}
