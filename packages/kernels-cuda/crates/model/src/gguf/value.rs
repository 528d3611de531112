//! Values of the metadata.

use palimpsest_kernels::{Code, Error, Result};

/// One value of the metadata, with the type that the file gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of the metadata: one type for all elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// What it is, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::F32(_) => "f32",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F64(_) => "f64",
        }
    }

    /// Any integer type that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::U64(value) => Some(value),
            Value::I8(value) => value.try_into().ok(),
            Value::I16(value) => value.try_into().ok(),
            Value::I32(value) => value.try_into().ok(),
            Value::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(value) => Some(value),
            _ => None,
        }
    }
}

impl Array {
    pub fn len(&self) -> usize {
        match self {
            Array::U8(values) => values.len(),
            Array::I8(values) => values.len(),
            Array::U16(values) => values.len(),
            Array::I16(values) => values.len(),
            Array::U32(values) => values.len(),
            Array::I32(values) => values.len(),
            Array::F32(values) => values.len(),
            Array::Bool(values) => values.len(),
            Array::String(values) => values.len(),
            Array::Array(values) => values.len(),
            Array::U64(values) => values.len(),
            Array::I64(values) => values.len(),
            Array::F64(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn as_strings(&self) -> Option<&[String]> {
        match self {
            Array::String(values) => Some(values),
            _ => None,
        }
    }

    /// Any integer type, no element negative.
    pub fn to_u64(&self) -> Option<Vec<u64>> {
        match self {
            Array::U8(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Array::U16(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Array::U32(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Array::U64(values) => Some(values.clone()),
            Array::I8(values) => values.iter().map(|&value| value.try_into().ok()).collect(),
            Array::I16(values) => values.iter().map(|&value| value.try_into().ok()).collect(),
            Array::I32(values) => values.iter().map(|&value| value.try_into().ok()).collect(),
            Array::I64(values) => values.iter().map(|&value| value.try_into().ok()).collect(),
            _ => None,
        }
    }
}

/// Reads a value of the wanted kind or says what is wrong with the key.
pub(super) fn wrong_type(key: &str, value: &Value, expected: &str) -> Error {
    Error::at(Code::ModelFileDamaged, key, format!("{key} is of type {}, expected {expected}", value.type_name()))
}

/// A typed view of one key: absent is `None`, present with another type is an error that names the key.
pub(super) fn typed<'a, T>(
    key: &str,
    value: Option<&'a Value>,
    expected: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>> {
    value.map(|value| read(value).ok_or_else(|| wrong_type(key, value, expected))).transpose()
}
