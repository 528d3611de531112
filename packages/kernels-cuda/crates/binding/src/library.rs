//! Kernels on typed arrays, without a model and without threads: for stacks that take only a part.

use napi::bindgen_prelude::{
    Float32Array, Float32ArraySlice, Float64Array, Float64ArraySlice, Int32ArraySlice, Uint8Array, Uint8ArraySlice,
};
use napi_derive::napi;
use palimpsest_kernels::keys::{KeyDtype, KeyShape, rotate_keys as rotate};
use palimpsest_kernels::quant::{self, TensorType};
use palimpsest_kernels::rotary::{Stretch, frequencies};
use palimpsest_kernels::{Code, Error, Pairs, Result};

use crate::errors::to_napi;

/// Elements of a head that turn at most, so that a table of frequencies stays small.
const DIMENSIONS_MAX: usize = 65_536;

pub fn invalid(param: &str, message: String) -> Error {
    Error::at(Code::ArgumentInvalid, param, message)
}

pub fn tensor_type(name: &str) -> Result<TensorType> {
    let known: Vec<_> = TensorType::ALL.iter().map(|tensor_type| tensor_type.name()).collect();
    TensorType::from_name(name).ok_or_else(|| invalid("type", format!("one of {} is expected, \"{name}\" came", known.join(", "))))
}

/// Zeroed elements. Errors: `cells_exceed_memory`.
fn room<T: Clone + Default>(elements: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    if room.try_reserve_exact(elements).is_err() {
        return Err(Error::new(Code::CellsExceedMemory, format!("{elements} elements do not fit into memory; give less at a time")));
    }
    room.resize(elements, T::default());
    Ok(room)
}

/// Rotary parameters of `src/rotation.ts`; the face has checked that numbers are finite and above 0.
#[napi(object, object_to_js = false)]
pub struct RotaryFields<'env> {
    pub dimensions: u32,
    pub interleaved: bool,
    pub base: f64,
    pub factors: Option<Float32ArraySlice<'env>>,
    /// "none", "linear", "llama3" or "yarn", and its numbers in the order of `Stretch`.
    pub stretch: String,
    pub numbers: Float64ArraySlice<'env>,
}

impl RotaryFields<'_> {
    pub fn pairs(&self) -> Pairs {
        if self.interleaved { Pairs::Interleaved } else { Pairs::Halves }
    }

    /// Errors: `argument_invalid` that names the parameter.
    pub fn frequencies(&self) -> Result<Vec<f64>> {
        let stretch = match (self.stretch.as_str(), &self.numbers[..]) {
            ("none", []) => Stretch::None,
            ("linear", [factor]) => Stretch::Linear { factor: *factor },
            ("llama3", [_, low, high, _]) if high <= low => {
                return Err(invalid("rotary.scaling.highFrequencyFactor", format!("more than {low} is expected, {high} came")));
            }
            ("llama3", [factor, low, high, original]) => Stretch::Llama3 { factor: *factor, low: *low, high: *high, original: *original },
            ("yarn", [_, fast, slow, ..]) if fast <= slow => {
                return Err(invalid("rotary.scaling.betaFast", format!("more than {slow} is expected, {fast} came")));
            }
            ("yarn", [factor, fast, slow, original, extrapolation]) => {
                Stretch::Yarn { factor: *factor, fast: *fast, slow: *slow, original: *original, extrapolation: *extrapolation }
            }
            (name, numbers) => return Err(invalid("rotary.scaling", format!("\"{name}\" with {} numbers came", numbers.len()))),
        };
        let dimensions = self.dimensions as usize;
        if !dimensions.is_multiple_of(2) || dimensions > DIMENSIONS_MAX {
            return Err(invalid("rotary.dimensions", format!("an even number up to {DIMENSIONS_MAX} is expected, {dimensions} came")));
        }
        if let Some(factors) = self.factors.as_deref() {
            if factors.len() != dimensions / 2 {
                let message = format!("{} numbers are expected, {} came", dimensions / 2, factors.len());
                return Err(invalid("rotary.frequencyFactors", message));
            }
            if let Some(at) = factors.iter().position(|factor| !(factor.is_finite() && *factor > 0.0)) {
                let message = format!("a finite number above 0 is expected, {} came", factors[at]);
                return Err(invalid(&format!("rotary.frequencyFactors[{at}]"), message));
            }
        }
        let frequencies = frequencies(dimensions, self.base, self.factors.as_deref(), stretch);
        match frequencies.iter().position(|frequency| !frequency.is_finite()) {
            Some(at) => Err(invalid("rotary", format!("pair {at} would turn by {} radians a position", frequencies[at]))),
            None => Ok(frequencies),
        }
    }
}

