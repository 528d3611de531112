import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { KernelError, type Runtime, type Sampler, type Step, type TinyModelOptions, writeTinyModel } from "../src/index.ts";

export const GREEDY: Sampler = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 };

/** A flag that nobody raises. */
export function noCancel(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4));
}

/** Generated models in a folder that goes away with the test file: `path(name)` once the tests run. */
export function tinyModels(models: Record<string, TinyModelOptions>): (name: string) => string {
  let folder = "";
  const path = (name: string) => join(folder, `${name}.gguf`);
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-kernels-"));
    for (const [name, options] of Object.entries(models)) await writeTinyModel(path(name), options);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return path;
}

/** A step of one segment without a view: tokens at positions 0 …, in the slots of the first pages, one output from the last row. */
export function chain(runtime: Pick<Runtime, "info">, tokens: readonly number[], changes: Partial<Step> = {}): Step {
  const rows = tokens.length;
  const places = Int32Array.from({ length: rows }, (_, row) => row);
  return {
    token: Int32Array.from(tokens),
    position: places,
    cell: places,
    store: new Uint8Array(rows).fill(1),
    rowOf: Int32Array.of(0, rows),
    viewOf: Int32Array.of(0, 0),
    runPage: new Int32Array(0),
    runFirst: new Int32Array(0),
    runLength: new Int32Array(0),
    runBirth: new Int32Array(0),
    runShift: new Int32Array(0),
    pages: new Int32Array(0),
    outRow: Int32Array.of(rows - 1),
    outTarget: Int32Array.of(-1),
    outTop: Uint8Array.of(0),
    outSampler: Int32Array.of(0),
    samplers: [GREEDY],
    logits: new Float32Array(runtime.info.vocabularySize),
    ...changes,
  };
}

/** The error that a promise or a call ends with. */
export async function errorOf(call: () => unknown): Promise<KernelError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof KernelError) return error;
    throw new Error(`not a KernelError: ${String(error)}`, { cause: error });
  }
  throw new Error("it succeeded");
}
