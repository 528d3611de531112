import { expect, test } from "vitest";
import { type Directive, fold, planDirectives, writeTextEdits } from "../src/index.ts";
import { tokenLog } from "./random-logs.ts";

const at = { token: 100 };
const DIRECTIVES: Directive[] = [
  { op: "drop", target: { tokens: [10, 30] }, at },
  { op: "reposition", at },
  { op: "splice", target: { tokens: [40, 50] }, with: [900, 901], mode: "refresh", refresh_tokens: 8, at },
  { op: "splice", target: { tokens: [60, 70] }, with: [900], mode: "forget", at },
  { op: "drop", target: { tokens: [10, 20] }, at: { token: 110 } },
  { op: "pin", target: { tokens: [0, 5] } },
];

test("each directive is costed beside the edit of the text that it saves", () => {
  const folded = fold(tokenLog(120), DIRECTIVES);
  const { directives } = planDirectives(folded, { computed: 30, steps: 1 });
  expect(directives.map(({ cost, text_edit, cheaper }) => [cost.tokens, text_edit.tokens, cheaper])).toEqual([
    // What stands behind token 30 when the drops act: the forgotten ten are gone, the replacement of the forget is there.
    [0, 61, "directive"],
    [0, 0, "directive"],
    [10, 43, "directive"],
    [31, 31, "directive"],
    [0, 0, "directive"],
    [0, 0, "directive"],
  ]);
  expect(directives[2]).toMatchObject({ op: "splice", status: "applied", inserted: 2, recomputed: 8 });
});

test("rates turn tokens into seconds, and many later rows that must read a run of its own outweigh a short prefill", () => {
  const folded = fold(tokenLog(50), [{ op: "drop", target: { tokens: [40, 45] } }, { op: "reposition" }]);
  const rates = { prefillTokensPerSecond: 1_000, stepSeconds: 0.001, runSecondsPerRow: 0.00001 };
  expect(planDirectives(folded, { computed: 1, steps: 1, rates, rowsAhead: 10 }).slower).toEqual([]);
  const plan = planDirectives(folded, { computed: 1, steps: 1, rates, rowsAhead: 10_000 });
  expect(plan.slower).toEqual([0]);
  expect(plan.directives[0]!.cost.seconds).toBeCloseTo(0.1);
  expect(plan.directives[0]!.text_edit.seconds).toBeCloseTo(0.006);
  expect(plan.cost.seconds).toBeCloseTo(0.002);
});

test("a text edit pays for what stands behind the first edit that is new; what an earlier turn paid for is not paid again", () => {
  const folded = fold(tokenLog(120), [{ op: "splice", target: { tokens: [10, 30] }, with: [900], at }, { op: "drop", target: { tokens: [60, 70] }, at: { token: 110 } }]);
  const input = { computed: 20, steps: 1 };
  expect(planDirectives(folded, { ...input, known: 0 }).text_edit.tokens).toBe(folded.visible);
  expect(planDirectives(folded, { ...input, known: 105 }).text_edit.tokens).toBe(1 + 30 + 20);
  expect(planDirectives(folded, { ...input, known: 121 }).text_edit.tokens).toBe(20);
});

test("a directive that an edit of the text does faster is carried out by it, and says so", () => {
  const directives: Directive[] = [{ op: "splice", target: { tokens: [40, 45] }, with: [900], at: { token: 48 } }, { op: "drop", target: { tokens: [10, 12] }, at: { token: 20 } }];
  const folded = fold(tokenLog(50), directives, { prefill: new Set([0]) });
  const { events, outcomes, erase, forgotten } = folded;
  expect(outcomes[0]).toMatchObject({ status: "recomputed", reason: "text_edit_is_cheaper", hidden: 5, inserted: 1, delta: -4 });
  expect(outcomes[1]).toMatchObject({ status: "applied" });
  expect(events.map((event) => event.at)).toEqual([20]);
  expect(erase).toEqual([]);
  expect(forgotten).toBe(5);
  expect(writeTextEdits(folded).value.tokens).toEqual(writeTextEdits(fold(tokenLog(50), directives)).value.tokens);
});

test("drops that are carried out by editing the text leave it as a forget would, without erasing", () => {
  const directives: Directive[] = [{ op: "drop", target: { tokens: [2, 6] } }, { op: "drop", target: { tokens: [4, 8] } }, { op: "reposition" }];
  const folded = fold(tokenLog(12), directives, { prefill: new Set([0, 1]) });
  expect([...folded.tokens]).toEqual([100, 101, 108, 109, 110, 111]);
  expect(folded.outcomes.map(({ status, hidden }) => [status, hidden])).toEqual([
    ["recomputed", 4],
    ["recomputed", 2],
    ["no_effect", undefined],
  ]);
});
