import type { Step, StepResult } from "./step.ts";

export type KernelLevel = "reference" | "scalar" | "avx2" | "avx-vnni" | "avx512" | "neon" | "cuda";
export type CellDtype = "f32" | "f16" | "q8_0";

/** What a loaded model is. Sizes are in elements, positions in tokens. */
export interface ModelInfo {
  architecture: string;
  name: string;
  /** Positions a cell may be born at or moved to: 0 … contextLength − 1. */
  contextLength: number;
  vocabularySize: number;
  layers: number;
  embeddingLength: number;
  heads: number;
  kvHeads: number;
  headSize: number;
  /** Cell groups G of the step call. */
  groups: number;
  /** What the file holds, for people: "Q4_1", "Q4_K_M", … */
  quantization: string;
  parameters: number;
  weightBytes: number;
}

/** What a tokenizer needs, as the model file has it. */
export interface TokenizerData {
  /** GGUF `tokenizer.ggml.model`: "gpt2" is byte-level BPE. */
  model: string;
  /** GGUF `tokenizer.ggml.pre`: the pre-tokenizer, "" when absent. */
  pre: string;
  tokens: string[];
  /** GGUF token types: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte. */
  tokenTypes: Int32Array;
  merges: string[];
  bos: number | null;
  eos: number | null;
  /** End of turn, where the file names one. */
  eot: number | null;
  addBos: boolean;
  chatTemplate: string | null;
}

export interface RuntimeOptions {
  /** "auto" takes the fastest level of this machine. */
  kernels?: KernelLevel | "auto";
  cacheDtype?: CellDtype;
  /** Pages in the pool. */
  pages: number;
  /** Cells in a page. Default 16. */
  pageSize?: number;
  /** Compute threads. Default: the cores of this machine. */
  threads?: number;
  /** Called with 0 … 1 while the weights are read and packed. */
  onProgress?: (fraction: number) => void;
  /**
   * For tests of what happens then: a panic in the native code, in the `step`-th step (0 = the first), before `layer`; `inPool`: in a
   * thread of a pool.
   */
  panicAt?: { step: number; layer: number; inPool?: boolean };
}

/** Bytes that a runtime holds. */
export interface MemoryReport {
  /** Packed weights, norms, rotary tables. */
  weights: number;
  cells: number;
  /** What steps compute in; it grows to the largest step. */
  scratch: number;
}

/**
 * The bytes of single cells, by slot (page · pageSize + offset), for whoever keeps cells elsewhere. The cell of one runtime can be written
 * to any slot of another with the same model file, kernels and cell dtype, whatever its page size. Calls take their turn between two
 * steps, in pieces of at most 4 MiB, so that a step waits for at most one of them; what is sent before a step has its effect before it.
 *
 * Errors: `argument_invalid` for a slot outside the pool or an array of the wrong length (then nothing is done), `runtime_disposed`.
 */
export interface CellAccess {
  /** Bytes of one cell in all layers. */
  readonly cellBytes: number;
  /** Copies the cells of `slots`, one after another, to `into`: `slots.length · cellBytes` bytes. */
  read(slots: Int32Array, into: Uint8Array): Promise<void>;
  /** The inverse. `from` may not change until it has resolved. */
  write(slots: Int32Array, from: Uint8Array): Promise<void>;
  /** Overwrites cells with zeros, and nothing beside them. */
  clear(slots: Int32Array): Promise<void>;
}

/**
 * A model with its weights and a pool of pages of cells. Implemented by the native binding (`openRuntime`), and by scripted models
 * in tests. Steps run one at a time, off the event loop; a second `step` before the first has resolved waits for it.
 */
export interface Runtime {
  readonly info: ModelInfo;
  readonly level: KernelLevel;
  readonly cacheDtype: CellDtype;
  readonly pages: number;
  readonly pageSize: number;
  readonly threads: number;
  /** Bytes of one page in all layers. */
  readonly pageBytes: number;
  /**
   * Runs one forward step. `cancel` is shared: a value other than 0 in `cancel[0]`, read between layers, rejects with
   * `step_cancelled`; cells stored by a cancelled step are undefined.
   */
  step(step: Step, cancel: Int32Array): Promise<StepResult>;
  /** Zeroes whole pages in every layer. */
  clearPages(pages: Int32Array): void;
  /** Cells as bytes. Scripted models may have none: then nothing is kept but in the pages. */
  readonly cells?: CellAccess;
  /** Bytes held after the last step. Scripted models in tests have none. */
  memory?(): MemoryReport;
  /** Waits for the running step, then frees weights and cells. Idempotent. */
  dispose(): Promise<void>;
}
