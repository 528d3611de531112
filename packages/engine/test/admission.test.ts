import type { Directive } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { Random } from "../../directives/test/random-logs.ts";
import { collect, failureOf, request, scriptedEngine, turn, type Answered } from "./kit/harness.ts";

const log = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * 7 + seed * 13 + (i % 5) * seed) % 61);

test("a request that can never fit is refused at once, and changes nothing", () => {
  const { engine, audit } = scriptedEngine({ pages: 4, pageSize: 16 });
  expect(() => engine.generate(request(log(60), [], { maxTokens: 6 }))).toThrow(expect.objectContaining({ kind: "capacity", code: "pages_exceeded" }));
  expect(() => engine.plan(request(log(60), [], { maxTokens: 6 }))).toThrow(expect.objectContaining({ kind: "capacity", code: "pages_exceeded" }));
  // 60 cells of the prompt, 4 of the answer: the fifth token never becomes a cell.
  expect(() => engine.generate(request(log(60), [], { maxTokens: 5 }))).not.toThrow();
  audit();
});

test("a request of which only one fits beside another waits, holding nothing, and nobody is preempted", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 8, pageSize: 16 }, { rowsPerStepMax: 16 });
  const first = collect(engine.generate(request(log(80, 1), [], { maxTokens: 20 })));
  const second = collect(engine.generate(request(log(80, 2), [], { maxTokens: 20 })));
  await turn();
  await turn();
  expect(engine.state()).toMatchObject({ running: 1, waiting: 1 });
  await Promise.all([first, second]);
  // Each prompt was computed once: 80 rows and 19 of the answer.
  expect(runtime.rows).toBe(2 * 99);
  audit();
});

test("admission counts what is reusable: a warm request fits where a cold one would not", async () => {
  const { engine, audit } = scriptedEngine({ pages: 9, pageSize: 16 });
  const prompt = log(96, 1);
  await collect(engine.generate(request(prompt, [], { maxTokens: 1 })));
  const together = [1, 2, 3].map((seed) => collect(engine.generate(request(prompt, [], { maxTokens: 10, sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, seed: BigInt(seed) } }))));
  await turn();
  await turn();
  expect(engine.state()).toMatchObject({ running: 3, waiting: 0 });
  for (const { report } of await Promise.all(together)) expect(report.computed_tokens).toBe(1);
  audit();
});

test("cells of others that lie beside a match in its pages never keep a request out for ever", async () => {
  // Many short turns leave their cells scattered over pages that they share with nothing: a match pins more pages than its cells fill.
  const { engine, audit } = scriptedEngine({ pages: 12, pageSize: 16 });
  const tokens: number[] = [];
  for (let part = 0; part < 11; part++) {
    tokens.push(...log(3, part));
    await collect(engine.generate(request(tokens, [], { maxTokens: 1 })));
  }
  const answer = await collect(engine.generate(request([...tokens, ...log(100, 50)], [], { maxTokens: 4 })));
  const fresh = scriptedEngine({ pages: 12, pageSize: 16 });
  expect(answer.logprobs).toStrictEqual((await collect(fresh.engine.generate(request([...tokens, ...log(100, 50)], [], { maxTokens: 4 })))).logprobs);
  audit();
});

test("small requests pass one that waits for pages, but only so many times", async () => {
  const { engine, audit } = scriptedEngine({ pages: 20, pageSize: 16 }, { bypassesMax: 3, runningMax: 8 });
  const order: string[] = [];
  const start = (name: string, length: number, maxTokens: number, seed: number) =>
    collect(engine.generate(request(log(length, seed), [], { maxTokens }))).then((answer) => {
      order.push(name);
      return answer;
    });
  const holder = start("holder", 100, 60, 1);
  await turn();
  await turn();
  const big = start("big", 250, 10, 2);
  const small = Array.from({ length: 10 }, (_, i) => start(`small ${i}`, 20, 2, 10 + i));
  await Promise.all([holder, big, ...small]);
  // Three went in front; the others came only when the holder had gone and the big one had its pages.
  expect(order.slice(0, order.indexOf("holder"))).toStrictEqual(["small 0", "small 1", "small 2"]);
  audit();
});

