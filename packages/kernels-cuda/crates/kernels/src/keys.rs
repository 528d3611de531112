//! The physical rotation of cached keys, for stacks that move positions in place, and for compaction.
//!
//! A rotated key turns on by Δ as R(Δ)·R(p)·k = R(p + Δ)·k: from the birth position, in one rotation, with cosines and sines made in
//! f64 from the integer Δ. Turning a key again and again adds up roundings; who moves a key twice should keep its birth position and
//! turn it once by the sum. The rotation is pure: a magnitude (YaRN) that is in the key already stays as it is.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

use crate::error::{Code, Error, Result};
use crate::quant::{self, TensorType};
use crate::rotary::Pairs;

/// How keys are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDtype {
    F32,
    F16,
    Bf16,
    /// Blocks of 32 numbers as in GGUF: a scale (f16) and 32 signed bytes. A turned block is coded anew.
    Q8_0,
}

impl KeyDtype {
    pub const ALL: &[KeyDtype] = &[KeyDtype::F32, KeyDtype::F16, KeyDtype::Bf16, KeyDtype::Q8_0];

    pub fn name(self) -> &'static str {
        match self {
            KeyDtype::F32 => "f32",
            KeyDtype::F16 => "f16",
            KeyDtype::Bf16 => "bf16",
            KeyDtype::Q8_0 => "q8_0",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        KeyDtype::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    fn tensor_type(self) -> TensorType {
        match self {
            KeyDtype::F32 => TensorType::F32,
            KeyDtype::F16 => TensorType::F16,
            KeyDtype::Bf16 => TensorType::BF16,
            KeyDtype::Q8_0 => TensorType::Q8_0,
        }
    }
}

/// Keys of cached tokens: `[row][head][head size]`, each head's numbers side by side.
#[derive(Clone, Copy, Debug)]
pub struct KeyShape {
    pub dtype: KeyDtype,
    pub heads: usize,
    pub head_size: usize,
}

/// Turns every key of row r by `deltas[r]` positions, in place. `frequencies`: radians a position for each pair; elements past
/// 2 · pairs of a head have no position and stay.
///
/// Errors: `argument_invalid` that names `headSize`, `frequencies` or `keys` when lengths do not fit each other; nothing was written.
pub fn rotate_keys(bytes: &mut [u8], shape: KeyShape, pairs: Pairs, frequencies: &[f64], deltas: &[i32]) -> Result<()> {
    let KeyShape { dtype, heads, head_size } = shape;
    let invalid = |param: &str, message: String| Err(Error::at(Code::ArgumentInvalid, param, message));
    let head_bytes = match dtype.tensor_type().bytes_of(head_size) {
        Some(bytes) if bytes > 0 => bytes,
        _ => return invalid("headSize", format!("{head_size} numbers are no whole number of blocks of {}", dtype.name())),
    };
    if frequencies.len() * 2 > head_size {
        return invalid("frequencies", format!("{} pairs turn, a head has {head_size} numbers", frequencies.len()));
    }
    let expected = deltas.len().checked_mul(heads).and_then(|keys| keys.checked_mul(head_bytes));
    if expected != Some(bytes.len()) {
        let rows = deltas.len();
        return invalid("keys", format!("{rows} rows of {heads} heads of {head_bytes} bytes are expected, {} bytes came", bytes.len()));
    }
    let mut turner = Turner::new(shape, pairs, frequencies);
    for (row, delta) in bytes.chunks_exact_mut((heads * head_bytes).max(1)).zip(deltas) {
        // A turn by nothing leaves the bytes as they are, whatever the dtype.
        if *delta != 0 {
            turner.aim(*delta);
            row.chunks_exact_mut(head_bytes).for_each(|head| turner.turn(head));
        }
    }
    Ok(())
}

/// Turns one head after the other, and keeps the room and the angles for that.
struct Turner<'a> {
    dtype: KeyDtype,
    pairs: Pairs,
    frequencies: &'a [f64],
    delta: i32,
    /// Of each pair at `delta`.
    cosines: Vec<f64>,
    sines: Vec<f64>,
    /// The head's numbers that turn, and for blocks those that share a block with them.
    numbers: Vec<f32>,
    halves: Vec<u16>,
}

