//! Compute kernels: one scalar reference, levels chosen at run time. Knows shapes and bytes, no model and no JavaScript.

mod attend;
#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod avx_vnni;
pub mod buffer;
mod bytes;
mod cell_bytes;
pub mod cells;
pub mod error;
mod huge;
pub mod int8;
pub mod keys;
pub mod lanes;
pub mod level;
#[cfg(target_arch = "aarch64")]
pub mod neon;
mod numbers;
pub mod panel;
pub mod pool;
pub mod quant;
pub mod reference;
pub mod rotary;
pub mod scalar;
pub mod small;
pub mod softmax;
mod vector;
mod vector_level;

pub use buffer::{Arena, Buffer};
pub use cells::{CELL_BLOCK, CellDtype, CellShape, Cells, LayerCells, Plane, Quantised};
pub use error::{Code, Error, Kind, Result};
pub use level::{
    ActivationBlock, ActivationRow, Activations, AttendBlock, Format, Gate, Kernels, Level, Matrix, Output, Partial, Piece, RawMatrix,
    kernels, levels,
};
pub use pool::Pool;
pub use reference::Reference;
pub use rotary::{Pairs, Rotary};