test("a stream of small requests never starves a large one", async () => {
  const { engine, audit } = scriptedEngine({ pages: 10, pageSize: 16 }, { bypassesMax: 4 });
  const traffic = { on: true };
  let admittedAfter = 0;
  const feed = async (seed: number): Promise<void> => {
    while (traffic.on) {
      await collect(engine.generate(request(log(40, seed), [], { maxTokens: 3 })));
      admittedAfter++;
    }
  };
  const feeders = [1, 2, 3].map(feed);
  for (let i = 0; i < 10; i++) await turn();
  admittedAfter = 0;
  await collect(engine.generate(request(log(140, 9), [], { maxTokens: 5 })));
  traffic.on = false;
  expect(admittedAfter).toBeLessThan(12);
  await Promise.all(feeders);
  audit();
});

test("a tenant with many requests waits behind himself, another with one is next", async () => {
  const { engine, audit } = scriptedEngine({ pages: 64 }, { runningMax: 1 });
  const order: string[] = [];
  const start = (namespace: string, seed: number) => collect(engine.generate(request(log(10, seed), [], { namespace, maxTokens: 2 }))).then(() => order.push(namespace));
  const all = [1, 2, 3, 4, 5].map((seed) => start("busy", seed));
  all.push(start("quiet", 9));
  await Promise.all(all);
  expect(order.indexOf("quiet")).toBeLessThan(2);
  audit();
});

test("waiting requests have a limit, and one more is refused with capacity", async () => {
  const { engine, audit } = scriptedEngine({ layers: 20 }, { waitingMax: 2, runningMax: 1 });
  const running = collect(engine.generate(request(log(20, 1))));
  await turn();
  await turn();
  const waiting = [2, 3].map((seed) => collect(engine.generate(request(log(20, seed)))));
  expect(() => engine.generate(request(log(20, 4)))).toThrow(expect.objectContaining({ kind: "capacity", code: "queue_full" }));
  await Promise.all([running, ...waiting]);
  audit();
});

test("state tells how long the oldest waits and when the last step ended", async () => {
  let now = 1000;
  const { engine } = scriptedEngine({}, { runningMax: 1 }, () => now);
  expect(engine.state()).toMatchObject({ lastStepMs: null, oldestWaitingMs: null });
  const both = [1, 2].map((seed) => collect(engine.generate(request(log(20, seed), [], { maxTokens: 3 }))));
  now += 50;
  expect(engine.state()).toMatchObject({ waiting: 2, oldestWaitingMs: 50 });
  await Promise.all(both);
  now += 7;
  expect(engine.state()).toMatchObject({ waiting: 0, running: 0, lastStepMs: 7, steps: 6, pages: { total: 64, leased: 0 } });
});

test("no step is larger than the limits, and everybody who runs gets on", async () => {
  const sizes: { rows: number; outputs: number }[] = [];
  const { engine, audit } = scriptedEngine(
    { pages: 200, onStep: (step) => sizes.push({ rows: step.token.length, outputs: step.outRow.length }) },
    { rowsPerStepMax: 12, rowsBesideDecodeMax: 6, outputsPerStepMax: 5 },
  );
  const answers = await Promise.all(Array.from({ length: 9 }, (_, i) => collect(engine.generate(request(log(30 + i, i), [], { maxTokens: 8, echo: i % 3 === 0 })))));
  expect(answers.every(({ tokens }) => tokens.length === 8)).toBe(true);
  expect(Math.max(...sizes.map(({ rows }) => rows))).toBe(12);
  expect(Math.max(...sizes.map(({ outputs }) => outputs))).toBe(5);
  audit();
});

test("beside a long prompt others decode on, and a short prompt does not wait for a long one", async () => {
  const { engine, runtime } = scriptedEngine({ pages: 200 }, { rowsPerStepMax: 64, rowsBesideDecodeMax: 16 });
  const seen: string[] = [];
  const start = (name: string, length: number, maxTokens: number, seed: number) =>
    collect(engine.generate(request(log(length, seed), [], { maxTokens }))).then((answer: Answered) => {
      seen.push(name);
      return answer;
    });
  const decoder = start("decoder", 8, 30, 1);
  while (runtime.steps < 2) await turn();
  const long = start("long", 2000, 1, 2);
  const short = start("short", 30, 1, 3);
  await Promise.all([decoder, long, short]);
  expect(seen.indexOf("short")).toBeLessThan(seen.indexOf("long"));
  expect(seen.indexOf("decoder")).toBeLessThan(seen.indexOf("long"));
});

