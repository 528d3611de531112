import { once } from "node:events";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { rotateKeys } from "../src/index.ts";
import { Random } from "./twins.ts";

const FACE = new URL("../src/index.ts", import.meta.url).href;
const TSX = new URL("dist/esm/api/index.mjs", pathToFileURL(createRequire(import.meta.url).resolve("tsx/package.json"))).href;
const ROTATE = { dtype: "f32", heads: 4, headSize: 64, rotary: { dimensions: 64, pairing: "half-split", base: 10_000 }, delta: -5 } as const;

/** A thread of Node that runs `body` with the face as `face` and its data as `data`. */
function worker(body: string, data: unknown): Worker {
  const code = `const { parentPort, workerData: data } = require("node:worker_threads");
    import(${JSON.stringify(TSX)}).then(({ register }) => (register(), import(${JSON.stringify(FACE)}))).then(async (face) => { ${body} });`;
  return new Worker(code, { eval: true, workerData: data });
}

test("worker threads turn parts of one shared cache", async () => {
  const numbers = new Random(31).floats(8 * 256);
  const shared = new Float32Array(new SharedArrayBuffer(numbers.byteLength));
  shared.set(numbers);
  const halves = [shared.subarray(0, 4 * 256), shared.subarray(4 * 256)];
  const workers = halves.map((keys) => worker(`face.rotateKeys(data.keys, data.options); parentPort.postMessage("done");`, { keys, options: ROTATE }));
  await Promise.all(workers.map((one) => once(one, "message")));
  await Promise.all(workers.map((one) => one.terminate()));
  rotateKeys(numbers, ROTATE);
  expect(shared.slice()).toEqual(numbers);
});

test("a worker that is ended while its products run takes nothing with it", async () => {
  for (let i = 0; i < 4; i++) {
    const one = worker(
      `const compute = face.openCompute({ threads: 2 });
       const matrix = await face.packMatrix(compute, { type: "F32", rows: 512, columns: 512, bytes: new Uint8Array(4 * 512 * 512) });
       const calls = Array.from({ length: 50 }, () => face.matmul(new Float32Array(64 * 512), matrix));
       parentPort.postMessage("running");
       await Promise.all(calls);`,
      null,
    );
    await once(one, "message");
    expect(await one.terminate()).toBe(1);
  }
  const alive = new Random(32).floats(256);
  rotateKeys(alive, ROTATE);
  expect(alive.every(Number.isFinite)).toBe(true);
});
