/**
 * Kernels on typed arrays, without a model: for a serving stack that takes only products, only the attention, or only codes of weights.
 *
 * Classes, lengths and ranges are checked; what is wrong is a `KernelError` with `param`, and nothing was written. Products, attention
 * and packing run on threads of their own, never on the event loop: those of one `Compute` one after the other, in the order of the
 * calls. They copy their arguments when they are called, so the caller's arrays are free at once.
 */

import { arrayOf, booleanOf, fieldsOf, finiteNumber, textOf, wholeNumber } from "./arguments.ts";
import { KernelError } from "./errors.ts";
import { loadNative } from "./loader.ts";
import { awaiting, calling, type NativeCellPages, type NativeCompute, type NativeMatrix } from "./native.ts";
import { rotaryFields, type RotaryParameters } from "./rotation.ts";
import type { CellDtype, KernelLevel } from "./runtime.ts";
import type { Step } from "./step.ts";

/** Types of GGUF tensors that are encoded, decoded and multiplied with. */
export type TensorType = "F32" | "F16" | "BF16" | "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1" | "Q8_0" | "Q4_K" | "Q5_K" | "Q6_K";

/**
 * Encodes numbers as whole blocks of a GGUF type (1, 32 or 256 numbers each; layouts: `ggml-common.h` of ggml).
 *
 * Types with one scale for 32 numbers get the bytes of ggml's `quantize_row_*_ref`; the K types take the extremes of each sub-block as
 * its levels. Runs on the calling thread. Errors: `argument_invalid` that names `type` or `values` (no whole number of blocks, not
 * finite, beyond half precision where the scale is).
 */
export function quantize(type: TensorType, values: Float32Array): Uint8Array {
  arrayOf("values", values, "Float32Array");
  return calling(() => loadNative().quantize(textOf("type", type), values));
}

/**
 * Decodes whole blocks of a GGUF type, to the bits of ggml's `dequantize_row_*`. Runs on the calling thread.
 *
 * Errors: `argument_invalid` that names `type` or `bytes`, `cells_exceed_memory`.
 */
export function dequantize(type: TensorType, bytes: Uint8Array): Float32Array {
  arrayOf("bytes", bytes, "Uint8Array");
  return calling(() => loadNative().dequantize(textOf("type", type), bytes));
}

export interface ComputeOptions {
  /** "auto" takes the fastest level of this machine. */
  kernels?: KernelLevel | "auto";
  /** Default: the cores of this machine. */
  threads?: number;
}

/** A level and its threads: opened once, used by every product and attention of a stack. Idle threads are parked. */
export class Compute {
  readonly level: KernelLevel;
  readonly threads: number;
  readonly #native: NativeCompute;

  /** @internal Use `openCompute`. */
  constructor(native: NativeCompute) {
    this.#native = native;
    this.level = native.level;
    this.threads = native.threads;
  }

