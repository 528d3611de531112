import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fold } from "@palimpsest/directives";
import { Engine } from "@palimpsest/engine";
import { openRuntime, writeTinyModel } from "@palimpsest/kernels-cuda";
import { afterAll, expect, test } from "vitest";
import { collect, failureOf, requestOf } from "../packages/engine/test/kit/harness.ts";

const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([false, true])("a panic in the native code (in the pool: %s) ends its requests as internal errors, and the next one works", async (inPool) => {
  const path = join(folder, "tiny.gguf");
  await writeTinyModel(path, { vocabularySize: 512 });
  const tokens = Int32Array.from({ length: 60 }, (_, i) => (i * 37) % 512);
  const request = (length: number) => requestOf(fold({ tokens: tokens.subarray(0, length), header: length, contextLength: 2048 }, []), length);
  const runtime = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages: 40, threads: 2, panicAt: { step: 1, layer: 1, inPool } });
  const engine: Engine = new Engine({ runtime, limits: { rowsPerStepMax: 32, shareCellsMin: 1 << 20 }, onStep: () => engine.checkIntegrity() });
  const [one, other] = await Promise.all([failureOf(engine.generate(request(60))), failureOf(engine.generate(request(50)))]);
  for (const error of [one, other]) expect(error).toMatchObject({ kind: "internal", code: "native_panic" });
  expect(engine.state()).toMatchObject({ running: 0, promisedPages: 0, pages: { leased: 0 } });

  const after = await collect(engine.generate(request(60)));
  // What the step before the panic computed is still there, and right.
  expect(after.report.cached_tokens).toBeGreaterThan(0);
  const fresh = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages: 40, threads: 1 });
  const unharmed = new Engine({ runtime: fresh });
  expect(after.logprobs).toStrictEqual((await collect(unharmed.generate(request(60)))).logprobs);
  await engine.dispose();
  await unharmed.dispose();
  await runtime.dispose();
  await fresh.dispose();
});

test("a client that leaves stops the native step between two layers, and all its pages come back", async () => {
  const path = join(folder, "deep.gguf");
  await writeTinyModel(path, { vocabularySize: 512, layers: 40, embeddingLength: 256, heads: 8, kvHeads: 8, headSize: 32 });
  const runtime = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages: 60, threads: 1 });
  const engine: Engine = new Engine({ runtime, onStep: () => engine.checkIntegrity() });
  const tokens = Int32Array.from({ length: 512 }, (_, i) => (i * 37) % 512);
  const controller = new AbortController();
  const request = requestOf(fold({ tokens, header: tokens.length, contextLength: 2048 }, []), tokens.length, { signal: controller.signal });
  const gone = failureOf(engine.generate(request));
  await new Promise((resolve) => setTimeout(resolve, 20));
  controller.abort();
  expect(await gone).toMatchObject({ kind: "cancelled", code: "request_cancelled" });
  expect(engine.state()).toMatchObject({ steps: 0, running: 0, pages: { leased: 0 } });
  expect((await collect(engine.generate(requestOf(request.fold, tokens.length, { maxTokens: 1 })))).report.computed_tokens).toBe(512);
  await engine.dispose();
  await runtime.dispose();
});
