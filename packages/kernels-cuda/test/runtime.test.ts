import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deviceInfo, openRuntime, readModel, writeTinyModel } from "../src/index.ts";
import { chain, noCancel } from "./support.ts";

let folder: string;
let path: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
  path = join(folder, "tiny.gguf");
  await writeTinyModel(path);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a generated model opens, steps and gives an id", async () => {
  const runtime = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages: 8, threads: 2 });
  expect(runtime.level).toBe("reference");
  expect(runtime.info.vocabularySize).toBe(512);
  const result = await runtime.step(chain(runtime, [5, 6, 7, 8], { greedy: true }), noCancel());
  expect(result.ids.length).toBe(1);
  expect(result.counts).toEqual({ rows: 4, cellsStored: 4, cellsRead: 0, rotations: 0, bytesMoved: 0 });
  await runtime.dispose();
});

test("a model is read without its weights", async () => {
  const { info, tokenizer } = await readModel(path);
  expect(info.architecture).toBe("llama");
  expect(tokenizer.tokens.length).toBe(512);
  expect(deviceInfo().levels[0]).toBe("reference");
});
