import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { deviceInfo, openRuntime, readModel, type RuntimeOptions, type Step, writeTinyModel } from "../src/index.ts";
import { chain, errorOf, GREEDY, noCancel, tinyModels } from "./support.ts";

const sampler = (changes: object) => ({ samplers: [{ ...GREEDY, ...changes }] });

const path = tinyModels({ llama: {}, wide: { architecture: "qwen2", seed: 4, tied: false }, gemma: { architecture: "gemma3" } });
const EXACT: RuntimeOptions = { kernels: "reference", cacheDtype: "f32", pages: 16 };

test("a generated model opens, steps and says what it did", async () => {
  const runtime = await openRuntime(path("llama"), { ...EXACT, threads: 2, pageSize: 4 });
  expect(runtime).toMatchObject({ level: "reference", cacheDtype: "f32", pages: 16, pageSize: 4, threads: 2 });
  expect(runtime.pageBytes).toBe(4 * 2 * 2 * 2 * 16 * 4);
  expect(runtime.info).toMatchObject({ architecture: "llama", vocabularySize: 512, layers: 2, heads: 4, kvHeads: 2, headSize: 16, groups: 1 });
  const step = chain(runtime, [5, 6, 7, 8]);
  const result = await runtime.step(step, noCancel());
  expect(result.counts).toMatchObject({ rows: 4, cellsStored: 4, cellsRead: 0, rotations: 0, bytesMoved: 0 });
  const logits = step.logits ?? new Float32Array(0);
  expect(result.ids[0]).toBe(logits.indexOf(Math.max(...logits)));
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  expect(result.logprobs[0]).toBeCloseTo((logits[result.ids[0] ?? 0] ?? 0) - total, 4);
  await runtime.dispose();
});

test("a view with two shifts is counted, and moves no byte", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  await runtime.step(chain(runtime, [1, 2, 3, 4, 5, 6, 7, 8]), noCancel());
  const next = chain(runtime, [9], {
    position: Int32Array.of(6),
    cell: Int32Array.of(8),
    viewOf: Int32Array.of(0, 2),
    runPage: Int32Array.of(0, 1),
    runFirst: Int32Array.of(0, 5),
    runLength: Int32Array.of(3, 3),
    runBirth: Int32Array.of(0, 5),
    runShift: Int32Array.of(0, -2),
    pages: Int32Array.of(0, 0),
  });
  const { counts } = await runtime.step(next, noCancel());
  expect(counts).toMatchObject({ rows: 1, cellsStored: 1, cellsRead: 6, rotations: 1, bytesMoved: 0 });
  await runtime.dispose();
});

test("a target is scored and alternatives are listed best first", async () => {
  const runtime = await openRuntime(path("wide"), EXACT);
  const step = chain(runtime, [5, 6, 7], {
    outRow: Int32Array.of(2, 2),
    outTarget: Int32Array.of(77, -1),
    outTop: Uint8Array.of(3, 1),
    outSampler: Int32Array.of(0, 0),
    logits: new Float32Array(2 * 512),
  });
  const result = await runtime.step(step, noCancel());
  expect(result.ids[0]).toBe(77);
  expect(result.topIds.length).toBe(4);
  expect(result.topIds[0]).toBe(result.ids[1]);
  expect(result.topIds[3]).toBe(result.ids[1]);
  expect(result.topLogprobs[0]).toBe(result.logprobs[1]);
  expect(result.topLogprobs.slice(0, 3)).toEqual(result.topLogprobs.slice(0, 3).toSorted((a, b) => b - a));
  expect(step.logits?.subarray(0, 512)).toEqual(step.logits?.subarray(512));
  await runtime.dispose();
});

test("a token may be the previous step's output", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const first = await runtime.step(chain(runtime, [3, 4]), noCancel());
  const byReference = chain(runtime, [-1]);
  const byId = chain(runtime, [first.ids[0] ?? 0]);
  await runtime.step(byReference, noCancel());
  await runtime.step(byId, noCancel());
  expect(byReference.logits).toEqual(byId.logits);
  await runtime.dispose();
});

