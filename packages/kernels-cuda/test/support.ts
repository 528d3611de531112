import type { Runtime, Sampler, Step } from "../src/index.ts";

export const GREEDY: Sampler = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 };

export function noCancel(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4));
}

/** A step of one segment without a view: tokens at positions 0 …, in the slots of the first pages, one output from the last row. */
export function chain(runtime: Runtime, tokens: readonly number[], options: { greedy?: boolean; target?: number } = {}): Step {
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
    outTarget: Int32Array.of(options.target ?? -1),
    outTop: Uint8Array.of(0),
    outSampler: Int32Array.of(0),
    samplers: [GREEDY],
    logits: new Float32Array(runtime.info.vocabularySize),
  };
}
