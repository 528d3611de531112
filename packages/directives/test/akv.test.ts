import { expect, test } from "vitest";
import { DirectiveError, fold, readAkv } from "../src/index.ts";
import { chatLog } from "./random-logs.ts";

function refusal(run: () => unknown): DirectiveError {
  try {
    run();
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

test("drop_message and reposition become directives that remember their field", () => {
  const body = { drop_message: { "3": [1, "2"], " 5 ": [4.0] }, reposition: [3, 5] };
  expect(readAkv(body, { messages: 6 })).toEqual([
    { op: "drop", target: { messages: [1, 2] }, at: { message: 3 }, source: "drop_message", param: 'drop_message["3"]' },
    { op: "drop", target: { messages: [4] }, at: { message: 5 }, source: "drop_message", param: 'drop_message[" 5 "]' },
    { op: "reposition", at: { message: 3 }, strict: true, source: "reposition", param: "reposition[0]" },
    { op: "reposition", at: { message: 5 }, strict: true, source: "reposition", param: "reposition[1]" },
  ]);
});

test("the rule message_drop is drop_message under another name", () => {
  const rule = { type: "message_drop", drop_messages: { "2": [0] } };
  expect(readAkv({ drop_rule: rule }, { messages: 3 })).toMatchObject([{ op: "drop", target: { messages: [0] }, source: "drop_rule" }]);
});

test.each([{ drop_message: null }, { drop_message: {} }, { reposition: [] }, { drop_rule: null }, { drop_message: { "1": [] } }])("%j holds no directive", (body) => {
  expect(readAkv(body, { messages: 2 })).toEqual([]);
});

test.each<[Record<string, unknown>, string]>([
  [{ drop_message: {}, drop_rule: {} }, "drop_rule"],
  [{ drop_message: [] }, "drop_message"],
  [{ drop_message: { "03": [0] } }, 'drop_message["03"]'],
  [{ drop_message: { "-1": [0] } }, 'drop_message["-1"]'],
  [{ drop_message: { x: [0] } }, 'drop_message["x"]'],
  [{ drop_message: { "9223372036854775808": [0] } }, 'drop_message["9223372036854775808"]'],
  [{ drop_message: { "1": 0 } }, 'drop_message["1"]'],
  [{ drop_message: { "1": [2] } }, 'drop_message["1"][0]'],
  [{ drop_message: { "1": [0, true] } }, 'drop_message["1"][1]'],
  [{ drop_message: { "1": [0.5] } }, 'drop_message["1"][0]'],
  [{ drop_message: { "1": [-1] } }, 'drop_message["1"][0]'],
  [{ drop_message: { "1": ["00"] } }, 'drop_message["1"][0]'],
  [{ drop_message: { "9": [0] } }, 'drop_message["9"]'],
  [{ drop_message: { "1": [0], " 1 ": [1] } }, 'drop_message[" 1 "]'],
  [{ drop_rule: {} }, "drop_rule.type"],
  [{ drop_rule: [] }, "drop_rule"],
  [{ drop_rule: { type: "other" } }, "drop_rule.type"],
  [{ drop_rule: { type: "message_drop", drop_messages: {}, x: 1 } }, "drop_rule.x"],
  [{ drop_rule: { type: "message_drop" } }, "drop_rule.drop_messages"],
  [{ reposition: {} }, "reposition"],
  [{ reposition: [true] }, "reposition[0]"],
  [{ reposition: ["1"] }, "reposition[0]"],
  [{ reposition: [1.5] }, "reposition[0]"],
  [{ reposition: [2, 2] }, "reposition[1]"],
  [{ reposition: [2, 1] }, "reposition[1]"],
  [{ reposition: [4] }, "reposition[0]"],
])("%j is refused by field", (body, param) => {
  expect(refusal(() => readAkv(body, { messages: 4 }))).toMatchObject({ kind: "invalid", code: "akv_invalid", param });
});

test("compat brings AKV's silence back: late triggers are ignored, but their ids are still checked", () => {
  const options = { messages: 2, compat: "akv" } as const;
  expect(readAkv({ drop_message: { "9": [3], "1": [0], " 1 ": [1] } }, options)).toMatchObject([{ target: { messages: [1] } }]);
  expect(refusal(() => readAkv({ drop_message: { "9": [10] } }, options))).toMatchObject({ param: 'drop_message["9"][0]' });
  expect(refusal(() => readAkv({ reposition: [2] }, options))).toMatchObject({ param: "reposition[0]" });
});

test("a reposition of AKV refuses an empty visible set and a message without tokens, by its own field", () => {
  const everything = readAkv({ drop_message: { "1": [0, 1] }, reposition: [1] }, { messages: 2 });
  expect(refusal(() => fold(chatLog([2, 3]), everything))).toMatchObject({ code: "akv_invalid", param: "reposition[0]" });
  const unrendered = readAkv({ reposition: [0] }, { messages: 2 });
  expect(refusal(() => fold(chatLog([0, 3]), unrendered))).toMatchObject({ code: "akv_invalid", param: "reposition[0]" });
  expect(fold(chatLog([2, 3]), readAkv({ reposition: [1] }, { messages: 2 })).events).toEqual([]);
});
