import { spawnSync } from "node:child_process";
import { createDecipheriv } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { CellArchive, HostTier, PagePool, PathAddresses, type Block, type LogPath, type Receipt } from "../src/index.ts";
import { BLOCK_CELLS, CELL_BYTES, DiskStore, LOG_CELLS } from "./disk.ts";
import { ArrayPort, fillCell, logOf } from "./support.ts";

const CHILD = fileURLToPath(new URL("erase-child.ts", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "kvstore-erase-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function folder(name: string): string {
  const path = join(root, name);
  mkdirSync(path);
  return path;
}

/** The text of a log that is its own: behind the trunk that all logs share. */
function pattern(log: number) {
  return { tokens: logOf(log, LOG_CELLS, BLOCK_CELLS).tokens.subarray(0, BLOCK_CELLS + 2), from: BLOCK_CELLS };
}

function runChild(task: string): unknown[] {
  const child = spawnSync(process.execPath, ["--import", "tsx", CHILD, folder(task), task], { encoding: "utf8" });
  expect(child.stderr).toBe("");
  return child.stdout.trim().split("\n").map((line) => JSON.parse(line) as unknown);
}

describe.runIf(existsSync("/proc/self/mem"))("the memory of the whole process", () => {
  it("has no cell of an erased text, in device, host or anywhere else", () => {
    const [receipt, found, erased, other] = runChild("erase") as [Receipt, number[], string[], string[]];
    expect(found).toEqual([0, 0, 0]);
    expect(erased).toEqual(["right", "missing", "missing", "missing"]);
    expect(other).toEqual(["right", "right", "right", "right"]);
    expect(receipt.unreachable).toEqual([]);
    expect(receipt.cells["host"]! + receipt.cells["disk"]!).toBeGreaterThanOrEqual(LOG_CELLS - BLOCK_CELLS);
    expect(receipt.path).toMatch(/^[0-9a-f]{64}$/);
    expect(Date.parse(receipt.time)).toBeGreaterThan(0);
  });

  it("has them when the erasure is left out, so the search finds what is there", () => {
    const [found, kept] = runChild("keep") as [number[], string[]];
    for (const count of found) expect(count).toBeGreaterThan(0);
    expect(kept).toEqual(["right", "right", "right", "right"]);
  });
});

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Everything in the file that one of the keys decrypts as the cells of a block, with any of the purposes. */
function decryptAll(file: Buffer, keys: readonly Uint8Array[], purposes: readonly string[]): Set<string> {
  const sealedBytes = NONCE_BYTES + CELL_BYTES * BLOCK_CELLS + TAG_BYTES;
  const opened = new Set<string>();
  // LMDB puts a long value behind the 24 bytes of a page's header.
  for (let at = 24; at + sealedBytes <= file.length; at += 4_096) {
    const sealed = file.subarray(at, at + sealedBytes);
    for (const key of keys) {
      for (const purpose of purposes) {
        const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, NONCE_BYTES));
        decipher.setAAD(Buffer.from(purpose));
        decipher.setAuthTag(sealed.subarray(sealedBytes - TAG_BYTES));
        decipher.update(sealed.subarray(NONCE_BYTES, sealedBytes - TAG_BYTES));
        try {
          decipher.final();
          opened.add(purpose);
        } catch {
          // Another key, another block, or no block at all.
        }
      }
    }
  }
  return opened;
}

