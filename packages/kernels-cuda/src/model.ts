import { loadNative } from "./loader.ts";
import { awaiting, calling } from "./native.ts";
import type { KernelLevel, ModelInfo, TokenizerData } from "./runtime.ts";

/** Reads what a model is and what its tokenizer needs, without its weights. Errors: as `openRuntime`. */
export async function readModel(path: string): Promise<{ info: ModelInfo; tokenizer: TokenizerData }> {
  const native = calling(() => loadNative());
  const { info, tokenizer } = await awaiting(() => native.readModel(path));
  const { bos = null, eos = null, eot = null, chatTemplate = null, ...rest } = tokenizer;
  return { info, tokenizer: { ...rest, bos, eos, eot, chatTemplate } };
}

/** A small generated model, for tests. What is absent takes a default: `llama`, 2 layers of width 64, 512 tokens. */
export interface TinyModelOptions {
  architecture?: string;
  /** The same options and seed give the same bytes. */
  seed?: number;
  layers?: number;
  embeddingLength?: number;
  feedForwardLength?: number;
  heads?: number;
  kvHeads?: number;
  headSize?: number;
  vocabularySize?: number;
  contextLength?: number;
  /** Type of the matrices: "F32", "Q4_K", …, or "mixed". */
  types?: string;
  /** The embedding is the head as well. */
  tied?: boolean;
  /** Elements of a head that turn. Default: all. */
  rotaryDimensions?: number;
  rotaryBase?: number;
  /** Divisors of the rotary frequencies, as llama3 has. */
  frequencyFactors?: boolean;
  /** Positions that a layer with a window reads, where the architecture has windows. */
  window?: number;
  /** Every n-th layer reads all positions, where there are windows. */
  windowPeriod?: number;
}

/** Writes a generated GGUF model. Errors: `argument_invalid` that names the option, `model_file_unreadable`. */
export async function writeTinyModel(path: string, options: TinyModelOptions = {}): Promise<void> {
  const native = calling(() => loadNative());
  await awaiting(() => native.writeTinyModel(path, options));
}

/**
 * A log for the naive replay. n = number of cells in order of birth; every cell is a row, born and asked once. A stage is the stretch
 * between two boundaries that carry events.
 */
export interface ReplayProgram {
  /** n: token ids. */
  tokens: Uint32Array;
  /** n: birth positions, at which rows ask. */
  positions: Int32Array;
  /** n: the stage in which a cell was born. */
  stageOf: Uint32Array;
  /** stages · n, stage-major: where cell j stands at stage s, −1 = nowhere. */
  stagePositions: Int32Array;
  /** n · n, row-major: 1 = row i reads cell j. Row i reads itself, and no later cell. */
  seen: Uint8Array;
  /** Rows whose logits are asked for. */
  wanted: Uint32Array;
  /** Default 1. */
  threads?: number;
}

/**
 * Logits of an edited log by an independent, slow computation in f32: keys unrotated, rotated to their current positions at each stage,
 * dense masks. `wanted.length · vocabularySize` numbers. Errors: as `openRuntime`, and `argument_invalid` that names the array.
 */
export async function naiveReplay(path: string, program: ReplayProgram): Promise<Float32Array> {
  const native = calling(() => loadNative());
  return awaiting(() => native.naiveReplay(path, { ...program, threads: program.threads ?? 1 }));
}

/** What computes here. */
export interface DeviceInfo {
  /** Levels that this machine runs, the slowest first; "auto" takes the last. */
  levels: KernelLevel[];
  cores: number;
}

export function deviceInfo(): DeviceInfo {
  return calling(() => loadNative().deviceInfo());
}
