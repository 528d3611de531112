import { afterAll, expect, test } from "vitest";
import { type Compute, deviceInfo, openCells, openCompute, segmentAttention, type Segments } from "../src/index.ts";
import { ask, type Case, cellsOptions, expected, laid, largestDifference, placement, randomCase, segmentsOf, slotOf } from "./attention-cases.ts";
import { Random, rotateTwin } from "./twins.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const HEAD_SIZES = [64, 80, 96, 128, 192, 256];
const PAGE_SIZES = [1, 3, 5, 16, 17, 48];
const { levels } = deviceInfo();
const computes: Compute[] = levels.flatMap((kernels) => [openCompute({ kernels, threads: 1 }), openCompute({ kernels, threads: 3 })]);
afterAll(async () => void (await Promise.all(computes.map((compute) => compute.dispose()))));
const fastest = computes.at(-1) as Compute;

/** Values lie in −1 … 1; f16 keys are rounded at other places when a sine differs in its last bit; the twin keeps numbers that cells of q8_0 round. */
const TOLERANCE = { f32: 2e-5, f16: 2e-3, q8_0: 4e-2 } as const;

test("every level, head size and page size attends as the scalar twin does", async () => {
  const random = new Random(71);
  console.log(`seed ${random.seed}`);
  let worst = 0;
  for (let round = 0; round < (LONG ? 400 : 36); round++) {
    // Each head size comes up, some with more than one block of ranks.
    const headSize = HEAD_SIZES[round % HEAD_SIZES.length] as number;
    const one = randomCase(random, { headSizes: [headSize], cellsMax: round % 6 === 5 ? 1300 : 150, dtypes: ["f32", "f16", "q8_0"] });
    const twin = expected(one);
    for (const compute of computes) {
      const place = placement(random, one.cells, random.pick(PAGE_SIZES));
      const pages = await laid(compute, one, place);
      const out = await ask(pages, one, place, () => random.chance(0.05));
      const difference = largestDifference(out, twin);
      worst = Math.max(worst, difference);
      if (difference > TOLERANCE[one.dtype]) throw new Error(`round ${round}, ${compute.level}, ${one.dtype}, head size ${headSize}: ${difference}`);
      pages.dispose();
    }
  }
  console.log(`largest difference ${worst}`);
  expect(worst).toBeGreaterThan(0);
});

test("a row's bits depend neither on pages, cuts of runs, other segments nor threads", async () => {
  const random = new Random(72);
  console.log(`seed ${random.seed}`);
  for (const kernels of levels) {
    const own = computes.filter((compute) => compute.level === kernels);
    for (let round = 0; round < (LONG ? 60 : 6); round++) {
      const one = randomCase(random, { headSizes: [64, 80], cellsMax: 1200, dtypes: ["f32", "f16", "q8_0"] });
      const first = await attend(own[0] as Compute, one, random, 16, 0);
      for (const compute of own) {
        expect(await attend(compute, one, random, random.pick(PAGE_SIZES), 0.03)).toEqual(first);
      }
      // Each segment alone, and in it each row alone: the rows before it as the end of its view.
      const width = one.shape.heads * one.shape.headSize;
      let row = 0;
      for (const segment of one.segments) {
        const alone = { ...one, segments: [segment], queries: one.queries.subarray(row * width, (row + segment.rows.length) * width) };
        expect(await attend(own[1] as Compute, alone, random, 5, 0.1)).toEqual(first.slice(row * width, (row + segment.rows.length) * width));
        for (const [number, asked] of segment.rows.entries()) {
          const before = segment.rows.slice(0, number).map(({ cell }) => ({ first: cell, length: 1, shift: 0 }));
          const single = { ...one, segments: [{ view: [...segment.view, ...before], rows: [asked] }], queries: one.queries.subarray(row * width, (row + 1) * width) };
          expect(await attend(own[0] as Compute, single, random, 16, 0)).toEqual(first.slice(row * width, (row + 1) * width));
          row++;
        }
      }
    }
  }
});

async function attend(compute: Compute, one: Case, random: Random, pageSize: number, cut: number): Promise<Float32Array> {
  const place = placement(random, one.cells, pageSize);
  const pages = await laid(compute, one, place);
  const out = await ask(pages, one, place, () => random.chance(cut));
  pages.dispose();
  return out;
}

