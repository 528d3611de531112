import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fold, type Directive, type Log } from "@palimpsest/directives";
import { Engine, type CellDtype, type EngineLimits, type GenerateRequest } from "@palimpsest/engine";
import { deviceInfo, openRuntime, writeTinyModel, type KernelLevel, type RuntimeOptions } from "@palimpsest/kernels-cuda";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../packages/directives/test/random-logs.ts";
import { collect, requestOf } from "../packages/engine/test/kit/harness.ts";
import { family } from "./kit/family.ts";
import { proseTokens } from "./kit/models.ts";
import { describeWithModel } from "./real-models.ts";
import { expectSame } from "./kit/logits.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
const tiny = join(folder, "tiny.gguf");
beforeAll(() => writeTinyModel(tiny, { vocabularySize: 512, layers: 3, types: "mixed", seed: 7 }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An engine of its own that keeps the bits of all logits of the request that was given last. */
async function opened(path: string, options: Partial<RuntimeOptions>, limits: Partial<EngineLimits> = {}) {
  const runtime = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages: 600, threads: 2, ...options });
  const rows = new Map<GenerateRequest, Map<string, Float32Array>>();
  const engine: Engine = new Engine({
    runtime,
    limits,
    onStep: () => engine.checkIntegrity(),
    onLogits: ({ request, scored, draw }, values) => rows.get(request)?.set(scored === null ? `draw ${draw}` : `scored ${scored}`, values.slice()),
  });
  return {
    engine,
    async ask(request: GenerateRequest) {
      rows.set(request, new Map());
      const answer = await collect(engine.generate(request));
      return { answer, rows: rows.get(request)! };
    },
    async close() {
      await engine.dispose();
      await runtime.dispose();
    },
  };
}

interface Subject {
  path: string;
  kernels: KernelLevel;
  cacheDtype: CellDtype;
  log: Log;
  directives: Directive[];
  beside: GenerateRequest[];
}

/** One log: warm and cold, whole and in chunks, alone and in a batch of four, one thread and two, kept and recovered, pages of 1, 5 and 16. */
async function holdsItsBits({ path, kernels, cacheDtype, log, directives, beside }: Subject, title: string): Promise<void> {
  const asked = (echo: boolean) => requestOf(fold(log, directives), log.tokens.length, { maxTokens: 4, echo });
  const base = await opened(path, { kernels, cacheDtype });
  const cold = await base.ask(asked(true));
  expectSame((await base.ask(asked(true))).rows, cold.rows, `${title}, warm`);
  const draws = new Map([...cold.rows].filter(([key]) => key.startsWith("draw")));
  const warm = await base.ask(asked(false));
  expectSame(warm.rows, draws, `${title}, warm without scores`);
  expect(warm.answer.logprobs, `${title}`).toStrictEqual(cold.answer.logprobs);

  const [batched] = await Promise.all([base.ask(asked(true)), ...beside.map((request) => base.ask(request))]);
  expectSame(batched.rows, cold.rows, `${title}, in a batch of ${beside.length + 1}`);
  for (const pages of [3, 10, 1000]) {
    const { free, total } = base.engine.state().pages;
    base.engine.evictUntilFree(Math.min(total, free + pages));
    const again = await base.ask(asked(false));
    expectSame(again.rows, draws, `${title}, after ${pages} pages were evicted`);
  }
  await base.close();

  const variants: [string, Partial<RuntimeOptions>, Partial<EngineLimits>][] = [
    ["one thread", { threads: 1 }, {}],
    ["pages of 1", { pageSize: 1, pages: 2000 }, {}],
    ["pages of 5, chunks of 7", { pageSize: 5 }, { rowsPerStepMax: 7 }],
    ["one row a step", { pageSize: 16 }, { rowsPerStepMax: 1 }],
  ];
  for (const [name, options, limits] of variants) {
    const other = await opened(path, { kernels, cacheDtype, ...options }, limits);
    const together = await Promise.all([other.ask(asked(true)), ...beside.map((request) => other.ask(request))]);
    expectSame(together[0].rows, cold.rows, `${title}, ${name}, cold in a batch`);
    expectSame((await other.ask(asked(true))).rows, cold.rows, `${title}, ${name}, warm and alone`);
    await other.close();
  }
}

function subjects(random: Random, text: ArrayLike<number>, tokensMax: number): Pick<Subject, "log" | "directives" | "beside"> {
  const [subject] = family(random, { text, tokensMax, contextLength: 8192, answerMax: 6 });
  const others = family(random, { text, tokensMax, contextLength: 8192, answerMax: 6 });
  // One of them shares the beginning of the log itself.
  const start = subject!.log.tokens.slice(0, Math.ceil(subject!.log.tokens.length / 2));
  const sharer = { tokens: start, header: start.length, contextLength: 8192 };
  const beside = [...others.slice(0, 2), { log: sharer, fold: fold(sharer, []), maxTokens: 6, echo: false }];
  while (beside.length < 3) beside.push(others[0]!);
  return { ...subject!, beside: beside.map(({ log, fold: folded, maxTokens, echo }) => requestOf(folded, log.tokens.length, { maxTokens, echo })) };
}

const random = new Random(0);
const anyTokens = Array.from({ length: 10_000 }, () => random.int(0, 511));

test.each(deviceInfo().levels)("the same log has the same bits, on a generated model, level %s", async (kernels) => {
  for (let seed = 1; seed <= (LONG ? 200 : 12); seed++) {
    const dtypes: readonly CellDtype[] = kernels === "reference" ? ["f32", "q8_0"] : ["f32", "f16", "q8_0"];
    const cacheDtype = dtypes[seed % dtypes.length]!;
    await holdsItsBits({ path: tiny, kernels, cacheDtype, ...subjects(new Random(seed), anyTokens, 120) }, `seed ${seed}`);
  }
  expect(deviceInfo().levels).toContain(kernels);
}, 300_000);

describeWithModel("smollm2-135m", "On SmolLM2-135M", (path) => {
  test("the same log has the same bits, on the fastest level", async () => {
    const kernels = deviceInfo().levels.at(-1)!;
    const text = await proseTokens(path);
    for (let seed = 1; seed <= (LONG ? 20 : 2); seed++) {
      const cacheDtype = seed % 2 === 0 ? "q8_0" : kernels === "reference" ? "f32" : "f16";
      await holdsItsBits({ path, kernels, cacheDtype, ...subjects(new Random(seed), text, LONG ? 300 : 100) }, `seed ${seed}`);
    }
    expect(kernels).toBeDefined();
  }, 900_000);
});
