import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fold } from "@palimpsest/directives";
import { DiskFolder, HostTier, type Tier, type TierEntry, type TierRecord } from "@palimpsest/kvstore";
import { afterAll, expect, test } from "vitest";
import { Random } from "../../directives/test/random-logs.ts";
import { answerOf, check, family, requestFor, VOCABULARY, type Case } from "./kit/families.ts";
import { tieredEngine } from "./kit/harness.ts";
import { ScriptedRuntime } from "./kit/scripted-runtime.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const HOST_SEEDS = LONG ? 2000 : 150;
const DISK_SEEDS = LONG ? 200 : 12;
const BLOCK_BYTES = 16 * 12;
const folder = mkdtempSync(join(tmpdir(), "palimpsest-tiers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Another tier, late now and then, and sometimes with a flipped bit. */
class UnsteadyTier implements Tier {
  readonly #inner: Tier;
  readonly #random: Random;
  readonly #flips: boolean;
  readonly name: string;
  readonly durable: boolean;
  readonly bytesMax: number;

  constructor(inner: Tier, random: Random, flips: boolean) {
    this.#inner = inner;
    this.#random = random;
    this.#flips = flips;
    this.name = inner.name;
    this.durable = inner.durable;
    this.bytesMax = inner.bytesMax;
  }

  load(): Promise<TierEntry[]> {
    return this.#inner.load();
  }
  async put(records: readonly TierRecord[]): Promise<void> {
    await this.#late();
    await this.#inner.put(records);
  }
  async get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    await this.#late();
    const found = await this.#inner.get(keys);
    await this.#late();
    for (const bytes of found) if (bytes !== null && this.#flips && this.#random.chance(0.1)) bytes[this.#random.int(0, bytes.length - 1)]! ^= 1 << this.#random.int(0, 7);
    return found;
  }
  async remove(keys: readonly string[], meta: boolean): Promise<void> {
    await this.#late();
    await this.#inner.remove(keys, meta);
  }
  close(): Promise<void> {
    return this.#inner.close();
  }

  async #late(): Promise<void> {
    if (this.#random.chance(0.3)) await sleep(this.#random.int(0, 3));
  }
}

interface World {
  seed: number;
  random: Random;
  cases: readonly Case[];
  longest: number;
  tiers: () => Promise<Tier[]>;
}

/** Rounds of requests, with evictions, erasures and aborted requests in between; at each end the archive outlives the engine or not. */
async function live({ seed, random, cases, longest, tiers }: World, counts: Record<string, number>): Promise<void> {
  const pageSize = random.pick([1, 5, 16]);
  const pages = Math.ceil(longest / pageSize) + random.int(0, 12);
  const runtime = new ScriptedRuntime({ pageSize, pages, vocabularySize: VOCABULARY });
  const limits = { rowsPerStepMax: random.int(1, 256), shareCellsMin: random.pick([1, 8, 1 << 20]), restoreMsMax: random.pick([1, 20, 1000]) };
  const { engine, archive, audit } = await tieredEngine(runtime, await tiers(), limits, random.chance(0.3) ? { demotingBytesMax: 4 * BLOCK_BYTES } : {}, "one", () => performance.now());
  for (let round = 0; round < 4; round++) {
    const together = random.shuffle([...cases]).slice(0, random.int(1, cases.length));
    const abort = new AbortController();
    const dropped = engine.generate({ ...requestFor(random.pick(cases)), signal: abort.signal });
    const ended = answerOf(() => dropped).catch((error: unknown) => expect((error as { code?: unknown }).code).toBe("request_cancelled"));
    const answers = together.map((one) => answerOf(() => engine.generate(requestFor(one))));
    if (random.chance(0.5)) await sleep(random.int(0, 2));
    abort.abort();
    let erased: ReturnType<typeof engine.erase> | null = null;
    if (random.chance(0.3)) {
      const { tokens } = random.pick(cases).log;
      const to = random.int(1, tokens.length);
      erased = engine.erase({ namespace: "tests", tokens: tokens.slice(0, to), from: random.int(0, to - 1) });
    }
    for (const [index, answer] of (await Promise.all(answers)).entries()) {
      if (answer === "capacity") throw new Error(`seed ${seed}: refused, though it fits`);
      check(together[index]!, answer, seed);
    }
    await Promise.all([ended, erased?.complete]);
    audit();
    if (random.chance(0.5)) await archive.idle();
    if (random.chance(0.7)) engine.evictUntilFree(random.int(1, pages));
  }
  const state = engine.state().tiers!;
  for (const name of ["restoredCells", "missedCells", "recomputedCells", "damaged", "demoted", "errors"] as const) counts[name] = (counts[name] ?? 0) + state[name];
  await engine.dispose();
  archive.checkIntegrity();
  if (engine.state().pages.leased + engine.state().pages.held > 0) throw new Error(`seed ${seed}: pages are held after the end`);
}

function worldOf(seed: number, tiers: (random: Random) => Promise<Tier[]>): World {
  const random = new Random(seed);
  const cases = family(random);
  const longest = Math.max(...cases.map(({ log, directives, maxTokens }) => fold(log, directives).tokens.length + maxTokens));
  return { seed, random, cases, longest, tiers: () => tiers(random) };
}

const hostTier = (random: Random) => new HostTier({ bytesMax: random.pick([4, 40, 400]) * BLOCK_BYTES, blockBytes: BLOCK_BYTES });

test(`${HOST_SEEDS} families of random logs answer as their naive fold says, with host memory behind the pool`, async () => {
  const counts: Record<string, number> = {};
  for (let seed = 1; seed <= HOST_SEEDS; seed++) {
    await live(worldOf(seed, async (random) => [new UnsteadyTier(hostTier(random), random, seed % 3 === 0)]), counts);
  }
  console.log(`seeds 1 … ${HOST_SEEDS}`, counts);
  expect(counts["restoredCells"]).toBeGreaterThan(100 * 16);
  expect(counts["damaged"]).toBeGreaterThan(0);
});

test(`${DISK_SEEDS} of them with a disk too, and restarts in between`, async () => {
  const counts: Record<string, number> = {};
  for (let seed = 1; seed <= DISK_SEEDS; seed++) {
    const path = join(folder, `seed ${seed}`);
    const tiers = async (random: Random): Promise<Tier[]> => {
      const disk = await DiskFolder.open({ path, bytesMax: random.pick([10, 1000]) * BLOCK_BYTES });
      return random.chance(0.5) ? [disk] : [hostTier(random), disk];
    };
    const world = worldOf(seed, tiers);
    for (let start = 0; start < 3; start++) await live(world, counts);
  }
  console.log(`seeds 1 … ${DISK_SEEDS}`, counts);
  expect(counts["restoredCells"]).toBeGreaterThan(10 * 16);
});
