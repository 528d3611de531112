import type { Directive } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { collect, failureOf, request, scriptedEngine, turn, type Answered } from "./kit/harness.ts";

// What people reported of other engines, as tests of this one. Those of cancellation, fairness and
// identity stand in files of their own: R17, R18, R25 in cancellation, R26, R40, R78, R79 in admission, R48 in identity, R53 in the
// bits of e2e.

const log = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * 7 + seed * 13 + (i % 5) * seed) % 61);
const scored = async (tokens: number[], directives: Directive[] = []) => {
  const { engine } = scriptedEngine({ pages: 200 });
  return collect(engine.generate(request(tokens, directives, { echo: true })));
};

test("R22: a prompt that is stopped inside a page, between two others that share it, frees each page once", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 24, pageSize: 16 }, { rowsPerStepMax: 23, shareCellsMin: 1 << 20 });
  const controller = new AbortController();
  const first = failureOf(engine.generate(request(log(90), [], { signal: controller.signal })));
  const second = collect(engine.generate(request(log(50), [], { maxTokens: 2 })));
  while (runtime.steps < 2) await turn();
  controller.abort();
  await Promise.all([first, second]);
  const { total, free, cached, leased } = engine.state().pages;
  expect([leased, free + cached]).toStrictEqual([0, total]);
  expect(engine.evictUntilFree(total)).toBe(true);
  audit();
});

test("R30: going back to the old text finds the old branch", async () => {
  const { engine } = scriptedEngine({ pages: 100 });
  const [old, changed] = [log(80), [...log(40), ...log(30, 3)]];
  await collect(engine.generate(request(old)));
  await collect(engine.generate(request(changed)));
  expect((await collect(engine.generate(request(old)))).report).toMatchObject({ computed_tokens: 1, cached_tokens: 79, miss: null });
});

test("R35: the token that was sampled last is no cell; the next turn computes it", async () => {
  const { engine } = scriptedEngine({ pages: 100 });
  const { tokens } = await collect(engine.generate(request(log(20), [], { maxTokens: 6 })));
  const { report } = await collect(engine.generate(request([...log(20), ...tokens], [], { maxTokens: 1 })));
  expect(report).toMatchObject({ cached_tokens: 25, computed_tokens: 1, miss: { at_token: 25, reason: "new" } });
});

test("R35: a stop token is no cell either", async () => {
  const { engine } = scriptedEngine({ pages: 100, script: [5, 6, 7] });
  const stopped = await collect(engine.generate(request(log(20), [], { maxTokens: 9, stopTokens: [7] })));
  expect(stopped).toMatchObject({ tokens: [5, 6], reason: "stop", stopToken: 7 });
  const { report } = await collect(engine.generate(request([...log(20), 5, 6, 7], [], { maxTokens: 1 })));
  expect(report).toMatchObject({ cached_tokens: 22, computed_tokens: 1 });
});

test("R37: sharing is by the token, not by the page", async () => {
  for (const shared of [15, 16, 17, 31, 33]) {
    const { engine, audit } = scriptedEngine({ pageSize: 16 });
    await collect(engine.generate(request(log(64))));
    const other = await collect(engine.generate(request([...log(64).slice(0, shared), 60, 59, 58])));
    expect(other.report).toMatchObject({ cached_tokens: shared, computed_tokens: 3 });
    expect(other.logprobs).toStrictEqual((await scored([...log(64).slice(0, shared), 60, 59, 58])).logprobs);
    audit();
  }
});

test("R38: many short requests, each with a page of its own, push out what is oldest and nothing else", async () => {
  const { engine, audit } = scriptedEngine({ pages: 12, pageSize: 16 });
  for (let seed = 1; seed <= 40; seed++) {
    await collect(engine.generate(request(log(5, seed), [], { maxTokens: 1 })));
    expect((await collect(engine.generate(request(log(5, seed), [], { maxTokens: 1 })))).report.cached_tokens).toBe(4);
  }
  audit();
});

