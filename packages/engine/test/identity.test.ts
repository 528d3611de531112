import { fold, type Directive } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { Random, randomDirectives } from "../../directives/test/random-logs.ts";
import { naiveFold } from "../../directives/test/naive-fold.ts";
import { collect, request, requestOf, scriptedEngine } from "./kit/harness.ts";

// AKV's Figure 5: A, B, C, D of two tokens each.
const figure = [10, 11, 20, 21, 30, 31, 40, 41];
const drop = (target: [number, number], token: number): Directive => ({ op: "drop", target: { tokens: target }, at: { token } });
const reposition = (token: number): Directive => ({ op: "reposition", at: { token } });

/** Cells that a second log shares with a first one, which alone ran before it. */
async function shared(first: Directive[], second: Directive[], log: readonly number[] = figure): Promise<number> {
  const { engine, audit } = scriptedEngine();
  await collect(engine.generate(request(log, first, { maxTokens: 1 })));
  const plan = engine.plan(request(log, second, { maxTokens: 1, echo: false }));
  audit();
  await engine.dispose();
  // The last row of a prompt runs again even when it is resident.
  return plan.miss === null ? log.length : plan.miss.at_token;
}

test("dropping A after C and A after B share exactly the cells before the earlier event", async () => {
  const afterC = [drop([0, 2], 6)];
  const afterB = [drop([0, 2], 4)];
  expect(await shared(afterC, afterB)).toBe(4);
  expect(await shared(afterB, afterC)).toBe(4);
  expect(await shared(afterC, [])).toBe(6);
  expect(await shared(afterB, [])).toBe(4);
  expect(await shared(afterC, afterC)).toBe(8);
});

test("a reposition branches nothing in front of it: survivors stay in their nodes", async () => {
  const dropped = [drop([0, 2], 6)];
  const compacted = [drop([0, 2], 6), reposition(6)];
  // AKV shares 2 exactly and copies the other 4; here all 6 are the same cells.
  expect(await shared(dropped, compacted)).toBe(6);
  expect(await shared([drop([0, 2], 4), reposition(4)], compacted)).toBe(4);
  // Two turns: 9 tokens with a drop and a reposition after the fifth, the next turn adds another pair after the eighth.
  const nine = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  const first = [drop([1, 4], 5), reposition(5)];
  expect(await shared(first, [...first, drop([4, 7], 8), reposition(8)], nine)).toBe(8);
});

test("a plain request never receives cells of an edited log, nor the reverse", async () => {
  for (let seed = 1; seed <= 150; seed++) {
    const random = new Random(seed);
    const tokens = Array.from({ length: random.int(6, 40) }, () => random.int(0, 60));
    const log = { tokens: Int32Array.from(tokens), header: tokens.length, contextLength: 4096 };
    const directives = randomDirectives(random, log, { reposition: 0.3 }, 4);
    const { events } = fold(log, directives);
    const { engine, audit } = scriptedEngine();
    const [one, other] = random.chance(0.5) ? [[], directives] : [directives, []];
    await collect(engine.generate(request(tokens, one, { maxTokens: 1 })));
    const { miss } = engine.plan(request(tokens, other, { maxTokens: 1 }));
    // An event at the very end has no cell behind it yet.
    const first = events.find(({ cell }) => cell < tokens.length);
    expect(miss?.at_token ?? tokens.length, `seed ${seed}`).toBe(first?.at ?? tokens.length);
    audit();
    await engine.dispose();
  }
});

test("edits that come to nothing share everything, a moved counter alone does not", async () => {
  expect(await shared([], [reposition(4)])).toBe(8);
  expect(await shared([drop([0, 2], 4)], [drop([0, 2], 4), drop([0, 1], 6)])).toBe(8);
  // A drop of the tail with a reposition hides the same cells as without; only the counter differs.
  expect(await shared([drop([2, 4], 4)], [drop([2, 4], 4), reposition(4)])).toBe(4);
  expect(await shared([drop([2, 4], 4), reposition(4)], [drop([2, 4], 4)])).toBe(4);
});

test("two logs with one path have one dependency fingerprint, and the reverse", async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const tokens = Array.from({ length: random.int(2, 24) }, () => random.int(0, 1));
    const log = { tokens: Int32Array.from(tokens), header: tokens.length, contextLength: 4096 };
    const [one, other] = [0, 1].map(() => randomDirectives(random, log, { reposition: 0.4 }, 3));
    const { engine } = scriptedEngine();
    await collect(engine.generate(requestOf(fold(log, one!), tokens.length, { maxTokens: 1 })));
    const miss = engine.plan(requestOf(fold(log, other!), tokens.length, { maxTokens: 1 })).miss;
    const [a, b] = [fingerprints(log, one!), fingerprints(log, other!)];
    let same = 0;
    while (same < a.length && a[same] === b[same]) same++;
    expect(miss?.at_token ?? tokens.length, `seed ${seed}`).toBeLessThanOrEqual(same);
    await engine.dispose();
  }
});

/** What each cell was computed from: token, and what it saw at which distance. */
function fingerprints(log: Parameters<typeof naiveFold>[0], directives: Directive[]): string[] {
  const { tokens, mask, stageOf, stagePositions, birthPositions } = naiveFold(log, directives);
  return tokens.map((token, cell) => {
    const stage = stagePositions[stageOf[cell]!]!;
    const seen = mask[cell]!.flatMap((reads, other) => (reads ? [`${other}:${birthPositions[cell]! - stage[other]!}`] : []));
    return `${token}<${seen.join(" ")}`;
  });
}

test("tenants share nothing, and one cannot tell what another has", async () => {
  const { engine, audit } = scriptedEngine();
  const log = Array.from({ length: 30 }, (_, i) => i);
  await collect(engine.generate(request(log, [], { namespace: "alice" })));
  const guess = request(log, [], { namespace: "bob" });
  expect(engine.plan(guess)).toMatchObject({ cached_tokens: 0, computed_tokens: 30, miss: { at_token: 0, reason: "new" } });
  const { report } = await collect(engine.generate(guess));
  expect(report).toMatchObject({ cached_tokens: 0, computed_tokens: 30, miss: { at_token: 0, reason: "new" } });
  expect(engine.plan(request(log, [], { namespace: "alice" })).computed_tokens).toBe(1);
  audit();
});
