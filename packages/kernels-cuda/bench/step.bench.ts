// Steps on a small generated model at every level of this machine: what a step costs besides its weights. The real models against
// llama.cpp: `npm run bench -- engine`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Bench } from "tinybench";
import { deviceInfo, openRuntime, type Runtime, type Step, writeTinyModel } from "../src/index.ts";

const PAGE_SIZE = 16;
const none = new Int32Array(0);

/** `rows` new rows behind `depth` cells. */
function step(rows: number, depth: number): Step {
  const each = (value: (i: number) => number) => Int32Array.from({ length: rows }, (_, i) => value(i));
  const one = (value: number) => (depth > 0 ? Int32Array.of(value) : none);
  return {
    token: each((i) => i % 250),
    position: each((i) => depth + i),
    cell: each((i) => depth + i),
    store: new Uint8Array(rows).fill(1),
    rowOf: Int32Array.of(0, rows),
    viewOf: Int32Array.of(0, depth > 0 ? 1 : 0),
    runPage: one(0),
    runFirst: one(0),
    runLength: one(depth),
    runBirth: one(0),
    runShift: one(0),
    pages: Int32Array.from({ length: Math.ceil(depth / PAGE_SIZE) }, (_, i) => i),
    outRow: Int32Array.of(rows - 1),
    outTarget: Int32Array.of(-1),
    outTop: Uint8Array.of(0),
    outSampler: Int32Array.of(0),
    samplers: [{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 }],
  };
}

const folder = mkdtempSync(join(tmpdir(), "palimpsest-bench-"));
const path = join(folder, "tiny.gguf");
await writeTinyModel(path, { seed: 1 });
const cancel = new Int32Array(new SharedArrayBuffer(4));
const bench = new Bench({ time: 500, warmupTime: 100 });
const runtimes: Runtime[] = [];
for (const kernels of deviceInfo().levels) {
  const runtime = await openRuntime(path, { kernels, pages: 16, pageSize: PAGE_SIZE });
  runtimes.push(runtime);
  await runtime.step(step(64, 0), cancel);
  bench.add(`${kernels}: decode one row behind 64 cells`, () => runtime.step(step(1, 64), cancel));
  bench.add(`${kernels}: prefill 64 rows`, () => runtime.step(step(64, 0), cancel));
}
await bench.run();
console.table(bench.table());
await Promise.all(runtimes.map((runtime) => runtime.dispose()));
rmSync(folder, { recursive: true });
