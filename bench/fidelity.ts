import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import type { Runtime } from "@palimpsest/kernels-cuda";

/** How near one set of next-token distributions is to another. */
export interface Fidelity {
  tokens: number;
  /** Mean Kullback–Leibler divergence KL(truth ‖ tried) in nats. */
  meanKl: number;
  /** Share of positions with the same most likely token, 0…1. */
  top1: number;
}

/** Logits of the rows [from, from + rows.length / vocabulary). */
export type LogitSource = (from: number, rows: number) => Promise<Float32Array>;

/** Positions are scored in windows of this many tokens, each from an empty context: the window of the published llama.cpp figures. */
export const WINDOW = 512;
const CHUNK = 128;

export const transcript = (): string => readFileSync(new URL("./text/transcript.txt", import.meta.url), "utf8");

/** The logits of a text by raw steps on a runtime, chunk after chunk, the context emptied at every window. */
export function logitsOf(runtime: Runtime, tokens: Int32Array): LogitSource {
  const cancel = new Int32Array(new SharedArrayBuffer(4));
  const vocabulary = runtime.info.vocabularySize;
  const pages = Int32Array.from({ length: Math.ceil(WINDOW / runtime.pageSize) }, (_, i) => i);
  return async (from, rows) => {
    const depth = from % WINDOW;
    const logits = new Float32Array(rows * vocabulary);
    const each = (value: (i: number) => number) => Int32Array.from({ length: rows }, (_, i) => value(i));
    const single = (value: number) => (depth > 0 ? Int32Array.of(value) : new Int32Array(0));
    await runtime.step(
      {
        token: tokens.slice(from, from + rows),
        position: each((i) => depth + i),
        cell: each((i) => depth + i),
        store: new Uint8Array(rows).fill(1),
        rowOf: Int32Array.of(0, rows),
        viewOf: Int32Array.of(0, depth > 0 ? 1 : 0),
        runPage: single(0),
        runFirst: single(0),
        runLength: single(depth),
        runBirth: single(0),
        runShift: single(0),
        pages: depth > 0 ? pages.slice(0, Math.ceil(depth / runtime.pageSize)) : new Int32Array(0),
        outRow: each((i) => i),
        outTarget: each((i) => tokens[from + i] ?? 0),
        outTop: new Uint8Array(rows),
        outSampler: new Int32Array(rows),
        samplers: [{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 }],
        logits,
      },
      cancel,
    );
    return logits;
  };
}

/** Computes the logits of whole chunks once, into a file that `logitsFromFile` reads as often as it is asked. */
export async function writeLogits(path: string, source: LogitSource, tokens: number): Promise<void> {
  const file = openSync(path, "w");
  for (let from = 0; from + CHUNK <= tokens; from += CHUNK) {
    const logits = await source(from, CHUNK);
    writeSync(file, new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength));
  }
  closeSync(file);
}

/** Logits that another program or `writeLogits` wrote to a file, row after row. */
export function logitsFromFile(path: string, vocabulary: number): { read: LogitSource; close: () => void } {
  const file = openSync(path, "r");
  const read: LogitSource = (from, rows) => {
    const logits = new Float32Array(rows * vocabulary);
    readSync(file, new Uint8Array(logits.buffer), 0, logits.byteLength, from * vocabulary * 4);
    return Promise.resolve(logits);
  };
  return { read, close: () => closeSync(file) };
}

function logSum(logits: Float32Array, from: number, to: number): { max: number; best: number; log: number } {
  let max = Number.NEGATIVE_INFINITY;
  let best = from;
  for (let i = from; i < to; i++) {
    const value = logits[i] ?? 0;
    if (value > max) [max, best] = [value, i];
  }
  let sum = 0;
  for (let i = from; i < to; i++) sum += Math.exp((logits[i] ?? 0) - max);
  return { max, best, log: max + Math.log(sum) };
}

/** Compares two sources over a text, window after window. Whole chunks only: what is over at the end is left out. */
export async function compare(truth: LogitSource, tried: LogitSource, tokens: number, vocabulary: number): Promise<Fidelity> {
  let kl = 0;
  let same = 0;
  let count = 0;
  for (let from = 0; from + CHUNK <= tokens; from += CHUNK) {
    const [right, left] = [await truth(from, CHUNK), await tried(from, CHUNK)];
    for (let row = 0; row < CHUNK; row++) {
      const [start, end] = [row * vocabulary, (row + 1) * vocabulary];
      const p = logSum(right, start, end);
      const q = logSum(left, start, end);
      for (let i = start; i < end; i++) {
        const logP = (right[i] ?? 0) - p.log;
        if (logP > -30) kl += Math.exp(logP) * (logP - ((left[i] ?? 0) - q.log));
      }
      if (p.best === q.best) same += 1;
      count += 1;
    }
  }
  return { tokens: count, meanKl: kl / count, top1: same / count };
}
