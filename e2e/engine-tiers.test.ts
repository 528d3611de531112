import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fold } from "@palimpsest/directives";
import { Engine, openArchive, type GenerateRequest, type TierOptions } from "@palimpsest/engine";
import { openRuntime, writeTinyModel, type Runtime } from "@palimpsest/kernels-cuda";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../packages/directives/test/random-logs.ts";
import { collect, requestOf } from "../packages/engine/test/kit/harness.ts";
import { family } from "./kit/family.ts";
import { expectSame } from "./kit/logits.ts";

const SEEDS = process.env["PALIMPSEST_LONG"] === "1" ? 150 : 10;
const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
const model = join(folder, "tiny.gguf");
beforeAll(() => writeTinyModel(model, { vocabularySize: 512, layers: 2, types: "mixed", seed: 5 }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An engine with tiers, or none, that keeps the bits of the logits of the request that was given last. */
async function opened(tiers: TierOptions | null, pages: number, pageSize: number) {
  const runtime = await openRuntime(model, { kernels: "scalar", cacheDtype: "f16", pages, pageSize, threads: 1 });
  const archive = tiers === null ? undefined : await openArchive(runtime, tiers);
  const rows = new Map<GenerateRequest, Map<string, Float32Array>>();
  const engine: Engine = new Engine({
    runtime,
    archive,
    modelId: "tiny",
    onStep: () => engine.checkIntegrity(),
    onLogits: ({ request, scored, draw }, values) => rows.get(request)?.set(scored === null ? `draw ${draw}` : `scored ${scored}`, values.slice()),
  });
  const ask = async (request: GenerateRequest) => {
    rows.set(request, new Map());
    const { report, tokens } = await collect(engine.generate(request));
    return { report, tokens, rows: rows.get(request)! };
  };
  const close = async () => {
    await engine.dispose();
    await runtime.dispose();
  };
  return { engine, runtime, archive, ask, close };
}

/** The bytes of each slot of a pool. */
async function cellsOf({ cells, pages, pageSize }: Runtime): Promise<Buffer[]> {
  const slots = Int32Array.from({ length: pages * pageSize }, (_, i) => i);
  const bytes = Buffer.alloc(slots.length * cells!.cellBytes);
  await cells!.read(slots, bytes);
  return Array.from(slots, (slot) => bytes.subarray(slot * cells!.cellBytes, (slot + 1) * cells!.cellBytes));
}

test(`${SEEDS} random logs with all verbs have the bits of a cold run after eviction, demotion, promotion and restarts`, async () => {
  const text = Array.from({ length: 4000 }, (_, i) => new Random(i).int(0, 511));
  let restored = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = new Random(seed);
    const logs = family(random, { text, tokensMax: 160, contextLength: 8192, answerMax: 5 });
    const requests = () => logs.map(({ log, fold: folded, maxTokens }) => requestOf(folded, log.tokens.length, { maxTokens }));
    const cold = [];
    for (const request of requests()) {
      const fresh = await opened(null, 600, 16);
      cold.push(await fresh.ask(request));
      await fresh.close();
    }
    const path = join(folder, `cells ${seed}`);
    const tiers = (): TierOptions => ({ hostBytes: random.pick([0, 1 << 16, 1 << 24]), disk: { path, bytesMax: 1 << 24 } });
    for (let start = 0; start < 3; start++) {
      // Another page size finds the same cells.
      const pageSize = random.pick([1, 5, 16]);
      const { engine, archive, ask, close } = await opened(tiers(), Math.ceil(random.pick([400, 2000]) / pageSize), pageSize);
      for (let round = 0; round < 2; round++) {
        for (const [i, request] of requests().entries()) expectSame((await ask(request)).rows, cold[i]!.rows, `seed ${seed}, start ${start}, round ${round}, log ${i}`);
        await archive!.idle();
        engine.evictUntilFree(random.int(1, engine.state().pages.total));
      }
      restored += engine.state().tiers!.restoredCells;
      await close();
    }
  }
  console.log(`seeds 1 … ${SEEDS}: ${restored} cells came back`);
  expect(restored).toBeGreaterThan(SEEDS * 50);
}, 600_000);

const asked = (tokens: Int32Array) => requestOf(fold({ tokens, header: tokens.length, contextLength: 8192 }, []), tokens.length, { maxTokens: 3 });

test("erased cells are nowhere in the pool, also where they share a page with cells that stay", async () => {
  for (const erase of [true, false]) {
    const { engine, runtime, archive, ask, close } = await opened({ hostBytes: 1 << 24 }, 40, 16);
    const prompt = Int32Array.from({ length: 70 }, (_, i) => (i * 37 + 11) % 512);
    const ends = (cut: number) => Int32Array.from([...prompt.slice(0, cut), ...Array.from({ length: 20 }, (_, i) => (i * 91 + cut) % 512)]);
    await ask(asked(prompt));
    // The cells of the text, as they lie there now: everything that is not in the pool of a run without it.
    const before = await cellsOf(runtime);
    const other = await opened(null, 40, 16);
    await other.ask(asked(prompt.slice(0, 21)));
    const spared = new Set((await cellsOf(other.runtime)).map((cell) => cell.toString("latin1")));
    await other.close();
    const doomed = before.filter((cell) => cell.some((byte) => byte !== 0) && !spared.has(cell.toString("latin1"))).map((cell) => cell.toString("latin1"));
    expect(doomed.length).toBeGreaterThan(45);
    // Copies that were evicted from a page that goes on, and branches inside one.
    engine.evictUntilFree(38);
    await ask(asked(prompt));
    await ask(asked(ends(21)));
    if (erase) await engine.erase({ namespace: "tests", tokens: prompt.slice(0, 40), from: 21 }).complete;
    const left = new Set((await cellsOf(runtime)).map((cell) => cell.toString("latin1")));
    const found = doomed.filter((cell) => left.has(cell)).length;
    if (erase) expect(found).toBe(0);
    else expect(found).toBeGreaterThan(45);
    // What stands in front of it, in the same page, is still there and right.
    const again = await ask(asked(ends(21)));
    expect(again.report.computed_tokens).toBe(1);
    await archive!.idle();
    expect(archive!.stats().tiers[0]!.blocks).toBe(erase ? 2 : 5);
    await close();
  }
}, 120_000);
