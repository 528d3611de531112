import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { KeyFile, KvstoreError, LmdbTier } from "../src/index.ts";
import { BLOCK_BYTES, DiskStore } from "./disk.ts";
import { Random } from "./support.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const CHILD = fileURLToPath(new URL("disk-child.ts", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "kvstore-"));
let folders = 0;

function folder(): string {
  const path = join(root, String(folders++));
  mkdirSync(path);
  return path;
}

afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("blocks on a real disk", () => {
  it("survive a restart, encrypted, and come back as they were", async () => {
    const path = folder();
    const first = await DiskStore.open(path);
    for (let log = 0; log < 5; log++) await first.store(log);
    const tiers = first.archive.stats().tiers;
    // The trunk is one block for all logs.
    expect(tiers).toMatchObject([{ name: "disk", blocks: 1 + 5 * 3, bytes: 16 * BLOCK_BYTES }]);
    await first.archive.close();
    const second = await DiskStore.open(path);
    for (let log = 0; log < 5; log++) expect(await second.check(log)).toEqual(["right", "right", "right", "right"]);
    expect(await second.check(7)).toEqual(["right", "missing", "missing", "missing"]);
    second.archive.checkIntegrity();
    expect(second.keys.used).toBe(1 + 2 * 16);
    await second.archive.close();
  });

  it("stay within the tier's limit: what was used least recently goes", async () => {
    const store = await DiskStore.open(folder(), { bytesMax: 8 * BLOCK_BYTES });
    for (let log = 0; log < 6; log++) await store.store(log);
    expect(store.archive.stats().tiers[0]!.blocks).toBeLessThanOrEqual(8);
    expect(await store.check(5)).toEqual(["right", "right", "right", "right"]);
    expect((await store.check(0)).slice(1)).toEqual(["missing", "missing", "missing"]);
    // Keys of what went are gone: one for the store key's check, two for each block, one for each block that others are behind.
    const { tiers, known } = store.archive.stats();
    expect(store.keys.used).toBe(1 + tiers[0]!.blocks + known);
    await store.archive.close();
  });

  it("go to the host first and on to the disk when that is full", async () => {
    const store = await DiskStore.open(folder(), { hostBytes: 6 * BLOCK_BYTES });
    for (let log = 0; log < 6; log++) await store.store(log);
    const [host, disk] = store.archive.stats().tiers;
    expect(host!.blocks).toBeLessThanOrEqual(6);
    expect(host!.blocks + disk!.blocks).toBeGreaterThanOrEqual(1 + 6 * 3);
    for (let log = 0; log < 6; log++) expect(await store.check(log)).toEqual(["right", "right", "right", "right"]);
    expect(store.errors).toEqual([]);
    await store.archive.close();
  });

  it("are not opened under another key, nor when the file is none of ours", async () => {
    const path = folder();
    const store = await DiskStore.open(path);
    await store.store(0);
    await store.archive.close();
    await expect(KeyFile.open(join(path, "keys"), new Uint8Array(32))).rejects.toMatchObject({ code: "store_key_wrong", kind: "invalid" });
    await expect(KeyFile.open(join(path, "keys"), new Uint8Array(5))).rejects.toMatchObject({ code: "argument_invalid" });
    const other = folder();
    writeFileSync(join(other, "cells"), "this is no folder of LMDB, and no file of it either".repeat(1_000));
    const opening = LmdbTier.open({ path: join(other, "cells", "below"), bytesMax: 1 });
    await expect(opening).rejects.toBeInstanceOf(KvstoreError);
    await expect(opening).rejects.toMatchObject({ code: "tier_unusable", kind: "data" });
  });
});

describe("the death of the process", () => {
  it("at any moment loses no committed block, serves no damaged one and leaves nothing behind", { timeout: 600_000 }, async () => {
    const seed = LONG ? Date.now() % 100_000 : 17;
    console.log(`seed ${seed}`);
    const random = new Random(seed);
    const path = folder();
    let committed = 0;
    for (let death = 0; death < (LONG ? 60 : 6); death++) {
      const child = spawn(process.execPath, ["--import", "tsx", CHILD, path, "write", String(committed)], { stdio: ["ignore", "pipe", "inherit"] });
      let output = "";
      let timer: NodeJS.Timeout | undefined;
      child.stdout.on("data", (data: Buffer) => {
        output += data.toString();
        // The first line says that it is at work.
        timer ??= setTimeout(() => child.kill("SIGKILL"), random.int(150));
      });
      await new Promise((resolve) => child.on("close", resolve));
      clearTimeout(timer);
      const lines = output.split("\n").slice(0, -1).map(Number);
      expect(lines.length).toBeGreaterThan(0);
      committed = lines.at(-1)! + 1;
      const store = await DiskStore.open(path);
      for (let log = 0; log < committed; log++) expect(await store.check(log), `log ${log} of ${committed}`).toEqual(["right", "right", "right", "right"]);
      // What was being written may be there as well, and then it is whole.
      expect(await store.check(committed)).not.toContain("WRONG");
      const { tiers, known, damaged } = store.archive.stats();
      expect([damaged, known]).toEqual([0, tiers[0]!.blocks]);
      expect(store.keys.used).toBe(1 + 2 * known);
      await store.archive.close();
    }
    expect(committed).toBeGreaterThan(6);
  });
});

describe("flipped bytes", () => {
  it("in copies of the files cost blocks, and never serve a wrong one", { timeout: 600_000 }, async () => {
    const path = folder();
    const store = await DiskStore.open(path);
    for (let log = 0; log < 8; log++) await store.store(log);
    await store.archive.close();
    const random = new Random(5);
    const outcomes = { right: 0, lost: 0, refused: 0 };
    for (let copy = 0; copy < (LONG ? 200 : 12); copy++) {
      const damaged = folder();
      cpSync(path, damaged, { recursive: true });
      const file = copy % 3 === 0 ? join(damaged, "keys") : join(damaged, "cells", "data.mdb");
      const bytes = readFileSync(file);
      for (let i = 0; i < 1 + copy; i++) bytes[random.int(bytes.length)]! ^= 1 + random.int(255);
      writeFileSync(file, bytes);
      const child = spawnSync(process.execPath, ["--import", "tsx", CHILD, damaged, "check", "8"], { encoding: "utf8" });
      expect(child.stdout).not.toContain("WRONG");
      if (child.status !== 0) outcomes.refused++;
      else for (const result of (JSON.parse(child.stdout) as string[][]).flat()) outcomes[result === "right" ? "right" : "lost"]++;
      rmSync(damaged, { recursive: true });
    }
    console.log(outcomes);
    expect(outcomes.right).toBeGreaterThan(50);
    expect(outcomes.lost).toBeGreaterThan(0);
  });
});

