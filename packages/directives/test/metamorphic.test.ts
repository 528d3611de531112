import { expect, test } from "vitest";
import { DirectiveError, fold } from "../src/index.ts";
import type { Directive, Fold, Log } from "../src/types.ts";
import { expand } from "./expand.ts";
import { boundaryToken, chatLog, Random, randomDirectives, randomLog, tokenLog } from "./random-logs.ts";

const cases = process.env.PALIMPSEST_LONG === "1" ? 20_000 : 1_500;
const everything = { reposition: 0.15, splice: 0.2, refresh: 0.15, forget: 0.1, scratch: 0.1, decay: 0.1 };

/** Runs `check` on random logs; a forget that leaves nothing is the only refusal that may happen. */
function onRandomLogs(mix: object, check: (random: Random, log: Log, directives: Directive[]) => void): void {
  for (let seed = 1; seed <= cases; seed++) {
    const random = new Random(seed);
    const log = randomLog(random);
    const directives = randomDirectives(random, log, mix);
    try {
      check(random, log, directives);
    } catch (error) {
      if (error instanceof DirectiveError && error.message.includes("leaves no token")) continue;
      throw new Error(`seed ${seed}: ${JSON.stringify(directives)}`, { cause: error });
    }
  }
}

function keys(folded: Fold): unknown {
  return folded.events.map(({ at, key }) => [at, key]);
}

/** For each token of the log: the text that it sees. */
function visibleTexts(folded: Fold): string[] {
  return folded.births
    .filter(({ kind }) => kind === "log")
    .flatMap(({ view, cell, length }) => {
      const seen = view.flatMap((span) => [...folded.tokens.subarray(span.cell, span.cell + span.length)]);
      return Array.from({ length }, (_, i) => [...seen, ...folded.tokens.subarray(cell, cell + i)].join(" "));
    });
}

test("permuting the array of directives changes nothing but the order of the report", () => {
  onRandomLogs(everything, (random, log, directives) => {
    const order = random.shuffle(directives.map((_, index) => index));
    const shuffled = fold(log, order.map((index) => directives[index]!));
    const straight = fold(log, directives);
    expect(expand(shuffled)).toEqual(expand(straight));
    expect(keys(shuffled)).toEqual(keys(straight));
    const back = shuffled.outcomes.map((outcome, i) => Object.assign({}, outcome, { index: order[i]! })).toSorted((a, b) => a.index - b.index);
    const twins = new Set(straight.outcomes.map(({ op, at_token: at, ranges }) => JSON.stringify([op, at, ranges]))).size < directives.length;
    // Which of two directives that are alike did the work is a matter of taste.
    if (!twins) expect(back).toEqual(straight.outcomes);
  });
});

test("positions of visible cells always increase", () => {
  onRandomLogs(everything, (_random, log, directives) => {
    for (const { view, position } of fold(log, directives).births) {
      let last = -1;
      for (const { birth, shift, length } of view) {
        expect(birth + shift).toBeGreaterThan(last);
        last = birth + shift + length - 1;
      }
      expect(position).toBeGreaterThan(last);
    }
  });
});

test("a directive without effect changes no key", () => {
  onRandomLogs(everything, (random, log, directives) => {
    const straight = fold(log, directives);
    const idle = straight.outcomes.filter(({ status }) => status === "no_effect").map(({ index }) => index);
    if (idle.length === 0) return;
    const dropped = random.pick(idle);
    const without = fold(log, directives.filter((_, index) => index !== dropped));
    expect(keys(without)).toEqual(keys(straight));
    expect(expand(without)).toEqual(expand(straight));
  });
});

