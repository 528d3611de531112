//! The border to Node: the only crate that knows napi. Every export catches panics; work runs on threads of its own.

mod cells;
mod compute;
mod engine;
mod errors;
mod library;
mod model;
mod promise;
mod runtime;
mod step;

use napi_derive::napi;
use palimpsest_kernels::{Code, Kind, levels};

#[napi(object, object_from_js = false)]
pub struct DeviceFields {
    /// Levels that this machine runs, the slowest first.
    pub levels: Vec<String>,
    pub cores: u32,
}

#[napi(catch_unwind)]
pub fn device_info() -> DeviceFields {
    DeviceFields {
        levels: levels().iter().map(|level| level.level().name().to_owned()).collect(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()) as u32,
    }
}

#[napi(object, object_from_js = false)]
pub struct ErrorCodeFields {
    pub code: String,
    pub kind: String,
}

/// The table of error codes, for the test that holds it equal to that of the face.
#[napi(catch_unwind)]
pub fn error_codes() -> Vec<ErrorCodeFields> {
    let kind = |kind: Kind| match kind {
        Kind::Invalid => "invalid",
        Kind::Unsupported => "unsupported",
        Kind::Capacity => "capacity",
        Kind::Cancelled => "cancelled",
        Kind::Data => "data",
        Kind::Internal => "internal",
    };
    Code::ALL.iter().map(|code| ErrorCodeFields { code: code.name().to_owned(), kind: kind(code.kind()).to_owned() }).collect()
}
