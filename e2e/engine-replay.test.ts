import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Engine, type GenerateRequest } from "@palimpsest/engine";
import { openRuntime, writeTinyModel, type TinyModelOptions } from "@palimpsest/kernels-cuda";
import { afterAll, expect, test } from "vitest";
import { Random } from "../packages/directives/test/random-logs.ts";
import { collect, requestOf } from "../packages/engine/test/kit/harness.ts";
import { family, type Case } from "./kit/family.ts";
import { proseTokens } from "./kit/models.ts";
import { largestDifference, replayed } from "./kit/replay.ts";
import { describeWithModel } from "./real-models.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Trial {
  path: string;
  seed: number;
  text: ArrayLike<number>;
  tokensMax: number;
  answerMax: number;
  contextLength: number;
  rounds: number;
  tolerance: number;
  /** Ask for the logits of all prompt tokens, whatever the case asks for. */
  everyToken?: boolean;
}

/** What a trial did, so that a test can say that it did enough. */
interface Tally {
  cases: number;
  rows: number;
  worst: number;
  recovered: number;
}

/**
 * One family of logs in one engine, several at a time, cells evicted in between; every logit that the engine saw against the naive
 * replay. Pages are as few as the longest log needs, and a little more.
 */
async function trial({ path, seed, text, tokensMax, answerMax, contextLength, rounds, tolerance, everyToken = false }: Trial, tally: Tally): Promise<void> {
  const random = new Random(seed);
  const cases = family(random, { text, tokensMax, contextLength, answerMax });
  const pageSize = random.pick([1, 5, 16]);
  const longest = Math.max(...cases.map(({ fold, maxTokens }) => fold.tokens.length + maxTokens));
  const pages = Math.ceil(longest / pageSize) + random.int(0, 12);
  const runtime = await openRuntime(path, { kernels: "reference", cacheDtype: "f32", pages, pageSize, threads: 2 });
  const logits = new Map<GenerateRequest, Map<string, Float32Array>>();
  const engine: Engine = new Engine({
    runtime,
    limits: { rowsPerStepMax: random.int(1, 256), rowsBesideDecodeMax: random.int(1, 64) },
    onStep: () => engine.checkIntegrity(),
    onLogits: ({ request, scored, draw }, values) => logits.get(request)!.set(scored === null ? `draw ${draw}` : `scored ${scored}`, values.slice()),
  });
  try {
    for (let round = 0; round < rounds; round++) {
      const chosen = random.shuffle(cases).slice(0, random.int(1, cases.length));
      const together = everyToken ? chosen.map((one) => ({ ...one, echo: true })) : chosen;
      const requests = together.map(({ log, fold, maxTokens, echo }) => requestOf(fold, log.tokens.length, { maxTokens, echo }));
      for (const request of requests) logits.set(request, new Map());
      const answers = await Promise.all(requests.map((request) => collect(engine.generate(request))));
      for (const [index, one] of together.entries()) {
        const { tokens, report } = answers[index]!;
        tally.recovered += report.recovered_tokens;
        await compare(path, one, tokens, logits.get(requests[index]!)!, tolerance, `seed ${seed}, round ${round}`, tally);
      }
      if (random.chance(0.6)) engine.evictUntilFree(random.int(1, pages));
    }
  } finally {
    await engine.dispose();
    await runtime.dispose();
  }
}

async function compare(path: string, { log, directives, echo, maxTokens }: Case, tokens: number[], seen: Map<string, Float32Array>, tolerance: number, title: string, tally: Tally): Promise<void> {
  const naive = await replayed(path, log, directives, tokens, 2);
  const expected = new Map(tokens.map((_, index) => [`draw ${index}`, naive.draw(index)]));
  if (echo) {
    log.tokens.forEach((_, token) => {
      const row = naive.scored(token);
      if (row !== null) expected.set(`scored ${token}`, row);
    });
  }
  expect(tokens.length, `${title}`).toBe(maxTokens);
  expect([...seen.keys()].toSorted(), `${title}`).toStrictEqual([...expected.keys()].toSorted());
  for (const [key, row] of expected) {
    const difference = largestDifference(seen.get(key)!, row);
    tally.worst = Math.max(tally.worst, difference);
    expect(difference, `${title}, ${key}`).toBeLessThan(tolerance);
  }
  tally.cases++;
  tally.rows += expected.size;
}

function show({ cases, rows, worst, recovered }: Tally): void {
  console.info(`${cases} logs, ${rows} rows of logits, largest difference ${worst.toExponential(1)}, ${recovered} cells recovered`);
}

const newTally = (): Tally => ({ cases: 0, rows: 0, worst: 0, recovered: 0 });

const TINY: readonly TinyModelOptions[] = [
  { architecture: "llama", seed: 1 },
  { architecture: "qwen2", seed: 2, layers: 3, embeddingLength: 96, heads: 6, kvHeads: 2, headSize: 16, types: "mixed" },
  { architecture: "llama", seed: 3, layers: 4, embeddingLength: 64, heads: 4, kvHeads: 4, headSize: 32, tied: true },
];

test("300 random logs on generated models have the logits of their naive replay", async () => {
  const tally = newTally();
  const enough = LONG ? 5000 : 300;
  const paths = await Promise.all(
    TINY.map(async (options, index) => {
      const path = join(folder, `tiny-${index}.gguf`);
      await writeTinyModel(path, { vocabularySize: 512, ...options });
      return path;
    }),
  );
  const random = new Random(0);
  const anyTokens = Array.from({ length: 10_000 }, () => random.int(0, 511));
  for (let seed = 1; tally.cases < enough; seed++) {
    await trial({ path: paths[seed % paths.length]!, seed, text: anyTokens, tokensMax: 90, answerMax: 5, contextLength: 2048, rounds: 3, tolerance: 1e-4 }, tally);
  }
  show(tally);
  expect(tally.rows).toBeGreaterThan(10 * enough);
  expect(tally.recovered).toBeGreaterThan(enough / 2);
}, 600_000);

describeWithModel("smollm2-135m", "On SmolLM2-135M", (path) => {
  test("12 random logs of prose have the logits of their naive replay, at every token", async () => {
    const tally = newTally();
    const text = await proseTokens(path);
    for (let seed = 1; tally.cases < (LONG ? 100 : 12); seed++) {
      await trial({ path, seed, text, tokensMax: LONG ? 400 : 280, answerMax: 3, contextLength: 8192, rounds: 2, tolerance: 1e-3, everyToken: true }, tally);
    }
    show(tally);
    expect(tally.rows).toBeGreaterThan(400);
  }, 1_200_000);
});

describeWithModel("qwen2.5-coder-0.5b", "On Qwen2.5-Coder-0.5B", (path) => {
  test("3 random logs of prose have the logits of their naive replay, at every token", async () => {
    const tally = newTally();
    const text = await proseTokens(path);
    for (let seed = 101; tally.cases < (LONG ? 30 : 3); seed++) {
      await trial({ path, seed, text, tokensMax: LONG ? 200 : 60, answerMax: 2, contextLength: 32_768, rounds: 1, tolerance: 1e-3, everyToken: true }, tally);
    }
    show(tally);
    expect(tally.rows).toBeGreaterThan(60);
  }, 1_200_000);
});
