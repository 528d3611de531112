//! The header: magic, version, counts, metadata, the list of tensors; then what must hold between them and the file's size.

use super::reader::{Reader, damaged};
use super::value::{Array, Value, typed};
use super::{ALIGNMENT_MAX, DIMENSIONS_MAX, TENSOR_NAME_BYTES_MAX, TensorInfo};
use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{Code, Error, Result};
use std::collections::HashMap;

const MAGIC: &[u8] = b"GGUF";
const ALIGNMENT_DEFAULT: usize = 32;
const ALIGNMENT_KEY: &str = "general.alignment";
/// A key (8 bytes of length, 1 of text), a type, one byte of value.
const METADATA_BYTES_MIN: usize = 14;
/// A name (8), the number of dimensions (4), one dimension (8), a type (4), an offset (8).
const TENSOR_BYTES_MIN: usize = 32;

/// Metadata and tensors of a file, all checked.
#[derive(Debug)]
pub struct Header {
    pub version: u32,
    /// Bytes; tensor data and each tensor begin at multiples of it.
    pub alignment: usize,
    /// First byte of tensor data.
    pub data_start: usize,
    /// In file order.
    pub tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
    metadata: HashMap<String, Value>,
}

impl Header {
    /// Reads the header of a whole file. Errors: as [`super::GgufFile::open`].
    pub fn parse(file: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(file);
        let version = read_version(&mut reader)?;
        let tensor_count = read_count(&mut reader, "tensor_count", TENSOR_BYTES_MIN)?;
        let metadata_count = read_count(&mut reader, "metadata_kv_count", METADATA_BYTES_MIN)?;
        let mut metadata = HashMap::with_capacity(metadata_count);
        for _ in 0..metadata_count {
            let key = reader.key()?;
            let value = reader.value(key)?;
            if metadata.insert(key.to_owned(), value).is_some() {
                return Err(damaged(key, format!("{key} stands twice in the metadata")));
            }
        }
        let alignment = read_alignment(metadata.get(ALIGNMENT_KEY))?;
        let mut tensors = Vec::with_capacity(tensor_count);
        let mut tensor_index = HashMap::with_capacity(tensor_count);
        for index in 0..tensor_count {
            let tensor = read_tensor(&mut reader, alignment)?;
            if tensor_index.insert(tensor.name.clone(), index).is_some() {
                return Err(damaged(&tensor.name, format!("tensor {} stands twice in the list", tensor.name)));
            }
            tensors.push(tensor);
        }
        let data_start = reader.at().next_multiple_of(alignment);
        place_tensors(&mut tensors, data_start, file.len())?;
        Ok(Self { version, alignment, data_start, tensors, tensor_index, metadata })
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index.get(name).map(|&index| &self.tensors[index])
    }

    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Keys of the metadata, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// A count, size or id. Errors: `model_file_damaged` when the key holds something else, or more than `usize` does.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        typed(key, self.value(key), "a whole number of at least 0", |value| value.as_u64()?.try_into().ok())
    }

    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        let float = typed(key, self.value(key), "a floating point number", Value::as_f64)?;
        match float {
            Some(value) if !value.is_finite() => Err(damaged(key, format!("{key} is {value}"))),
            other => Ok(other),
        }
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        typed(key, self.value(key), "a boolean", Value::as_bool)
    }

    pub fn string(&self, key: &str) -> Result<Option<&str>> {
        typed(key, self.value(key), "a string", Value::as_str)
    }

    pub fn array(&self, key: &str) -> Result<Option<&Array>> {
        typed(key, self.value(key), "an array", Value::as_array)
    }

    pub fn strings(&self, key: &str) -> Result<Option<&[String]>> {
        typed(key, self.value(key), "an array of strings", |value| value.as_array()?.as_strings())
    }

    /// The error for a key that must be there.
    pub fn missing(key: &str) -> Error {
        damaged(key, format!("{key} is missing in the metadata"))
    }
}

fn read_version(reader: &mut Reader) -> Result<u32> {
    let magic = reader.take("magic", MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err(damaged("magic", format!("not a GGUF file: it begins with {magic:02x?}, expected \"GGUF\"")));
    }
    match reader.u32("version")? {
        version @ 2..=3 => Ok(version),
        other if matches!(other.swap_bytes(), 1..=3) => {
            Err(Error::at(Code::ModelFormatUnsupported, "version", "big-endian GGUF files are not read, convert it to little-endian"))
        }
        other => Err(Error::at(Code::ModelFormatUnsupported, "version", format!("GGUF version {other} is not read, versions 2 and 3 are"))),
    }
}

