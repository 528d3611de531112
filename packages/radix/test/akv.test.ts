import { describe, expect, it } from "vitest";
import { RadixTree } from "../src/index.ts";
import { akvShared, history, type Edit, type History } from "./history.ts";
import { Handles, Random, type Handle } from "./support.ts";

/** Four parts of two tokens: A = 0, 1; B = 2, 3; C = 4, 5; D = 6, 7. */
const ABCD = [10, 11, 20, 21, 30, 31, 40, 41];
const A: Edit["drop"] = [0, 2];

const plain = history(ABCD, []);
const afterC = history(ABCD, [{ at: 6, drop: A }]);
const afterB = history(ABCD, [{ at: 4, drop: A }]);
const afterCMoved = history(ABCD, [{ at: 6, drop: A, reposition: true }]);
const afterBMoved = history(ABCD, [{ at: 4, drop: A, reposition: true }]);

/** Cells of `other` that are found when only `one` was stored: no copy, no computation. */
function shared(one: History, other: History): number {
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops);
  tree.insert("n", one.path, 0, one.path.tokens.length, ops.make(one.fingerprints)).release();
  const lease = tree.match("n", other.path);
  const found = lease.spans.flatMap((span) => span.value!.cells);
  expect(found).toEqual(other.fingerprints.slice(0, lease.length));
  lease.release();
  return lease.length;
}

describe("AKV's Figure 5, in a tree where a reposition moves nothing", () => {
  const cases: [string, History, History, ours: number, akv: number][] = [
    ["drop A after C, drop A after B", afterC, afterB, 4, 4],
    ["drop A after C, plain", afterC, plain, 6, 6],
    ["drop A after B, plain", afterB, plain, 4, 4],
    ["drop A after C, the same with a reposition", afterC, afterCMoved, 6, 2],
    ["drop A after B, the same with a reposition", afterB, afterBMoved, 4, 2],
    ["plain, drop A after C with a reposition", plain, afterCMoved, 6, 2],
    ["plain, drop A after B with a reposition", plain, afterBMoved, 4, 2],
    ["drop after C and after B, each with a reposition", afterCMoved, afterBMoved, 4, 4],
  ];
  for (const [name, one, other, ours, akv] of cases) {
    it(`${name}: ${ours} of 8 cells are shared as they are, in AKV ${akv}`, () => {
      expect([shared(one, other), shared(other, one)]).toEqual([ours, ours]);
      expect(akvShared(one, other)).toBe(akv);
    });
  }

  it("holds drop, reposition and both in one tree with as many cells as differ", () => {
    const ops = new Handles();
    const tree = new RadixTree<Handle>(ops);
    for (const { path, fingerprints } of [plain, afterC, afterB, afterCMoved, afterBMoved]) {
      tree.insert("n", path, 0, 8, ops.make(fingerprints)).release();
    }
    // A and B once; C plain and C without A, at its place and moved; D for each history.
    expect(tree.stats().cells).toBe(4 + 2 + 2 + 2 + 5 * 2);
    const all = [plain, afterC, afterB, afterCMoved, afterBMoved];
    const akvCells = new Set(all.flatMap(({ akv }) => akv.map((_, i) => akv.slice(0, i + 1).join(" "))));
    expect(akvCells.size).toBe(24);
  });
});

const turn = (edits: Edit[], length: number) => history([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].slice(0, length), edits);

