import { fold } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { naiveFold } from "../../directives/test/naive-fold.ts";
import { Random, randomDirectives, tokenLog } from "../../directives/test/random-logs.ts";
import { planWork } from "../src/planner.ts";
import { RangeSet } from "../src/ranges.ts";
import { missOf, Reads, reportOf, tokenOf } from "../src/report.ts";
import { collect, request, requestOf, scriptedEngine } from "./kit/harness.ts";

test("every cell is counted once: computed, else read with a shift, else read in place, else skipped", () => {
  for (let seed = 1; seed <= 400; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(1, 40));
    const directives = randomDirectives(random, log, { reposition: 0.3, splice: 0.2, refresh: 0.1, scratch: 0.1 }, 6);
    const folded = fold(log, directives);
    const { mask, stagePositions, stageOf, birthPositions, visible, tokens, kinds } = naiveFold(log, directives);
    const known = random.int(0, tokens.length);
    const resident = new RangeSet();
    for (let cell = 0; cell < known; cell++) if (random.chance(0.8)) resident.add(cell, cell + 1);
    const [echo, open] = [random.chance(0.2), random.chance(0.6)];
    const work = planWork(folded, resident, { echo, ask: true, open, known });
    const reads = new Reads(folded);
    for (const part of work) reads.ran(part, known);
    if (open) reads.ranOpen();

    const computed = new Set(work.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i)));
    const [moved, still] = [new Set<number>(), new Set<number>()];
    const see = (cell: number, position: number) => (position === birthPositions[cell] ? still : moved).add(cell);
    for (const row of computed) mask[row]!.forEach((seen, cell) => seen && see(cell, stagePositions[stageOf[row]!]![cell]!));
    if (open) for (const { cell, position } of visible) see(cell, position);
    const cells = tokens.map((_, cell) => cell);
    const fresh = cells.filter((cell) => computed.has(cell) && !resident.has(cell) && cell >= known);
    expect(reads.counts(), `seed ${seed}`).toStrictEqual({
      computed_tokens: computed.size,
      repositioned_tokens: cells.filter((cell) => moved.has(cell) && !computed.has(cell)).length,
      cached_tokens: cells.filter((cell) => still.has(cell) && !moved.has(cell) && !computed.has(cell)).length,
      skipped_tokens: cells.filter((cell) => !still.has(cell) && !moved.has(cell) && !computed.has(cell)).length,
      recovered_tokens: cells.filter((cell) => computed.has(cell) && !resident.has(cell) && cell < known).length,
      inserted_tokens: fresh.filter((cell) => kinds[cell] === "inserted").length,
      recomputed_tokens: fresh.filter((cell) => kinds[cell] === "recomputed").length,
    });
  }
});

test("a miss names the request's own token, whatever was inserted or forgotten before it", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const log = tokenLog(random.int(2, 40));
    const directives = randomDirectives(random, log, { reposition: 0.2, splice: 0.3, forget: 0.3 }, 6);
    let folded;
    try {
      folded = fold(log, directives);
    } catch {
      continue; // A forget that leaves no token.
    }
    const { kinds, raw } = naiveFold(log, directives);
    let token = 0;
    const expected = kinds.map((kind, cell) => {
      const here = raw.slice(token).find((of) => of >= 0);
      if (kind === "log") token++;
      return here ?? tokenOf(folded, cell);
    });
    expect(kinds.map((_, cell) => tokenOf(folded, cell)), `seed ${seed}`).toStrictEqual(expected);
  }
});

test("the reason of a miss is what differed", async () => {
  const { engine, audit } = scriptedEngine({ pages: 40 });
  const log = Array.from({ length: 40 }, (_, i) => (i * 3) % 61);
  const ask = async (tokens: number[], directives: Parameters<typeof request>[1] = []) => (await collect(engine.generate(request(tokens, directives, { maxTokens: 1 })))).report.miss;
  expect(await ask(log)).toMatchObject({ at_token: 0, reason: "new" });
  expect(await ask(log)).toBeNull();
  expect(await ask([...log, 5, 6])).toMatchObject({ at_token: 40, reason: "new" });
  expect(await ask([...log.slice(0, 20), 59, 1])).toMatchObject({ at_token: 20, reason: "token_differs", detail: expect.stringContaining("id 59") });
  const drop = { op: "drop", target: { tokens: [3, 9] as [number, number] }, at: { token: 30 } };
  expect(await ask(log, [drop])).toMatchObject({ at_token: 30, reason: "event_differs", detail: expect.stringContaining("no edit") });
  audit();
});

test("a plan is the report of the request that follows, and computes nothing", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed);
    const { engine, runtime, audit } = scriptedEngine({ pages: 60, pageSize: 5, vocabularySize: 1000 }, { rowsPerStepMax: random.int(1, 60) });
    const base = tokenLog(random.int(1, 60)).tokens;
    for (let turn = 0; turn < 4; turn++) {
      const log = base.slice(0, random.int(1, base.length));
      const directives = randomDirectives(random, { tokens: log, header: log.length, contextLength: 4096 }, { reposition: 0.3, splice: 0.2 }, 4);
      const asked = request(log, directives, { maxTokens: random.int(0, 3), echo: random.chance(0.2) });
      const steps = runtime.steps;
      const plan = engine.plan(asked);
      expect(runtime.steps).toBe(steps);
      expect((await collect(engine.generate(asked))).report, `seed ${seed}`).toStrictEqual(plan);
      if (random.chance(0.3)) engine.evictUntilFree(random.int(1, 60));
    }
    audit();
    await engine.dispose();
  }
});

test("the report has WIRE's fields, and moves no byte", () => {
  const { fold: folded } = request([1, 2, 3]);
  const report = reportOf({ fold: folded, request: requestOf(folded, 3), reads: new Reads(folded) }, 0, missOf(folded, { known: 3, end: "whole", difference: null }, []), new Set());
  expect(Object.keys(report).toSorted()).toStrictEqual(
    [
      "prompt_tokens", "visible_tokens", "next_position", "stages", "cached_tokens", "repositioned_tokens", "computed_tokens", "skipped_tokens", "forgotten_tokens",
      "inserted_tokens", "recomputed_tokens", "recovered_tokens", "forward_steps", "bytes_moved", "directives", "miss",
    ].toSorted(),
  );
  expect(report.bytes_moved).toBe(0);
});
