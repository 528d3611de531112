//! Arithmetic on 16 numbers at a time, in plain Rust that every vector unit compiles to its own instructions.
//!
//! `FUSED` chooses `a · b + c` with one rounding. It is true in the versions of a function that are compiled for a processor which
//! has the instruction, so that a level's bits do not depend on the tile but only on the machine.

pub const LANES: usize = 16;

pub type Lanes = [f32; LANES];

#[inline(always)]
pub fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Sixteen numbers in the registers of one instruction set.
///
/// Methods are always inlined, so that they become instructions of the function they stand in. That function must be compiled for the
/// instruction set: `Avx2` and `Avx512` are named only inside such functions.
pub trait Wide: Copy {
    /// Whether `multiply_add` rounds once.
    const FUSED: bool;

    fn splat(number: f32) -> Self;
    fn load(numbers: &Lanes) -> Self;
    fn store(self) -> Lanes;
    /// self · b + c
    fn multiply_add(self, b: Self, c: Self) -> Self;
}

/// Sixteen numbers in plain Rust.
#[derive(Clone, Copy)]
pub struct Plain16(Lanes);

impl Wide for Plain16 {
    /// Where every processor of the target has the instruction, plain code may ask for it.
    const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

    #[inline(always)]
    fn splat(number: f32) -> Self {
        Self([number; LANES])
    }
    #[inline(always)]
    fn load(numbers: &Lanes) -> Self {
        Self(*numbers)
    }
    #[inline(always)]
    fn store(self) -> Lanes {
        self.0
    }
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        Self(std::array::from_fn(|lane| multiply_add::<{ <Plain16 as Wide>::FUSED }>(self.0[lane], b.0[lane], c.0[lane])))
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    //! The same in AVX registers.

    use std::arch::x86_64::*;

    use super::{Lanes, Wide};

    #[derive(Clone, Copy)]
    pub struct Avx2(__m256, __m256);

    // SAFETY of the blocks below: the instructions exist where the type is named (see `Wide`), and `Lanes` holds what is loaded.
    impl Wide for Avx2 {
        const FUSED: bool = true;

        #[inline(always)]
        fn splat(number: f32) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm256_set1_ps(number), _mm256_set1_ps(number)) }
        }
        #[inline(always)]
        fn load(numbers: &Lanes) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm256_loadu_ps(numbers.as_ptr()), _mm256_loadu_ps(numbers.as_ptr().add(8))) }
        }
        #[inline(always)]
        fn store(self) -> Lanes {
            let mut numbers = [0.0; 16];
            // SAFETY: see the note above.
            unsafe {
                _mm256_storeu_ps(numbers.as_mut_ptr(), self.0);
                _mm256_storeu_ps(numbers.as_mut_ptr().add(8), self.1);
            }
            numbers
        }
        #[inline(always)]
        fn multiply_add(self, b: Self, c: Self) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
        }
    }

    #[derive(Clone, Copy)]
    pub struct Avx512(__m512);

    impl Wide for Avx512 {
        const FUSED: bool = true;

        #[inline(always)]
        fn splat(number: f32) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm512_set1_ps(number)) }
        }
        #[inline(always)]
        fn load(numbers: &Lanes) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm512_loadu_ps(numbers.as_ptr())) }
        }
        #[inline(always)]
        fn store(self) -> Lanes {
            let mut numbers = [0.0; 16];
            // SAFETY: see the note above.
            unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), self.0) };
            numbers
        }
        #[inline(always)]
        fn multiply_add(self, b: Self, c: Self) -> Self {
            // SAFETY: see the note above.
            unsafe { Self(_mm512_fmadd_ps(self.0, b.0, c.0)) }
        }
    }
}

/// The sum of the lanes, by halves: (0 + 8), (1 + 9), … then of 8, 4, 2.
#[inline(always)]
pub fn sum(mut lanes: Lanes) -> f32 {
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

/// e^x to about one unit in the last place; 0 below −87, infinite above 88, NaN for NaN.
///
/// x = n · ln 2 + r with |r| ≤ ln 2 / 2; e^r by the polynomial of Cephes `expf`.
#[allow(clippy::excessive_precision, reason = "the parts of ln 2 are exact as written")]
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to an integer, kept in the low bits
    let bounded = x.clamp(-87.0, 88.0);
    let shifted = multiply_add::<FUSED>(bounded, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FUSED>(n, -0.693_359_375, bounded);
    let r = multiply_add::<FUSED>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = multiply_add::<FUSED>(p, r, coefficient);
    }
    let p = multiply_add::<FUSED>(p, r * r, r + 1.0);
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    let result = p * power;
    if x < -87.0 {
        0.0
    } else if x > 88.0 {
        f32::INFINITY
    } else {
        result
    }
}

/// An f16 given by its bits, exactly; written without branches so that a loop over it becomes vector code.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    // 2^112 moves the exponent's bias from 15 to 127, subnormals included.
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    f32::from_bits(if bits & 0x7c00 == 0x7c00 { special } else { finite } | (bits & 0x8000) << 16)
}

/// A number of a cell or a panel, read as f32.
pub trait Readable: crate::buffer::Plain {
    fn read(self) -> f32;
}

impl Readable for f32 {
    #[inline(always)]
    fn read(self) -> f32 {
        self
    }
}

impl Readable for half::f16 {
    #[inline(always)]
    fn read(self) -> f32 {
        f16_to_f32(self.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_widens_to_the_same_f32_as_in_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{bits:#06x}: {ours} and {theirs}");
        }
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place_of_f64() {
        for fused in [false, true] {
            let mut x = -87.0f32;
            while x < 88.0 {
                let ours = if fused { exp::<true>(x) } else { exp::<false>(x) };
                let exact = f64::from(x).exp();
                let error = (f64::from(ours) - exact).abs() / exact;
                assert!(error < 2.4e-7, "exp({x}) = {ours}, off by {error:e}");
                x += 0.003_7;
            }
        }
        assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp::<true>(0.0), 1.0);
        assert_eq!(exp::<true>(100.0), f32::INFINITY);
        assert!(exp::<true>(f32::NAN).is_nan());
    }

    #[test]
    fn sum_adds_each_lane_once() {
        let lanes = std::array::from_fn(|i| (1 << i) as f32);
        assert_eq!(sum(lanes), 65_535.0);
    }
}