test("steps that are asked for at once run one after the other", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const steps = Array.from({ length: 20 }, (_, i) => chain(runtime, [i + 1, i + 2, i + 3]));
  const together = await Promise.all(steps.map((step) => runtime.step(step, noCancel())));
  for (const [i, result] of together.entries()) {
    const alone = chain(runtime, [i + 1, i + 2, i + 3]);
    expect((await runtime.step(alone, noCancel())).ids).toEqual(result.ids);
    expect(alone.logits).toEqual(steps[i]?.logits);
  }
  await runtime.dispose();
});

test("a step reads its arrays when it is called, not when it runs", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const step = chain(runtime, [5, 6, 7]);
  const promise = runtime.step(step, noCancel());
  step.token.fill(-999);
  step.cell.fill(-1);
  const { ids } = await promise;
  const again = await runtime.step(chain(runtime, [5, 6, 7]), noCancel());
  expect(ids).toEqual(again.ids);
  await runtime.dispose();
});

test("a raised flag stops the step, and the next one works", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const cancel = noCancel();
  cancel[0] = 1;
  const error = await errorOf(() => runtime.step(chain(runtime, [5, 6, 7]), cancel));
  expect(error).toMatchObject({ code: "step_cancelled", kind: "cancelled" });
  cancel[0] = 0;
  expect((await runtime.step(chain(runtime, [5, 6, 7]), cancel)).ids.length).toBe(1);
  await runtime.dispose();
});

test("a flag that is raised while a step runs stops it between layers", async () => {
  await writeTinyModel(path("deep"), { layers: 32, embeddingLength: 256, feedForwardLength: 1024, heads: 8, headSize: 32 });
  const runtime = await openRuntime(path("deep"), { ...EXACT, pages: 64, threads: 1 });
  const tokens = Array.from({ length: 1000 }, (_, i) => i % 500);
  const cancel = noCancel();
  const running = errorOf(() => runtime.step(chain(runtime, tokens), cancel));
  await new Promise((resolve) => setTimeout(resolve, 20));
  Atomics.store(cancel, 0, 1);
  const { code, message } = await running;
  expect(code).toBe("step_cancelled");
  expect(Number(/before layer (\d+)/.exec(message)?.[1])).toBeGreaterThan(0);
  await runtime.dispose();
});

for (const inPool of [false, true]) {
  test(`a panic ${inPool ? "in a thread of the pool" : "on the engine's thread"} is an internal error, and the next step works`, async () => {
    const runtime = await openRuntime(path("llama"), { ...EXACT, panicAt: { step: 1, layer: 1, inPool } });
    const before = await runtime.step(chain(runtime, [5, 6, 7]), noCancel());
    const error = await errorOf(() => runtime.step(chain(runtime, [5, 6, 7]), noCancel()));
    expect(error).toMatchObject({ code: "native_panic", kind: "internal" });
    expect(error.message).toContain("injected");
    expect((await runtime.step(chain(runtime, [5, 6, 7]), noCancel())).ids).toEqual(before.ids);
    await runtime.dispose();
  });
}

test("dispose waits for the running step, is idempotent, and ends the runtime", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const order: string[] = [];
  const steps = [1, 2, 3].map((token) => runtime.step(chain(runtime, [token]), noCancel()).then(() => order.push("step")));
  const disposed = [runtime.dispose(), runtime.dispose()].map((promise) => promise.then(() => order.push("disposed")));
  await Promise.all([...steps, disposed[0]]);
  expect(order.filter((entry) => entry === "step").length).toBe(3);
  expect(order.indexOf("disposed")).toBeGreaterThan(-1);
  await disposed[1];
  await runtime.dispose();
  expect(await errorOf(() => runtime.step(chain(runtime, [1]), noCancel()))).toMatchObject({ code: "runtime_disposed", kind: "cancelled" });
  expect(await errorOf(() => runtime.clearPages(Int32Array.of(0)))).toMatchObject({ code: "runtime_disposed" });
});

test("both calls of dispose resolve only when the steps before have ended", async () => {
  await writeTinyModel(path("slow"), { layers: 16, embeddingLength: 256, feedForwardLength: 1024, heads: 8, headSize: 32 });
  const runtime = await openRuntime(path("slow"), { ...EXACT, pages: 64, threads: 1 });
  let ended = false;
  const step = runtime.step(chain(runtime, Array.from({ length: 500 }, (_, i) => i)), noCancel()).then(() => (ended = true));
  const first = runtime.dispose();
  await runtime.dispose();
  expect(ended).toBe(true);
  await Promise.all([first, step]);
});

