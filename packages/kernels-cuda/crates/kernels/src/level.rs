//! What a level of kernels is: the share of a batch that one thread computes, call by call.
//!
//! The driver (crate `model`) cuts a step into shares and runs them on the [`Pool`](crate::Pool); a level knows no threads, except
//! in `pack`. Whatever the shares, a number's bits are the same: a level sums each output in one order, given by its own row of
//! activations and weights (products: by blocks of columns) or by ranks of the view (attention), never by the tile it came in.

use std::ops::Range;

use crate::attend::quantised;
use crate::buffer::{Arena, Buffer, Plain};
use crate::bytes::QueryBlock;
use crate::cells::{CELL_BLOCK, CellDtype, CellShape, LayerCells};
use crate::error::Result;
use crate::pool::Pool;
use crate::quant::TensorType;
use crate::rotary::Pairs;

/// The instruction sets a step can be computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// f32 activations and weights dequantised to f32: slow, exact. All others answer to it.
    Reference,
    /// int8 activations in plain Rust: the twin of the vector levels.
    Scalar,
    Avx2,
    /// AVX2 and AVX-VNNI.
    AvxVnni,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// 64-bit Arm with dotprod, and i8mm where the processor has it.
    Neon,
}

impl Level {
    pub const ALL: &[Level] = &[Level::Reference, Level::Scalar, Level::Avx2, Level::AvxVnni, Level::Avx512, Level::Neon];

    pub fn name(self) -> &'static str {
        match self {
            Level::Reference => "reference",
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::AvxVnni => "avx-vnni",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Level::ALL.iter().copied().find(|level| level.name() == name)
    }
}

/// Rows in a panel: one 512-bit vector of f32.
pub const PANEL_ROWS: usize = 16;
/// Activations that share one int8 scale, and the width of a block of weights.
pub const BLOCK: usize = 32;
/// Ranks of a view that are summed together. Blocks are joined in rank order.
pub const RANK_BLOCK: usize = 512;
/// Queries (rows · heads of one group) that an [`AttendBlock`] holds at most.
pub const QUERY_TILE: usize = 16;

/// Rows of a tensor as a file holds them: `rows` of `columns` numbers, each row a whole number of blocks.
#[derive(Clone, Copy)]
pub struct RawMatrix<'a> {
    pub tensor_type: TensorType,
    pub rows: usize,
    pub columns: usize,
    pub bytes: &'a [u8],
}

/// How a packed matrix lies in memory. Panel p holds rows 16p … 16p + 15; rows past the end are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `codes`: f32 `[panel][column][16 rows]`.
    F32,
    /// `codes`: f16 `[panel][column][16 rows]`.
    F16,
    /// `codes`: bytes as `panel.rs` lays them out for this type, as many bits a weight as the file has, scales among them.
    Packed(TensorType),
}

/// A weight matrix, packed once at load for the level that made it.
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub format: Format,
    pub codes: Buffer,
}

impl Matrix {
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    pub fn bytes(&self) -> usize {
        self.codes.bytes()
    }
}

/// One row on its way into a product, in every form that the model's matrices want. Slices that nobody wants are empty.
pub struct ActivationRow<'a> {
    /// `columns` numbers.
    pub values: &'a mut [f32],
    /// `columns` codes: value ≈ code · scale of its block.
    pub codes: &'a mut [i8],
    /// One for each block of 32 columns.
    pub blocks: &'a mut [ActivationBlock],
}

/// What a product needs to know of 32 codes besides the codes: 16 bytes that lie together, since they are read together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct ActivationBlock {
    /// value ≈ code · scale.
    pub scale: f32,
    /// scale · sum, rounded once: what a weight's minimum is multiplied by.
    pub weighted_sum: f32,
    /// Sum of the 32 codes.
    pub sum: i32,
    /// Sum of the first 16 codes, for weights with a scale for every 16 columns.
    pub first_half_sum: i32,
}

impl Plain for ActivationBlock {}

/// Rows `0 … rows` of activations, row-major; strides are `columns` and `columns / 32`.
pub struct Activations<'a> {
    pub rows: usize,
    pub columns: usize,
    pub values: &'a [f32],
    pub codes: &'a [i8],
    pub blocks: &'a [ActivationBlock],
}

/// Where a product goes: `out[row * stride + output]`, output = row of the matrix.
///
/// Shares of one product write disjoint outputs through the same pointer.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    /// First element of row 0.
    pub start: *mut f32,
    pub stride: usize,
    /// Added to every row: one for each row of the matrix.
    pub bias: Option<&'a [f32]>,
    /// true: add to what stands there (a residual stream); false: replace it.
    pub add: bool,
}

// SAFETY: an output is an address; whoever writes through it answers for disjointness (see `Kernels::multiply`).
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

/// The gate of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// x · sigmoid(x)
    Silu,
    /// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
    GeluTanh,
}

/// Cells of one page with one shift, consecutive in rank. `first + count ≤ page_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub page: u32,
    pub first: u16,
    pub count: u16,
    /// Which rotation of the queries reads these cells.
    pub rotation: u32,
}

