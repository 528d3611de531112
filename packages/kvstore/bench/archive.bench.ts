import { mkdtempSync, openSync, closeSync, fdatasyncSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Bench } from "tinybench";
import { CellArchive, HostTier, KeyFile, LmdbTier, PagePool, PathAddresses, SealedTier, type Block, type CellPort, type Tier } from "../src/index.ts";

/** Cells of a small model in f16: 30 layers, 3 heads of 64, keys and values. A block of 16 has 360 KiB. */
const CELL_BYTES = 30 * 3 * 64 * 2 * 2;
const BLOCKS = 256;
const ROUNDS = 3;

class BenchPort implements CellPort {
  readonly cellBytes = CELL_BYTES;
  readonly #bytes = new Uint8Array(BLOCKS * 16 * CELL_BYTES).fill(1);

  async read(slots: Int32Array, into: Uint8Array): Promise<void> {
    for (let i = 0; i < slots.length; i++) into.set(this.#cell(slots[i]!), i * CELL_BYTES);
  }

  async write(slots: Int32Array, from: Uint8Array): Promise<void> {
    for (let i = 0; i < slots.length; i++) this.#cell(slots[i]!).set(from.subarray(i * CELL_BYTES, (i + 1) * CELL_BYTES));
  }

  async clear(slots: Int32Array): Promise<void> {
    for (const slot of slots) this.#cell(slot).fill(0);
  }

  #cell(slot: number): Uint8Array {
    return this.#bytes.subarray(slot * CELL_BYTES, (slot + 1) * CELL_BYTES);
  }
}

interface Row {
  tier: string;
  "demote MB/s": string;
  "promote MB/s": string;
  "longest stall of the event loop ms": string;
}

const best = (values: number[]): string => Math.max(...values).toFixed(0);

async function measure(name: string, tiers: Tier[]): Promise<Row> {
  const port = new BenchPort();
  const pool = new PagePool({ pages: BLOCKS });
  const archive = await CellArchive.open({ port, tiers, limits: { demotingBytesMax: Infinity, promotingBytesMax: 64 * 2 ** 20 } });
  const megabytes = (BLOCKS * 16 * CELL_BYTES) / 1e6;
  const [demote, promote, stalls]: number[][] = [[], [], []];
  for (let round = 0; round < ROUNDS; round++) {
    const addresses = new PathAddresses(`bench ${round}`);
    addresses.extend({ tokens: Int32Array.from({ length: BLOCKS * 16 }, (_, i) => i), events: [] });
    const lease = pool.allocate(BLOCKS, "leased");
    const blocks = () => Array.from({ length: BLOCKS }, (_, number): Block => ({ addresses, number, cells: [lease.slice(number * 16, number * 16 + 16, "leased")] }));
    let last = performance.now();
    let longest = 0;
    const watch = setInterval(() => {
      const now = performance.now();
      longest = Math.max(longest, now - last - 1);
      last = now;
    }, 1);
    const begin = performance.now();
    archive.demote(blocks());
    await archive.idle();
    demote!.push(megabytes / ((performance.now() - begin) / 1_000));
    const middle = performance.now();
    const wanted = blocks();
    const results = await archive.promote(wanted);
    if (results.some((result) => result !== "arrived")) throw new Error(`${name}: ${results.join()}`);
    promote!.push(megabytes / ((performance.now() - middle) / 1_000));
    clearInterval(watch);
    stalls!.push(longest);
    for (const { cells } of wanted) for (const one of cells) one.release();
    lease.release();
  }
  await archive.close();
  return { tier: name, "demote MB/s": best(demote!), "promote MB/s": best(promote!), "longest stall of the event loop ms": Math.min(...stalls!).toFixed(0) };
}

/** What the disk does when nothing but bytes is written. */
function rawDisk(folder: string): number {
  const chunk = new Uint8Array(32 * 2 ** 20).fill(3);
  const file = openSync(join(folder, "raw"), "w");
  const begin = performance.now();
  for (let i = 0; i < 8; i++) {
    writeSync(file, chunk);
    fdatasyncSync(file);
  }
  closeSync(file);
  return (8 * chunk.length) / 1e6 / ((performance.now() - begin) / 1_000);
}

const folder = mkdtempSync(join(tmpdir(), "kvstore-bench-"));
const bytesMax = 8 * 2 ** 30;
try {
  const raw = Math.max(rawDisk(folder), rawDisk(folder), rawDisk(folder)).toFixed(0);
  const rows: Row[] = [
    { tier: "the disk itself, 32 MiB at a time, each flushed", "demote MB/s": raw, "promote MB/s": "", "longest stall of the event loop ms": "" },
    await measure("host memory", [new HostTier({ bytesMax, blockBytes: 16 * CELL_BYTES })]),
    await measure("LMDB", [await LmdbTier.open({ path: join(folder, "plain"), bytesMax })]),
    await measure("LMDB, sealed", [new SealedTier(await LmdbTier.open({ path: join(folder, "sealed"), bytesMax }), await KeyFile.open(join(folder, "keys"), new Uint8Array(32)))]),
  ];
  console.table(rows);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

const tokens = Int32Array.from({ length: 100_000 }, (_, i) => i);
const bench = new Bench({ time: 1_000, warmupTime: 200 });
bench.add("addresses of a log of 100k tokens, blocks of 16", () => new PathAddresses("bench").extend({ tokens, events: [] }));
await bench.run();
console.table(
  bench.tasks.map((task) => {
    if (task.result.state !== "completed") throw new Error(`${task.name}: ${task.result.state}`);
    const { latency } = task.result;
    return { task: task.name, "median ms": latency.p50.toFixed(2), "p99 ms": latency.p99.toFixed(2), samples: latency.samplesCount };
  }),
);
