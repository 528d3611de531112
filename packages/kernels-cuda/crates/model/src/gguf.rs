//! GGUF files, versions 2 and 3: metadata, the list of tensors, and the bytes of each, read without a copy.
//!
//! Nothing in a file is believed before it was compared with the file's size: lengths of strings, counts, nesting of arrays,
//! alignment, shapes, offsets. All reads go through checked slices; the only `unsafe` is the map itself. The format is described in
//! ggml's `docs/gguf.md`.

mod header;
mod reader;
mod value;
mod writer;

use memmap2::Mmap;
use palimpsest_kernels::quant::{self, TensorType};
use palimpsest_kernels::{Code, Error, Result};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

pub use header::Header;
pub use value::{Array, Value};
pub use writer::Writer;

/// Most dimensions of a tensor.
pub const DIMENSIONS_MAX: usize = 4;
/// Longest name of a tensor, in bytes (the specification's 64).
pub const TENSOR_NAME_BYTES_MAX: usize = 64;
/// Longest key of the metadata, in bytes (the specification's 2¹⁶ − 1).
pub const KEY_BYTES_MAX: usize = 65_535;
/// Arrays inside arrays.
pub const ARRAY_DEPTH_MAX: usize = 4;
/// Largest alignment of tensor data, in bytes.
pub const ALIGNMENT_MAX: usize = 1 << 20;

/// One tensor of the list in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    /// Elements of each dimension, the fastest first: a matrix of `rows` outputs of `columns` inputs is `[columns, rows]`.
    pub shape: Vec<usize>,
    pub tensor_type: TensorType,
    /// Bytes of the file that hold it; inside the file.
    pub range: Range<usize>,
}

impl TensorInfo {
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Elements of the fastest dimension.
    pub fn columns(&self) -> usize {
        self.shape[0]
    }

    /// Product of all other dimensions.
    pub fn rows(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Bytes of one row: rows hold whole blocks.
    pub fn row_bytes(&self) -> usize {
        self.range.len() / self.rows()
    }
}

enum Source {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

/// A file whose header was checked whole.
pub struct GgufFile {
    header: Header,
    source: Source,
}

impl GgufFile {
    /// Maps the file and reads its header.
    ///
    /// Errors: `model_file_unreadable` (the path cannot be opened or mapped), `model_file_damaged` (what is wrong, and where),
    /// `model_format_unsupported` (another version, big-endian), `tensor_type_unsupported` (which tensor).
    pub fn open(path: &Path) -> Result<Self> {
        let unreadable =
            |cause: std::io::Error| Error::at(Code::ModelFileUnreadable, "path", format!("{} cannot be read: {cause}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(Error::at(Code::ModelFileUnreadable, "path", format!("{} is not a file", path.display())));
        }
        // SAFETY: the map is private to this value and only read. Rust asks that nobody changes the bytes meanwhile; a model file
        // that is written to while a server runs on it is outside what any reader of mapped weights can defend.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        Ok(Self { header: Header::parse(&map)?, source: Source::Mapped(map) })
    }

    /// The same for bytes in memory. Errors: as for `open`, without `model_file_unreadable`.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Ok(Self { header: Header::parse(&bytes)?, source: Source::Owned(bytes) })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Mapped(map) => map,
            Source::Owned(bytes) => bytes,
        }
    }

    /// The tensor of this name, when there is one.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.header.tensor(name)
    }

    /// The tensor of this name. Errors: `model_file_damaged` that names it.
    pub fn required_tensor(&self, name: &str) -> Result<&TensorInfo> {
        self.tensor(name).ok_or_else(|| Error::at(Code::ModelFileDamaged, name, format!("tensor {name} is missing")))
    }

    /// The encoded bytes of a tensor of this file.
    pub fn tensor_bytes(&self, tensor: &TensorInfo) -> &[u8] {
        &self.bytes()[tensor.range.clone()]
    }

    /// All numbers of a tensor of this file, row after row.
    pub fn decode(&self, tensor: &TensorInfo) -> Result<Vec<f32>> {
        let mut out = vec![0.0; tensor.elements()];
        quant::decode(tensor.tensor_type, self.tensor_bytes(tensor), &mut out)?;
        Ok(out)
    }
}
