//! Cells of int8 codes with an f16 scale for each cell, head and block of 32 dimensions.
//!
//! ```text
//! page ┬ kv head ┬ scales of keys    [block of 32 dimensions][slot]          f16
//!      │         ├ scales of values  [block of 32 dimensions][slot]          f16
//!      │         ├ codes of keys     [dimension / 4][slot][dimension % 4]    int8
//!      │         └ codes of values   [slot / 4][dimension][slot % 4]         int8
//!      └ kv head …
//! ```
//!
//! Four numbers that a product sums lie side by side, as instructions that multiply bytes want them: four dimensions of a key (a score
//! is a sum over dimensions), four cells of a value (an output is a sum over cells). One load is then 16 cells of four dimensions, or 16
//! dimensions of four cells. Scales lie by slot, so that one load gives those of 16 cells.
//!
//! The last block of a head whose size is no multiple of 32 is short and has a scale of its own: 80 dimensions are blocks of 32, 32, 16.
//! Codes of a key are padded to four dimensions, of a value to 16 dimensions and four slots; head sizes of real models need no padding.
//! Scales come first, so that a load that runs past a short page's slots stays inside the page.
//!
//! number = code · scale; scale = max |x| / 127 rounded to f16, code = x / scale to the nearest, halves to even, at most 127.

use half::f16;

use super::{CellShape, Plane};

/// Numbers that share a scale.
pub const CELL_BLOCK: usize = 32;

/// Offsets and strides in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantised {
    /// Inside a head of a page.
    pub key_scales: usize,
    pub value_scales: usize,
    pub key_codes: usize,
    pub value_codes: usize,
    /// From head to head.
    pub head: usize,
    /// From block to block.
    pub scale_block: usize,
    /// From four dimensions of a key to the next four.
    pub key_group: usize,
    /// From four slots of a value to the next four.
    pub value_group: usize,
    /// From page to page: a layer's bytes of one page.
    pub page: usize,
}

impl Quantised {
    pub fn of(shape: &CellShape) -> Self {
        let scale_block = shape.page_size * size_of::<f16>();
        let (key_group, value_group) = (4 * shape.page_size, 4 * shape.value_size.next_multiple_of(16));
        let value_scales = shape.key_size.div_ceil(CELL_BLOCK) * scale_block;
        let key_codes = value_scales + shape.value_size.div_ceil(CELL_BLOCK) * scale_block;
        let value_codes = key_codes + shape.key_size.div_ceil(4) * key_group;
        let head = value_codes + shape.page_size.div_ceil(4) * value_group;
        Self { key_scales: 0, value_scales, key_codes, value_codes, head, scale_block, key_group, value_group, page: shape.kv_heads * head }
    }

    /// Scales, codes of keys, codes of values. What pads a head's dimensions belongs to the cells, what pads a page's slots to none.
    pub fn planes(&self, shape: &CellShape) -> [Plane; 3] {
        let head = Plane { heads: shape.kv_heads, head_bytes: self.head, slots_together: shape.page_size, ..Plane::default() };
        let scales = Plane { rows: self.key_codes / self.scale_block, row_bytes: self.scale_block, slot_bytes: size_of::<f16>(), ..head };
        let rows = shape.key_size.div_ceil(4);
        let keys = Plane { start: self.key_codes, rows, row_bytes: self.key_group, slot_bytes: 4, ..head };
        let rows = self.value_group / 4;
        let values =
            Plane { start: self.value_codes, rows, row_bytes: 4, slot_bytes: 1, slots_together: 4, group_bytes: self.value_group, ..head };
        [scales, keys, values]
    }

    /// The key's code of a dimension, relative to the head's.
    fn key_code(&self, slot: usize, dimension: usize) -> usize {
        dimension / 4 * self.key_group + 4 * slot + dimension % 4
    }

    fn value_code(&self, slot: usize, dimension: usize) -> usize {
        slot / 4 * self.value_group + 4 * dimension + slot % 4
    }

    fn scale(&self, slot: usize, dimension: usize) -> usize {
        dimension / CELL_BLOCK * self.scale_block + slot * size_of::<f16>()
    }

    /// One number of a key. `head` and `slot` are inside the page, `dimension` inside the head.
    ///
    /// # Safety
    /// `page` holds a page of this layout that nobody writes meanwhile.
    #[inline(always)]
    pub unsafe fn key(&self, page: *const u8, head: usize, slot: usize, dimension: usize) -> f32 {
        let scale = head * self.head + self.key_scales + self.scale(slot, dimension);
        let code = head * self.head + self.key_codes + self.key_code(slot, dimension);
        // SAFETY: both lie inside the page.
        unsafe { read(page, scale, code) }
    }

    /// One number of a value, as `key`.
    ///
    /// # Safety
    /// As for `key`.
    #[inline(always)]
    pub unsafe fn value(&self, page: *const u8, head: usize, slot: usize, dimension: usize) -> f32 {
        let scale = head * self.head + self.value_scales + self.scale(slot, dimension);
        let code = head * self.head + self.value_codes + self.value_code(slot, dimension);
        // SAFETY: both lie inside the page.
        unsafe { read(page, scale, code) }
    }