test("the same seed gives the same answer, whatever is in the batch; another seed another", async () => {
  const sampled = (seed: bigint) => request(log(25, 1), [], { maxTokens: 12, sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, seed } });
  const { engine, audit } = scriptedEngine();
  const alone = await collect(engine.generate(sampled(7n)));
  const [again, , other] = await Promise.all([sampled(7n), request(log(9, 2)), sampled(8n)].map((one) => collect(engine.generate(one))));
  expect(again!.tokens).toStrictEqual(alone.tokens);
  expect(other!.tokens).not.toStrictEqual(alone.tokens);
  audit();
});

test("random traffic through a pool that is always too small leaves no page behind", async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const random = new Random(seed);
    const { engine, audit } = scriptedEngine({ pages: 14, pageSize: random.pick([1, 5, 16]) === 1 ? 5 : 16 }, { rowsPerStepMax: random.int(1, 64), bypassesMax: random.int(1, 5), runningMax: random.int(1, 6) });
    const room = 14 * engine.state().pageSize;
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let i = random.int(0, 10); i > 0; i--) await turn();
        const maxTokens = random.int(0, 8);
        const answer = await collect(engine.generate(request(log(random.int(1, room - 10), random.int(1, 4)), [], { maxTokens })));
        expect(answer.tokens.length, `seed ${seed}`).toBe(maxTokens);
      }),
    );
    expect(engine.state(), `seed ${seed}`).toMatchObject({ running: 0, waiting: 0, promisedPages: 0, pages: { leased: 0 } });
    audit();
    await engine.dispose();
  }
});

test("an evicted branch is matched no more, and what a running request holds is never evicted", async () => {
  const { engine, audit } = scriptedEngine({ pages: 20, pageSize: 16, layers: 2 });
  await collect(engine.generate(request(log(100, 1), [], { maxTokens: 1 })));
  const running = collect(engine.generate(request(log(100, 1), [], { maxTokens: 60 })));
  for (let i = 0; i < 6; i++) await turn();
  expect(engine.evictUntilFree(20)).toBe(false);
  expect(engine.state().pages.leased).toBeGreaterThan(6);
  await running;
  expect(engine.evictUntilFree(20)).toBe(true);
  expect((await collect(engine.generate(request(log(100, 1), [], { maxTokens: 1 })))).report).toMatchObject({ cached_tokens: 0, computed_tokens: 100 });
  audit();
});

test("a limit that does not exist, or is no count, is refused", async () => {
  expect(() => scriptedEngine({}, { runningMax: 0 })).toThrow(expect.objectContaining({ code: "limit_invalid", param: "limits.runningMax" }));
  expect(() => scriptedEngine({}, { rows: 3 } as never)).toThrow(expect.objectContaining({ code: "limit_invalid", param: "limits.rows" }));
  const { engine } = scriptedEngine();
  expect(() => engine.generate(request([]))).toThrow(expect.objectContaining({ code: "request_invalid" }));
  expect(() => engine.generate(request([1], [], { maxTokens: 1.5 }))).toThrow(expect.objectContaining({ param: "maxTokens" }));
  expect(() => engine.generate(request([99]))).toThrow(expect.objectContaining({ param: "fold.tokens" }));
  const small = scriptedEngine({ contextLength: 10 });
  expect(() => small.engine.generate(request(log(10), [], { maxTokens: 1 }))).toThrow(expect.objectContaining({ code: "context_length_exceeded" }));
  expect(await failureOf(engine.generate(request(log(3), [], { signal: AbortSignal.abort() })))).toMatchObject({ code: "request_cancelled" });
  expect((await collect(small.engine.generate(request(log(7), [], { maxTokens: 100 })))).tokens).toHaveLength(3);
});

test("a full tree costs sharing, never an answer", async () => {
  const { engine, audit } = scriptedEngine({ pages: 60 }, { treeNodesMax: 8 });
  for (let seed = 1; seed <= 12; seed++) {
    const answer = await collect(engine.generate(request(log(30, seed), [], { maxTokens: 3 })));
    const other = scriptedEngine();
    expect(answer.logprobs).toStrictEqual((await collect(other.engine.generate(request(log(30, seed), [], { maxTokens: 3 })))).logprobs);
    await other.engine.dispose();
  }
  expect(engine.state().tree.nodes).toBeLessThanOrEqual(8);
  expect(engine.state().pages.leased).toBe(0);
  audit();
});

