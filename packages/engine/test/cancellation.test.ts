import { expect, test } from "vitest";
import { collect, failureOf, request, scriptedEngine, turn } from "./kit/harness.ts";
import { Random } from "../../directives/test/random-logs.ts";

const log = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * 7 + seed * 13) % 61);

test("a client that leaves in the queue, while its prompt runs or while its answer runs, holds no page one step later", async () => {
  for (const leaveAfterSteps of [0, 1, 2, 3, 5, 8]) {
    const { engine, runtime, audit } = scriptedEngine({ pages: 40, layers: 3 }, { rowsPerStepMax: 16 });
    const controller = new AbortController();
    const gone = failureOf(engine.generate(request(log(60), [], { maxTokens: 50, signal: controller.signal })));
    while (runtime.steps < leaveAfterSteps) await turn();
    controller.abort();
    expect(await gone).toMatchObject({ kind: "cancelled", code: "request_cancelled" });
    const stepsThen = runtime.steps;
    expect(engine.state()).toMatchObject({ running: 0, waiting: 0, promisedPages: 0, pages: { leased: 0, held: 0 } });
    for (let i = 0; i < 20; i++) await turn();
    expect(runtime.steps, "nothing runs on for a client that is gone").toBe(stepsThen);
    audit();
  }
});

test("a request that was aborted before it came is refused without a step", async () => {
  const { engine, runtime } = scriptedEngine();
  const controller = new AbortController();
  controller.abort(new Error("gone"));
  const error = await failureOf(engine.generate(request(log(10), [], { signal: controller.signal })));
  expect(error).toMatchObject({ code: "request_cancelled", cause: new Error("gone") });
  expect(runtime.steps).toBe(0);
  expect(engine.state()).toMatchObject({ waiting: 0, running: 0 });
});

test("leaving the iteration ends the request", async () => {
  const { engine, audit } = scriptedEngine();
  let seen = 0;
  for await (const event of engine.generate(request(log(30), [], { maxTokens: 500 }))) {
    if (event.type === "token" && ++seen === 3) break;
  }
  for (let i = 0; i < 10; i++) await turn();
  expect(engine.state()).toMatchObject({ running: 0, pages: { leased: 0 } });
  audit();
});

test("an abandoned prompt is matched as far as it was computed", async () => {
  const { engine, runtime } = scriptedEngine({ pages: 64 }, { rowsPerStepMax: 16 });
  const controller = new AbortController();
  const gone = failureOf(engine.generate(request(log(100), [], { signal: controller.signal })));
  while (runtime.steps < 3) await turn();
  controller.abort();
  expect(await gone).toMatchObject({ code: "request_cancelled" });
  const done = 16 * runtime.steps;
  const again = await collect(engine.generate(request(log(100))));
  expect(again.report.cached_tokens).toBe(done);
  expect(again.report.computed_tokens).toBe(100 - done);
});

test("a step is cancelled between layers only when nobody in it is left", async () => {
  const { engine, runtime, audit } = scriptedEngine({ layers: 400 });
  const [first, second] = [new AbortController(), new AbortController()];
  const one = failureOf(engine.generate(request(log(20, 1), [], { signal: first.signal })));
  const other = collect(engine.generate(request(log(20, 2), [], { signal: second.signal, maxTokens: 2 })));
  for (let i = 0; i < 20; i++) await turn();
  expect(runtime.steps).toBe(0);
  first.abort();
  // The step goes on for the second, so its cells are whole; the first leaves when it ends.
  expect(await one).toMatchObject({ code: "request_cancelled" });
  expect(runtime.steps).toBe(1);
  expect((await other).tokens).toHaveLength(2);
  const alone = new AbortController();
  const third = failureOf(engine.generate(request(log(20, 3), [], { signal: alone.signal })));
  for (let i = 0; i < 20; i++) await turn();
  const before = runtime.steps;
  alone.abort();
  expect(await third).toMatchObject({ code: "request_cancelled" });
  expect(runtime.steps, "the only sequence of the step has gone, so the step has too").toBe(before);
  expect(engine.state().pages.leased).toBe(0);
  audit();
});

test("a reader who stops gets the end at once, and tokens that he has not seen never were", async () => {
  const { engine, audit } = scriptedEngine();
  const generation = engine.generate(request(log(30), [], { maxTokens: 200 }));
  const ids: number[] = [];
  for await (const event of generation) {
    if (event.type === "token") {
      ids.push(event.id);
      if (ids.length === 2) {
        for (let i = 0; i < 10; i++) await turn();
        generation.stop();
      }
    } else if (event.type === "end") {
      expect(event.reason).toBe("stop");
    }
  }
  expect(ids).toHaveLength(2);
  expect(engine.state().running).toBe(0);
  audit();
});

test("a reader who takes his time holds no pages once the answer is computed", async () => {
  const { engine } = scriptedEngine();
  const iterator = engine.generate(request(log(30), [], { maxTokens: 5 }))[Symbol.asyncIterator]();
  await iterator.next();
  for (let i = 0; i < 50; i++) await turn();
  expect(engine.state()).toMatchObject({ running: 0, pages: { leased: 0 } });
  let left = 0;
  while ((await iterator.next()).done !== true) left++;
  expect(left).toBe(5);
});

test("clients that vanish at random leave nothing behind, and the others' answers are untouched", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed);
    const { engine, audit } = scriptedEngine({ pages: 30, pageSize: 5, layers: 2 }, { rowsPerStepMax: random.int(1, 40), runningMax: 4 });
    const controllers = Array.from({ length: 6 }, () => new AbortController());
    const running = controllers.map(({ signal }, index) => {
      const maxTokens = random.int(1, 20);
      const generation = engine.generate(request(log(random.int(1, 60), index % 3), [], { maxTokens, signal }));
      return collect(generation).then(
        (answer) => expect(answer.tokens).toHaveLength(maxTokens),
        (error: unknown) => expect(error).toMatchObject({ code: "request_cancelled" }),
      );
    });
    for (const controller of controllers) {
      for (let i = random.int(0, 12); i > 0; i--) await turn();
      if (random.chance(0.6)) controller.abort();
    }
    await Promise.all(running);
    expect(engine.state(), `seed ${seed}`).toMatchObject({ running: 0, waiting: 0, promisedPages: 0, pages: { leased: 0 } });
    audit();
  }
});

test("disposing ends everything that runs or waits, and the engine takes nothing more", async () => {
  const { engine } = scriptedEngine({ layers: 50 }, { runningMax: 1 });
  const ends = [1, 2].map((seed) => failureOf(engine.generate(request(log(40, seed)))));
  for (let i = 0; i < 5; i++) await turn();
  await engine.dispose();
  for (const error of await Promise.all(ends)) expect(error).toMatchObject({ kind: "cancelled", code: "engine_disposed" });
  expect(() => engine.generate(request(log(5)))).toThrow(expect.objectContaining({ code: "engine_disposed" }));
  await engine.dispose();
});
