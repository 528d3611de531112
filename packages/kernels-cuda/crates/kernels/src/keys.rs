//! The physical rotation of cached keys, for stacks that move positions in place, and for compaction.
//!
//! A rotated key turns on by Δ as R(Δ)·R(p)·k = R(p + Δ)·k: from the birth position, in one rotation, with cosines and sines made in
//! f64 from the integer Δ. Turning a key again and again adds up roundings; who moves a key twice should keep its birth position and
//! turn it once by the sum. The rotation is pure: a magnitude (YaRN) that is in the key already stays as it is.

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
    let mut turner = Turner { pairs, frequencies, delta: 0, turns: vec![(1.0, 0.0); frequencies.len()], numbers: vec![0.0; head_size] };
    for (row, delta) in bytes.chunks_exact_mut((heads * head_bytes).max(1)).zip(deltas) {
        // A turn by nothing leaves the bytes as they are, whatever the dtype.
        if *delta != 0 {
            turner.aim(*delta);
            row.chunks_exact_mut(head_bytes).for_each(|head| turner.turn(dtype, head));
        }
    }
    Ok(())
}

struct Turner<'a> {
    pairs: Pairs,
    frequencies: &'a [f64],
    delta: i32,
    /// Cosine and sine of each pair at `delta`.
    turns: Vec<(f64, f64)>,
    numbers: Vec<f32>,
}

impl Turner<'_> {
    fn aim(&mut self, delta: i32) {
        if self.delta != delta {
            self.delta = delta;
            for (turn, frequency) in self.turns.iter_mut().zip(self.frequencies) {
                let (sine, cosine) = (f64::from(delta) * frequency).sin_cos();
                *turn = (cosine, sine);
            }
        }
    }

    /// One head. Products and sums in f64, rounded once to the dtype.
    fn turn(&mut self, dtype: KeyDtype, head: &mut [u8]) {
        quant::decode(dtype.tensor_type(), head, &mut self.numbers).expect("whole blocks");
        let count = self.turns.len();
        let places = |pair: usize| match self.pairs {
            Pairs::Interleaved => (2 * pair, 2 * pair + 1),
            Pairs::Halves => (pair, pair + count),
        };
        let mut block_codes = false;
        for (pair, (cosine, sine)) in self.turns.iter().enumerate() {
            let (first, second) = places(pair);
            let (a, b) = (f64::from(self.numbers[first]), f64::from(self.numbers[second]));
            let (a, b) = (a * cosine - b * sine, a * sine + b * cosine);
            match dtype {
                KeyDtype::F32 => {
                    put(head, first, (a as f32).to_le_bytes());
                    put(head, second, (b as f32).to_le_bytes());
                }
                KeyDtype::F16 => {
                    put(head, first, f16::from_f64(a).to_le_bytes());
                    put(head, second, f16::from_f64(b).to_le_bytes());
                }
                KeyDtype::Bf16 => {
                    put(head, first, bf16::from_f64(a).to_le_bytes());
                    put(head, second, bf16::from_f64(b).to_le_bytes());
                }
                KeyDtype::Q8_0 => {
                    (self.numbers[first], self.numbers[second]) = (a as f32, b as f32);
                    block_codes = true;
                }
            }
        }
        if block_codes {
            // Blocks without a turning number keep their bytes.
            let (turning, type_) = ((2 * count).next_multiple_of(32), TensorType::Q8_0);
            let bytes = type_.bytes_of(turning).expect("whole blocks");
            // A damaged block (NaN in its scale) is left as it came: there is nothing to code.
            let _ = quant::encode(type_, &self.numbers[..turning], &mut head[..bytes]);
        }
    }
}

fn put<const N: usize>(head: &mut [u8], element: usize, bytes: [u8; N]) {
    head[element * N..][..N].copy_from_slice(&bytes);
}