    /// Writes one head of one cell. `head` and `slot` are inside the page, `key` and `value` have the head's sizes.
    ///
    /// # Safety
    /// `page` holds a page of this layout, and nobody reads or writes the slot meanwhile.
    pub unsafe fn store(&self, page: *mut u8, head: usize, slot: usize, key: &[f32], value: &[f32]) {
        for (block, numbers) in key.chunks(CELL_BLOCK).enumerate() {
            let (scale, codes) = encode(numbers);
            let first = block * CELL_BLOCK;
            // SAFETY: inside the page; the slot is ours (caller).
            unsafe {
                let at = page.add(head * self.head + self.key_scales + self.scale(slot, first));
                at.cast::<f16>().write_unaligned(scale);
                for (dimension, code) in codes[..numbers.len()].iter().enumerate() {
                    let at = head * self.head + self.key_codes + self.key_code(slot, first + dimension);
                    *page.add(at).cast::<i8>() = *code;
                }
            }
        }
        for (block, numbers) in value.chunks(CELL_BLOCK).enumerate() {
            let (scale, codes) = encode(numbers);
            let first = block * CELL_BLOCK;
            // SAFETY: as above.
            unsafe {
                let at = page.add(head * self.head + self.value_scales + self.scale(slot, first));
                at.cast::<f16>().write_unaligned(scale);
                for (dimension, code) in codes[..numbers.len()].iter().enumerate() {
                    let at = head * self.head + self.value_codes + self.value_code(slot, first + dimension);
                    *page.add(at).cast::<i8>() = *code;
                }
            }
        }
    }
}

/// # Safety
/// Both offsets are inside what `page` points to.
#[inline(always)]
unsafe fn read(page: *const u8, scale: usize, code: usize) -> f32 {
    // SAFETY: the caller's promise.
    let (scale, code) = unsafe { (page.add(scale).cast::<u16>().read_unaligned(), *page.add(code).cast::<i8>()) };
    crate::lanes::f16_to_f32(scale) * f32::from(code)
}

/// Scale and codes of up to 32 numbers. The scale is finite whatever the numbers are, so a cell never poisons another's sums; NaN
/// becomes 0.
fn encode(numbers: &[f32]) -> (f16, [i8; CELL_BLOCK]) {
    /// Adding this to a number below 2^22 rounds it to an integer, halves to even.
    const ROUND: f32 = 12_582_912.0;
    let highest = numbers.iter().fold(0.0, |highest: f32, number| if number.abs() > highest { number.abs() } else { highest });
    let scale = f16::from_f32((highest / 127.0).min(f16::MAX.to_f32()));
    let wide = scale.to_f32();
    let inverse = if wide > 0.0 { 1.0 / wide } else { 0.0 };
    let mut codes = [0; CELL_BLOCK];
    for (code, number) in codes.iter_mut().zip(numbers) {
        *code = ((number * inverse).clamp(-127.0, 127.0) + ROUND - ROUND) as i8;
    }
    (scale, codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_off_by_half_a_step_at_most() {
        // Where scales are normal numbers of f16.
        for exponent in -9..=20 {
            let numbers: Vec<f32> = (0..32).map(|i| (i as f32 * 0.37 - 5.0) * 2f32.powi(exponent)).collect();
            let (scale, codes) = encode(&numbers);
            for (number, code) in numbers.iter().zip(codes) {
                let error = (number - f32::from(code) * scale.to_f32()).abs();
                // The scale itself is rounded: the highest number may lie a little above 127 steps.
                assert!(error <= 0.57 * scale.to_f32(), "{number} became {code} · {scale}, exponent {exponent}");
            }
        }
    }

    #[test]
    fn what_is_no_finite_number_stays_inside_its_own_number() {
        let (scale, codes) = encode(&[f32::NAN, 1.0, f32::INFINITY, f32::NEG_INFINITY, 0.0]);
        assert_eq!((scale, codes[0], codes[2], codes[3]), (f16::MAX, 0, 127, -127));
        assert_eq!(encode(&[0.0; 32]), (f16::ZERO, [0; 32]));
        assert_eq!(encode(&[f32::NAN; 3]), (f16::ZERO, [0; 32]));
        assert_eq!(encode(&[1e-30; 3]), (f16::ZERO, [0; 32]));
    }

    #[test]
    fn a_cell_of_64_dimensions_takes_136_bytes_a_head() {
        let shape = CellShape {
            layers: 1,
            kv_heads: 3,
            key_size: 64,
            value_size: 64,
            pages: 1,
            page_size: 16,
            dtype: super::super::CellDtype::Q8_0,
        };
        assert_eq!(Quantised::of(&shape).page, 16 * 3 * (2 * 64 + 2 * 2 * 2));
        let shape = CellShape { key_size: 80, value_size: 80, ..shape };
        assert_eq!(Quantised::of(&shape).page, 16 * 3 * (2 * 80 + 2 * 3 * 2));
    }
}