test("cleared pages read as zeros", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  await runtime.step(chain(runtime, [5, 6, 7]), noCancel());
  expect(await errorOf(() => runtime.clearPages(Int32Array.of(3, 16)))).toMatchObject({ code: "argument_invalid", param: "pages[1]" });
  runtime.clearPages(Int32Array.of(0));
  // A resident row over zeroed keys and values reads zeros: what remains is the residual stream, whatever the cells held.
  const asked = chain(runtime, [5], { store: Uint8Array.of(0), cell: Int32Array.of(1) });
  await runtime.step(asked, noCancel());
  const fresh = await openRuntime(path("llama"), EXACT);
  const expected = chain(fresh, [5], { store: Uint8Array.of(0), cell: Int32Array.of(1) });
  await fresh.step(expected, noCancel());
  expect(asked.logits).toEqual(expected.logits);
  await Promise.all([runtime.dispose(), fresh.dispose()]);
});

test("opening many runtimes on small models costs little, and memory is reported", async () => {
  const started = performance.now();
  for (let i = 0; i < 30; i++) {
    const runtime = await openRuntime(path("llama"), { ...EXACT, threads: 2 });
    expect(runtime.memory?.()).toMatchObject({ cells: 16 * runtime.pageBytes });
    await runtime.dispose();
  }
  console.log(`${((performance.now() - started) / 30).toFixed(1)} ms to open and dispose`);
});

test("progress rises from 0 to 1", async () => {
  const seen: number[] = [];
  const runtime = await openRuntime(path("llama"), { ...EXACT, onProgress: (fraction) => seen.push(fraction) });
  await new Promise((resolve) => setImmediate(resolve));
  expect(seen[0]).toBe(0);
  expect(seen.at(-1)).toBe(1);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  await runtime.dispose();
});

test("what cannot be opened says why", async () => {
  const open = (options: Record<string, unknown>, file = path("llama")) =>
    errorOf(() => openRuntime(file, { pages: 4, ...options }));
  expect(await open({ kernels: "cuda" })).toMatchObject({ code: "backend_unsupported", kind: "unsupported", param: "kernels" });
  const { levels } = deviceInfo();
  const absent = (["avx2", "avx-vnni", "avx512", "neon"] as const).filter((level) => !levels.includes(level));
  expect(absent.length).toBeGreaterThan(0); // no processor has Arm's and Intel's
  for (const kernels of absent) {
    const refused = await open({ kernels });
    expect(refused).toMatchObject({ code: "backend_unsupported", kind: "unsupported", param: "kernels" });
    expect(refused.message).toContain(`the instructions of the level "${kernels}"`);
  }
  expect(await open({ kernels: "fast" })).toMatchObject({ code: "argument_invalid", param: "kernels" });
  expect(await open({ cacheDtype: "f64" })).toMatchObject({ code: "argument_invalid", param: "cacheDtype" });
  for (const pages of [0, -1, 1.5, Number.NaN, 2 ** 31, "4", undefined]) expect(await open({ pages })).toMatchObject({ code: "argument_invalid", param: "pages" });
  expect(await open({ pageSize: 0 })).toMatchObject({ code: "argument_invalid", param: "pageSize" });
  expect(await open({ pageSize: 5000 })).toMatchObject({ code: "argument_invalid", param: "pages" });
  expect(await open({ threads: 0 })).toMatchObject({ code: "argument_invalid", param: "threads" });
  expect(await open({ pages: 2 ** 31 - 1, pageSize: 1 })).toMatchObject({ code: "cells_exceed_memory", kind: "capacity" });
  expect(await open({}, path("absent"))).toMatchObject({ code: "model_file_unreadable", kind: "data", param: "path" });
  writeFileSync(path("text"), "not a model");
  expect(await open({}, path("text"))).toMatchObject({ kind: "data", code: "model_file_damaged" });
  await writeTinyModel(path("cut"));
  truncateSync(path("cut"), readFileSync(path("cut")).length - 100);
  expect(await open({}, path("cut"))).toMatchObject({ code: "model_file_damaged" });
});