describe("AKV's schedules over turns", () => {
  it("finds all 9 tokens of a turn when the next adds a drop with a reposition; AKV finds 6 and copies 3", () => {
    const first = turn([{ at: 6, drop: [1, 3], reposition: true }], 9);
    const second = turn([{ at: 6, drop: [1, 3], reposition: true }, { at: 9, drop: [4, 6], reposition: true }], 12);
    expect(shared(first, second)).toBe(9);
    expect(akvShared(first, second)).toBe(6);
  });

  it("matches a schedule that only appends drops exactly, as AKV does", () => {
    const first = turn([{ at: 6, drop: [1, 3] }], 9);
    const second = turn([{ at: 6, drop: [1, 3] }, { at: 9, drop: [4, 6] }], 12);
    expect([shared(first, second), akvShared(first, second)]).toEqual([9, 9]);
  });

  it("moves no key for a reposition without drops, and one for a reposition that moves only the counter", () => {
    expect(turn([{ at: 6, reposition: true }], 9).path.events).toEqual([]);
    expect(turn([{ at: 6, drop: [2, 2] }], 9).path.events).toEqual([]);
    const tail = turn([{ at: 6, drop: [4, 6], reposition: true }], 9);
    expect(tail.path.events).toEqual([{ at: 6, key: "hide 4,5 shift counter:-2" }]);
    expect(shared(tail, turn([{ at: 6, drop: [4, 6] }], 9))).toBe(6);
  });

  it("takes an earlier trigger than last turn for another history, from there on", () => {
    expect(shared(turn([{ at: 6, drop: [1, 3] }], 9), turn([{ at: 5, drop: [1, 3] }], 9))).toBe(5);
  });

  it("takes the first of two drops of the same tokens", () => {
    expect(turn([{ at: 4, drop: [1, 3] }, { at: 6, drop: [1, 3] }], 9).path.events).toHaveLength(1);
  });
});

/** Edits at random boundaries, of random ranges in front of them. */
function randomEdits(random: Random, length: number): Edit[] {
  return Array.from({ length: random.int(4) }, () => {
    const at = 1 + random.int(length);
    const from = random.int(at);
    const drop = [from, from + random.int(at - from + 1)] as const;
    return { at, ...(random.int(4) > 0 ? { drop } : {}), reposition: random.int(2) === 0 };
  });
}

describe("the identity of a cell", () => {
  const logs = process.env["PALIMPSEST_LONG"] === "1" ? 1_000_000 : 100_000;

  it(`is sound in ${logs} random logs: equal path, equal visible cells and distances`, () => {
    const random = new Random(7);
    let tree: RadixTree<Handle> | null = null;
    let ops = new Handles();
    let mistaken = 0;
    for (let i = 0; i < logs; i++) {
      if (i % 500 === 0) {
        ops = new Handles();
        tree = new RadixTree<Handle>(ops);
      }
      const tokens = Array.from({ length: 2 + random.int(10) }, () => random.int(2));
      const log = history(tokens, randomEdits(random, tokens.length));
      const hit = tree!.match("n", log.path);
      const found = hit.spans.flatMap((span) => span.value!.cells);
      if (found.join() !== log.fingerprints.slice(0, hit.length).join()) mistaken++;
      if (hit.length < tokens.length) {
        tree!.insert("n", log.path, hit.length, tokens.length, ops.make(log.fingerprints.slice(hit.length))).release();
      }
      hit.release();
    }
    expect(mistaken).toBe(0);
  });

  it("shares at least what AKV shares from turn to turn, and all of the earlier turn", () => {
    const random = new Random(11);
    let [ours, akv, all] = [0, 0, 0];
    for (let i = 0; i < 2_000; i++) {
      const tokens = Array.from({ length: 6 + random.int(10) }, () => random.int(3));
      const edits = randomEdits(random, tokens.length).filter((edit) => edit.at < tokens.length);
      const earlier = history(tokens, edits);
      const from = random.int(tokens.length);
      const later = history([...tokens, 1, 2], [...edits, { at: tokens.length, drop: [from, from + 2], reposition: true }]);
      const pair = shared(earlier, later);
      expect(pair).toBe(tokens.length);
      expect(akvShared(earlier, later)).toBeLessThanOrEqual(pair);
      ours += pair;
      akv += akvShared(earlier, later);
      all += tokens.length;
    }
    expect(ours).toBe(all);
    expect(akv / ours).toBeLessThan(0.75);
  });
});
