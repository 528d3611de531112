//! Products of the int8 codes of cells with integers of 15 bits, exact in i32.
//!
//! What is summed in integers has the same bits in every order, so no level, tile, cut or page can change it. Queries and softmax weights
//! keep 15 bits where the cells keep 8: what they lose is a hundredth of what the cells have lost. Where an instruction multiplies bytes
//! only, an integer is two of them: 128 · high + low.
//!
//! * A score: 32 dimensions of 16 cells, Σ code · query. At most 32 · 127 · 16,256 < 2^27.
//! * An output: up to 512 cells of 16 dimensions, Σ code · weight. At most 512 · 127 · 32,767 < 2^31.
//!
//! Methods of [`Bytes`] that are given here are plain Rust: what a level without instructions for it computes.

use crate::buffer::Plain;
use crate::cells::CELL_BLOCK;
use crate::vector::{LANES, Vector};

/// 127 · 128: 128 · high + low with a signed byte each.
pub const QUERY_MAX: f32 = 16_256.0;
/// 128 · 255 + 127: an unsigned byte and seven bits.
pub const WEIGHT_MAX: f32 = 32_767.0;

/// 32 numbers of a query: number ≈ integer · scale.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueryBlock {
    /// As the level's `scores` reads the integers.
    pub bytes: [u8; 2 * CELL_BLOCK],
    pub sum: i32,
    pub scale: f32,
}

impl Plain for QueryBlock {}

impl QueryBlock {
    /// In numbers of f32.
    pub const NUMBERS: usize = size_of::<Self>() / size_of::<f32>();
}

/// # Safety
/// Of every method: as for [`Vector`].
pub trait Bytes: Vector {
    /// self · b
    #[inline(always)]
    unsafe fn multiply(self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut x, y) = (lanes(self), lanes(b));
            for lane in 0..LANES {
                x[lane] *= y[lane];
            }
            Self::load(x.as_ptr())
        }
    }

    /// The greater of two, in every lane.
    #[inline(always)]
    unsafe fn greater(self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut x, y) = (lanes(self), lanes(b));
            for lane in 0..LANES {
                x[lane] = if y[lane] > x[lane] { y[lane] } else { x[lane] };
            }
            Self::load(x.as_ptr())
        }
    }

    /// Lanes first … first + count from `from …`, the others 0.
    #[inline(always)]
    unsafe fn load_at(from: *const f32, first: usize, count: usize) -> Self {
        let mut x = [0.0; LANES];
        // SAFETY: the caller's promise, and `first + count ≤ 16`.
        unsafe {
            std::ptr::copy_nonoverlapping(from, x.as_mut_ptr().add(first), count);
            Self::load(x.as_ptr())
        }
    }

    /// Lanes first … first + count of 16 numbers, the others 0.
    #[inline(always)]
    unsafe fn load_f16_at(from: *const half::f16, first: usize, count: usize) -> Self {
        let mut x = [half::f16::ZERO; LANES];
        // SAFETY: the caller's promise, and `first + count ≤ 16`.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(first), x.as_mut_ptr().add(first), count);
            Self::load_f16(x.as_ptr())
        }
    }

    /// Integers of a query, at most [`QUERY_MAX`] in magnitude, as `scores` reads them.
    #[inline(always)]
    unsafe fn pack_query(integers: &[i16; CELL_BLOCK], bytes: &mut [u8; 2 * CELL_BLOCK]) {
        for (integer, bytes) in integers.iter().zip(bytes.as_chunks_mut::<2>().0) {
            *bytes = integer.to_le_bytes();
        }
    }

    /// [chunk][query]: Σ code · integer over `groups` times four dimensions, for 16 slots each. `keys`: `stride` bytes from four
    /// dimensions to the next four. Query q is `queries[q · query_stride]`.
    #[inline(always)]
    unsafe fn scores<const Q: usize, const C: usize>(
        keys: [*const i8; C],
        stride: usize,
        groups: usize,
        queries: *const QueryBlock,
        query_stride: usize,
    ) -> [[Self; Q]; C] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut out = [[Self::zero(); Q]; C];
            for c in 0..C {
                for q in 0..Q {
                    let query = &*queries.add(q * query_stride);
                    let mut sums = [0i32; LANES];
                    for group in 0..groups {
                        let codes = &*keys[c].add(group * stride).cast::<[[i8; 4]; LANES]>();
                        for (four, integer) in query.bytes.as_chunks::<2>().0[4 * group..][..4].iter().enumerate() {
                            let integer = i32::from(i16::from_le_bytes(*integer));
                            for lane in 0..LANES {
                                sums[lane] += i32::from(codes[lane][four]) * integer;
                            }
                        }
                    }
                    out[c][q] = to_vector(&sums);
                }
            }
            out
        }
    }

    /// Writes 16 weights of 0 … [`WEIGHT_MAX`], rounded halves to even, as `outputs` reads them: by four.
    #[inline(always)]
    unsafe fn pack_weights(self, to: *mut [u32; 2]) {
        // SAFETY: the caller's promise, and room for four at `to`.
        let (weights, packed) = unsafe { (lanes(self), &mut *to.cast::<[[u32; 2]; 4]>()) };
        for (packed, four) in packed.as_flattened_mut().iter_mut().zip(weights.as_chunks::<2>().0) {
            // The integer stands in the low bits of the sum.
            let integer = |weight: f32| (weight + 8_388_608.0).to_bits() & 0x7fff;
            *packed = integer(four[0]) | integer(four[1]) << 16;
        }
    }

    /// [query][vector]: Σ code · weight over the cells, for `W` times 16 dimensions. `offsets`: of every four cells, in bytes from
    /// `values`; weights of query q for four cells are `weights[q · weight_stride + i]`.
    #[inline(always)]
    unsafe fn outputs<const Q: usize, const W: usize>(
        values: *const i8,
        offsets: &[u64],
        weights: *const [u32; 2],
        weight_stride: usize,
    ) -> [[Self; W]; Q] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut out = [[Self::zero(); W]; Q];
            for q in 0..Q {
                for w in 0..W {
                    let mut sums = [0i32; LANES];
                    for (i, offset) in offsets.iter().enumerate() {
                        let [a, b] = *weights.add(q * weight_stride + i);
                        let codes = &*values.add(*offset as usize + w * 4 * LANES).cast::<[[i8; 4]; LANES]>();
                        for (four, weight) in [a & 0xffff, a >> 16, b & 0xffff, b >> 16].into_iter().enumerate() {
                            for lane in 0..LANES {
                                sums[lane] += i32::from(codes[lane][four]) * weight as i32;
                            }
                        }
                    }
                    out[q][w] = to_vector(&sums);
                }
            }
            out
        }
    }
}

