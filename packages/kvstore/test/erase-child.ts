// A process that stores logs, brings one of them back, erases it (or not), and then looks for its cells in all of its own memory:
// `tsx erase-child.ts FOLDER erase|keep`. The needle is only ever there under a mask, so that it does not find itself.
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { BLOCK_BYTES, BLOCK_CELLS, CELL_BYTES, DiskStore, LOG_CELLS } from "./disk.ts";
import { fillCell, logOf } from "./support.ts";

const MASK = 0x5a;
const NEEDLE_BYTES = 48;
const CHUNK_BYTES = 4 * 2 ** 20;
const [folder, task] = process.argv.slice(2) as [string, string];

function maskedNeedle(log: number, cell: number): Buffer {
  const needle = Buffer.alloc(CELL_BYTES);
  fillCell(needle, log, cell);
  for (let i = 0; i < needle.length; i++) needle[i]! ^= MASK;
  return Buffer.from(needle.subarray(200, 200 + NEEDLE_BYTES));
}

function maskAll(chunk: Buffer): void {
  const words = new Uint32Array(chunk.buffer, chunk.byteOffset, chunk.length / 4);
  for (let i = 0; i < words.length; i++) words[i]! ^= MASK * 0x01010101;
}

/** How often each needle occurs in what this process can read of itself. */
function searchMemory(needles: readonly Buffer[]): number[] {
  const memory = openSync("/proc/self/mem", "r");
  const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  const counts = needles.map(() => 0);
  for (const line of readFileSync("/proc/self/maps", "utf8").split("\n")) {
    const region = /^([0-9a-f]+)-([0-9a-f]+) r/.exec(line);
    if (region === null || /\[v/.test(line)) continue;
    const [first, end] = [Number.parseInt(region[1]!, 16), Number.parseInt(region[2]!, 16)];
    // Neighbouring pieces overlap, so that no needle lies across an edge.
    for (let at = first; at < end; at += CHUNK_BYTES - NEEDLE_BYTES) {
      let read: number;
      try {
        read = readSync(memory, chunk, 0, Math.min(CHUNK_BYTES, end - at), at);
      } catch {
        break;
      }
      maskAll(chunk);
      const seen = chunk.subarray(0, read);
      needles.forEach((needle, i) => {
        for (let hit = seen.indexOf(needle); hit >= 0; hit = seen.indexOf(needle, hit + 1)) counts[i]!++;
      });
      // Under the mask the masked needle is the needle: it must not be met here when this memory's turn comes.
      chunk.fill(0);
    }
  }
  closeSync(memory);
  return counts;
}

const store = await DiskStore.open(folder, { hostBytes: 10 * BLOCK_BYTES });
const secret = 3;
for (let log = 0; log < 6; log++) await store.store(log);
await store.check(secret);
if (task === "erase") {
  const { tokens } = logOf(secret, LOG_CELLS, BLOCK_CELLS);
  const receipt = await store.archive.erase(() => true, { tokens: tokens.subarray(0, BLOCK_CELLS + 2), from: BLOCK_CELLS });
  process.stdout.write(`${JSON.stringify(receipt)}\n`);
  // What the engine does on the device: pages that nobody holds are zeroed.
  const { pageSize } = store.pool;
  for (const page of store.pool.takeDirty()) await store.port.clear(Int32Array.from({ length: pageSize }, (_, i) => page * pageSize + i));
}
const cells = [BLOCK_CELLS, BLOCK_CELLS + 3, LOG_CELLS - 1];
process.stdout.write(`${JSON.stringify(searchMemory(cells.map((cell) => maskedNeedle(secret, cell))))}\n`);
process.stdout.write(`${JSON.stringify(await store.check(secret))}\n`);
process.stdout.write(`${JSON.stringify(await store.check(2))}\n`);
await store.archive.close();