test("of requests that come together with one prompt, one computes it and the others wait for its cells", async () => {
  const { engine, runtime, audit } = scriptedEngine({ pages: 64 }, { rowsPerStepMax: 32 });
  const prompt = log(200, 1);
  const answers = await Promise.all([1, 2, 3, 4].map((tail) => collect(engine.generate(request([...prompt, tail], [], { maxTokens: 3 })))));
  // The prompt once, four ends, two more rows for each answer.
  expect(runtime.rows).toBe(200 + 4 + 8);
  expect(answers.map(({ report }) => report.computed_tokens)).toStrictEqual([201, 1, 1, 1]);
  audit();
});

test("whoever waits for another's cells is admitted when that one leaves", async () => {
  const { engine, audit } = scriptedEngine({ pages: 64 }, { rowsPerStepMax: 16 });
  const controller = new AbortController();
  const first = failureOf(engine.generate(request(log(300, 1), [], { signal: controller.signal })));
  const second = collect(engine.generate(request(log(300, 1), [], { maxTokens: 2 })));
  for (let i = 0; i < 8; i++) await turn();
  expect(engine.state()).toMatchObject({ running: 1, waiting: 1 });
  controller.abort();
  expect(await first).toMatchObject({ code: "request_cancelled" });
  const { report } = await second;
  expect(report.cached_tokens).toBeGreaterThanOrEqual(16);
  expect(report.cached_tokens + report.computed_tokens).toBe(300);
  audit();
});

test("two who compute the same cells at a time keep one copy, and give the other back", async () => {
  const { engine, audit } = scriptedEngine({ pages: 64, pageSize: 4 }, { shareCellsMin: 1 << 20, rowsPerStepMax: 40 });
  const prompt = log(60, 1);
  const [one, other] = await Promise.all([collect(engine.generate(request(prompt))), collect(engine.generate(request(prompt)))]);
  expect(other.logprobs).toStrictEqual(one.logprobs);
  // 63 cells in pages of 4: chunks that end in the middle of a page cost one page each at most.
  expect(engine.state().pages.cached).toBeLessThanOrEqual(20);
  audit();
});

test("a log that is longer than the pool runs as long as what it sees fits", async () => {
  const { engine, audit } = scriptedEngine({ pages: 12, pageSize: 16 });
  const tokens: number[] = [];
  const directives: Directive[] = [];
  for (let part = 0; part < 20; part++) {
    tokens.push(...log(30, part));
    // What was said three parts ago is dropped.
    if (part >= 3) directives.push({ op: "drop", target: { tokens: [30 * (part - 3), 30 * (part - 2)] }, at: { token: tokens.length } }, { op: "reposition", at: { token: tokens.length } });
    const { report } = await collect(engine.generate(request(tokens, directives, { maxTokens: 3 })));
    expect(report, `part ${part}`).toMatchObject({ computed_tokens: 30, recovered_tokens: 0 });
  }
  expect(tokens.length).toBeGreaterThan(3 * 12 * 16);
  // Cold, the prompt is computed all the same: what it hides on the way makes room for what comes.
  engine.evictUntilFree(12);
  const waiting = collect(engine.generate(request(log(20, 77), [], { maxTokens: 2 })));
  const cold = await collect(engine.generate(request(tokens, directives, { maxTokens: 3 })));
  expect(cold.report).toMatchObject({ computed_tokens: tokens.length, miss: { reason: "new" } });
  const large = scriptedEngine({ pages: 100, pageSize: 16 });
  expect(cold.logprobs).toStrictEqual((await collect(large.engine.generate(request(tokens, directives, { maxTokens: 3 })))).logprobs);
  expect((await waiting).tokens).toHaveLength(2);
  // Without the edits it does not fit in any way.
  expect(() => engine.generate(request(tokens, [], { maxTokens: 3 }))).toThrow(expect.objectContaining({ code: "pages_exceeded" }));
  audit();
});

test("a prompt that never makes enough room fails with capacity, and gives its pages back", async () => {
  const { engine, audit } = scriptedEngine({ pages: 6, pageSize: 16 });
  // In the end 60 cells are seen, but 120 on the way.
  const directives: Directive[] = [{ op: "drop", target: { tokens: [0, 60] }, at: { token: 120 } }];
  const error = await failureOf(engine.generate(request(log(120, 3), directives, { maxTokens: 2 })));
  expect(error).toMatchObject({ kind: "capacity", code: "pages_exceeded" });
  expect(engine.state()).toMatchObject({ running: 0, promisedPages: 0, pages: { leased: 0 } });
  expect((await collect(engine.generate(request(log(50), [], { maxTokens: 2 })))).tokens).toHaveLength(2);
  audit();
});