function withoutSinks({ shape }: Case): Case["shape"] {
  const { sinks: _, ...rest } = shape;
  return rest;
}

test("keys that were rotated before, and layers, are kept apart", async () => {
  const random = new Random(73);
  const one = randomCase(random, { headSizes: [64], cellsMax: 90, dtypes: ["f32"] });
  const place = placement(random, one.cells, 16);
  const pages = await laid(fastest, one, place, { layers: 3 });
  const { kvHeads, headSize, rotary } = one.shape;
  const keys = new Float32Array(one.keys.length);
  for (let key = 0; key < one.cells * kvHeads; key++) {
    keys.set(rotateTwin(one.keys.subarray(key * headSize, (key + 1) * headSize), rotary, Math.floor(key / kvHeads)), key * headSize);
  }
  const numbers = Array.from({ length: one.cells }, (_, cell) => cell);
  const slots = Int32Array.from(numbers, (cell) => slotOf(place, cell));
  await pages.store({ layer: 2, slots, positions: Int32Array.from(numbers), keys, values: one.values, rotated: true });
  const segments = segmentsOf(one, place);
  const twin = expected({ ...one, shape: withoutSinks(one) });
  expect(largestDifference(await segmentAttention(pages, segments, one.queries), twin)).toBeLessThan(2e-5);
  expect(largestDifference(await segmentAttention(pages, segments, one.queries, { layer: 2 }), twin)).toBeLessThan(2e-5);
  // Nothing was stored in layer 1: all scores are equal, all values 0.
  expect((await segmentAttention(pages, segments, one.queries, { layer: 1 })).every((number) => number === 0)).toBe(true);
});

test("YaRN's magnitude multiplies scores once, whatever the shift", async () => {
  const random = new Random(74);
  const one = randomCase(random, { headSizes: [64], cellsMax: 120, dtypes: ["f32"] });
  const magnitude = (0.1 * Math.log(4) + 1) ** 2;
  const place = placement(random, one.cells, 16);
  const pages = await laid(fastest, one, place, { magnitude });
  const twin = expected({ ...one, shape: { ...withoutSinks(one), scale: one.shape.scale * magnitude } });
  expect(largestDifference(await segmentAttention(pages, segmentsOf(one, place), one.queries), twin)).toBeLessThan(2e-5);
});

test("calls are answered in order, read their arrays at once, and leave the event loop free", async () => {
  const random = new Random(75);
  const one = { ...randomCase(random, { headSizes: [128], cellsMax: 900, dtypes: ["f16"] }) };
  const place = placement(random, one.cells, 16);
  const pages = await laid(fastest, one, place);
  const segments = segmentsOf(one, place);
  const alone = await segmentAttention(pages, segments, one.queries);
  const queries = one.queries.slice();
  const copied = Object.fromEntries(Object.entries(segments).map(([name, numbers]) => [name, numbers.slice()])) as unknown as Segments;
  const order: number[] = [];
  const calls = Array.from({ length: 20 }, (_, i) => segmentAttention(pages, copied, queries).then((out) => (order.push(i), out)));
  queries.fill(Number.NaN);
  for (const numbers of Object.values(copied)) numbers.fill(-1);
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  for (const call of calls) expect(await call).toEqual(alone);
  clearInterval(timer);
  expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test("a view and its rows end where memory ends, and a page more is refused", async () => {
  const compute = fastest;
  const options = { ...cellsOptions(randomCase(new Random(76), { headSizes: [64], cellsMax: 10, dtypes: ["f16"] }), { pageSize: 16, order: [0, 1], skip: 0 }), contextLength: 64 };
  const pages = openCells(compute, { ...options, heads: 2, kvHeads: 1, headSize: 64 });
  const segments: Segments = {
    position: Int32Array.of(63), cell: Int32Array.of(31), rowOf: Int32Array.of(0, 1), viewOf: Int32Array.of(0, 1),
    runPage: Int32Array.of(0), runFirst: Int32Array.of(1), runLength: Int32Array.of(31), runBirth: Int32Array.of(0), runShift: Int32Array.of(0), pages: Int32Array.of(0, 1),
  };
  expect((await segmentAttention(pages, segments, new Float32Array(128))).length).toBe(128);
  await expect(segmentAttention(pages, { ...segments, runLength: Int32Array.of(32) }, new Float32Array(128))).rejects.toMatchObject({ code: "step_invalid", param: "runLength[0]" });
});
