import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Directive, Log } from "@palimpsest/directives";
import { DiskFolder, HostTier, type Tier, type TierEntry, type TierRecord } from "@palimpsest/kvstore";
import { afterAll, expect, test } from "vitest";
import { collect, request, tieredEngine, turn } from "./kit/harness.ts";
import { expectedAnswer } from "./kit/oracle.ts";
import { ScriptedRuntime } from "./kit/scripted-runtime.ts";

const BLOCK_BYTES = 16 * 12;
const folder = mkdtempSync(join(tmpdir(), "palimpsest-tiers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const host = (blocks = 1000) => new HostTier({ bytesMax: blocks * BLOCK_BYTES, blockBytes: BLOCK_BYTES });
const text = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * 7 + seed * 13 + (i >> 3)) % 61);
const answerOf = (tokens: readonly number[], directives: readonly Directive[], maxTokens = 4) => {
  const log: Log = { tokens: Int32Array.from(tokens), header: tokens.length, contextLength: 4096 };
  return expectedAnswer(log, directives, maxTokens, 61).tokens;
};

/** Host memory whose answers the test may hold back, or spoil. */
class HeldTier implements Tier {
  readonly name = "held";
  readonly durable = false;
  readonly bytesMax = 1000 * BLOCK_BYTES;
  readonly #inner = host();
  reads = 0;
  spoil = false;
  /** Reads wait for it. */
  gate: Promise<void> = Promise.resolve();
  /** Writes wait for it. */
  writeGate: Promise<void> = Promise.resolve();

  load(): Promise<TierEntry[]> {
    return this.#inner.load();
  }
  async put(records: readonly TierRecord[]): Promise<void> {
    await this.writeGate;
    await this.#inner.put(records);
  }
  async get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    this.reads += keys.length;
    const found = await this.#inner.get(keys);
    await this.gate;
    if (this.spoil) for (const bytes of found) if (bytes !== null) bytes[5]! ^= 1;
    return found;
  }
  remove(keys: readonly string[], meta: boolean): Promise<void> {
    return this.#inner.remove(keys, meta);
  }
  close(): Promise<void> {
    return this.#inner.close();
  }
}

/** Holds whoever waits for `closed` until `open` is called. */
function gate(): { closed: Promise<void>; open: () => void } {
  const { promise, resolve } = withResolvers();
  return { closed: promise, open: resolve };
}