describe("the disk", () => {
  it("keeps erased cells that no remaining key decrypts, and has no cell and no token in clear", async () => {
    const path = folder("disk");
    const store = await DiskStore.open(path);
    for (let log = 0; log < 4; log++) await store.store(log);
    const addresses = [0, 1, 2, 3].map((log) => store.addresses(log));
    const purposes = [...new Set(addresses.flatMap((one) => [0, 1, 2, 3].map((number) => `1 cells ${one.key(number)}`)))];
    const secret = store.addresses(3);
    const secretPurposes = [1, 2, 3].map((number) => `1 cells ${secret.key(number)}`);
    const keysNow = () => {
      const keys: Uint8Array[] = [];
      for (let slot = 0; slot < store.keys.count; slot++) for (const purpose of purposes) keys.push(...[store.keys.key(slot, purpose)].filter((key) => key !== null));
      return keys;
    };
    const data = join(path, "cells", "data.mdb");
    expect(decryptAll(readFileSync(data), keysNow(), purposes)).toEqual(new Set(purposes));
    const ciphertext = readFileSync(data);

    await store.archive.erase(() => true, pattern(3));
    const remaining = keysNow();
    expect(remaining).toHaveLength(1 + 3 * 3);
    // Also in the file as it was before, of which somebody may have a copy.
    for (const file of [readFileSync(data), ciphertext]) {
      const opened = decryptAll(file, remaining, purposes);
      expect(opened.size).toBe(1 + 3 * 3);
      for (const purpose of secretPurposes) expect(opened.has(purpose)).toBe(false);
    }
    for (const log of [-1, 0, 3]) {
      for (const cell of [0, BLOCK_CELLS, LOG_CELLS - 1]) {
        const bytes = Buffer.alloc(CELL_BYTES);
        fillCell(bytes, log, cell);
        for (const file of [readFileSync(data), ciphertext, readFileSync(join(path, "keys"))]) expect(file.includes(bytes.subarray(100, 132))).toBe(false);
      }
    }
    expect(ciphertext.includes(String(logOf(3, LOG_CELLS, BLOCK_CELLS).tokens[BLOCK_CELLS]))).toBe(false);
    await store.archive.close();
  });

  it("does not bring erased blocks back after a restart", async () => {
    const path = folder("restart");
    const store = await DiskStore.open(path);
    for (let log = 0; log < 4; log++) await store.store(log);
    const receipt = await store.archive.erase(() => true, pattern(2));
    expect(receipt.cells).toEqual({ disk: LOG_CELLS - BLOCK_CELLS });
    await store.archive.close();
    const again = await DiskStore.open(path);
    expect(await again.check(2)).toEqual(["right", "missing", "missing", "missing"]);
    expect(await again.check(1)).toEqual(["right", "right", "right", "right"]);
    // Whoever computes the text anew may store it anew.
    await again.store(2);
    expect(await again.check(2)).toEqual(["right", "right", "right", "right"]);
    await again.archive.close();
  });
});

const path = (tokens: number[], events: { at: number; key: string }[] = []): LogPath => ({ tokens: Int32Array.from(tokens), events });

function addressesOf(log: LogPath, namespace = "n"): PathAddresses {
  const addresses = new PathAddresses(namespace, 2);
  addresses.extend(log);
  return addresses;
}

async function smallArchive() {
  const pool = new PagePool({ pages: 256, pageSize: 1 });
  const archive = await CellArchive.open({
    port: new ArrayPort(256, 4),
    tiers: [new HostTier({ bytesMax: 2 ** 20, blockBytes: 8 })],
    blockCells: 2,
    ownedCells: (key) => Number(/\/(\d+)$/.exec(key)?.[1] ?? 0),
  });
  const put = async (log: LogPath, namespace = "n") => {
    const addresses = addressesOf(log, namespace);
    const lease = pool.allocateCells(log.tokens.length, "leased");
    const block = (number: number): Block => ({ addresses, number, cells: [lease.slice(2 * number, 2 * number + 2, "leased")] });
    archive.demote(Array.from({ length: addresses.blocks }, (_, number) => block(number)));
    lease.release();
    await archive.idle();
  };
  return { archive, put, has: (log: LogPath, namespace = "n") => archive.find(addressesOf(log, namespace)) };
}

describe("what an erasure covers", () => {
  it("is every history of the text, through cells that events own, and nothing else", async () => {
    const { archive, put, has } = await smallArchive();
    const secret = path([1, 2, 7, 8, 5, 6]);
    const edited = path([1, 2, 7, 8, 5, 6], [{ at: 4, key: "hide" }]);
    const inserted = path([1, 2, 9, 9, 7, 8, 5, 6], [{ at: 2, key: "insert/2" }]);
    const other = path([1, 2, 3, 4, 5, 6]);
    const sibling = path([1, 2, 7, 9, 5, 6]);
    for (const log of [secret, edited, inserted, other, sibling]) await put(log);
    await put(secret, "m");
    const receipt = await archive.erase((namespace) => namespace === "n", { tokens: Int32Array.of(1, 2, 7, 8), from: 2 });
    archive.checkIntegrity();
    expect(has(secret)).toEqual([true, false, false]);
    expect(has(edited)).toEqual([true, false, false]);
    expect(has(inserted)).toEqual([true, true, false, false]);
    expect(has(other)).toEqual([true, true, true]);
    // Its second block has a cell of the text; what is behind that was never computed with the whole of it.
    expect(has(sibling)).toEqual([true, false, true]);
    expect(has(secret, "m")).toEqual([true, true, true]);
    expect(receipt.cells).toEqual({ host: 2 * 6 });
  });

  it("spares the path of the log without the text", async () => {
    const { archive, put, has } = await smallArchive();
    const before = path([1, 2, 2, 2, 5, 6]);
    const after = path([1, 2, 2, 5, 6, 6]);
    await put(before);
    await put(after);
    await archive.erase(() => true, { tokens: Int32Array.of(1, 2, 2), from: 2, except: after });
    expect(has(after)).toEqual([true, true, true]);
    expect(has(before)).toEqual([true, false, false]);
    await expect(archive.erase(() => true, { tokens: Int32Array.of(1), from: 1 })).rejects.toMatchObject({ code: "argument_invalid" });
  });
});
