//! Compute kernels: one scalar reference, levels chosen at run time. Knows shapes and bytes, no model and no JavaScript.

pub mod error;

pub use error::{Code, Error, Kind, Result};
