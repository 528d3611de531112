import { expect, test } from "vitest";
import { DirectiveError, fold } from "../src/index.ts";
import type { Directive, Fold, Log } from "../src/types.ts";
import { expand, readsOf } from "./expand.ts";
import { naiveFold } from "./naive-fold.ts";
import { type Mix, Random, randomDirectives, randomLog } from "./random-logs.ts";

const cases = process.env.PALIMPSEST_LONG === "1" ? 40_000 : 1_500;

/** Compares everything that the two say about one log. */
function agree(log: Log, directives: Directive[]): Fold {
  const folded = fold(log, directives);
  const naive = naiveFold(log, directives);
  const { nextPosition, visible, lastCell, forgotten } = folded;
  const theirs = [naive.tokens, naive.kinds, naive.birthPositions, readsOf(naive), naive.visible];
  const ours = expand(folded);
  // Only a difference is worth the cost of a deep comparison.
  if (JSON.stringify(ours) !== JSON.stringify(theirs)) expect(ours).toEqual(theirs);
  expect([nextPosition, visible, lastCell, forgotten]).toEqual([naive.nextPosition, naive.visible.length, naive.lastCell, naive.forgotten]);
  const effective = naive.boundaries.filter((boundary) => boundary.effective);
  expect(folded.events.map(({ at, cell }) => ({ at, cell }))).toEqual(effective.map(({ at, cell }) => ({ at, cell })));
  expect(folded.stages).toBe(1 + effective.length);
  return folded;
}

const mixes: Record<string, Mix> = {
  "drops and repositions": { reposition: 0.35 },
  "splices": { reposition: 0.15, splice: 0.55 },
  "splices and refreshes": { reposition: 0.1, splice: 0.2, refresh: 0.5 },
  "all verbs but forget": { reposition: 0.15, splice: 0.2, refresh: 0.15, scratch: 0.15, decay: 0.15 },
  "all verbs": { reposition: 0.1, splice: 0.2, refresh: 0.1, forget: 0.2, scratch: 0.1, decay: 0.1, pin: 0.05 },
  "forgets": { forget: 0.6, splice: 0.2 },
};

test.each(Object.entries(mixes))(`a fold of random %s equals the naive one, cell by cell (${cases} logs)`, (name, mix) => {
  let refused = 0;
  for (let seed = 1; seed <= cases; seed++) {
    const random = new Random(seed * 31 + name.length);
    const log = randomLog(random);
    const directives = randomDirectives(random, log, mix);
    try {
      agree(log, directives);
    } catch (error) {
      // A forget may take the last token of a log.
      if (error instanceof DirectiveError && error.message.includes("leaves no token")) refused++;
      else throw new Error(`${name}, seed ${seed}, ${log.tokens.length} tokens, header ${log.header}, owners ${log.chat?.owners}: ${JSON.stringify(directives)}`, { cause: error });
    }
  }
  expect(refused).toBeLessThan(cases / 4);
});
