import { expect, test } from "vitest";
import { bornCellsOf, DirectiveError, fold } from "../src/index.ts";
import type { Directive, Fold } from "../src/types.ts";
import { expand } from "./expand.ts";
import { type Mix, Random, randomDirectives, tokenLog } from "./random-logs.ts";

const cases = process.env.PALIMPSEST_LONG === "1" ? 100_000 : 6_000;

/** The path that leads to each cell: tokens, and before them the keys of events. */
function paths(folded: Fold): string[] {
  const keys = new Map(folded.events.map(({ cell, key }) => [cell, key]));
  let path = "";
  return Array.from(folded.tokens, (token, cell) => (path += `${keys.has(cell) ? `|${keys.get(cell)}|` : ""}${token},`));
}

/** What each cell depends on, together with all cells before it. */
function fingerprints(folded: Fold): string[] {
  const [tokens, , , reads] = expand(folded);
  let all = "";
  return tokens.map((token, cell) => (all += `${token}:${reads[cell]};`));
}

test.each<[string, number, Mix]>([
  ["drops and repositions", 7, { reposition: 0.4 }],
  ["splices", 5, { reposition: 0.2, splice: 0.5 }],
  ["refreshes", 5, { reposition: 0.2, refresh: 0.4, splice: 0.2 }],
  ["all verbs", 6, { reposition: 0.2, refresh: 0.15, splice: 0.2, forget: 0.15, scratch: 0.15 }],
])(`equal paths and equal dependencies are the same thing, with %s (${cases} folds of one log)`, (name, length, mix) => {
  const dependencyOf = new Map<string, string>();
  const pathOf = new Map<string, string>();
  const log = tokenLog(length);
  let met = 0;
  for (let seed = 1; seed <= cases; seed++) {
    // One replacement token, so that the same edit is met in many ways; another one for edits of the text, which are no events.
    const directives = randomDirectives(new Random(seed + length * 1_000_003), log, mix, 4).map((directive) => sameToken(directive));
    const folded = foldOrNull(directives);
    if (!folded) continue;
    const kinds = folded.births.flatMap(({ kind, length: cells }) => Array.from({ length: cells }, () => kind));
    const [path, dependency] = [paths(folded), fingerprints(folded)];
    for (const [cell, kind] of kinds.entries()) {
      // An event is on the path as a whole before its first cell; only the next cell of the log sees all of it.
      if (kind !== "log") continue;
      const known = dependencyOf.get(path[cell]!);
      if (known !== undefined) met++;
      if (known !== undefined && known !== dependency[cell]) throw new Error(`${name}, seed ${seed}: one path, two dependencies: ${path[cell]} ${JSON.stringify(directives)}`);
      dependencyOf.set(path[cell]!, dependency[cell]!);
      const other = pathOf.get(dependency[cell]!);
      if (other !== undefined && other !== path[cell]) throw new Error(`${name}, seed ${seed}: one dependency, two paths: ${other} and ${path[cell]} ${JSON.stringify(directives)}`);
      pathOf.set(dependency[cell]!, path[cell]!);
    }
  }
  expect(met).toBeGreaterThan(cases);

  function foldOrNull(directives: Directive[]): Fold | null {
    try {
      return fold(log, directives);
    } catch (error) {
      if (error instanceof DirectiveError && error.message.includes("leaves no token")) return null;
      throw error;
    }
  }
});

function sameToken(directive: Directive): Directive {
  return directive.op === "splice" ? { ...directive, with: (directive.with as number[]).map(() => (directive.mode === "forget" ? 800 : 900)) } : directive;
}

test("an event's key tells how many cells it bears", () => {
  const random = new Random(5);
  for (let i = 0; i < 500; i++) {
    const { events } = fold(tokenLog(20), randomDirectives(random, tokenLog(20), { splice: 0.4, refresh: 0.4, reposition: 0.1 }));
    for (const { key, inserted } of events) expect(bornCellsOf(key)).toBe(inserted.reduce((sum, { cells }) => sum + cells[1] - cells[0], 0));
  }
});

/** Drops the first message, of two tokens. */
function drop(at: number, reposition = false): Directive[] {
  const target: Directive = { op: "drop", target: { tokens: [0, 2] }, at: { token: at } };
  return reposition ? [target, { op: "reposition", at: { token: at } }] : [target];
}

test("AKV's figure 5: a drop at two places shares what stands before the earlier one, and a reposition adds nothing but its event", () => {
  // Messages A, B, C, D of two tokens each.
  const log = tokenLog(8);
  const shared = (a: Directive[], b: Directive[]) => {
    const [left, right] = [paths(fold(log, a)), paths(fold(log, b))];
    return left.filter((path, cell) => path === right[cell]).length;
  };
  expect(shared(drop(6), drop(4))).toBe(4);
  expect(shared(drop(6), [])).toBe(6);
  expect(shared(drop(4), [])).toBe(4);
  // AKV shares 2 here and copies B and C; nothing moves in our tree, so all of A, B, C is the same.
  expect(shared(drop(6, true), drop(6))).toBe(6);
  expect(shared(drop(4, true), drop(6, true))).toBe(4);
});

test("a drop that comes to nothing does not split the tree, a reposition that moves only the counter does", () => {
  const log = tokenLog(12);
  const base: Directive[] = [{ op: "drop", target: { tokens: [2, 6] }, at: { token: 6 } }];
  const plain = paths(fold(log, base));
  expect(paths(fold(log, [...base, { op: "drop", target: { tokens: [3, 5] }, at: { token: 9 } }]))).toEqual(plain);
  expect(paths(fold(log, [...base, { op: "reposition", at: { token: 6 } }]))[6]).not.toBe(plain[6]);
});
