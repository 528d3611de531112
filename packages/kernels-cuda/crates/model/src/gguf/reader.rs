//! Checked reads from the bytes of a file: every length is compared with what is left before anything is taken or allocated.

use super::value::{Array, Value};
use super::{ARRAY_DEPTH_MAX, KEY_BYTES_MAX};
use palimpsest_kernels::{Code, Error, Result};

/// A place in the file. `what` in its calls names the field, for the message.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

pub(super) fn damaged(param: &str, message: String) -> Error {
    Error::at(Code::ModelFileDamaged, param, message)
}

macro_rules! numbers {
    ($($name:ident: $type:ty,)*) => {
        $(pub(super) fn $name(&mut self, what: &str) -> Result<$type> {
            Ok(<$type>::from_le_bytes(self.array(what)?))
        })*
    };
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    numbers! { u16: u16, u32: u32, u64: u64, i8: i8, u8: u8, i16: i16, i32: i32, i64: i64, f32: f32, f64: f64, }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, what: &str, count: u64) -> Result<&'a [u8]> {
        if count > self.left() as u64 {
            return Err(damaged(
                what,
                format!("the file is cut short: {what} takes {count} bytes at {}, {} are left", self.at, self.left()),
            ));
        }
        let taken = &self.bytes[self.at..self.at + count as usize];
        self.at += count as usize;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let taken = self.take(what, N as u64)?;
        Ok(*taken.first_chunk().expect("take gives what it was asked for"))
    }

    /// A length of 64 bits and that many bytes of UTF-8.
    pub(super) fn string(&mut self, what: &str, bytes_max: usize) -> Result<&'a str> {
        let length = self.u64(what)?;
        if length > bytes_max as u64 {
            return Err(damaged(what, format!("{what} has a string of {length} bytes, at most {bytes_max} are allowed")));
        }
        let bytes = self.take(what, length)?;
        std::str::from_utf8(bytes).map_err(|_| damaged(what, format!("{what} has a string that is not UTF-8")))
    }

    pub(super) fn key(&mut self) -> Result<&'a str> {
        let key = self.string("a key of the metadata", KEY_BYTES_MAX)?;
        if key.is_empty() {
            return Err(damaged("a key of the metadata", "a key of the metadata is empty".into()));
        }
        Ok(key)
    }

    fn bool(&mut self, what: &str) -> Result<bool> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(damaged(what, format!("{what} has a boolean that is {other}, expected 0 or 1"))),
        }
    }

    /// A value of the metadata under `key`.
    pub(super) fn value(&mut self, key: &str) -> Result<Value> {
        Ok(match self.u32(key)? {
            0 => Value::U8(self.u8(key)?),
            1 => Value::I8(self.i8(key)?),
            2 => Value::U16(self.u16(key)?),
            3 => Value::I16(self.i16(key)?),
            4 => Value::U32(self.u32(key)?),
            5 => Value::I32(self.i32(key)?),
            6 => Value::F32(self.f32(key)?),
            7 => Value::Bool(self.bool(key)?),
            8 => Value::String(self.string(key, usize::MAX)?.to_owned()),
            9 => Value::Array(self.array_value(key, 1)?),
            10 => Value::U64(self.u64(key)?),
            11 => Value::I64(self.i64(key)?),
            12 => Value::F64(self.f64(key)?),
            other => {
                return Err(damaged(key, format!("{key} has value type {other}, which GGUF does not know")));
            }
        })
    }

    fn array_value(&mut self, key: &str, depth: usize) -> Result<Array> {
        if depth > ARRAY_DEPTH_MAX {
            return Err(damaged(key, format!("{key} has arrays nested deeper than {ARRAY_DEPTH_MAX}")));
        }
        let element = self.u32(key)?;
        let count = self.u64(key)?;
        Ok(match element {
            0 => Array::U8(self.take(key, count)?.to_vec()),
            1 => Array::I8(self.elements(key, count, 1, |reader| reader.i8(key))?),
            2 => Array::U16(self.elements(key, count, 2, |reader| reader.u16(key))?),
            3 => Array::I16(self.elements(key, count, 2, |reader| reader.i16(key))?),
            4 => Array::U32(self.elements(key, count, 4, |reader| reader.u32(key))?),
            5 => Array::I32(self.elements(key, count, 4, |reader| reader.i32(key))?),
            6 => Array::F32(self.elements(key, count, 4, |reader| reader.f32(key))?),
            7 => Array::Bool(self.elements(key, count, 1, |reader| reader.bool(key))?),
            8 => Array::String(self.elements(key, count, 8, |reader| Ok(reader.string(key, usize::MAX)?.to_owned()))?),
            9 => Array::Array(self.elements(key, count, 12, |reader| reader.array_value(key, depth + 1))?),
            10 => Array::U64(self.elements(key, count, 8, |reader| reader.u64(key))?),
            11 => Array::I64(self.elements(key, count, 8, |reader| reader.i64(key))?),
            12 => Array::F64(self.elements(key, count, 8, |reader| reader.f64(key))?),
            other => {
                return Err(damaged(key, format!("{key} is an array of type {other}, which GGUF does not know")));
            }
        })
    }

    /// `count` elements of at least `bytes_min` bytes each: more than the rest of the file can hold are refused before the first.
    fn elements<T>(&mut self, key: &str, count: u64, bytes_min: u64, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if count > self.left() as u64 / bytes_min {
            return Err(damaged(
                key,
                format!("the file is cut short: {key} is an array of {count} elements, {} bytes are left", self.left()),
            ));
        }
        let mut elements = Vec::with_capacity(count as usize);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }
}
