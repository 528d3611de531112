import { mkdtempSync, readFileSync, rmSync, readdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fold, type Directive } from "@palimpsest/directives";
import { Engine } from "@palimpsest/engine";
import { openRuntime, type Runtime, writeTinyModel } from "@palimpsest/kernels-cuda";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Probe } from "../bench/probe.ts";
import { describeWithModel } from "./real-models.ts";

const ROOT = resolve(import.meta.dirname, "..");
type Budget = Record<string, number>;
const budgets = JSON.parse(readFileSync(join(ROOT, "bench/budgets.json"), "utf8")) as Record<string, Budget>;

/** Counts above their ceiling, and names that stand on one side only; and, for ceilings that are counts, ones far above what is counted. */
function excess(counted: Budget, name: string, near: readonly string[] = []): string[] {
  const budget = budgets[name];
  if (budget === undefined) return [`no budget "${name}"`];
  console.log(`${name}: ${Object.entries(counted).map(([key, value]) => `${key} ${value} of ${String(budget[key])}`).join(", ")}`);
  return [...new Set([...Object.keys(counted), ...Object.keys(budget)])].filter((key) => {
    const [value = Number.NaN, ceiling = Number.NaN] = [counted[key], budget[key]];
    return !(value <= ceiling) || (near.includes(key) && value < 0.97 * ceiling);
  });
}

describeWithModel("smollm2-135m", "A decode step of SmolLM2", (path) => {
  it.each([1, 4])("of %i streams reads each weight once and every page of its views", async (streams) => {
    const runtime = await openRuntime(path, { pages: 64, threads: 2 });
    const probe = new Probe(runtime);
    await probe.decode(1, 64, streams);
    const { weightBytes = Number.NaN, multiplications = Number.NaN, pagesRead = Number.NaN, bytesMoved } = probe.counts ?? {};
    await runtime.dispose();
    const name = `smollm2-135m Q4_1, one decode step ${streams === 1 ? "" : `of ${streams} streams `}behind 64 cells`;
    expect(excess({ weightBytes, multiplications, pagesRead, cellBytesMoved: bytesMoved ?? Number.NaN }, name, ["weightBytes", "multiplications"])).toEqual([]);
  });
});

/** A runtime that counts every call that crosses into the native part, and what the steps moved. */
function counting(runtime: Runtime): { runtime: Runtime; crossings: () => number; steps: () => number; moved: () => number } {
  const seen = { crossings: 0, steps: 0, moved: 0 };
  const proxy = new Proxy(runtime, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return async (...given: unknown[]) => {
        seen.crossings += 1;
        const result: unknown = await Reflect.apply(value, target, given);
        if (property === "step") {
          seen.steps += 1;
          seen.moved += (result as Awaited<ReturnType<Runtime["step"]>>).counts.bytesMoved;
        }
        return result;
      };
    },
  });
  return { runtime: proxy, crossings: () => seen.crossings, steps: () => seen.steps, moved: () => seen.moved };
}

describe("The engine's border", () => {
  let folder: string;
  let path: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-budgets-"));
    path = join(folder, "tiny.gguf");
    await writeTinyModel(path, { seed: 3 });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function decodeStreams(directives: readonly Directive[], maxTokens: number) {
    const native = await openRuntime(path, { pages: 256, threads: 2 });
    const counted = counting(native);
    const engine = new Engine({ runtime: counted.runtime });
    const ask = async (stream: number, tokens: number): Promise<void> => {
      const ids = Int32Array.from({ length: 40 }, (_, i) => (i * 31 + stream * 17) % 250);
      const generation = engine.generate({
        fold: fold({ tokens: ids, header: ids.length, contextLength: native.info.contextLength }, directives),
        promptTokens: ids.length,
        maxTokens: tokens,
        sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1n },
        logprobs: -1,
        echo: false,
        stopTokens: [],
        namespace: "budgets",
      });
      for await (const event of generation) void event;
    };
    const all = (tokens: number) => Promise.all(Array.from({ length: 8 }, (_, stream) => ask(stream, tokens)));
    await all(1); // the prompts
    const before = { crossings: counted.crossings(), steps: counted.steps() };
    await all(maxTokens);
    const steps = counted.steps() - before.steps;
    const crossings = counted.crossings() - before.crossings;
    await engine.dispose();
    await native.dispose();
    expect(steps).toBeGreaterThanOrEqual(maxTokens);
    return { perStep: crossings / steps, moved: counted.moved() };
  }

  it("is crossed once a step by streams that decode", async () => {
    const { perStep } = await decodeStreams([], 30);
    expect(excess({ borderCrossings: perStep }, "engine, per step of 8 streams that decode")).toEqual([]);
  });

  it("is crossed once a step behind a reposition, and no byte of a cell moves", async () => {
    const at = { token: 40 };
    const { perStep, moved } = await decodeStreams([{ op: "drop", target: { tokens: [5, 15] }, at }, { op: "reposition", at }], 30);
    expect(excess({ borderCrossings: perStep, cellBytesMoved: moved }, "engine, per step of 8 streams that decode behind one reposition each")).toEqual([]);
  });
});

it("the native library is as small as promised", () => {
  const folder = join(ROOT, "packages/kernels-cuda");
  const native = readdirSync(folder).find((name) => name.endsWith(".node")) ?? "";
  expect(excess({ bytes: statSync(join(folder, native)).size }, "native library")).toEqual([]);
});

it("a step says what it did on a model of known size", async () => {
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-counts-"));
  const path = join(folder, "tiny.gguf");
  await writeTinyModel(path, { seed: 4 });
  const runtime = await openRuntime(path, { pages: 16, threads: 1 });
  const probe = new Probe(runtime);
  await probe.decode(1, 20);
  const one = probe.counts;
  await probe.prefill(40, 20);
  const forty = probe.counts;
  await runtime.dispose();
  rmSync(folder, { recursive: true });
  expect(one?.pagesRead).toBe(2);
  expect(one?.weightBytes).toBe(forty?.weightBytes);
  // All rows, but only the one that is asked for behind the last layer's keys and in the head.
  expect(forty?.multiplications).toBeGreaterThan(10 * (one?.multiplications ?? Number.NaN));
  expect(forty?.multiplications).toBeLessThan(40 * (one?.multiplications ?? Number.NaN));
});