#[inline(always)]
unsafe fn lanes<V: Vector>(vector: V) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    // SAFETY: the caller's promise.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    lanes
}

#[inline(always)]
unsafe fn to_vector<V: Vector>(integers: &[i32; LANES]) -> V {
    let mut lanes = [0.0; LANES];
    for lane in 0..LANES {
        lanes[lane] = integers[lane] as f32;
    }
    // SAFETY: the caller's promise.
    unsafe { V::load(lanes.as_ptr()) }
}

/// The highest lane; NaN left out.
#[inline(always)]
pub unsafe fn highest<V: Vector>(vector: V) -> f32 {
    // SAFETY: the caller's promise.
    let mut lanes = unsafe { lanes(vector) };
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] = if lanes[i + width] > lanes[i] { lanes[i + width] } else { lanes[i] };
        }
    }
    lanes[0]
}

/// Sixteen numbers in plain Rust: the scalar level's.
#[derive(Clone, Copy)]
pub struct PlainVector([f32; LANES]);

// SAFETY of every block: `Vector`'s promise.
impl Vector for PlainVector {
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0.0; LANES])
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as said above.
        Self(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const half::f16) -> Self {
        // SAFETY: as said above.
        Self(unsafe { from.cast::<[u16; LANES]>().read_unaligned() }.map(crate::lanes::f16_to_f32))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const half::bf16) -> Self {
        // SAFETY: as said above.
        Self(unsafe { from.cast::<[u16; LANES]>().read_unaligned() }.map(|bits| f32::from_bits(u32::from(bits) << 16)))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as said above.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, b: Self, c: Self) -> Self {
        let mut out = c;
        for lane in 0..LANES {
            out.0[lane] = crate::lanes::multiply_add::<{ crate::reference::ALWAYS_FUSED }>(self.0[lane], b.0[lane], c.0[lane]);
        }
        out
    }
}

impl Bytes for PlainVector {}