function withResolvers() {
  let resolve!: () => void;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

test("evicted cells come back from host memory instead of being computed", async () => {
  const { engine, archive, runtime, audit } = await tieredEngine(new ScriptedRuntime({ pages: 20 }), [host()]);
  const prompt = text(100);
  const first = await collect(engine.generate(request(prompt)));
  expect(first.tokens).toEqual(answerOf(prompt, []));
  await archive.idle();
  expect(engine.state().tiers).toMatchObject({ demoted: 6, refused: 0, lost: 0 });
  expect(engine.evictUntilFree(20)).toBe(true);
  const rows = runtime.rows;
  const again = await collect(engine.generate(request(prompt)));
  expect(again.tokens).toEqual(first.tokens);
  expect(again.report).toMatchObject({ cached_tokens: 96, computed_tokens: 4 });
  expect(runtime.rows - rows).toBe(4 + 3);
  expect(engine.state().tiers).toMatchObject({ promoted: 6, restoredCells: 96, missedCells: 0 });
  expect(engine.state().pages).toMatchObject({ held: 0, leased: 0 });
  audit();
  await engine.dispose();
});

test("only what a row will read is brought: what an edit has hidden stays where it is", async () => {
  const tier = new HeldTier();
  const { engine, archive, audit } = await tieredEngine(new ScriptedRuntime({ pages: 40 }), [tier]);
  const prompt = text(320);
  const directives = [{ op: "drop", target: { tokens: [32, 256] as [number, number] }, at: { token: 288 } }, { op: "reposition", at: { token: 288 } }];
  await collect(engine.generate(request(prompt, directives)));
  await archive.idle();
  engine.evictUntilFree(40);
  const again = await collect(engine.generate(request(prompt, directives)));
  expect(again.tokens).toEqual(answerOf(prompt, directives));
  // Blocks 0, 1 and 16 … 18 of 20; the last one has the row that is asked, and is wanted as well.
  expect(tier.reads).toBe(6);
  expect(again.report).toMatchObject({ skipped_tokens: 224, computed_tokens: 1 });
  audit();
  await engine.dispose();
});

test("a restart finds on the disk what was there, and what only the device and host memory had", async () => {
  const path = join(folder, "restart");
  const prompt = text(200);
  const open = async () => tieredEngine(new ScriptedRuntime({ pages: 40 }), [host(), await DiskFolder.open({ path, bytesMax: 100 * BLOCK_BYTES })]);
  const before = await open();
  const first = await collect(before.engine.generate(request(prompt)));
  await before.engine.dispose();
  const after = await open();
  expect(after.engine.state().tiers!.tiers.map(({ name, blocks }) => [name, blocks])).toEqual([["host", 0], ["disk", 12]]);
  const again = await collect(after.engine.generate(request(prompt)));
  expect(again.tokens).toEqual(first.tokens);
  expect(again.report).toMatchObject({ cached_tokens: 192, computed_tokens: 8 });
  after.audit();
  await after.engine.dispose();
  // Another model finds nothing.
  const other = await tieredEngine(new ScriptedRuntime({ pages: 40 }), [await DiskFolder.open({ path, bytesMax: 100 * BLOCK_BYTES })], {}, {}, "another");
  const foreign = await collect(other.engine.generate(request(prompt)));
  expect(foreign.report.computed_tokens).toBe(200);
  await other.engine.dispose();
});

test("no step waits for a slow tier, and who waits for it computes when it takes too long", async () => {
  const tier = new HeldTier();
  const { engine, archive, runtime, audit } = await tieredEngine(new ScriptedRuntime({ pages: 40 }), [tier], { restoreMsMax: 400 });
  const prompt = text(160);
  await collect(engine.generate(request(prompt)));
  await archive.idle();
  engine.evictUntilFree(40);
  const slow = gate();
  tier.gate = slow.closed;
  let done = false;
  const late = collect(engine.generate(request(prompt))).finally(() => (done = true));
  while (tier.reads < 10) await turn();
  const steps = runtime.steps;
  const others = await Promise.all([2, 3].map((seed) => collect(engine.generate(request(text(40, seed))))));
  expect(others.map(({ tokens }) => tokens)).toEqual([2, 3].map((seed) => answerOf(text(40, seed), [])));
  expect(done).toBe(false);
  expect(runtime.steps - steps).toBeGreaterThanOrEqual(4);
  expect((await late).tokens).toEqual(answerOf(prompt, []));
  expect((await late).report.computed_tokens).toBe(160);
  slow.open();
  while (engine.state().tiers!.missedCells === 0) await turn();
  expect(engine.state().tiers).toMatchObject({ late: 10, restoredCells: 0, missedCells: 160 });
  expect(engine.state().pages.held).toBe(0);
  audit();
  await engine.dispose();
});

test("a tier that does not take what is offered delays nobody and holds a bounded number of pages", async () => {
  const tier = new HeldTier();
  const { engine, runtime, audit } = await tieredEngine(new ScriptedRuntime({ pages: 40 }), [tier], {}, { demotingBytesMax: 6 * BLOCK_BYTES });
  const stuck = gate();
  tier.writeGate = stuck.closed;
  for (let seed = 1; seed <= 12; seed++) expect((await collect(engine.generate(request(text(100, seed))))).tokens).toEqual(answerOf(text(100, seed), []));
  expect(runtime.steps).toBe(12 * 4);
  expect(engine.state().tiers!.demotingBytes).toBeLessThanOrEqual(6 * BLOCK_BYTES);
  expect(engine.state().tiers!.refused).toBeGreaterThan(0);
  stuck.open();
  audit();
  await engine.dispose();
});

test("damaged cells are computed, and counted", async () => {
  const tier = new HeldTier();
  const { engine, archive, audit } = await tieredEngine(new ScriptedRuntime({ pages: 20 }), [tier]);
  const prompt = text(100);
  await collect(engine.generate(request(prompt)));
  await archive.idle();
  engine.evictUntilFree(20);
  tier.spoil = true;
  const again = await collect(engine.generate(request(prompt)));
  expect(again.tokens).toEqual(answerOf(prompt, []));
  expect(again.report).toMatchObject({ computed_tokens: 100 });
  expect(engine.state().tiers).toMatchObject({ damaged: 6, restoredCells: 0, missedCells: 96 });
  audit();
  await engine.dispose();
});

test("what is computed faster than it is brought is computed", async () => {
  const tier = new HeldTier();
  const { engine, archive, audit } = await tieredEngine(new ScriptedRuntime({ pages: 40 }), [tier], { restoreMsMax: 200 }, {}, "one", () => performance.now());
  const prompts = [1, 2].map((seed) => text(160, seed));
  for (const prompt of prompts) await collect(engine.generate(request(prompt)));
  await archive.idle();
  engine.evictUntilFree(40);
  // The first read takes long and says so.
  tier.gate = new Promise((resolve) => setTimeout(resolve, 150));
  await collect(engine.generate(request(prompts[0]!)));
  await tier.gate;
  await archive.idle();
  engine.evictUntilFree(40);
  const reads = tier.reads;
  const answer = await collect(engine.generate(request(prompts[1]!)));
  expect(answer.tokens).toEqual(answerOf(prompts[1]!, []));
  expect(tier.reads).toBe(reads);
  expect(engine.state().tiers).toMatchObject({ recomputedCells: 160 });
  audit();
  await engine.dispose();
});

test("a tenant finds nothing of another's in any tier", async () => {
  const tier = new HeldTier();
  const { engine, archive, audit } = await tieredEngine(new ScriptedRuntime({ pages: 20 }), [tier]);
  const prompt = text(100);
  await collect(engine.generate(request(prompt, [], { namespace: "alice" })));
  await archive.idle();
  engine.evictUntilFree(20);
  expect((await collect(engine.generate(request(prompt, [], { namespace: "bob" })))).report.computed_tokens).toBe(100);
  expect(tier.reads).toBe(0);
  expect((await collect(engine.generate(request(prompt, [], { namespace: "alice" })))).report.computed_tokens).toBe(4);
  audit();
  await engine.dispose();
});

test("an erasure counts what each tier had, and reaches what is on its way back", async () => {
  const tier = new HeldTier();
  const { engine, archive, runtime, audit } = await tieredEngine(new ScriptedRuntime({ pages: 20 }), [tier], { restoreMsMax: 1000 });
  const prompt = text(100);
  await collect(engine.generate(request(prompt)));
  await archive.idle();
  engine.evictUntilFree(20);
  const slow = gate();
  tier.gate = slow.closed;
  const waiting = collect(engine.generate(request(prompt)));
  while (tier.reads < 6) await turn();
  const erased = engine.erase({ namespace: "tests", tokens: Int32Array.from(prompt.slice(0, 40)), from: 20 });
  slow.open();
  await erased.complete;
  expect(erased).toMatchObject({ tiers: { held: 5 * 16 }, unreachable: {}, isComplete: true });
  // Block 0 is in front of the text and came back; the others are computed: the request itself has the text.
  const answer = await waiting;
  expect(answer.tokens).toEqual(answerOf(prompt, []));
  expect(answer.report.computed_tokens).toBe(84);
  audit();
  const { tokens } = await collect(engine.generate(request(text(30, 9))));
  expect(tokens).toEqual(answerOf(text(30, 9), []));
  expect(runtime.disposed).toBe(false);
  await engine.dispose();
});

test("a pool that is all on its way makes requests wait, and fails none", async () => {
  const tier = new HeldTier();
  const { engine, archive, audit } = await tieredEngine(new ScriptedRuntime({ pages: 8 }), [tier], { restoreMsMax: 40 }, { promotingBytesMax: 100 * BLOCK_BYTES });
  const prompts = [1, 2, 3].map((seed) => text(100, seed));
  for (const prompt of prompts) await collect(engine.generate(request(prompt)));
  await archive.idle();
  engine.evictUntilFree(8);
  const slow = gate();
  tier.gate = slow.closed;
  const answers = prompts.map((prompt) => collect(engine.generate(request(prompt))));
  setTimeout(slow.open, 150);
  for (const [i, answer] of answers.entries()) expect((await answer).tokens).toEqual(answerOf(prompts[i]!, []));
  audit();
  await engine.dispose();
});
