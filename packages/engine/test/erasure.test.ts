import { advanceErase, type Directive, type EraseSet, fold, startErase } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { textsToErase } from "../src/erasure.ts";
import { collect, randomOf, request, scriptedEngine, turn } from "./kit/harness.ts";

/** What the forgets of a log erase, by which other forgets the histories may have had. */

const LENGTH = 60;
const log = Array.from({ length: LENGTH }, (_, index) => index);
const forget = (start: number, end: number, replacement: number[] = []): Directive => ({ op: "splice", target: { tokens: [start, end] }, with: replacement, mode: "forget", at: { token: LENGTH } });
/** The log with some forgets applied, as a prompt of its own. */
const applied = (directives: readonly Directive[]) => [...fold({ tokens: Int32Array.from(log), header: LENGTH, contextLength: 4096 }, directives).tokens];

/** First token of a history that one of the sets takes; its length where none does. */
function firstErased(sets: readonly EraseSet[], history: readonly number[]): number {
  const found = sets.map((set) => {
    let walk = startErase(set);
    history.forEach((token, cell) => (walk = advanceErase(set, walk, token, cell)));
    return walk.found < 0 ? history.length : walk.found;
  });
  return Math.min(...found);
}

const forms = (path: EraseSet["path"]) => path.reduce((product, choices) => product * choices.length, 1);

const named = (texts: readonly { tokens: Int32Array; from: number }[]) => texts.map(({ tokens, from }) => `${from}: ${tokens.join(" ")}`);

/** So many insertions in front that their combinations cannot be listed, then two texts to erase. */
const INSERTIONS = Array.from({ length: 14 }, (_, index) => forget(2 * index, 2 * index, [60]));
const FORGETS = [...INSERTIONS, forget(35, 40, [60]), forget(45, 50)];

test("a text behind more combinations of other forgets than can be listed is found in the histories that there are", async () => {
  const folded = fold({ tokens: Int32Array.from(log), header: LENGTH, contextLength: 4096 }, FORGETS);
  expect(folded.erase.map(({ together }) => forms(together))).toEqual([2 ** 14, 2 ** 14]);
  for (let seed = 1; seed <= 30; seed++) {
    const random = randomOf(seed);
    const { engine, runtime, audit } = scriptedEngine({ pages: 900, pageSize: 1 });
    const histories = Array.from({ length: 5 }, () => applied(FORGETS.filter(() => random.chance(0.5))));
    for (const history of histories) await collect(engine.generate(request(history, [], { maxTokens: 1 })));
    const forgetting = request(log, FORGETS, { maxTokens: 1 });
    const answer = await collect(engine.generate(forgetting));
    for (const history of histories) {
      const { computed_tokens: computed } = engine.plan(request(history, [], { maxTokens: 1 }));
      const first = firstErased(folded.erase, history);
      expect(computed, `seed ${seed}`).toBeGreaterThanOrEqual(history.length - first);
      if (first < history.length) expect(computed, `seed ${seed}`).toBe(history.length - first);
    }
    const fresh = scriptedEngine({ pages: 100 });
    expect(answer.logprobs).toStrictEqual((await collect(fresh.engine.generate(request(applied(FORGETS), [], { maxTokens: 1 })))).logprobs);
    expect(engine.plan(forgetting).computed_tokens).toBe(1);
    // Of no page that was freed is anything left.
    expect(runtime.written).toBe(engine.state().tree.cells);
    audit();
  }
});

test("the texts that are found in histories are those that would have been listed", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = randomOf(seed);
    const some = FORGETS.filter((_, index) => index >= 14 || (index < 8 && random.chance(0.5)));
    const { erase } = fold({ tokens: Int32Array.from(log), header: LENGTH, contextLength: 4096 }, some);
    const paths = Array.from({ length: 4 }, () => ({ tokens: Int32Array.from(applied(some.filter(() => random.chance(0.5)))), events: [] }));
    const nothing = { follow: () => undefined };
    for (const set of erase) {
      const listed = named(textsToErase(set, [nothing], "tests", []));
      const found = named(textsToErase(set, [nothing], "tests", paths, 0));
      expect(listed, `seed ${seed}`).toEqual(expect.arrayContaining(found));
      // What is not found stands in no history.
      for (const { tokens } of paths) for (const text of listed) if (tokens.join(" ").startsWith(text.split(": ")[1]!)) expect(found, `seed ${seed}`).toContain(text);
    }
  }
});

test("a request that computes such a text meanwhile brings nothing of it back", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 900, pageSize: 1 }, { rowsPerStepMax: 8 });
  const history = applied(INSERTIONS.slice(0, 3));
  const running = collect(engine.generate(request(history, [], { maxTokens: 6 })));
  while (runtime.steps < 6) await turn();
  const forgetting = request(log, FORGETS, { maxTokens: 1 });
  await collect(engine.generate(forgetting));
  await running;
  expect(engine.plan(request(history, [], { maxTokens: 1 })).cached_tokens).toBeLessThanOrEqual(firstErased(forgetting.fold.erase, history));
  audit();
});

test("a thousand forgets of one log are erased, each with what stood behind it", async () => {
  const long = Array.from({ length: 2048 }, (_, index) => (index * 7 + (index >> 6)) % 61);
  const many: Directive[] = Array.from({ length: 1000 }, (_, index) => ({ op: "splice", target: { tokens: [2 * index + 1, 2 * index + 2] }, with: [], mode: "forget", at: { token: 2048 } }));
  const { engine, audit } = scriptedEngine({ pages: 600 });
  await collect(engine.generate(request(long, [], { maxTokens: 1 })));
  const { tokens } = await collect(engine.generate(request(long, many, { maxTokens: 1 })));
  expect(tokens).toHaveLength(1);
  expect(engine.plan(request(long, [], { maxTokens: 1 })).cached_tokens).toBeLessThanOrEqual(2);
  audit();
}, 60_000);