  /** Ends the threads when what was called before has ended; else they end with the process. Later calls: `runtime_disposed`. Idempotent. */
  async dispose(): Promise<void> {
    await awaiting(() => this.#native.dispose());
  }

  /** @internal */
  static native(compute: Compute): NativeCompute {
    if (typeof compute === "object" && compute !== null && #native in compute) return compute.#native;
    throw new KernelError("argument_invalid", "what openCompute gave is expected", "compute");
  }
}

/** Errors: `argument_invalid` that names `kernels` or `threads`, `backend_unsupported` for a level that this machine has not. */
export function openCompute(options: ComputeOptions = {}): Compute {
  fieldsOf("options", options, ["kernels", "threads"]);
  const threads = options.threads === undefined ? 0 : wholeNumber("threads", options.threads, 1, 1024);
  const kernels = textOf("kernels", options.kernels ?? "auto");
  return calling(() => {
    const { NativeCompute } = loadNative();
    return new Compute(new NativeCompute(kernels, threads));
  });
}

export interface MatrixOptions {
  type: TensorType;
  /** Outputs. */
  rows: number;
  /** Inputs; a whole number of the type's blocks. */
  columns: number;
  /** Row after row, as a GGUF file has them. */
  bytes: Uint8Array;
}

/** A weight matrix in the layout of a level: 16 outputs side by side, as many bits a weight as the type has. */
export class PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  /** Bytes held outside of JavaScript's heap. */
  readonly byteLength: number;
  readonly #native: NativeMatrix;

  /** @internal Use `packMatrix`. */
  constructor(native: NativeMatrix, rows: number, columns: number) {
    this.#native = native;
    this.rows = rows;
    this.columns = columns;
    this.byteLength = native.bytes;
  }

  /**
   * Frees the weights when the products that were called before have ended, without waiting for the garbage collector, which does not see
   * their size. Later ones: `runtime_disposed`. Idempotent.
   */
  dispose(): void {
    calling(() => this.#native.dispose());
  }

  /** @internal */
  static native(matrix: PackedMatrix): NativeMatrix {
    if (typeof matrix === "object" && matrix !== null && #native in matrix) return matrix.#native;
    throw new KernelError("argument_invalid", "what packMatrix gave is expected", "matrix");
  }
}

/**
 * Packs a matrix for products. `bytes` may be reused at once.
 *
 * Errors: `argument_invalid` that names `type`, `rows`, `columns` or `bytes`; `cells_exceed_memory`; `runtime_disposed`.
 */
export async function packMatrix(compute: Compute, options: MatrixOptions): Promise<PackedMatrix> {
  const native = Compute.native(compute);
  fieldsOf("options", options, ["type", "rows", "columns", "bytes"]);
  const rows = wholeNumber("rows", options.rows, 1);
  const columns = wholeNumber("columns", options.columns, 1);
  const bytes = arrayOf("bytes", options.bytes, "Uint8Array");
  const type = textOf("type", options.type);
  return new PackedMatrix(await awaiting(() => native.pack(type, rows, columns, bytes)), rows, columns);
}

/**
 * out[r][o] = Σ_k x[r][k] · matrix[o][k], that is x · matrixᵀ: `[row][matrix.rows]`.
 *
 * `x` holds whole rows of `matrix.columns` finite numbers. The level `reference` multiplies f32 with f32; others code x to int8 by blocks
 * of 32 (scale = max |x| / 127, as llama.cpp) where the matrix is quantised. Each output is summed over columns in one order: a row's
 * bits depend neither on the other rows nor on threads.
 *
 * Errors: `argument_invalid` that names `matrix` or `x`; `cells_exceed_memory`; `runtime_disposed`.
 */
export async function matmul(x: Float32Array, matrix: PackedMatrix): Promise<Float32Array> {
  const native = PackedMatrix.native(matrix);
  arrayOf("x", x, "Float32Array");
  return awaiting(() => native.multiply(x));
}

export interface CellsOptions {
  pages: number;
  /** Cells in a page, 1 … 4096. Default 16. */
  pageSize?: number;
  /** Layers of one kind (same heads, rotary table, window), 1 … 1024. Default 1. */
  layers?: number;
  /** Query heads; a multiple of `kvHeads`. Query head h reads key head ⌊h · kvHeads / heads⌋. */
  heads: number;
  kvHeads: number;
  /** Elements of a key and of a value, 1 … 1024. */
  headSize: number;
  /** Default "f16". */
  dtype?: CellDtype;
  rotary: RotaryParameters;
  /** Positions 0 … contextLength − 1, at most 2^22. */
  contextLength: number;
  /** Multiplies a score. Default 1 / √headSize. */
  scale?: number;
  /** Multiplies scores once more: YaRN's magnitude of query and key together, (0.1 · ln factor + 1)². Stored keys carry none. Default 1. */
  magnitude?: number;
  /** score = softCap · tanh(score / softCap). Default: none. */
  softCap?: number;
  /** A row at position p reads cells at current positions above p − window. Positions must rise along a view then. Default: all. */
  window?: number;
}

const CELLS_FIELDS = [
  "pages", "pageSize", "layers", "heads", "kvHeads", "headSize", "dtype", "rotary", "contextLength", "scale", "magnitude", "softCap", "window",
] as const;

/** Cells to write, one entry a row. */
export interface NewCells {
  /** Default 0. */
  layer?: number;
  /** page · pageSize + offset; no slot twice. */
  slots: Int32Array;
  /** Birth positions. */
  positions: Int32Array;
  /** `[row][kvHead][headSize]`, not rotated unless `rotated` is true. */
  keys: Float32Array;
  /** `[row][kvHead][headSize]`. */
  values: Float32Array;
  /** The keys are rotated to their positions already. Default false. */
  rotated?: boolean;
}

/** Paged keys and values of layers of one kind. Pages begin zeroed; memory is taken when it is first written. */
export class CellPages {
  /** Bytes reserved outside of JavaScript's heap. */
  readonly byteLength: number;
  readonly #native: NativeCellPages;

  /** @internal Use `openCells`. */
  constructor(native: NativeCellPages) {
    this.#native = native;
    this.byteLength = native.bytes;
  }

  /**
   * Rotates keys to their positions and writes them with their values; numbers are rounded to the dtype.
   *
   * Errors: `argument_invalid` that names `layer`, `slots`, `positions`, `keys` or `values` (nothing was written); `runtime_disposed`.
   */
  async store(cells: NewCells): Promise<void> {
    fieldsOf("options", cells, ["layer", "slots", "positions", "keys", "values", "rotated"]);
    const fields = {
      layer: wholeNumber("layer", cells.layer ?? 0, 0),
      rotated: booleanOf("rotated", cells.rotated ?? false),
      slots: arrayOf("slots", cells.slots, "Int32Array"),
      positions: arrayOf("positions", cells.positions, "Int32Array"),
      keys: arrayOf("keys", cells.keys, "Float32Array"),
      values: arrayOf("values", cells.values, "Float32Array"),
    };
    await awaiting(() => this.#native.store(fields));
  }

  /** Frees the pages when what was called before has ended, as `PackedMatrix.dispose`. Later calls: `runtime_disposed`. Idempotent. */
  dispose(): void {
    calling(() => this.#native.dispose());
  }

  /** @internal */
  static native(cells: CellPages): NativeCellPages {
    if (typeof cells === "object" && cells !== null && #native in cells) return cells.#native;
    throw new KernelError("argument_invalid", "what openCells gave is expected", "cells");
  }
}

/** Reserves pages of cells. Errors: `argument_invalid` that names the option, `cells_exceed_memory`, `backend_unsupported`. */
export function openCells(compute: Compute, options: CellsOptions): CellPages {
  const native = Compute.native(compute);
  fieldsOf("options", options, CELLS_FIELDS);
  const headSize = wholeNumber("headSize", options.headSize, 1);
  const fields = {
    dtype: textOf("dtype", options.dtype ?? "f16"),
    layers: wholeNumber("layers", options.layers ?? 1, 1),
    pages: wholeNumber("pages", options.pages, 1),
    pageSize: wholeNumber("pageSize", options.pageSize ?? 16, 1),
    heads: wholeNumber("heads", options.heads, 1),
    kvHeads: wholeNumber("kvHeads", options.kvHeads, 1),
    headSize,
    context: wholeNumber("contextLength", options.contextLength, 1),
    scale: finiteNumber("scale", options.scale ?? 1 / Math.sqrt(headSize)),
    softCap: options.softCap === undefined ? 0 : finiteNumber("softCap", options.softCap, 0),
    window: options.window === undefined ? 0 : wholeNumber("window", options.window, 1),
    magnitude: finiteNumber("magnitude", options.magnitude ?? 1, 0),
  };
  return calling(() => new CellPages(native.cells(fields, rotaryFields(options.rotary, headSize))));
}

/** Rows, segments and views, with the shapes and meanings that they have in `Step` (one group). */
export type Segments = Pick<
  Step,
  "position" | "cell" | "rowOf" | "viewOf" | "runPage" | "runFirst" | "runLength" | "runBirth" | "runShift" | "pages"
>;

const SEGMENT_FIELDS = ["position", "cell", "rowOf", "viewOf", "runPage", "runFirst", "runLength", "runBirth", "runShift", "pages"] as const;

export interface AttentionOptions {
  /** Default 0. */
  layer?: number;
  /**
   * One logit a query head: learned attention sinks, as Xiao et al. 2309.17453 and gpt-oss have them. Each joins the denominator of every
   * row's softmax once and reads nothing. It is not scaled. Default: none.
   */
  sinks?: Float32Array;
}

/**
 * softmax(scale · q·k) · v for each row over what it reads: its segment's view, the rows before it in the segment, and itself;
 * `[row][head][headSize]`.
 *
 * `queries`: raw (not rotated) and finite, `[row][head][headSize]`. The rows' own cells were stored before. A run with a shift is read
 * where it lies: queries are turned by position − shift, once for each distinct shift. Sums go by rank in the view, so a row's bits
 * depend neither on pages nor on cuts of runs, other rows or threads. Formula: Vaswani et al. 1706.03762, with the online softmax of
 * Milakov and Gimelshein 1805.02867 over blocks of 512 ranks.
 *
 * Errors: `step_invalid` that names the field of `segments`; `argument_invalid` that names `cells`, `queries`, `layer` or `sinks`;
 * `cells_exceed_memory`; `runtime_disposed`.
 */
export async function segmentAttention(
  cells: CellPages,
  segments: Segments,
  queries: Float32Array,
  options: AttentionOptions = {},
): Promise<Float32Array> {
  const native = CellPages.native(cells);
  fieldsOf("options", options, ["layer", "sinks"]);
  if (typeof segments !== "object" || segments === null) throw new KernelError("argument_invalid", "an object is expected", "segments");
  const fields = Object.fromEntries(SEGMENT_FIELDS.map((name) => [name, arrayOf(name, segments[name], "Int32Array", "step_invalid")]));
  arrayOf("queries", queries, "Float32Array");
  const layer = wholeNumber("layer", options.layer ?? 0, 0);
  const sinks = options.sinks === undefined ? new Float32Array(0) : arrayOf("sinks", options.sinks, "Float32Array");
  return awaiting(() => native.attend(layer, fields, queries, sinks));
}
