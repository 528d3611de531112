import { expect, test } from "vitest";
import { advanceErase, DirectiveError, eraseTexts, fold, LIMITS, startErase } from "../src/index.ts";
import type { Directive, EraseSet, Log } from "../src/types.ts";
import { naiveFold } from "./naive-fold.ts";
import { Random, randomDirectives, tokenLog } from "./random-logs.ts";

/** First cell of a history that a set takes; −1: none. */
function firstErased(set: Pick<EraseSet, "path">, history: readonly number[]): number {
  let walk = startErase(set);
  history.forEach((token, cell) => (walk = advanceErase(set, walk, token, cell)));
  return walk.found;
}

function forget(start: number, end: number, tokens: number[], at: number): Directive {
  return { op: "splice", target: { tokens: [start, end] }, with: tokens, mode: "forget", at: { token: at } };
}

const formsOf = (path: EraseSet["path"]) => path.reduce((forms, choices) => forms * choices.length, 1);

test("a forget reaches every history that begins with the log's text up to the target's end", () => {
  const log = tokenLog(12);
  const [set] = fold(log, [forget(3, 6, [900], 8)]).erase;
  const raw = [...log.tokens];
  expect(firstErased(set!, raw)).toBe(3);
  expect(firstErased(set!, raw.slice(0, 6))).toBe(3);
  expect(firstErased(set!, raw.slice(0, 5))).toBe(-1);
  expect(firstErased(set!, [...raw.slice(0, 6), 7, 7, 7])).toBe(3);
  expect(firstErased(set!, [...raw.slice(0, 5), 7])).toBe(-1);
  // The edited log itself.
  expect(firstErased(set!, [...raw.slice(0, 3), 900, ...raw.slice(6)])).toBe(-1);
});

test("another forget before the target may have been applied to a history or not", () => {
  const log = tokenLog(12);
  const { erase } = fold(log, [forget(7, 9, [], 12), forget(2, 4, [900], 5)]);
  const raw = [...log.tokens];
  const applied = [...raw.slice(0, 2), 900, ...raw.slice(4)];
  expect(erase.map(({ directive }) => directive)).toEqual([0, 1]);
  expect(firstErased(erase[0]!, raw)).toBe(7);
  expect(firstErased(erase[0]!, applied)).toBe(6);
  expect(firstErased(erase[1]!, raw)).toBe(2);
  expect(firstErased(erase[1]!, applied)).toBe(-1);
});

test("an insertion forgets nothing, so it erases nothing, but histories may have it or not", () => {
  const log = tokenLog(8);
  const { erase } = fold(log, [forget(2, 2, [900, 901], 4), forget(5, 6, [], 8)]);
  expect(erase.map(({ directive }) => directive)).toEqual([1]);
  expect(firstErased(erase[0]!, [...log.tokens])).toBe(5);
  expect(firstErased(erase[0]!, [100, 101, 900, 901, ...log.tokens.subarray(2)])).toBe(7);
});

test("a set holds exactly the texts of all combinations of the other forgets (random logs)", () => {
  for (let seed = 1; seed <= 400; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(4, 14));
    const directives = randomDirectives(random, log, { forget: 1 }, 4).filter(({ mode }) => mode === "forget");
    for (const set of erasedBy(log, directives)) {
      for (const applied of combinations(directives.filter((_, index) => index !== set.directive))) {
        const target = directives[set.directive]!;
        // A drop of the same tokens at the same boundary tells where the target's text stands in that history.
        const probe: Directive = { op: "drop", target: target.target!, at: target.at };
        const folded = fold(log, [...applied, probe]);
        const hidden = folded.events[0]?.hidden[0]?.[0] ?? -1;
        const text = naiveFold(log, [...applied, probe]).tokens;
        expect(firstErased(set, text), `seed ${seed}: ${JSON.stringify([directives, applied])}`).toBe(hidden);
      }
    }
  }
});

