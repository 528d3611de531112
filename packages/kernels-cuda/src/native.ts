/**
 * The surface of the native part, declared by hand, so that this package type-checks without having been built. A test holds it
 * against what the binary exports.
 */

import { KERNEL_ERROR_CODES, KernelError, type KernelErrorCode } from "./errors.ts";
import type { CellDtype, KernelLevel, ModelInfo, TokenizerData } from "./runtime.ts";
import type { StepCounts } from "./step.ts";

export interface Native {
  openRuntime(path: string, options: NativeOpenOptions, onProgress?: (fraction: number) => void): Promise<NativeRuntime>;
  readModel(path: string): Promise<{ info: ModelInfo; tokenizer: NativeTokenizer }>;
  writeTinyModel(path: string, options: object): Promise<void>;
  naiveReplay(path: string, program: object): Promise<Float32Array>;
  deviceInfo(): { levels: KernelLevel[]; cores: number };
  errorCodes(): { code: string; kind: string }[];
  rotaryFrequencies(rotary: object): Float64Array;
  rotateKeys(keys: Uint8Array, dtype: string, heads: number, headSize: number, rotary: object, deltas: Int32Array): void;
  quantize(type: string, values: Float32Array): Uint8Array;
  dequantize(type: string, bytes: Uint8Array): Float32Array;
  NativeCompute: new (level: string, threads: number) => NativeCompute;
}

export interface NativeCompute {
  readonly level: KernelLevel;
  readonly threads: number;
  pack(type: string, rows: number, columns: number, bytes: Uint8Array): Promise<NativeMatrix>;
  cells(fields: object, rotary: object): NativeCellPages;
  dispose(): Promise<void>;
}

export interface NativeMatrix {
  readonly bytes: number;
  multiply(x: Float32Array): Promise<Float32Array>;
  dispose(): void;
}

export interface NativeCellPages {
  readonly bytes: number;
  store(fields: object): Promise<void>;
  attend(layer: number, fields: object, queries: Float32Array, sinks: Float32Array): Promise<Float32Array>;
  dispose(): void;
}

export interface NativeOpenOptions {
  kernels: string;
  cacheDtype: string;
  pages: number;
  pageSize: number;
  threads: number;
  panicAt?: { step: number; layer: number; inPool: boolean };
}

/** Absent where the face has `null`. */
export type NativeTokenizer = Omit<TokenizerData, "bos" | "eos" | "eot" | "chatTemplate"> & {
  bos?: number | null;
  eos?: number | null;
  eot?: number | null;
  chatTemplate?: string | null;
};

export interface NativeRuntime {
  readonly info: ModelInfo;
  readonly facts: {
    level: KernelLevel;
    cacheDtype: CellDtype;
    pages: number;
    pageSize: number;
    pageBytes: number;
    cellBytes: number;
    threads: number;
  };
  memory(): { weights: number; cells: number; scratch: number };
  step(fields: object, cancel: Int32Array): Promise<NativeStepResult>;
  clearPages(pages: Int32Array): void;
  readCells(slots: Int32Array): Promise<Uint8Array>;
  writeCells(slots: Int32Array, from: Uint8Array): Promise<void>;
  clearCells(slots: Int32Array): Promise<void>;
  dispose(): Promise<void>;
}

export interface NativeStepResult {
  ids: Int32Array;
  logprobs: Float32Array;
  topIds: Int32Array;
  topLogprobs: Float32Array;
  counts: StepCounts;
  logits?: Float32Array | null;
}

/** Marks a reason that the native part made itself (crates/binding/src/errors.rs). */
const MARK = "palimpsest:";

/** The error of this package for anything that the native part threw or rejected with. */
export function toKernelError(cause: unknown): KernelError {
  if (cause instanceof KernelError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  if (text.startsWith(MARK)) {
    const { code, message, param } = JSON.parse(text.slice(MARK.length)) as { code: string; message: string; param: string | null };
    if (isCode(code)) return new KernelError(code, message, param ?? undefined);
  }
  // What napi raises itself: a panic that it caught, or an argument of the wrong type.
  const argument = /^(?:Failed to convert|Failed to get|Missing field|Object|Given napi value|Value is)/.test(text);
  return new KernelError(argument || cause instanceof TypeError ? "argument_invalid" : "native_panic", text);
}

function isCode(code: string): code is KernelErrorCode {
  return Object.hasOwn(KERNEL_ERROR_CODES, code);
}

/** Calls the native part; whatever it throws is an error of this package. */
export function calling<T>(call: () => T): T {
  try {
    return call();
  } catch (cause) {
    throw toKernelError(cause);
  }
}

/** The same for a call that answers with a promise. */
export async function awaiting<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw toKernelError(cause);
  }
}
