import { fold, type Directive } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { collect, request, requestOf, scriptedEngine, turn } from "./kit/harness.ts";

const log = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * 7 + seed * 13 + (i % 5) * seed) % 61);
const forget = (target: [number, number], token: number, replacement: number[] = []): Directive => ({ op: "splice", target: { tokens: target }, with: replacement, mode: "forget", at: { token } });

test("a forget answers as the log that never had the text, and the same forget again computes one row", async () => {
  const { engine, audit } = scriptedEngine({ pages: 100 });
  const tokens = log(60);
  await collect(engine.generate(request(tokens)));
  const forgetting = request(tokens, [forget([20, 30], 60)]);
  const once = await collect(engine.generate(forgetting));
  const plain = scriptedEngine({ pages: 100 });
  const never = await collect(plain.engine.generate(request([...tokens.slice(0, 20), ...tokens.slice(30)])));
  expect(once.logprobs).toStrictEqual(never.logprobs);
  expect(once.report).toMatchObject({ prompt_tokens: 60, forgotten_tokens: 10, cached_tokens: 20, computed_tokens: 30 });
  const again = await collect(engine.generate(forgetting));
  expect(again.report).toMatchObject({ computed_tokens: 1, cached_tokens: 49, forgotten_tokens: 10 });
  expect(again.logprobs).toStrictEqual(never.logprobs);
  audit();
});

test("a forget erases every history of its text, what was computed after it too, and their pages are zeroed", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 400, pageSize: 1 });
  const tokens = log(60);
  const histories: Directive[][] = [[], [{ op: "drop", target: { tokens: [2, 9] }, at: { token: 40 } }], [{ op: "drop", target: { tokens: [22, 25] }, at: { token: 35 } }, { op: "reposition", at: { token: 35 } }]];
  for (const directives of histories) await collect(engine.generate(request(tokens, directives, { maxTokens: 5 })));
  await collect(engine.generate(request(tokens, [], { namespace: "other", maxTokens: 5 })));
  const before = engine.state().tree.cells;
  const generation = engine.generate(request(tokens, [forget([20, 30], 60)], { maxTokens: 1 }));
  // At once, before anything of the request itself is computed.
  expect(engine.state().tree.cells).toBe(20 + 64);
  expect(runtime.written).toBe(20 + 64);
  expect(before).toBeGreaterThan(150);
  let erased = null;
  for await (const event of generation) if (event.type === "end") erased = event.erased;
  expect(erased).toMatchObject({ cells: before - 20 - 64, readers: 0 });
  for (const directives of histories) expect(engine.plan(request(tokens, directives, { maxTokens: 1 })).cached_tokens + engine.plan(request(tokens, directives, { maxTokens: 1 })).repositioned_tokens).toBeLessThanOrEqual(20);
  expect(engine.plan(request(tokens, [], { namespace: "other", maxTokens: 1 })).computed_tokens).toBe(1);
  audit();
});

test("who reads erased cells when they are erased reads on, and brings nothing back", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 300, pageSize: 1 }, { rowsPerStepMax: 16 });
  const tokens = log(60);
  const running = collect(engine.generate(request(tokens, [], { maxTokens: 12 })));
  while (runtime.steps < 3) await turn();
  const erased = engine.erase({ namespace: "tests", tokens: Int32Array.from(tokens.slice(0, 30)), from: 20 });
  expect(erased.readers).toBeGreaterThan(0);
  const fresh = scriptedEngine({ pages: 100 });
  expect((await running).logprobs).toStrictEqual((await collect(fresh.engine.generate(request(tokens, [], { maxTokens: 12 })))).logprobs);
  await erased.complete;
  expect(engine.plan(request(tokens, [], { maxTokens: 1 })).cached_tokens).toBe(20);
  expect(runtime.written, "of the text and of what followed it no cell is left").toBe(20);
  audit();
});

test("what a scratch hides goes first, before what is older", async () => {
  const { engine, audit } = scriptedEngine({ pages: 16, pageSize: 16 });
  await collect(engine.generate(request(log(48, 1), [], { maxTokens: 1 })));
  const scratched = [...log(96, 2)];
  const directives: Directive[] = [{ op: "scratch", target: { tokens: [32, 80] }, at: { token: 80 } }];
  await collect(engine.generate(request(scratched, directives, { maxTokens: 1 })));
  const { free } = engine.state().pages;
  engine.evictUntilFree(free + 3);
  // Of the scratched text three pages are gone; the older log and the rest of this one are whole.
  expect(engine.plan(request(log(48, 1), [], { maxTokens: 1 })).computed_tokens).toBe(1);
  expect(engine.plan(request(scratched, directives, { maxTokens: 1 }))).toMatchObject({ computed_tokens: 1, skipped_tokens: 48 });
  expect(engine.plan(request(scratched, [], { maxTokens: 1 }))).toMatchObject({ recovered_tokens: 48, miss: { at_token: 32, reason: "evicted" } });
  audit();
});