test("R41: a prompt of whole pages that is cached whole runs one row, and its scores are right", async () => {
  const { engine, audit } = scriptedEngine({ pageSize: 16 });
  const cold = await collect(engine.generate(request(log(48), [], { echo: true })));
  const warm = await collect(engine.generate(request(log(48))));
  expect(warm.report).toMatchObject({ computed_tokens: 1, cached_tokens: 47 });
  expect(warm.logprobs).toStrictEqual(cold.logprobs);
  const again = await collect(engine.generate(request(log(48), [], { echo: true })));
  expect(again.scores).toStrictEqual(cold.scores);
  expect(again.scores![0]).toBeNull();
  expect(again.report).toMatchObject({ computed_tokens: 48, cached_tokens: 0, recovered_tokens: 0 });
  audit();
});

test("R42: what was matched while a request waited may be gone when it runs; it is found anew", async () => {
  const { engine, audit } = scriptedEngine({ pages: 12, pageSize: 16 }, { runningMax: 1 });
  await collect(engine.generate(request(log(60, 1), [], { maxTokens: 1 })));
  // The first pushes out what the second will find missing.
  const first = collect(engine.generate(request(log(150, 2), [], { maxTokens: 20 })));
  const second = collect(engine.generate(request(log(60, 1), [], { maxTokens: 3 })));
  expect((await first).tokens).toHaveLength(20);
  const { report, logprobs } = await second;
  expect(report.cached_tokens).toBeLessThan(59);
  expect(logprobs).toHaveLength(3);
  audit();
});

test("R60, R61, R62: two gaps in one request, in a pool whose order is not the log's, answer as a fresh one", async () => {
  const { engine, audit } = scriptedEngine({ pageSize: 5, pages: 100 }, { rowsPerStepMax: 7 });
  await collect(engine.generate(request(log(33, 4))));
  engine.evictUntilFree(96);
  const directives: Directive[] = [
    { op: "drop", target: { tokens: [3, 4] }, at: { token: 12 } },
    { op: "drop", target: { tokens: [6, 9] }, at: { token: 12 } },
    { op: "reposition", at: { token: 12 } },
    { op: "drop", target: { tokens: [0, 2] }, at: { token: 20 } },
  ];
  const answers: Answered[] = [];
  for (let round = 0; round < 2; round++) answers.push(await collect(engine.generate(request(log(30), directives))));
  const fresh = await scored(log(30), directives);
  for (const { logprobs } of answers) expect(logprobs).toStrictEqual(fresh.logprobs);
  audit();
});

test("R83: what a request finds, computes, moves and leaves out adds up, per token, on a write, a read and a full hit", async () => {
  const { engine } = scriptedEngine({ pages: 100 });
  const sums = [];
  for (const tokens of [log(40), log(60), log(60), log(40)]) {
    const { report } = await collect(engine.generate(request(tokens, [], { maxTokens: 1 })));
    sums.push([report.cached_tokens, report.computed_tokens, report.cached_tokens + report.computed_tokens]);
  }
  expect(sums).toStrictEqual([
    [0, 40, 40],
    [40, 20, 60],
    [59, 1, 60],
    [39, 1, 40],
  ]);
});

test("R84: the next request, sent the instant the last token or the end is seen, finds every cell", async () => {
  for (const when of ["token", "end"] as const) {
    const { engine, audit } = scriptedEngine({ pages: 100 });
    let next: Promise<Answered> | null = null;
    const tokens: number[] = [];
    for await (const event of engine.generate(request(log(30), [], { maxTokens: 5 }))) {
      if (event.type === "token") tokens.push(event.id);
      if (tokens.length === 5 && event.type === when) next = collect(engine.generate(request([...log(30), ...tokens], [], { maxTokens: 1 })));
    }
    expect((await next!).report).toMatchObject({ cached_tokens: 34, computed_tokens: 1 });
    audit();
  }
});

test("R87: an old tool result that is dropped costs the new tokens and no more; the tail stays", async () => {
  const { engine, audit } = scriptedEngine({ pages: 400 });
  const tokens: number[] = [];
  for (let part = 0; part < 30; part++) {
    tokens.push(...log(20, part));
    await collect(engine.generate(request(tokens, [], { maxTokens: 1 })));
  }
  const directives: Directive[] = [
    { op: "drop", target: { tokens: [80, 100] }, at: { token: 600 } },
    { op: "reposition", at: { token: 600 } },
  ];
  const { report } = await collect(engine.generate(request([...tokens, 1, 2, 3], directives, { maxTokens: 1 })));
  expect(report).toMatchObject({ computed_tokens: 3, cached_tokens: 80, repositioned_tokens: 500, skipped_tokens: 20, bytes_moved: 0 });
  audit();
});