/** Nothing where the forgets leave no token. */
function erasedBy(log: Log, directives: Directive[]): readonly EraseSet[] {
  try {
    return fold(log, directives).erase;
  } catch (error) {
    if (error instanceof DirectiveError) return [];
    throw error;
  }
}

function combinations<T>(items: readonly T[]): T[][] {
  return items.reduce<T[][]>((all, item) => all.concat(all.map((some) => some.concat([item]))), [[]]);
}

test("the texts of a set are all combinations of what other forgets left", () => {
  const log = tokenLog(12);
  const { erase } = fold(log, [forget(7, 9, [], 12), forget(2, 4, [900], 5), forget(5, 6, [], 6)]);
  const texts = [...eraseTexts(erase[0]!)].map(({ tokens, from }) => ({ text: [...tokens], from }));
  expect(texts).toEqual([
    { text: [100, 101, 102, 103, 104, 105, 106, 107, 108], from: 7 },
    { text: [100, 101, 102, 103, 104, 106, 107, 108], from: 6 },
    { text: [100, 101, 900, 104, 105, 106, 107, 108], from: 6 },
    { text: [100, 101, 900, 104, 106, 107, 108], from: 5 },
  ]);
  for (const { text, from } of texts) expect(firstErased(erase[0]!, text)).toBe(from);
});

test("carried out together, the sets need no text in which another forget was left out (random logs)", () => {
  let shorter = 0;
  for (let seed = 1; seed <= 400; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(4, 14));
    const directives = randomDirectives(random, log, { forget: 1 }, 5).filter(({ mode }) => mode === "forget");
    const sets = erasedBy(log, directives);
    if (sets.length === 0) continue;
    const first = (history: readonly number[], of: (set: EraseSet) => EraseSet["path"]) =>
      Math.min(...sets.map((set) => firstErased({ path: of(set) }, history)).map((cell) => (cell < 0 ? Infinity : cell)));
    for (const applied of combinations(directives)) {
      const text = naiveFold(log, applied).tokens;
      expect(first(text, ({ together }) => together), `seed ${seed}: ${JSON.stringify([directives, applied])}`).toBe(first(text, ({ path }) => path));
    }
    for (const { path, together } of sets) if (formsOf(together) < formsOf(path)) shorter++;
  }
  expect(shorter).toBeGreaterThan(50);
});

test("many forgets have one text each when they are carried out together; insertions may still have been there or not", () => {
  const log = tokenLog(3000);
  const many = fold(log, Array.from({ length: 1000 }, (_, i) => forget(3 * i, 3 * i + 2, [], 3000))).erase;
  expect(many).toHaveLength(1000);
  for (const { together } of [many[0]!, many[500]!, many[999]!]) expect([...eraseTexts({ path: together })]).toHaveLength(1);
  const inserted = fold(log, [forget(50, 60, [], 3000), ...Array.from({ length: 4 }, (_, i) => forget(5 * i, 5 * i, [900 + i], 3000))]).erase;
  expect([...eraseTexts({ path: inserted[0]!.together })]).toHaveLength(16);
});

test("a history is followed in time bound by its length, though the log repeats itself and every forget doubles the ways", () => {
  const log = { ...tokenLog(400), tokens: new Int32Array(400).fill(7) };
  const [set] = fold(log, [...Array.from({ length: 150 }, (_, i) => forget(2 * i, 2 * i, [7], 400)), forget(320, 330, [], 400)]).erase;
  const before = performance.now();
  expect(firstErased({ path: set!.together }, Array.from({ length: 480 }, () => 7))).toBeGreaterThan(300);
  expect(performance.now() - before).toBeLessThan(5_000);
});

function nested(count: number): Directive[] {
  return Array.from({ length: count }, (_, i) => forget(10 - i, 12, [], 20 + i));
}

test("too many forgets over the same tokens are refused", () => {
  const log = tokenLog(40);
  expect(fold(log, nested(LIMITS.meetingForgets)).erase).toHaveLength(LIMITS.meetingForgets);
  expect(() => fold(log, nested(LIMITS.meetingForgets + 1))).toThrowError(expect.objectContaining({ code: "directive_limit" }));
});
