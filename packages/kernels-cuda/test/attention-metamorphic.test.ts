import { afterAll, expect, test } from "vitest";
import { type Compute, deviceInfo, openCells, openCompute, segmentAttention, type Segments } from "../src/index.ts";
import { ask, type Case, cellsOptions, laid, largestDifference, placement, randomCase, type Segment, segmentsOf, slotOf, type Stretch } from "./attention-cases.ts";
import { fromHalf, Random, rotateTwin, toHalf } from "./twins.ts";

/**
 * What a view may be turned into without changing what is read: relations between answers, which need no twin, so that many cases run.
 * `PALIMPSEST_LONG=1`: ten times as many.
 */
const ROUNDS = process.env["PALIMPSEST_LONG"] === "1" ? 50_000 : 5_000;
const LIMITS = { headSizes: [8, 16, 40, 64, 80], cellsMax: 60, dtypes: ["f32", "f16"] } as const;
const EVERY_DTYPE = { ...LIMITS, dtypes: ["f32", "f16", "q8_0"] } as const;
const { levels } = deviceInfo();
const computes: Compute[] = levels.map((kernels, i) => openCompute({ kernels, threads: 1 + (i % 2) }));
afterAll(async () => void (await Promise.all(computes.map((compute) => compute.dispose()))));

interface Asked {
  random: Random;
  compute: Compute;
  one: Case;
  answer: Float32Array;
}

/** Cases with their answers, each at some level, over pages that lie and are cut in some way. */
async function* cases(seed: number, rounds: number, limits: Parameters<typeof randomCase>[1] = LIMITS): AsyncGenerator<Asked> {
  const random = new Random(seed);
  console.log(`seed ${seed}, ${rounds} cases`);
  for (let round = 0; round < rounds; round++) {
    const compute = random.pick(computes);
    const one = randomCase(random, limits);
    yield { random, compute, one, answer: await answerOf(compute, one, random) };
  }
}

async function answerOf(compute: Compute, one: Case, random: Random): Promise<Float32Array> {
  const place = placement(random, one.cells, random.pick([1, 2, 3, 7, 16, 33]));
  const pages = await laid(compute, one, place);
  const answer = await ask(pages, one, place, () => random.chance(0.2)).finally(() => pages.dispose());
  return answer;
}

function same(ours: Float32Array, theirs: Float32Array): boolean {
  return ours.length === theirs.length && Buffer.compare(bytesOf(ours), bytesOf(theirs)) === 0;
}

const bytesOf = (numbers: Float32Array) => Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength);

test("other pages, other slots and other cuts of the same runs give the same bits", async () => {
  let asked = 0;
  for await (const { random, compute, one, answer } of cases(91, ROUNDS, EVERY_DTYPE)) {
    expect(same(await answerOf(compute, one, random), answer)).toBe(true);
    asked++;
  }
  expect(asked).toBe(ROUNDS);
});

test("other rows in the call, in any order of segments, give the same bits", async () => {
  for await (const { random, compute, one, answer } of cases(92, ROUNDS / 4, EVERY_DTYPE)) {
    const width = one.shape.heads * one.shape.headSize;
    const starts = one.segments.map((_, i) => one.segments.slice(0, i).reduce((sum, { rows }) => sum + rows.length, 0));
    const order = random.shuffled(one.segments.length);
    const rowsOf = (numbers: Float32Array, segment: number) => {
      const first = starts[segment] as number;
      return Array.from(numbers.subarray(first * width, (first + (one.segments[segment] as Segment).rows.length) * width));
    };
    const turned = { ...one, segments: order.map((i) => one.segments[i] as Segment), queries: Float32Array.from(order.flatMap((i) => rowsOf(one.queries, i))) };
    expect(same(await answerOf(compute, turned, random), Float32Array.from(order.flatMap((i) => rowsOf(answer, i))))).toBe(true);
  }
});

/** The same cells as they would lie in a cache that turns keys: every stretch born where it stands now, without a shift. */
async function answerOfTurnedKeys(compute: Compute, one: Case, segment: Segment, queries: Float32Array): Promise<Float32Array> {
  const { heads: _, kvHeads, headSize, rotary, sinks } = one.shape;
  const width = kvHeads * headSize;
  const read = [...segment.view, ...segment.rows.map(({ cell }) => ({ first: cell, length: 1, shift: 0 }))].flatMap(({ first, length, shift }) =>
    Array.from({ length }, (_unused, i) => ({ cell: first + i, position: first + i + shift })),
  );
  const place = { pageSize: 16, order: Array.from({ length: Math.ceil(read.length / 16) }, (_unused, i) => i), skip: 0 };
  const pages = openCells(compute, cellsOptions(one, place));
  const rounded = (number: number) => (one.dtype === "f16" ? fromHalf(toHalf(number)) : number);
  const keys = new Float32Array(read.length * width);
  const values = new Float32Array(read.length * width);
  for (const [at, { cell, position }] of read.entries()) {
    values.set(one.values.subarray(cell * width, (cell + 1) * width), at * width);
    for (let head = 0; head < kvHeads; head++) {
      const raw = one.keys.subarray(cell * width + head * headSize, cell * width + (head + 1) * headSize);
      // Stored at birth in the dtype, then turned on from there: what a physical rotation does.
      const born = Float32Array.from(rotateTwin(raw, rotary, cell), rounded);
      keys.set(rotateTwin(born, rotary, position - cell), at * width + head * headSize);
    }
  }
  await pages.store({ slots: Int32Array.from(read.keys()), positions: Int32Array.from(read, ({ position }) => position), keys, values, rotated: true });
  const own = read.length - segment.rows.length;
  const runs: number[] = read.slice(0, own).flatMap(({ position }, at) => (at > 0 && position === (read[at - 1]?.position ?? 0) + 1 ? [] : [at]));
  const segments: Segments = {
    position: Int32Array.from(segment.rows, ({ cell }) => cell),
    cell: Int32Array.from(segment.rows, (_unused, i) => own + i),
    rowOf: Int32Array.of(0, segment.rows.length),
    viewOf: Int32Array.of(0, runs.length),
    runPage: Int32Array.from(runs, (at) => Math.floor(at / 16)),
    runFirst: Int32Array.from(runs, (at) => at % 16),
    runLength: Int32Array.from(runs, (at, i) => (runs[i + 1] ?? own) - at),
    runBirth: Int32Array.from(runs, (at) => read[at]?.position ?? 0),
    runShift: new Int32Array(runs.length),
    pages: Int32Array.from(place.order),
  };
  return segmentAttention(pages, segments, queries, sinks && { sinks }).finally(() => pages.dispose());
}