test("every level of this machine opens, and auto takes the last", async () => {
  const { levels, cores } = deviceInfo();
  expect(levels.slice(0, 2)).toEqual(["reference", "scalar"]);
  expect(cores).toBeGreaterThan(0);
  for (const kernels of levels) {
    for (const cacheDtype of ["f32", "f16", "q8_0"] as const) {
      const runtime = await openRuntime(path("llama"), { kernels, cacheDtype, pages: 4 });
      const { layers, kvHeads, headSize } = runtime.info;
      // An f16 scale for each cell, head and block of 32 dimensions, begun or whole.
      const headBytes = { f32: 4 * headSize, f16: 2 * headSize, q8_0: headSize + 2 * Math.ceil(headSize / 32) }[cacheDtype];
      expect(runtime).toMatchObject({ level: kernels, cacheDtype, pageBytes: layers * kvHeads * 2 * headBytes * runtime.pageSize });
      expect((await runtime.step(chain(runtime, [5, 6, 7]), noCancel())).ids.length).toBe(1);
      await runtime.dispose();
    }
  }
  const runtime = await openRuntime(path("llama"), { pages: 4 });
  expect(runtime).toMatchObject({ level: levels.at(-1), cacheDtype: "f16", pageSize: 16 });
  await runtime.dispose();
});

test("a model is read without its weights", async () => {
  const { info, tokenizer } = await readModel(path("llama"));
  expect(info.architecture).toBe("llama");
  expect(tokenizer.tokens.length).toBe(512);
  expect(tokenizer.tokenTypes.length).toBe(512);
  expect(await errorOf(() => readModel(path("absent")))).toMatchObject({ code: "model_file_unreadable" });
});

test("a generated model is the same bytes again, and nothing is left beside it", async () => {
  await writeTinyModel(path("first"), { seed: 9 });
  await writeTinyModel(path("second"), { seed: 9 });
  expect(readFileSync(path("first")).equals(readFileSync(path("second")))).toBe(true);
  expect(readdirSync(dirname(path("first"))).filter((file) => file.endsWith(".part"))).toEqual([]);
  expect(await errorOf(() => writeTinyModel(path("bad"), { headSize: 7 }))).toMatchObject({ code: "argument_invalid" });
  expect(await errorOf(() => writeTinyModel(path("bad"), { vocabularySize: 3 }))).toMatchObject({ param: "vocabularySize" });
  expect(existsSync(path("bad"))).toBe(false);
});

test("a field of the wrong class is named before the native part sees it", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const refused = (changes: object, cancel: Int32Array = noCancel()) =>
    errorOf(() => runtime.step({ ...chain(runtime, [1, 2]), ...changes } as Step, cancel));
  const cases: [object, string][] = [
    [{ token: [1, 2] }, "token"],
    [{ token: new Uint32Array(2) }, "token"],
    [{ store: new Int32Array(2) }, "store"],
    [{ outTop: undefined }, "outTop"],
    [{ biasValue: new Float64Array(1) }, "biasValue"],
    [{ mask: new Int32Array(16) }, "mask"],
    [{ logits: new Float64Array(512) }, "logits"],
    [{ logits: new Float32Array(5) }, "logits"],
    [{ samplers: GREEDY }, "samplers"],
    [{ samplers: [null] }, "samplers[0]"],
    [sampler({ temperature: "1" }), "samplers[0].temperature"],
    [sampler({ temperature: Number.NaN }), "samplers[0].temperature"],
    [sampler({ topK: 1.5 }), "samplers[0].topK"],
    [sampler({ topK: -1 }), "samplers[0].topK"],
    [sampler({ topP: 1.5 }), "samplers[0].topP"],
    [sampler({ minP: -0.1 }), "samplers[0].minP"],
    [sampler({ draw: -1 }), "samplers[0].draw"],
    [sampler({ seed: 5 }), "samplers[0].seed"],
    [sampler({ seed: -1n }), "samplers[0].seed"],
    [sampler({ seed: 1n << 64n }), "samplers[0].seed"],
    [{ token: Int32Array.of(512, 0) }, "token[0]"],
  ];
  for (const [changes, param] of cases) {
    const error = await refused(changes);
    expect(error).toMatchObject({ code: "step_invalid", kind: "invalid", param });
  }
  expect(await refused({}, new Int32Array(1))).toMatchObject({ code: "step_invalid", param: "cancel" });
  expect(await refused({}, new Int32Array(new SharedArrayBuffer(0)))).toMatchObject({ code: "step_invalid", param: "cancel" });
  expect((await runtime.step(chain(runtime, [1, 2]), noCancel())).ids.length).toBe(1);
  await runtime.dispose();
});
