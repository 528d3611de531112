//! f32 to bytes. The types with one scale for 32 numbers follow ggml's `quantize_row_*_ref`, so that a requantised file has the bytes
//! that ggml's tool would write; the K types take the extremes of each sub-block where ggml searches for a better fit.

use super::TensorType;
use half::{bf16, f16};

/// `values` and `bytes` hold the same whole number of blocks (checked by the caller).
pub(super) fn blocks(tensor_type: TensorType, values: &[f32], bytes: &mut [u8]) {
    match tensor_type {
        TensorType::F32 => each::<4, 1>(values, bytes, |values, block| *block = values[0].to_le_bytes()),
        TensorType::F16 => each::<2, 1>(values, bytes, |values, block| *block = f16::from_f32(values[0]).to_le_bytes()),
        TensorType::BF16 => each::<2, 1>(values, bytes, |values, block| *block = bf16::from_f32(values[0]).to_le_bytes()),
        TensorType::Q4_0 => each(values, bytes, q4_0),
        TensorType::Q4_1 => each(values, bytes, q4_1),
        TensorType::Q5_0 => each(values, bytes, q5_0),
        TensorType::Q5_1 => each(values, bytes, q5_1),
        TensorType::Q8_0 => each(values, bytes, q8_0),
        TensorType::Q4_K => each(values, bytes, q4_k),
        TensorType::Q5_K => each(values, bytes, q5_k),
        TensorType::Q6_K => each(values, bytes, q6_k),
    }
}

/// The largest magnitude that a type holds: beyond it a half-precision scale or number would become infinite.
pub(super) fn magnitude_max(tensor_type: TensorType) -> f32 {
    match tensor_type {
        TensorType::F32 => f32::MAX,
        TensorType::BF16 => bf16::MAX.to_f32(),
        _ => f16::MAX.to_f32(),
    }
}

/// Calls `block` for the `SIZE` numbers of each block and its `BYTES` bytes.
fn each<const BYTES: usize, const SIZE: usize>(values: &[f32], bytes: &mut [u8], block: impl Fn(&[f32; SIZE], &mut [u8; BYTES])) {
    let (values, values_left) = values.as_chunks::<SIZE>();
    let (bytes, bytes_left) = bytes.as_chunks_mut::<BYTES>();
    assert!(values_left.is_empty() && bytes_left.is_empty() && values.len() == bytes.len(), "whole blocks, as many in as out");
    for (values, bytes) in values.iter().zip(bytes) {
        block(values, bytes);
    }
}

fn put_half(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// The number of the largest magnitude, with its sign; the first among equals.
fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most: f32, &value| if value.abs() > most.abs() { value } else { most })
}

