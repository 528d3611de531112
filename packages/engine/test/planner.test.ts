import { fold } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { naiveFold } from "../../directives/test/naive-fold.ts";
import { Random, randomDirectives, tokenLog } from "../../directives/test/random-logs.ts";
import { planWork, rowsOf } from "../src/planner.ts";
import { RangeSet } from "../src/ranges.ts";

const SEEDS = process.env.PALIMPSEST_LONG ? 20_000 : 1500;

test(`the work for ${SEEDS} random holes is what a search cell by cell says`, () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(1, 40));
    const directives = randomDirectives(random, log, { reposition: 0.3, splice: 0.2, refresh: 0.1, scratch: 0.1 }, 6);
    const { mask, visible, tokens, lastCell } = naiveFold(log, directives);
    const cells = tokens.length;
    const known = random.int(0, cells);
    const resident = new RangeSet();
    for (let cell = 0; cell < known; cell++) if (random.chance(0.7)) resident.add(cell, cell + 1);
    const open = random.chance(0.5);
    const folded = fold(log, directives);
    const { births } = folded;
    const work = planWork(folded, resident, { echo: false, ask: true, open, known });
    const run = new Set(work.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i)));

    // Search: what is run reads cells; a missing cell that is read is run.
    const expected = new Set<number>([lastCell]);
    for (let cell = known; cell < cells; cell++) expected.add(cell);
    const pending = [...expected];
    const read = (cell: number) => {
      if (resident.has(cell) || expected.has(cell)) return;
      expected.add(cell);
      pending.push(cell);
    };
    if (open) for (const { cell } of visible) read(cell);
    while (pending.length > 0) mask[pending.pop()!]!.forEach((reads, cell) => reads && read(cell));
    expect([...run].toSorted((a, b) => a - b), `seed ${seed}`).toStrictEqual([...expected].toSorted((a, b) => a - b));

    expect(rowsOf(work)).toBe(run.size);
    for (const { from, to, store, birth } of work) {
      const { cell, length } = births[birth]!;
      const held = resident.countWithin(from, to);
      if (from < cell || to > cell + length || held !== (store ? 0 : to - from)) throw new Error(`seed ${seed}: [${from}, ${to}) of birth ${birth}`);
    }
    expect(work.every(({ from }, i) => i === 0 || from >= work[i - 1]!.to), `seed ${seed}: in order of birth`).toBe(true);
  }
});

test("echo runs every cell, and stores only what is missing", () => {
  const log = tokenLog(20);
  const resident = new RangeSet();
  resident.add(3, 8);
  resident.add(12, 20);
  const work = planWork(fold(log, [{ op: "drop", target: { tokens: [2, 5] }, at: { token: 10 } }]), resident, { echo: true, ask: true, open: true, known: 20 });
  expect(work).toStrictEqual([
    { birth: 0, from: 0, to: 3, store: true },
    { birth: 0, from: 3, to: 8, store: false },
    { birth: 0, from: 8, to: 10, store: true },
    { birth: 1, from: 10, to: 12, store: true },
    { birth: 1, from: 12, to: 20, store: false },
  ]);
});

test("a dropped and evicted cell that nobody reads stays evicted", () => {
  const log = tokenLog(30);
  const edited = fold(log, [{ op: "drop", target: { tokens: [5, 10] }, at: { token: 20 } }]);
  const resident = new RangeSet();
  resident.add(0, 5);
  resident.add(10, 30);
  const plan = (more: Partial<Parameters<typeof planWork>[2]>) => planWork(edited, resident, { echo: false, ask: true, open: true, known: 30, ...more });
  expect(plan({})).toStrictEqual([{ birth: 1, from: 29, to: 30, store: false }]);
  // A cell between the dropped ones and the drop was born while they were visible.
  const other = new RangeSet();
  other.add(0, 5);
  other.add(12, 30);
  expect(planWork(edited, other, { echo: false, ask: true, open: true, known: 30 })).toStrictEqual([
    { birth: 0, from: 5, to: 12, store: true },
    { birth: 1, from: 29, to: 30, store: false },
  ]);
});