test("pinned cells stay when others go, until their time is over, and never keep a request out", async () => {
  let now = 0;
  const { engine, audit } = scriptedEngine({ pages: 16, pageSize: 16 }, {}, () => now);
  const pinned = log(48, 1);
  const pin: Directive[] = [{ op: "pin", target: { tokens: [0, 48] }, until: { seconds: 60 } }];
  await collect(engine.generate(request(pinned, pin, { maxTokens: 1 })));
  for (let seed = 2; seed <= 8; seed++) await collect(engine.generate(request(log(90, seed), [], { maxTokens: 1 })));
  expect(engine.plan(request(pinned, [], { maxTokens: 1 })).computed_tokens).toBe(1);
  // Saying it again prolongs the pin, and counts once.
  for (let i = 0; i < 5; i++) await collect(engine.generate(request(pinned, pin, { maxTokens: 1 })));
  expect(engine.state().tree.pinnedCells).toBe(48);
  // A request that needs every page gets it all the same.
  expect((await collect(engine.generate(request(log(250, 9), [], { maxTokens: 2 })))).tokens).toHaveLength(2);
  await collect(engine.generate(request(pinned, pin, { maxTokens: 1 })));
  now += 61_000;
  for (let seed = 12; seed <= 15; seed++) await collect(engine.generate(request(log(90, seed), [], { maxTokens: 1 })));
  expect(engine.plan(request(pinned, [], { maxTokens: 1 })).cached_tokens).toBe(0);
  audit();
});

/** A chat of five messages of twenty tokens. */
function fiveMessages(directives: Directive[]) {
  const tokens = Int32Array.from(log(100));
  const owners = Int32Array.from(tokens, (_, i) => Math.floor(i / 20));
  return requestOf(fold({ tokens, header: 100, chat: { messages: 5, owners, roles: [] }, contextLength: 4096 }, directives), 100, { maxTokens: 1 });
}

test("a pin beyond the tenant's budget is reported, and changes no answer", async () => {
  const { engine } = scriptedEngine({ pages: 16, pageSize: 16 });
  const pin: Directive[] = [{ op: "pin", target: { tokens: [0, 100] }, until: { seconds: 60 } }];
  const { report, logprobs } = await collect(engine.generate(request(log(100), pin)));
  expect(report.directives).toMatchObject([{ index: 0, op: "pin", status: "no_effect", reason: "over_budget" }]);
  expect(engine.state().tree.pinnedCells).toBe(0);
  const fresh = scriptedEngine();
  expect(logprobs).toStrictEqual((await collect(fresh.engine.generate(request(log(100))))).logprobs);
});

test("a pin without an end outlasts others as long as requests say it, within the budget, and ends ten minutes behind the last", async () => {
  let now = 0;
  const { engine, audit } = scriptedEngine({ pages: 16, pageSize: 16 }, {}, () => now);
  const pin: Directive[] = [{ op: "pin", target: { tokens: [0, 48] } }];
  const others = async (first: number) => {
    for (let seed = first; seed < first + 5; seed++) await collect(engine.generate(request(log(90, seed), [], { maxTokens: 1 })));
  };
  await collect(engine.generate(request(log(48, 1), pin, { maxTokens: 1 })));
  for (const first of [2, 8]) {
    now += 590_000;
    await others(first);
    expect(engine.plan(request(log(48, 1), [], { maxTokens: 1 })).computed_tokens).toBe(1);
    await collect(engine.generate(request(log(48, 1), pin, { maxTokens: 1 })));
  }
  expect(engine.state().tree.pinnedCells).toBe(48);
  now += 601_000;
  await others(14);
  expect(engine.plan(request(log(48, 1), [], { maxTokens: 1 })).cached_tokens).toBe(0);
  const greedy = await collect(engine.generate(request(log(100), [{ op: "pin", target: { tokens: [0, 100] } }])));
  expect(greedy.report.directives).toMatchObject([{ status: "no_effect", reason: "over_budget" }]);
  audit();
});

test("a plan foresees what the budget refuses, and of a directive that does not fit whole nothing is pinned", async () => {
  const { engine, audit } = scriptedEngine({ pages: 16, pageSize: 16 });
  const pins: Directive[] = [
    { op: "pin", target: { messages: [0, 2] } },
    { op: "pin", target: { messages: [1, 4] } },
    { op: "pin", target: { messages: [4] } },
  ];
  for (let again = 0; again < 2; again++) {
    const planned = engine.plan(fiveMessages(pins));
    const { report } = await collect(engine.generate(fiveMessages(pins)));
    expect(report.directives.map(({ status, reason }) => reason ?? status)).toEqual(["applied", "over_budget", "applied"]);
    expect(planned.directives).toEqual(report.directives);
    expect(engine.state().tree.pinnedCells).toBe(60);
  }
  audit();
});

test("decay lowers what it will drop, and leaves the answer alone", async () => {
  const { engine } = scriptedEngine({ pages: 100 });
  const tokens = Int32Array.from(log(40));
  const owners = Int32Array.from(tokens, (_, i) => Math.floor(i / 10));
  const chat = { messages: 4, owners, roles: ["user", "assistant", "user", "assistant"] };
  const folded = fold({ tokens, header: 40, chat, contextLength: 4096 }, [{ op: "decay", target: { messages: [0] }, turns: 3, at: { message: 0 } }]);
  expect(folded.retention[0]!.priority).toBeLessThan(35);
  const decayed = await collect(engine.generate(requestOf(folded, 40)));
  const fresh = scriptedEngine();
  expect(decayed.logprobs).toStrictEqual((await collect(fresh.engine.generate(request(log(40))))).logprobs);
});