test("an empty splice is a drop and a reposition where nothing else left a gap", () => {
  for (let seed = 1; seed <= cases; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(2, 40));
    const at = { token: random.int(1, log.header) };
    const start = random.int(0, at.token - 1);
    const target = { tokens: [start, random.int(start + 1, at.token)] as [number, number] };
    const spliced = fold(log, [{ op: "splice", target, with: [], at }]);
    const dropped = fold(log, [{ op: "drop", target, at }, { op: "reposition", at }]);
    expect(expand(spliced)).toEqual(expand(dropped));
    expect(keys(spliced)).toEqual(keys(dropped));
  }
});

test("a refresh of everything sees what a forget sees, in a log without other directives", () => {
  for (let seed = 1; seed <= cases; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(2, 40));
    const start = random.int(0, log.header - 1);
    const target = { tokens: [start, random.int(start + 1, log.header)] as [number, number] };
    const tokens = Array.from({ length: random.int(start === 0 ? 1 : 0, 4) }, () => random.int(900, 999));
    const refreshed = visibleCells(fold(log, [{ op: "splice", target, with: tokens, mode: "refresh", refresh_tokens: 100 }]));
    const forgotten = visibleCells(fold(log, [{ op: "splice", target, with: tokens, mode: "forget" }]));
    expect(refreshed).toEqual(forgotten);
  }
});

/** What each visible cell is and what it read, by tokens and positions: cell numbers left out. */
function visibleCells(folded: Fold): unknown {
  const [tokens, , births, reads, visible] = expand(folded);
  const named = (read: string) => read.split(" ").map((word) => `${tokens[Number(word.split("@")[0])]}@${word.split("@")[1]}`);
  return visible.map(({ cell, position }) => ({ token: tokens[cell], birth: births[cell], position, reads: named(reads[cell]!) }));
}

test("what a boundary shows does not depend on the modes of its splices", () => {
  onRandomLogs({ splice: 0.7 }, (_random, log, directives) => {
    const texts = ["amortize", "refresh"].map((mode) =>
      visibleTexts(fold(log, directives.map((directive) => (directive.op === "splice" ? Object.assign({}, directive, { mode }) : directive)))),
    );
    expect(texts[0]).toEqual(texts[1]);
  });
});

test("cells of the fold are the prompt without what is forgotten, with replacements and what is computed again", () => {
  onRandomLogs(everything, (_random, log, directives) => {
    const { births, tokens, forgotten, origins, outcomes } = fold(log, directives);
    const count = (kind: string) => births.filter((birth) => birth.kind === kind).reduce((sum, { length }) => sum + length, 0);
    const written = (origins ?? []).filter(({ raw }) => raw < 0).reduce((sum, { length }) => sum + length, 0);
    expect(tokens.length).toBe(log.tokens.length - forgotten + written + count("inserted") + count("recomputed"));
    expect(count("recomputed")).toBe(outcomes.reduce((sum, { recomputed }) => sum + (recomputed ?? 0), 0));
    const edited = directives.some(({ mode }) => mode === "forget");
    if (!edited) expect(count("inserted")).toBe(outcomes.reduce((sum, { inserted }) => sum + (inserted ?? 0), 0));
  });
});

test("what a decayed or repeated directive did stays when the same directives come again with the boundary of the report", () => {
  const directives: Directive[] = [{ op: "drop", target: { messages: [1] } }, { op: "reposition" }, { op: "decay", target: { messages: [2] }, turns: 1 }];
  const first = fold(chatLog([4, 5, 6], 2), directives);
  const pinned = directives.map((directive, i): Directive => Object.assign({}, directive, { at: { token: first.outcomes[i]!.at_token } }));
  const next = fold(chatLog([4, 5, 6, 7, 3, 8, 2], 2), pinned);
  expect(next.events[0]!.key).toBe(first.events[0]!.key);
  expect(boundaryToken(chatLog([4, 5, 6], 2), undefined)).toBe(next.events[0]!.at);
  // Message 5 is the assistant's: behind it the target of the decay is gone.
  expect(next.outcomes[2]).toMatchObject({ status: "applied", hidden: 6 });
  expect(next.events[1]).toMatchObject({ at: 33, hidden: [[9, 15]] });
});
