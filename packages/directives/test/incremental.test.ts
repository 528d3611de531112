import { expect, test } from "vitest";
import { DirectiveError, fold } from "../src/index.ts";
import type { Directive, Fold, Log } from "../src/types.ts";
import { expand } from "./expand.ts";
import { boundaryToken, Random, randomDirectives, randomLog } from "./random-logs.ts";

const cases = process.env.PALIMPSEST_LONG === "1" ? 20_000 : 1_500;
const mix = { reposition: 0.15, splice: 0.2, refresh: 0.15, forget: 0.1, scratch: 0.1 };

function whole(folded: Fold): unknown {
  const { events, nextPosition, visible, stages, lastCell, outcomes, forgotten, origins, retention, erase } = folded;
  const spelled = events.map(({ at, cell, key, hidden, shifted, counter, inserted }) => ({ at, cell, key, hidden, shifted, counter, inserted }));
  const births = folded.births.map(({ cell, length, position, token, kind }) => ({ cell, length, position, token, kind }));
  return JSON.parse(JSON.stringify([spelled, births, expand(folded), nextPosition, visible, stages, lastCell, outcomes, forgotten, origins, retention, erase]));
}

/** The first part of a log, as an earlier turn sent it: without the messages that came later. */
function earlier(log: Log, length: number): Log {
  const cut: Log = { ...log, tokens: log.tokens.slice(0, length), header: length };
  return log.chat ? { ...cut, chat: { ...log.chat, owners: log.chat.owners.slice(0, length) } } : cut;
}

test("a fold that goes on from an earlier turn's equals the fold from the start", () => {
  let reused = 0;
  for (let seed = 1; seed <= cases; seed++) {
    const random = new Random(seed);
    const log = randomLog(random);
    const directives = randomDirectives(random, log, mix);
    const turns = Array.from({ length: 3 }, () => random.int(0, log.header)).toSorted((a, b) => a - b);
    let previous: Fold | undefined;
    try {
      for (const length of turns) {
        const then = directives.filter(({ at }) => at !== undefined && boundaryToken(log, at) <= length);
        previous = fold(earlier(log, length), random.shuffle(then), { previous });
      }
      const last = fold(log, directives, { previous });
      expect(whole(last), `seed ${seed}`).toEqual(whole(fold(log, directives)));
      if (previous!.events.length > 0 && last.events[0] === previous!.events[0]) reused++;
    } catch (error) {
      if (!(error instanceof DirectiveError)) throw error;
    }
  }
  expect(reused).toBeGreaterThan(cases / 10);
});

function drop(start: number, at: number): Directive {
  return { op: "drop", target: { tokens: [start, start + 2] }, at: { token: at } };
}

test("an earlier fold of another text, or of other directives, is used as far as it agrees", () => {
  const log: Log = { tokens: Int32Array.from({ length: 30 }, (_, i) => i), header: 30, contextLength: 100 };
  const previous = fold(log, [drop(0, 5), drop(5, 10), drop(12, 20)]);
  const other: Log = { ...log, tokens: log.tokens.map((token, i) => (i === 15 ? 99 : token)) };
  const next = fold(other, [drop(0, 5), drop(5, 10), drop(12, 20)], { previous });
  expect(whole(next)).toEqual(whole(fold(other, [drop(0, 5), drop(5, 10), drop(12, 20)])));
  expect(next.events[1]).toBe(previous.events[1]);
  expect(next.events[2]).not.toBe(previous.events[2]);
  const changed = fold(log, [drop(1, 5), drop(5, 10), drop(12, 20)], { previous });
  expect(changed.events[0]).not.toBe(previous.events[0]);
});
