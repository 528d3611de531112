//! Writes GGUF files (version 3), for generated models and requantised ones.

use super::value::{Array, Value};
use palimpsest_kernels::Result;
use palimpsest_kernels::quant::{self, TensorType};

/// Collects metadata and tensors, then lays them out.
#[derive(Default)]
pub struct Writer {
    metadata: Vec<(String, Value)>,
    tensors: Vec<Entry>,
}

struct Entry {
    name: String,
    shape: Vec<usize>,
    tensor_type: TensorType,
    bytes: Vec<u8>,
}

const ALIGNMENT: usize = 32;

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value under a key that was not used before.
    pub fn set(&mut self, key: impl Into<String>, value: Value) -> &mut Self {
        self.metadata.push((key.into(), value));
        self
    }

    /// Adds a tensor of f32 numbers, encoded as `tensor_type`. `shape`: the fastest dimension first.
    ///
    /// Errors: `argument_invalid` when the numbers are no whole number of blocks or not finite.
    pub fn tensor(&mut self, name: impl Into<String>, shape: &[usize], tensor_type: TensorType, values: &[f32]) -> Result<()> {
        let name = name.into();
        let mut bytes = vec![0; tensor_type.bytes_of(values.len()).unwrap_or(0)];
        quant::encode(tensor_type, values, &mut bytes).map_err(|mut error| {
            error.message = format!("tensor {name}: {}", error.message);
            error
        })?;
        self.tensors.push(Entry { name, shape: shape.to_vec(), tensor_type, bytes });
        Ok(())
    }

    /// The whole file.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"GGUF");
        out.extend_from_slice(&3u32.to_le_bytes());
        out.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            write_string(&mut out, key);
            write_value(&mut out, value);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            write_string(&mut out, &tensor.name);
            out.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().for_each(|&size| out.extend_from_slice(&(size as u64).to_le_bytes()));
            out.extend_from_slice(&tensor.tensor_type.ggml_id().to_le_bytes());
            out.extend_from_slice(&(offset as u64).to_le_bytes());
            offset = (offset + tensor.bytes.len()).next_multiple_of(ALIGNMENT);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            out.extend_from_slice(&tensor.bytes);
        }
        out
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The number that names the type in the file, then the value.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    let mut plain = |id: u32, bytes: &[u8]| {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Value::U8(value) => plain(0, &value.to_le_bytes()),
        Value::I8(value) => plain(1, &value.to_le_bytes()),
        Value::U16(value) => plain(2, &value.to_le_bytes()),
        Value::I16(value) => plain(3, &value.to_le_bytes()),
        Value::U32(value) => plain(4, &value.to_le_bytes()),
        Value::I32(value) => plain(5, &value.to_le_bytes()),
        Value::F32(value) => plain(6, &value.to_le_bytes()),
        Value::Bool(value) => plain(7, &[u8::from(*value)]),
        Value::U64(value) => plain(10, &value.to_le_bytes()),
        Value::I64(value) => plain(11, &value.to_le_bytes()),
        Value::F64(value) => plain(12, &value.to_le_bytes()),
        Value::String(text) => {
            plain(8, &[]);
            write_string(out, text);
        }
        Value::Array(array) => {
            plain(9, &[]);
            write_array(out, array);
        }
    }
}

fn write_array(out: &mut Vec<u8>, array: &Array) {
    fn start(out: &mut Vec<u8>, id: u32, count: usize) {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&(count as u64).to_le_bytes());
    }
    macro_rules! numbers {
        ($id:literal, $values:expr) => {{
            start(out, $id, $values.len());
            $values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }};
    }
    match array {
        Array::U8(values) => numbers!(0, values),
        Array::I8(values) => numbers!(1, values),
        Array::U16(values) => numbers!(2, values),
        Array::I16(values) => numbers!(3, values),
        Array::U32(values) => numbers!(4, values),
        Array::I32(values) => numbers!(5, values),
        Array::F32(values) => numbers!(6, values),
        Array::U64(values) => numbers!(10, values),
        Array::I64(values) => numbers!(11, values),
        Array::F64(values) => numbers!(12, values),
        Array::Bool(values) => {
            start(out, 7, values.len());
            out.extend(values.iter().map(|&value| u8::from(value)));
        }
        Array::String(values) => {
            start(out, 8, values.len());
            values.iter().for_each(|value| write_string(out, value));
        }
        Array::Array(values) => {
            start(out, 9, values.len());
            values.iter().for_each(|value| write_array(out, value));
        }
    }
}