test("shifts in the view read what turned keys would, as near as one more rounding of the keys", async () => {
  const worst = { f32: 0, f16: 0, q8_0: 0 };
  for await (const { compute, one, answer } of cases(94, ROUNDS / 8)) {
    const width = one.shape.heads * one.shape.headSize;
    let row = 0;
    for (const segment of one.segments) {
      const next = row + segment.rows.length;
      const turned = await answerOfTurnedKeys(compute, one, segment, one.queries.slice(row * width, next * width));
      const difference = largestDifference(turned, answer.subarray(row * width, next * width));
      worst[one.dtype] = Math.max(worst[one.dtype], difference);
      row = next;
    }
  }
  console.log(worst);
  expect(worst.f32).toBeLessThan(2e-5);
  expect(worst.f16).toBeLessThan(4e-3);
});

test("a window reads what a view without the cells that have left it reads", async () => {
  let windows = 0;
  for await (const { random, compute, one, answer } of cases(95, ROUNDS / 2)) {
    const { window, ...shape } = one.shape;
    if (window === undefined) continue;
    windows++;
    const width = one.shape.heads * one.shape.headSize;
    let row = 0;
    for (const { view, rows } of one.segments) {
      for (const [number, { cell }] of rows.entries()) {
        const all = [...view, ...rows.slice(0, number).map((before) => ({ first: before.cell, length: 1, shift: 0 }))];
        // By hand, cell by cell: what stands at or below position − window is out of reach.
        const inside = all.flatMap(({ first, length, shift }) =>
          Array.from({ length }, (_, i) => ({ first: first + i, length: 1, shift })).filter((one_) => one_.first + one_.shift > cell - window),
        );
        const alone = { ...one, shape, segments: [{ view: joined(inside), rows: [{ cell }] }], queries: one.queries.slice(row * width, (row + 1) * width) };
        // Blocks of ranks begin elsewhere, so sums may go in another order.
        expect(largestDifference(await answerOf(compute, alone, random), answer.subarray(row * width, (row + 1) * width))).toBeLessThan(2e-5);
        row++;
      }
    }
  }
  expect(windows).toBeGreaterThan(ROUNDS / 10);
});

function joined(cells: readonly Stretch[]): Stretch[] {
  const out: Stretch[] = [];
  for (const cell of cells) {
    const last = out.at(-1);
    if (last !== undefined && last.first + last.length === cell.first && last.shift === cell.shift) out[out.length - 1] = { ...last, length: last.length + 1 };
    else out.push(cell);
  }
  return out;
}

test("moving everything, a row and its view, by one number changes nothing but roundings", async () => {
  const by = 50_000;
  for await (const { compute, one } of cases(96, ROUNDS / 8, { ...LIMITS, dtypes: ["f32"] })) {
    const [segment] = one.segments as [Segment];
    const own = (segment.rows[0] as { cell: number }).cell;
    const single: Case = { ...one, contextLength: 2 * by, segments: [{ view: segment.view, rows: [{ cell: own }] }], queries: one.queries.slice(0, one.shape.heads * one.shape.headSize) };
    const place = placement(new Random(own), one.cells, 16);
    const cells = Array.from({ length: one.cells }, (_, cell) => cell);
    const slots = Int32Array.from(cells, (cell) => slotOf(place, cell));
    const segments = segmentsOf(single, place);
    const answers: Float32Array[] = [];
    for (const offset of [0, by]) {
      const pages = openCells(compute, cellsOptions(single, place));
      // The view's cells stay where they were born and are shifted; only the row is born elsewhere.
      await pages.store({ slots, positions: Int32Array.from(cells, (cell) => (cell === own ? cell + offset : cell)), keys: one.keys, values: one.values });
      const moved = { ...segments, position: Int32Array.of(own + offset), runShift: segments.runShift.map((shift) => shift + offset) };
      answers.push(await segmentAttention(pages, moved, single.queries, one.shape.sinks && { sinks: one.shape.sinks }).finally(() => pages.dispose()));
    }
    // Angles of f32 cosines: scores of up to some ten units differ in their last bits.
    expect(largestDifference(answers[1] as Float32Array, answers[0] as Float32Array)).toBeLessThan(2e-5);
  }
});