impl<'a> Turner<'a> {
    fn new(shape: KeyShape, pairs: Pairs, frequencies: &'a [f64]) -> Self {
        let (turning, dtype) = (2 * frequencies.len(), shape.dtype);
        let count = turning.next_multiple_of(dtype.tensor_type().block_size());
        let (cosines, sines) = (vec![1.0; frequencies.len()], vec![0.0; frequencies.len()]);
        Self { dtype, pairs, frequencies, delta: 0, cosines, sines, numbers: vec![0.0; count], halves: vec![0; count] }
    }

    fn aim(&mut self, delta: i32) {
        if self.delta != delta {
            self.delta = delta;
            for ((cosine, sine), frequency) in self.cosines.iter_mut().zip(&mut self.sines).zip(self.frequencies) {
                (*sine, *cosine) = (f64::from(delta) * frequency).sin_cos();
            }
        }
    }

    fn turn(&mut self, head: &mut [u8]) {
        let bytes = self.dtype.tensor_type().bytes_of(self.numbers.len()).expect("whole blocks");
        let head = &mut head[..bytes];
        self.read(head);
        self.rotate();
        self.write(head);
    }

    fn read(&mut self, head: &[u8]) {
        if matches!(self.dtype, KeyDtype::F32 | KeyDtype::Q8_0) {
            return quant::decode(self.dtype.tensor_type(), head, &mut self.numbers).expect("whole blocks");
        }
        for (half, bytes) in self.halves.iter_mut().zip(head.as_chunks::<2>().0) {
            *half = u16::from_le_bytes(*bytes);
        }
        match self.dtype {
            KeyDtype::F16 => self.halves.reinterpret_cast::<f16>().convert_to_f32_slice(&mut self.numbers),
            _ => self.halves.reinterpret_cast::<bf16>().convert_to_f32_slice(&mut self.numbers),
        }
    }

    /// Products and sums in f64, rounded once.
    fn rotate(&mut self) {
        let turned = |a: &mut f32, b: &mut f32, cosine: &f64, sine: &f64| {
            let (x, y) = (f64::from(*a), f64::from(*b));
            (*a, *b) = ((x * cosine - y * sine) as f32, (x * sine + y * cosine) as f32);
        };
        let (count, turns) = (self.cosines.len(), self.cosines.iter().zip(&self.sines));
        match self.pairs {
            Pairs::Interleaved => {
                let pairs = self.numbers.as_chunks_mut::<2>().0;
                pairs.iter_mut().zip(turns).for_each(|([a, b], (cosine, sine))| turned(a, b, cosine, sine));
            }
            Pairs::Halves => {
                let (first, second) = self.numbers.split_at_mut(count);
                first.iter_mut().zip(second).zip(turns).for_each(|((a, b), (cosine, sine))| turned(a, b, cosine, sine));
            }
        }
    }

    fn write(&mut self, head: &mut [u8]) {
        match self.dtype {
            KeyDtype::F32 => {
                for (bytes, number) in head.as_chunks_mut::<4>().0.iter_mut().zip(&self.numbers) {
                    *bytes = number.to_le_bytes();
                }
                return;
            }
            KeyDtype::Q8_0 => {
                let blocks = head.as_chunks_mut::<34>().0.iter_mut();
                return blocks.zip(self.numbers.as_chunks::<32>().0).for_each(|(block, numbers)| code(numbers, block));
            }
            KeyDtype::F16 => self.halves.reinterpret_cast_mut::<f16>().convert_from_f32_slice(&self.numbers),
            KeyDtype::Bf16 => self.halves.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(&self.numbers),
        }
        for (bytes, half) in head.as_chunks_mut::<2>().0.iter_mut().zip(&self.halves) {
            *bytes = half.to_le_bytes();
        }
    }
}

/// The bytes that `quant::encode` gives, without its bound: what a half-precision scale cannot hold, or is no number, makes the whole
/// block NaN, so that it is seen.
fn code(numbers: &[f32; 32], block: &mut [u8; 34]) {
    let largest = numbers.iter().fold(0.0, |largest: f32, number| largest.max(number.abs()));
    let scale = largest / 127.0;
    let holds = numbers.iter().all(|number| number.is_finite()) && f16::from_f32(scale).is_finite();
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    block[..2].copy_from_slice(&(if holds { f16::from_f32(scale) } else { f16::NAN }).to_le_bytes());
    for (byte, number) in block[2..].iter_mut().zip(numbers) {
        let level = number * inverse;
        // `round` in instructions that every processor has: the largest number below a half, added and cut off.
        *byte = (level + 0.499_999_97_f32.copysign(level)) as i32 as u8;
    }
}