/// A tile of queries of one head group against one block of ranks.
pub struct AttendBlock<'a> {
    pub cells: LayerCells<'a>,
    pub kv_head: usize,
    /// The block's cells in rank order, at most [`RANK_BLOCK`]. All pages are inside the pool.
    pub pieces: &'a [Piece],
    /// For each query how many of the block's ranks it reads (from the first): 0 … sum of counts. At most [`QUERY_TILE`] queries.
    pub limits: &'a [u32],
    /// For each query the first rank of the block that it reads: ranks below have left its window. `start ≥ limit`: it reads none.
    /// Empty: 0 for all.
    pub starts: &'a [u32],
    /// `[rotation][query][key size]`, rotated by p − Δ and scaled by magnitude / √size.
    pub queries: &'a [f32],
    /// score = cap · tanh(score / cap); 0 = none.
    pub soft_cap: f32,
}

impl AttendBlock<'_> {
    /// Numbers of room that a level needs while it attends to cells of this shape with so many rotations.
    pub fn scratch(shape: &CellShape, rotations: usize) -> usize {
        let scores = QUERY_TILE * (RANK_BLOCK + 16);
        match shape.dtype {
            CellDtype::F32 | CellDtype::F16 => scores,
            CellDtype::Q8_0 => {
                scores + quantised::WEIGHT_ROOM + rotations * QUERY_TILE * shape.key_size.div_ceil(CELL_BLOCK) * QueryBlock::NUMBERS
            }
        }
    }

    /// The ranks of the block that a query reads.
    #[inline(always)]
    pub fn ranks(&self, query: usize) -> Range<usize> {
        let limit = self.limits[query] as usize;
        self.starts.get(query).map_or(0, |start| (*start as usize).min(limit))..limit
    }
}

/// What one block comes to, for each query: softmax numerators relative to the block's own maximum.
pub struct Partial<'a> {
    /// `[query][value size]`: Σ exp(score − maximum) · value, in rank order.
    pub sums: &'a mut [f32],
    /// Highest score; −∞ for a query that reads nothing here (then weight 0 and sums 0).
    pub maxima: &'a mut [f32],
    /// Σ exp(score − maximum): 16 lanes by rank modulo 16, then the lanes.
    pub weights: &'a mut [f32],
    /// Room: see [`AttendBlock::scratch`].
    pub scratch: &'a mut [f32],
}

/// One level. Shapes were checked by the driver; a level may assert them, and reads nothing outside its arguments.
pub trait Kernels: Send + Sync {
    fn level(&self) -> Level;

    /// Packs one tensor into memory of `arena`, panels in parallel. Errors: `tensor_type_unsupported`, `cells_exceed_memory`.
    fn pack(&self, raw: &RawMatrix<'_>, pool: &Pool, arena: &Arena) -> Result<Matrix>;

    /// One row of a packed matrix as f32: an embedding.
    fn unpack_row(&self, matrix: &Matrix, row: usize, out: &mut [f32]);

    /// Which slices of [`ActivationRow`] a product with this format reads: values, or codes with their blocks.
    fn wants_codes(&self, format: Format) -> bool;

    /// Fills the row from `x`: values and codes as wanted (those slices that are not empty).
    fn quantize(&self, x: &[f32], out: &mut ActivationRow<'_>);

    /// out = x / √(mean(x²) + epsilon) · weight, then as `quantize`.
    fn normalize(&self, x: &[f32], weight: &[f32], epsilon: f32, out: &mut ActivationRow<'_>);

    /// out = gate(g) · u, then as `quantize`.
    fn gate(&self, kind: Gate, g: &[f32], u: &[f32], out: &mut ActivationRow<'_>);

    /// Outputs `16 · panels.start …` of every row: out[r][o] (+)= Σ_k x[r][k] · w[o][k] + bias[o].
    ///
    /// # Safety
    /// `out.start` is valid for writes of `matrix.rows` elements in each of `x.rows` rows of `out.stride`, and no other thread
    /// touches the outputs of these panels meanwhile.
    unsafe fn multiply(&self, matrix: &Matrix, panels: Range<usize>, x: &Activations<'_>, out: Output<'_>);

    /// Rotates one head by the angles whose cosines and sines are given, and multiplies by `scale`: pairs as `pairs` says,
    /// elements past the rotated ones only scaled. `x` and `out` have the head's size.
    fn rotate(&self, pairs: Pairs, cosines: &[f32], sines: &[f32], scale: f32, x: &[f32], out: &mut [f32]);

    /// One block of ranks for a tile of queries.
    fn attend(&self, block: &AttendBlock<'_>, out: &mut Partial<'_>);
}

/// Every level that this machine can run, the slowest first.
pub fn levels() -> Vec<Box<dyn Kernels>> {
    Level::ALL.iter().filter_map(|level| kernels(*level)).collect()
}

/// The level by name, `None` where this machine has not the instructions.
pub fn kernels(level: Level) -> Option<Box<dyn Kernels>> {
    match level {
        Level::Reference => Some(Box::new(crate::reference::Reference::new())),
        Level::Scalar => Some(Box::new(crate::scalar::Scalar)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => crate::avx512::Avx512::new().map(|level| Box::new(level) as Box<dyn Kernels>),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => crate::avx2::Avx2::new().map(|level| Box::new(level) as Box<dyn Kernels>),
        #[cfg(target_arch = "x86_64")]
        Level::AvxVnni => crate::avx_vnni::AvxVnni::new().map(|level| Box::new(level) as Box<dyn Kernels>),
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::AvxVnni | Level::Avx512 => None,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => crate::neon::Neon::new().map(|level| Box::new(level) as Box<dyn Kernels>),
        #[cfg(not(target_arch = "aarch64"))]
        Level::Neon => None,
    }
}