/// Radians a position of each pair.
#[napi(catch_unwind)]
pub fn rotary_frequencies(rotary: RotaryFields<'_>) -> napi::Result<Float64Array> {
    Ok(rotary.frequencies().map_err(to_napi)?.into())
}

/// Turns cached keys in place: `keys` are their bytes.
#[napi(catch_unwind)]
pub fn rotate_keys(
    mut keys: Uint8Array,
    dtype: String,
    heads: u32,
    head_size: u32,
    rotary: RotaryFields<'_>,
    deltas: Int32ArraySlice<'_>,
) -> napi::Result<()> {
    let dtype = KeyDtype::from_name(&dtype)
        .ok_or_else(|| to_napi(invalid("dtype", format!("f32, f16, bf16 or q8_0 is expected, \"{dtype}\" came"))))?;
    let shape = KeyShape { dtype, heads: heads as usize, head_size: head_size as usize };
    let table = rotary.frequencies().map_err(to_napi)?;
    if table.len() * 2 > shape.head_size {
        let message = format!("at most a head's {head_size} elements turn, {} came", rotary.dimensions);
        return Err(to_napi(invalid("rotary.dimensions", message)));
    }
    // A copy: both arrays may lie over the same memory.
    let deltas = deltas.to_vec();
    // SAFETY: JavaScript waits for this call, and nothing here holds a reference into the array's memory any more.
    let bytes = unsafe { keys.as_mut() };
    rotate(bytes, shape, rotary.pairs(), &table, &deltas).map_err(to_napi)
}

/// Encodes numbers as blocks of a GGUF type.
#[napi(catch_unwind)]
pub fn quantize(type_name: String, values: Float32ArraySlice<'_>) -> napi::Result<Uint8Array> {
    let encode = || {
        let tensor_type = tensor_type(&type_name)?;
        let bytes = tensor_type.bytes_of(values.len()).ok_or_else(|| {
            let block = tensor_type.block_size();
            invalid("values", format!("{} numbers are no whole number of {} blocks of {block}", values.len(), tensor_type.name()))
        })?;
        let mut out = room(bytes)?;
        quant::encode(tensor_type, &values, &mut out)?;
        Ok(out)
    };
    Ok(encode().map_err(to_napi)?.into())
}

/// Decodes whole blocks of a GGUF type.
#[napi(catch_unwind)]
pub fn dequantize(type_name: String, bytes: Uint8ArraySlice<'_>) -> napi::Result<Float32Array> {
    let decode = || {
        let tensor_type = tensor_type(&type_name)?;
        if !bytes.len().is_multiple_of(tensor_type.block_bytes()) {
            let block = tensor_type.block_bytes();
            return Err(invalid("bytes", format!("{} bytes are no whole number of {} blocks of {block}", bytes.len(), tensor_type.name())));
        }
        let mut out = room(bytes.len() / tensor_type.block_bytes() * tensor_type.block_size())?;
        quant::decode(tensor_type, &bytes, &mut out)?;
        Ok(out)
    };
    Ok(decode().map_err(to_napi)?.into())
}