fn bounds(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Low nibbles: numbers 0…15, high nibbles: 16…31. `fifths` collects bit 4.
fn pack_nibbles(levels: impl Fn(usize) -> u8, quants: &mut [u8]) -> u32 {
    let mut fifths = 0;
    for (i, byte) in quants.iter_mut().enumerate() {
        let (low, high) = (levels(i), levels(i + 16));
        *byte = low & 15 | high << 4;
        fifths |= u32::from(low >> 4) << i | u32::from(high >> 4) << (i + 16);
    }
    fifths
}

fn q4_0(values: &[f32; 32], block: &mut [u8; 18]) {
    let d = extreme(values) / -8.0;
    let id = inverse(d);
    put_half(block, 0, d);
    pack_nibbles(|i| ((values[i] * id + 8.5) as u8).min(15), &mut block[2..]);
}

fn q4_1(values: &[f32; 32], block: &mut [u8; 20]) {
    let (low, high) = bounds(values);
    let d = (high - low) / 15.0;
    let id = inverse(d);
    put_half(block, 0, d);
    put_half(block, 2, low);
    pack_nibbles(|i| (((values[i] - low) * id + 0.5) as u8).min(15), &mut block[4..]);
}

fn q5_0(values: &[f32; 32], block: &mut [u8; 22]) {
    let d = extreme(values) / -16.0;
    let id = inverse(d);
    put_half(block, 0, d);
    let fifths = pack_nibbles(|i| ((values[i] * id + 16.5) as u8).min(31), &mut block[6..]);
    block[2..6].copy_from_slice(&fifths.to_le_bytes());
}

fn q5_1(values: &[f32; 32], block: &mut [u8; 24]) {
    let (low, high) = bounds(values);
    let d = (high - low) / 31.0;
    let id = inverse(d);
    put_half(block, 0, d);
    put_half(block, 2, low);
    let fifths = pack_nibbles(|i| (((values[i] - low) * id + 0.5) as u8).min(31), &mut block[8..]);
    block[4..8].copy_from_slice(&fifths.to_le_bytes());
}

fn q8_0(values: &[f32; 32], block: &mut [u8; 34]) {
    let d = extreme(values).abs() / 127.0;
    let id = inverse(d);
    put_half(block, 0, d);
    for (byte, value) in block[2..].iter_mut().zip(values) {
        *byte = (value * id).round() as i8 as u8;
    }
}

/// Scales and minima of eight sub-blocks of 32, as the block holds them: value = d · scale · q − m · minimum.
struct SubBlocks {
    d: f32,
    m: f32,
    scales: [u8; 8],
    minima: [u8; 8],
}

impl SubBlocks {
    /// Sub-blocks whose levels go from 0 to `level_max`. A minimum above 0 counts as 0: minima are only ever subtracted.
    fn of(values: &[f32; 256], level_max: f32) -> Self {
        let (mut scales, mut minima) = ([0.0f32; 8], [0.0f32; 8]);
        for (j, part) in values.as_chunks::<32>().0.iter().enumerate() {
            let (low, high) = bounds(part);
            let low = low.min(0.0);
            scales[j] = (high.max(low) - low) / level_max;
            minima[j] = -low;
        }
        let d = f16::from_f32(bounds(&scales).1 / 63.0).to_f32();
        let m = f16::from_f32(bounds(&minima).1 / 63.0).to_f32();
        let six_bits = |value: f32, unit: f32| (value * inverse(unit)).round().min(63.0) as u8;
        Self { d, m, scales: scales.map(|scale| six_bits(scale, d)), minima: minima.map(|minimum| six_bits(minimum, m)) }
    }

    /// The nearest level of number `i`.
    fn level(&self, values: &[f32; 256], i: usize, level_max: f32) -> u8 {
        let (scale, minimum) = (self.d * f32::from(self.scales[i / 32]), self.m * f32::from(self.minima[i / 32]));
        ((values[i] + minimum) * inverse(scale)).round().clamp(0.0, level_max) as u8
    }

    /// d, m and the 12 bytes of scales and minima (see `decode::scale_and_minimum`).
    fn write(&self, block: &mut [u8]) {
        put_half(block, 0, self.d);
        put_half(block, 2, self.m);
        for j in 0..4 {
            block[4 + j] = self.scales[j] | self.scales[j + 4] >> 4 << 6;
            block[8 + j] = self.minima[j] | self.minima[j + 4] >> 4 << 6;
            block[12 + j] = self.scales[j + 4] & 15 | self.minima[j + 4] << 4;
        }
    }
}

fn q4_k(values: &[f32; 256], block: &mut [u8; 144]) {
    let parts = SubBlocks::of(values, 15.0);
    parts.write(block);
    for (at, byte) in block[16..].iter_mut().enumerate() {
        let first = at / 32 * 64 + at % 32;
        *byte = parts.level(values, first, 15.0) | parts.level(values, first + 32, 15.0) << 4;
    }
}

fn q5_k(values: &[f32; 256], block: &mut [u8; 176]) {
    let parts = SubBlocks::of(values, 31.0);
    parts.write(block);
    block[16..].fill(0);
    for i in 0..256 {
        let level = parts.level(values, i, 31.0);
        let (part, within) = (i / 32, i % 32);
        block[48 + part / 2 * 32 + within] |= (level & 15) << (part % 2 * 4);
        block[16 + within] |= (level >> 4) << part;
    }
}

fn q6_k(values: &[f32; 256], block: &mut [u8; 210]) {
    let mut scales = [0.0f32; 16];
    for (scale, part) in scales.iter_mut().zip(values.as_chunks::<16>().0) {
        *scale = extreme(part) / -32.0;
    }
    let d = f16::from_f32(extreme(&scales) / -128.0).to_f32();
    block.fill(0);
    put_half(block, 208, d);
    for (j, scale) in scales.iter().enumerate() {
        block[192 + j] = (scale * inverse(d)).round().clamp(-128.0, 127.0) as i8 as u8;
    }
    for (i, value) in values.iter().enumerate() {
        let scale = d * f32::from(block[192 + i / 16] as i8);
        let level = ((value * inverse(scale)).round().clamp(-32.0, 31.0) as i32 + 32) as u8;
        let (side, k, within) = (i / 128, i / 32 % 4, i % 32);
        block[side * 64 + k % 2 * 32 + within] |= (level & 15) << (k / 2 * 4);
        block[128 + side * 32 + within] |= (level >> 4) << (2 * k);
    }
}