/// A count whose elements take at least `bytes_min` each: refused when the rest of the file cannot hold them.
fn read_count(reader: &mut Reader, what: &str, bytes_min: usize) -> Result<usize> {
    let count = reader.u64(what)?;
    if count > (reader.left() / bytes_min) as u64 {
        return Err(damaged(what, format!("{what} is {count}, more than {} bytes can hold", reader.left())));
    }
    Ok(count as usize)
}

fn read_alignment(value: Option<&Value>) -> Result<usize> {
    let Some(value) = value else {
        return Ok(ALIGNMENT_DEFAULT);
    };
    match value {
        Value::U32(alignment) if alignment.is_power_of_two() && (8..=ALIGNMENT_MAX).contains(&(*alignment as usize)) => {
            Ok(*alignment as usize)
        }
        other => Err(damaged(
            ALIGNMENT_KEY,
            format!("{ALIGNMENT_KEY} is {other:?}, expected a u32 that is a power of two between 8 and {ALIGNMENT_MAX}"),
        )),
    }
}

/// One entry of the list. Its range still counts from the start of the tensor data.
fn read_tensor(reader: &mut Reader, alignment: usize) -> Result<TensorInfo> {
    let name = reader.string("a tensor's name", TENSOR_NAME_BYTES_MAX)?;
    let dimensions = reader.u32(name)? as usize;
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(damaged(name, format!("tensor {name} has {dimensions} dimensions, expected 1 to {DIMENSIONS_MAX}")));
    }
    let mut shape = Vec::with_capacity(dimensions);
    let mut elements = 1usize;
    for _ in 0..dimensions {
        let size = usize::try_from(reader.u64(name)?).unwrap_or(usize::MAX);
        if size == 0 {
            return Err(damaged(name, format!("tensor {name} has a dimension of 0")));
        }
        elements = elements
            .checked_mul(size)
            .ok_or_else(|| damaged(name, format!("tensor {name} has more elements than can be counted: {shape:?} × {size} × …")))?;
        shape.push(size);
    }
    let id = reader.u32(name)?;
    let tensor_type = TensorType::from_ggml_id(id).ok_or_else(|| unsupported_type(name, id))?;
    if !shape[0].is_multiple_of(tensor_type.block_size()) {
        return Err(damaged(
            name,
            format!("tensor {name} has rows of {} elements, no whole number of {} blocks", shape[0], tensor_type.name()),
        ));
    }
    let bytes = tensor_type
        .bytes_of(elements)
        .ok_or_else(|| damaged(name, format!("tensor {name} has more bytes than can be counted: {elements} elements")))?;
    let offset = reader.u64(name)?;
    let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(bytes)?));
    let range = range.ok_or_else(|| damaged(name, format!("tensor {name} begins at {offset}, beyond any file")))?;
    if !range.start.is_multiple_of(alignment) {
        return Err(damaged(name, format!("tensor {name} begins at {offset}, no multiple of the alignment {alignment}")));
    }
    Ok(TensorInfo { name: name.to_owned(), shape, tensor_type, range })
}

/// Moves ranges to their place in the file and checks that they lie inside it and apart from each other.
fn place_tensors(tensors: &mut [TensorInfo], data_start: usize, file_bytes: usize) -> Result<()> {
    for tensor in tensors.iter_mut() {
        let end = data_start.checked_add(tensor.range.end).filter(|&end| end <= file_bytes);
        let Some(end) = end else {
            return Err(damaged(
                &tensor.name,
                format!(
                    "the file is cut short: tensor {} ends {} bytes after {data_start}, the file has {file_bytes} bytes",
                    tensor.name, tensor.range.end
                ),
            ));
        };
        tensor.range = data_start + tensor.range.start..end;
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_unstable_by_key(|tensor| tensor.range.start);
    match order.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
        None => Ok(()),
        Some(pair) => Err(damaged(&pair[1].name, format!("tensor {} overlaps tensor {}", pair[1].name, pair[0].name))),
    }
}

/// Types that ggml has and this reader has not, by number, so that the message names them.
const OTHER_TYPES: &[(u32, &str)] = &[
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

fn unsupported_type(tensor: &str, id: u32) -> Error {
    let known = OTHER_TYPES.iter().find(|(other, _)| *other == id).map_or("unknown", |(_, name)| name);
    let read: Vec<&str> = TensorType::ALL.iter().map(|tensor_type| tensor_type.name()).collect();
    Error::at(Code::TensorTypeUnsupported, tensor, format!("tensor {tensor} is of type {id} ({known}); read are {}", read.join(", ")))
}
