import { readFileSync, statSync } from "node:fs";
import { expect, test } from "vitest";
import { openCells, openCompute, openRuntime } from "../src/index.ts";
import { chain, noCancel, tinyModels } from "./support.ts";

const BIG = { layers: 6, embeddingLength: 512, feedForwardLength: 2048, heads: 8, kvHeads: 8, headSize: 64, types: "Q8_0" } as const;
const path = tinyModels({ big: BIG });
const LINUX = process.platform === "linux";

/** Regions of this process that asked for huge pages, in bytes. */
function hugePageBytes(): number {
  const regions = readFileSync("/proc/self/smaps", "utf8").split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const asked = regions.filter((region) => /^VmFlags:.* hg\b/m.test(region));
  return asked.reduce((sum, region) => sum + 1024 * Number(/^Size:\s+(\d+) kB/m.exec(region)?.[1] ?? 0), 0);
}

test.runIf(LINUX)("weights are held once: the file is mapped no more, and the process grew by little more than they are", async () => {
  const fileBytes = statSync(path("big")).size;
  const before = process.memoryUsage().rss;
  const huge = hugePageBytes();
  const runtime = await openRuntime(path("big"), { pages: 64, threads: 2 });
  const grown = process.memoryUsage().rss - before;
  const { weights, cells, scratch } = runtime.memory?.() ?? { weights: 0, cells: 0, scratch: 0 };
  console.log(`${fileBytes} bytes in the file, ${weights} packed, the process grew by ${grown}`);
  expect(fileBytes).toBeGreaterThan(20e6);
  expect(weights).toBeLessThan(fileBytes * 1.1);
  expect(readFileSync("/proc/self/maps", "utf8")).not.toContain(path("big"));
  // Less than twice: huge pages are rounded up, and the allocator keeps some of what loading took.
  expect(grown).toBeLessThan(weights * 1.6);
  expect(hugePageBytes() - huge).toBeGreaterThanOrEqual(weights * 0.9);
  expect([cells, scratch]).toEqual([64 * runtime.pageBytes, 0]);
  await runtime.step(chain(runtime, [1, 2, 3]), noCancel());
  expect(runtime.memory?.()).toMatchObject({ weights, cells });
  expect(runtime.memory?.().scratch).toBeGreaterThan(10_000);
  await runtime.dispose();
  // Weights and cells go back to the system, not to an allocator that keeps them.
  expect(hugePageBytes() - huge).toBeLessThan(weights * 0.1);
});

test.runIf(LINUX)("pages of cells take memory when they are written, and give it back when they are disposed of", async () => {
  const compute = openCompute({ threads: 1 });
  const before = process.memoryUsage().rss;
  const cells = openCells(compute, {
    pages: 32_768, pageSize: 16, heads: 8, kvHeads: 8, headSize: 128, contextLength: 1024, dtype: "f16",
    rotary: { dimensions: 128, pairing: "half-split", base: 10_000 },
  });
  expect(cells.byteLength).toBe(32_768 * 16 * 8 * 128 * 2 * 2);
  expect(process.memoryUsage().rss - before).toBeLessThan(cells.byteLength / 20);
  await cells.store({ slots: Int32Array.of(0), positions: Int32Array.of(0), keys: new Float32Array(1024), values: new Float32Array(1024) });
  expect(process.memoryUsage().rss - before).toBeLessThan(cells.byteLength / 20);
  const huge = hugePageBytes();
  cells.dispose();
  expect(huge - hugePageBytes()).toBeGreaterThanOrEqual(cells.byteLength);
  await compute.dispose();
});
