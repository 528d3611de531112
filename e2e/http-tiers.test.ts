import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writeTinyModel } from "@palimpsest/kernels-cuda";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

/** Servers of their own that share a folder of cells, one after another. */
const CLI = resolve(import.meta.dirname, "../packages/server/dist/cli.mjs");
const folder = mkdtempSync(join(tmpdir(), "palimpsest-tiers-"));
const model = join(folder, "tiny.gguf");
const running = new Set<ChildProcess>();
beforeAll(async () => {
  if (!existsSync(CLI)) throw new Error(`${CLI} is not there; run npm run build`);
  await writeTinyModel(model, { contextLength: 4096 });
});
afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
  running.clear();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Answer {
  choices: { logprobs: { token_logprobs: number[] } }[];
  cache: { cached_tokens: number; computed_tokens: number };
}

async function serve(cells: string, ...more: string[]) {
  const args = ["serve", "--model", model, "--port", "0", "--pages", "64", "--threads", "1", "--cache-disk", join(folder, cells), ...more];
  const child = spawn(process.execPath, [CLI, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const ended = once(child, "close").then(([code]) => code as number | null);
  let address: string | undefined;
  while (address === undefined) {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${errors}`);
    await sleep(20);
    address = /^address +(\S+)$/m.exec(output)?.[1];
  }
  const post = async (path: string, body: object, key = "a key") => {
    const answer = await fetch(`${address}${path}`, { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${key}` }, body: JSON.stringify(body) });
    return (await answer.json()) as object;
  };
  const ask = async (prompt: readonly number[], key?: string) => (await post("/v1/completions", { prompt, max_tokens: 4, temperature: 0, logprobs: 1, ignore_eos: true, cache: { report: true } }, key)) as Answer;
  const cache = async (key = "a key") => (await (await fetch(`${address}/v1/cache`, { headers: { authorization: `Bearer ${key}` } })).json()) as { tiers: { name: string; blocks: number; bytes: number }[]; transfers: Record<string, number> };
  const metrics = async () => (await fetch(`${address}/metrics`)).text();
  /** By a signal; with the exit code. */
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  return { ask, post, cache, metrics, end };
}

const prompt = (seed: number, length = 200) => Array.from({ length }, (_, i) => (i * 31 + seed * 101 + (i >> 4)) % 500);

test("a restart finds the cells, in the disk's folder alone, and its answers are the same", async () => {
  const first = await serve("restart", "--cache-host", "64MiB");
  const cold = await first.ask(prompt(1));
  expect(cold.cache.computed_tokens).toBe(200);
  expect(await first.end("SIGTERM")).toBe(0);
  expect(readdirSync(join(folder, "restart")).toSorted()).toEqual(["cells", "keys", "store.key"]);

  const second = await serve("restart");
  const { name, blocks } = (await second.cache()).tiers[0]!;
  expect([name, blocks]).toEqual(["disk", 12]);
  const warm = await second.ask(prompt(1));
  expect(warm.cache).toMatchObject({ cached_tokens: 192, computed_tokens: 8 });
  expect(warm.choices[0]!.logprobs).toStrictEqual(cold.choices[0]!.logprobs);
  expect((await second.cache()).transfers).toMatchObject({ restored_tokens: 192, damaged_blocks: 0 });
  expect(await second.metrics()).toContain('palimpsest_tier_tokens{how="restored"} 192');
  // The folder is in use.
  await expect(serve("restart")).rejects.toThrow(/uses the folder of cells/);
  expect(await second.end("SIGTERM")).toBe(0);
}, 60_000);

test("kill -9 while cells are copied loses none that were committed, serves none that is damaged, and the folder goes on", async () => {
  let found = 0;
  const cold = new Map<number, Answer>();
  for (let round = 0; round < 4; round++) {
    const server = await serve("killed");
    for (const [seed, answer] of cold) {
      const again = await server.ask(prompt(seed));
      expect(again.choices[0]!.logprobs).toStrictEqual(answer.choices[0]!.logprobs);
      found += again.cache.cached_tokens;
    }
    const { transfers } = await server.cache();
    expect(transfers["damaged_blocks"]).toBe(0);
    // Several at once, so that copies are on their way when it dies.
    const seeds = [10 * round + 1, 10 * round + 2, 10 * round + 3];
    for (const [i, answer] of (await Promise.all(seeds.map((seed) => server.ask(prompt(seed))))).entries()) cold.set(seeds[i]!, answer);
    await sleep(round * 15);
    await server.end("SIGKILL");
  }
  expect(found).toBeGreaterThan(0);
}, 90_000);

test("an erasure empties the disk of a text for good, and of one tenant's alone", async () => {
  const tenants = join(folder, "tenants.json");
  writeFileSync(tenants, JSON.stringify({ tenants: { alice: ["key-a"], bob: ["key-b"] }, operators: ["key-o"] }));
  const server = await serve("erased", "--tenants", tenants);
  await server.ask(prompt(1), "key-a");
  expect((await server.ask(prompt(1), "key-b")).cache.computed_tokens).toBe(200);
  while ((await server.cache("key-o")).tiers[0]!.blocks < 24) await sleep(20);
  const receipt = (await server.post("/v1/cache/erase", { match: { tokens: prompt(1) }, target: { tokens: [20, 60] } }, "key-a")) as Record<string, unknown>;
  expect(receipt).toMatchObject({ complete: true, cells: { disk: 11 * 16 } });
  expect((await server.cache("key-o")).tiers[0]!.blocks).toBe(13);
  expect(await server.end("SIGTERM")).toBe(0);
  const again = await serve("erased", "--tenants", tenants);
  expect((await again.cache("key-o")).tiers[0]!.blocks).toBe(13);
  // The first to ask tries the disk; the next goes by what was measured, and a model as small as this may well be faster.
  expect((await again.ask(prompt(1), "key-b")).cache.cached_tokens).toBe(192);
  expect([0, 16]).toContain((await again.ask(prompt(1), "key-a")).cache.cached_tokens);
  expect(await again.end("SIGTERM")).toBe(0);
  // Nothing of a text lies open in the folder: tokens as they come, in any order of their bytes.
  const tokens = Buffer.from(Int32Array.from(prompt(1).slice(0, 16)).buffer);
  const file = readFileSync(join(folder, "erased", "cells", "data.mdb"));
  expect(file.includes(tokens)).toBe(false);
  expect(file.includes(JSON.stringify(prompt(1).slice(0, 16)).slice(1, -1))).toBe(false);
}, 60_000);
