import { expect, test } from "vitest";
import { fold } from "../src/index.ts";
import type { Directive, Log } from "../src/types.ts";
import { chatLog, tokenLog } from "./random-logs.ts";

test("the example of the report: a drop and a reposition at the end of a log", () => {
  const log = tokenLog(704);
  const { outcomes, nextPosition, visible, stages } = fold(log, [{ op: "drop", target: { tokens: [30, 630] } }, { op: "reposition" }]);
  expect(outcomes).toEqual([
    { index: 0, op: "drop", at_token: 704, ranges: [[30, 630]], status: "applied", hidden: 600, inserted: 0, shifted: 0, delta: 0 },
    { index: 1, op: "reposition", at_token: 704, status: "applied", shifted: 74, delta: -600 },
  ]);
  expect({ nextPosition, visible, stages }).toEqual({ nextPosition: 104, visible: 104, stages: 2 });
});

test("a directive without effect makes no event and no stage", () => {
  const folded = fold(tokenLog(10), [
    { op: "drop", target: { tokens: [2, 4] }, at: { token: 5 } },
    { op: "drop", target: { tokens: [2, 4] }, at: { token: 8 } },
    { op: "reposition", at: { token: 3 } },
  ]);
  expect(folded.events).toHaveLength(1);
  expect(folded.births.map(({ cell, length }) => [cell, length])).toEqual([
    [0, 5],
    [5, 5],
  ]);
  expect(folded.outcomes.map(({ status, reason }) => [status, reason])).toEqual([
    ["applied", undefined],
    ["no_effect", "already_hidden"],
    ["no_effect", "nothing_moves"],
  ]);
});

test("a reposition that moves only the counter is an event, and compat leaves AKV's gap", () => {
  const directives: Directive[] = [{ op: "drop", target: { tokens: [6, 10] } }, { op: "reposition" }];
  const ours = fold(tokenLog(10), directives);
  expect(ours.nextPosition).toBe(6);
  expect(ours.events[0]).toMatchObject({ at: 10, hidden: [[6, 10]], shifted: [], counter: -4 });
  const theirs = fold(tokenLog(10), directives, { compat: "akv" });
  expect(theirs.nextPosition).toBe(10);
  expect(theirs.events[0]!.key).not.toBe(ours.events[0]!.key);
});

test("everything may be dropped: the counter becomes 0", () => {
  const folded = fold(tokenLog(4), [{ op: "drop", target: { tokens: [0, 4] } }, { op: "reposition" }]);
  expect({ next: folded.nextPosition, visible: folded.visible }).toEqual({ next: 0, visible: 0 });
});

test("boundaries of a chat lie between messages, and an absent one before the generation header", () => {
  const log = chatLog([3, 0, 4], 2);
  const at = (directive: Directive) => fold(log, [directive]).outcomes[0]!.at_token;
  expect(at({ op: "reposition" })).toBe(7);
  expect(at({ op: "reposition", at: { message: 0 } })).toBe(3);
  expect(at({ op: "reposition", at: { message: 1 } })).toBe(3);
  expect(at({ op: "reposition", at: { message: 2 } })).toBe(7);
  expect(at({ op: "reposition", at: { token: 9 } })).toBe(9);
});

test.each<[string, Log, Directive, string, string]>([
  ["a boundary inside the header", chatLog([3, 4], 2), { op: "reposition", at: { token: 8 } }, "boundary_invalid", "at.token"],
  ["a boundary behind the log", tokenLog(5), { op: "reposition", at: { token: 6 } }, "boundary_invalid", "at.token"],
  ["a message behind the last", chatLog([3, 4]), { op: "reposition", at: { message: 2 } }, "boundary_invalid", "at.message"],
  ["a message in completions", tokenLog(5), { op: "reposition", at: { message: 0 } }, "boundary_invalid", "at"],
  ["a target message in completions", tokenLog(5), { op: "drop", target: { messages: [0] } }, "target_invalid", "target"],
  ["a target behind the log", tokenLog(5), { op: "drop", target: { tokens: [3, 6] } }, "target_invalid", "target.tokens"],
  ["a target behind its boundary", tokenLog(5), { op: "drop", target: { tokens: [1, 4] }, at: { token: 3 } }, "target_invalid", "target.tokens"],
  ["a target message behind its boundary", chatLog([3, 4]), { op: "drop", target: { messages: [1] }, at: { message: 0 } }, "target_invalid", "target.messages"],
  ["an unknown target message", chatLog([3, 4]), { op: "drop", target: { messages: [2] } }, "target_invalid", "target.messages"],
  ["an empty range", tokenLog(5), { op: "drop", target: { tokens: [2, 2] } }, "target_invalid", "target.tokens"],
  ["a reversed range", tokenLog(5), { op: "drop", target: { tokens: [4, 2] } }, "target_invalid", "target.tokens"],
  ["an empty list", chatLog([3, 4]), { op: "drop", target: { messages: [] } }, "target_invalid", "target.messages"],
])("%s is refused by field", (_name, log, directive, code, field) => {
  expect(() => fold(log, [{ op: "reposition" }, directive])).toThrowError(expect.objectContaining({ kind: "invalid", code, param: `directives[1].${field}` }));
});

test("every position must lie below the context, and the raw log may be longer", () => {
  const directives: Directive[] = [
    { op: "drop", target: { tokens: [0, 6] }, at: { token: 8 } },
    { op: "reposition", at: { token: 8 } },
  ];
  expect(fold(tokenLog(14, 8), directives).nextPosition).toBe(8);
  expect(() => fold(tokenLog(15, 8), directives)).toThrowError(expect.objectContaining({ code: "context_length_exceeded", kind: "invalid" }));
});

test("shifted cells and views of an event are exact when cells of several shifts move together", () => {
  const folded = fold(tokenLog(20), [
    { op: "drop", target: { tokens: [2, 4] }, at: { token: 10 } },
    { op: "drop", target: { tokens: [6, 7] }, at: { token: 10 } },
    { op: "reposition", at: { token: 10 } },
  ]);
  expect(folded.events).toMatchObject([
    {
      key: "h2-4 h6-7 s4:-2 s7:-3",
      shifted: [
        { cells: [4, 6], delta: -2 },
        { cells: [7, 10], delta: -3 },
      ],
    },
  ]);
  expect(folded.births[1]!.view).toEqual([
    { cell: 0, length: 2, birth: 0, shift: 0 },
    { cell: 4, length: 2, birth: 4, shift: -2 },
    { cell: 7, length: 3, birth: 7, shift: -3 },
  ]);
});
