import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openWorld, type World } from "./world.ts";

/** What directives cost beside edits of the text, and `"cost": "cheapest"`, which takes what is faster from what is cached now. */
let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

interface Directive {
  status: string;
  reason?: string;
  cost?: { tokens: number; seconds?: number };
  text_edit?: { tokens: number; seconds?: number };
  cheaper?: string;
}
interface Report {
  computed_tokens: number;
  visible_tokens: number;
  cached_tokens: number;
  stages: number;
  forgotten_tokens: number;
  directives: Directive[];
  erased?: object;
}
interface Plan extends Report {
  cost: { computed_tokens: number; forward_steps: number; seconds: number | null; text_edit_tokens: number; text_edit: { seconds: number | null } };
  rates: { prefill_tokens_per_second: number | null; step_seconds: number | null };
}

const PROMPT = Array.from({ length: 120 }, (_, index) => 33 + ((index * 7) % 90));
const drop = (start: number, end: number, at: number) => ({ op: "drop", target: { tokens: [start, end] }, at: { token: at } });
const CHEAPEST = { cost: "cheapest" };

async function answer(directives: object[], more: object = {}): Promise<Report> {
  const { status, json, text } = await world.post("/v1/completions", { prompt: PROMPT, max_tokens: 1, directives, ...more });
  if (status !== 200) throw new Error(text);
  return (json as { cache: Report }).cache;
}
const plan = async (directives: object[], more: object = {}) => (await world.post("/v1/directives/plan", { prompt: PROMPT, max_tokens: 1, directives, ...more })).json as Plan;
const states = ({ directives }: Report) => directives.map(({ status }) => status);

describe("a plan", () => {
  test("has each directive's cost beside that of the edited text, in tokens, and in time once this server has measured its speed", async () => {
    const directives = [drop(10, 40, 100), { op: "splice", target: { tokens: [50, 60] }, with: [65, 66], mode: "refresh", refresh_tokens: 5, at: { token: 100 } }, { op: "reposition", at: { token: 100 } }];
    const before = await plan(directives);
    expect(before).toMatchObject({ rates: { prefill_tokens_per_second: null, step_seconds: null }, cost: { seconds: null, text_edit: { seconds: null } } });
    expect(before.directives[0]).not.toHaveProperty("cost.seconds");
    await answer([]);
    const after = await plan(directives);
    expect(after.directives.map(({ cost, text_edit: edit, cheaper }) => [cost!.tokens, edit!.tokens, cheaper])).toEqual([
      [0, 60, "directive"],
      [2 + 5, 2 + 40, "directive"],
      [0, 0, "directive"],
    ]);
    expect(after.rates.prefill_tokens_per_second).toBeGreaterThan(0);
    // What is new of the log: two inserted, five refreshed, twenty behind the boundary. Edited, all behind token 10 that is seen.
    expect(after.cost).toMatchObject({ computed_tokens: 2 + 5 + 20, forward_steps: 1, text_edit_tokens: 120 - 30 - 10 + 2 - 10 });
    expect(after.cost.seconds).toBeGreaterThan(0);
    expect(after.cost.text_edit.seconds).toBeGreaterThan(after.cost.seconds!);
    expect(after.directives[0]!.text_edit!.seconds).toBeGreaterThan(0);
  });

  test("does not charge again for what an earlier turn has paid", async () => {
    await answer([]);
    await answer([drop(10, 40, 100)]);
    expect((await plan([drop(10, 40, 100)])).cost).toMatchObject({ computed_tokens: 1, text_edit_tokens: 1 });
    const more = await plan([drop(10, 40, 100), drop(50, 60, 110)]);
    expect(more.cost).toMatchObject({ computed_tokens: 10, text_edit_tokens: 120 - 60 });
  });
});

describe('"cost": "cheapest"', () => {
  test("edits the text where nothing is cached, and says so: what is hidden is never computed", async () => {
    const report = await answer([drop(10, 40, 100)], CHEAPEST);
    expect(report).toMatchObject({ computed_tokens: 90, visible_tokens: 90, stages: 1, forgotten_tokens: 30 });
    expect(report.directives).toMatchObject([{ status: "recomputed", reason: "text_edit_is_cheaper", hidden: 30 }]);
    expect(report).not.toHaveProperty("erased");
  });

  test("edits the cache where the log is there", async () => {
    await answer([]);
    for (const more of [CHEAPEST, { cache: CHEAPEST }]) expect(await answer([drop(10, 40, 119)], more)).toMatchObject({ computed_tokens: 1, directives: [{ status: "applied" }] });
  });

  test("is the same as without it where both cost the same", async () => {
    await answer([]);
    // The last token is computed behind the drop, or behind the edit.
    const report = await answer([{ op: "pin", target: { tokens: [0, 8] } }, { op: "reposition", at: { token: 50 } }, drop(118, 119, 119)], CHEAPEST);
    expect({ states: states(report), computed: report.computed_tokens }).toEqual({ states: ["applied", "no_effect", "applied"], computed: 1 });
  });

  test("chooses for each directive by itself, and stays with it from turn to turn", async () => {
    const first = drop(10, 40, 80);
    const turn = { prompt: PROMPT.slice(0, 90), ...CHEAPEST };
    expect(states(await answer([first], turn))).toEqual(["recomputed"]);
    // Now the log without the first drop's text is cached: it goes on as it was, and the second edits that cache.
    const second = drop(50, 70, 95);
    const next = await answer([first, second], CHEAPEST);
    expect(states(next)).toEqual(["recomputed", "applied"]);
    expect(next.computed_tokens).toBe(120 - 90);
    const planned = await plan([first, second], CHEAPEST);
    expect(states(planned)).toEqual(["recomputed", "applied"]);
    expect(planned.computed_tokens).toBe(1);
  });

  test("leaves no text empty, and leaves a forget as it is", async () => {
    expect(states(await answer([drop(0, 120, 120)], CHEAPEST))).toEqual(["applied"]);
    const forget = { op: "splice", target: { tokens: [10, 20] }, with: [], mode: "forget" };
    expect(await answer([forget, drop(30, 60, 100)], { ...CHEAPEST, prompt: PROMPT.toReversed() })).toMatchObject({ directives: [{ status: "applied" }, { status: "recomputed" }], erased: {} });
  });

  test("is the only value", async () => {
    for (const [more, param] of [[{ cost: "fastest" }, "cost"], [{ cache: { cost: "free" } }, "cache.cost"]] as const) {
      expect(await world.post("/v1/completions", { prompt: PROMPT, ...more })).toMatchObject({ status: 400, json: { error: { param } } });
    }
  });
});
