//! Bytes to f32, block by block. The order of the floating point operations is ggml's, so the results are equal bit for bit.

use super::TensorType;
use half::{bf16, f16};

/// `bytes` and `out` hold the same whole number of blocks (checked by the caller).
pub(super) fn blocks(tensor_type: TensorType, bytes: &[u8], out: &mut [f32]) {
    match tensor_type {
        TensorType::F32 => each::<4, 1>(bytes, out, |block, out| out[0] = f32::from_le_bytes(*block)),
        TensorType::F16 => each::<2, 1>(bytes, out, |block, out| out[0] = f16::from_le_bytes(*block).to_f32()),
        TensorType::BF16 => each::<2, 1>(bytes, out, |block, out| out[0] = bf16::from_le_bytes(*block).to_f32()),
        TensorType::Q4_0 => each(bytes, out, q4_0),
        TensorType::Q4_1 => each(bytes, out, q4_1),
        TensorType::Q5_0 => each(bytes, out, q5_0),
        TensorType::Q5_1 => each(bytes, out, q5_1),
        TensorType::Q8_0 => each(bytes, out, q8_0),
        TensorType::Q4_K => each(bytes, out, q4_k),
        TensorType::Q5_K => each(bytes, out, q5_k),
        TensorType::Q6_K => each(bytes, out, q6_k),
    }
}

/// Calls `block` for each block of `BYTES` bytes and its `SIZE` numbers.
fn each<const BYTES: usize, const SIZE: usize>(bytes: &[u8], out: &mut [f32], block: impl Fn(&[u8; BYTES], &mut [f32; SIZE])) {
    let (bytes, bytes_left) = bytes.as_chunks::<BYTES>();
    let (out, out_left) = out.as_chunks_mut::<SIZE>();
    assert!(bytes_left.is_empty() && out_left.is_empty() && bytes.len() == out.len(), "whole blocks, as many in as out");
    for (bytes, out) in bytes.iter().zip(out) {
        block(bytes, out);
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn word_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// d: f16 | 16 bytes: low nibble = number i, high nibble = number i + 16. Value: (q − 8) · d.
fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (i, byte) in block[2..].iter().enumerate() {
        out[i] = (i32::from(byte & 15) - 8) as f32 * d;
        out[i + 16] = (i32::from(byte >> 4) - 8) as f32 * d;
    }
}

/// d, m: f16 | 16 bytes of nibbles as in Q4_0. Value: q · d + m.
fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, byte) in block[4..].iter().enumerate() {
        out[i] = f32::from(byte & 15) * d + m;
        out[i + 16] = f32::from(byte >> 4) * d + m;
    }
}

/// d: f16 | 32 bits: the fifth bit of number i | 16 bytes of nibbles. Value: (q − 16) · d.
fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let high = word_at(block, 2);
    for (i, byte) in block[6..].iter().enumerate() {
        let (low_fifth, high_fifth) = (high >> i & 1, high >> (i + 16) & 1);
        out[i] = ((u32::from(byte & 15) | low_fifth << 4) as i32 - 16) as f32 * d;
        out[i + 16] = ((u32::from(byte >> 4) | high_fifth << 4) as i32 - 16) as f32 * d;
    }
}

/// d, m: f16 | fifth bits | nibbles, as in Q5_0. Value: q · d + m.
fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let high = word_at(block, 4);
    for (i, byte) in block[8..].iter().enumerate() {
        let (low_fifth, high_fifth) = (high >> i & 1, high >> (i + 16) & 1);
        out[i] = (u32::from(byte & 15) | low_fifth << 4) as f32 * d + m;
        out[i + 16] = (u32::from(byte >> 4) | high_fifth << 4) as f32 * d + m;
    }
}

/// d: f16 | 32 signed bytes. Value: q · d.
fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (out, byte) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(*byte as i8) * d;
    }
}

/// The 6-bit scale and 6-bit minimum of sub-block `j` (of 8) out of 12 packed bytes.
///
/// ```text
///  byte 0…3   low 6 bits: scale j      top 2 bits: bits 4, 5 of scale j + 4
///  byte 4…7   low 6 bits: minimum j    top 2 bits: bits 4, 5 of minimum j + 4
///  byte 8…11  low nibble: bits 0…3 of scale j + 4, high nibble: bits 0…3 of minimum j + 4
/// ```
pub(super) fn scale_and_minimum(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    }
}

/// d, m: f16 | 12 bytes: 8 scales and minima | 128 bytes: 32 bytes for each pair of sub-blocks of 32, low nibbles the first of the
/// pair. Value: (d · scale) · q − (m · minimum).
fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let (scales, quants) = (&block[4..16], &block[16..]);
    for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, j);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        let bits = j % 2 * 4;
        for (out, byte) in out.iter_mut().zip(&quants[j / 2 * 32..]) {
            *out = scale * f32::from(byte >> bits & 15) - minimum;
        }
    }
}

/// As Q4_K, with 32 bytes between scales and nibbles: bit j of byte i is the fifth bit of number i of sub-block j.
fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let (scales, high, quants) = (&block[4..16], &block[16..48], &block[48..]);
    for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(scales, j);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        let bits = j % 2 * 4;
        for (i, out) in out.iter_mut().enumerate() {
            let q = (quants[j / 2 * 32 + i] >> bits & 15) | (high[i] >> j & 1) << 4;
            *out = scale * f32::from(q) - minimum;
        }
    }
}

/// 128 bytes: low 4 bits | 64 bytes: high 2 bits | 16 signed scales, one for 16 numbers | d: f16. Value: d · scale · (q − 32).
///
/// ```text
///  each half of 128 numbers takes 64 low bytes and 32 high bytes; number 32k + i of it (k = 0…3, i = 0…31):
///    low bits   byte i + 32·(k mod 2), nibble k div 2
///    high bits  byte i, bits 2k and 2k + 1
/// ```
fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(block, 208);
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    for (part, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (side, k) = (part / 4, part % 4);
        let low = &low[side * 64 + k % 2 * 32..][..32];
        let high = &high[side * 32..][..32];
        for i in 0..32 {
            let q = (low[i] >> (k / 2 * 4) & 15) | (high[i] >> (2 * k) & 3) << 4;
            let scale = d * f32::from(scales[part * 2 + i / 16] as i8);
            out[i] = scale * (i32::from(q) - 32) as f32;
        }
    }
}
