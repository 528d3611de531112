import { expect, test } from "vitest";
import { DirectiveError, LIMITS, parseDirectives } from "../src/index.ts";

function refusal(json: unknown): DirectiveError {
  try {
    parseDirectives(json);
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(json)} was accepted`);
}

test("directives of drop and reposition are read as they are written", () => {
  const json = [
    { op: "drop", target: { messages: [3, 4], part: "thinking" }, at: { message: 7 } },
    { op: "drop", target: { tokens: [1, 4] } },
    { op: "drop", target: { text: { message: 1, exact: "x", occurrence: 2 } }, at: { token: 9 } },
    { op: "reposition" },
  ];
  expect(parseDirectives(json)).toEqual(json);
});

test("null and an empty array hold no directive", () => {
  expect(parseDirectives(null)).toEqual([]);
  expect(parseDirectives([])).toEqual([]);
});

test.each<[string, unknown, string]>([
  ["no array", {}, "directives"],
  ["no object", ["drop"], "directives[0]"],
  ["no op", [{ target: { tokens: [0, 1] } }], "directives[0].op"],
  ["an unknown op", [{ op: "dropp" }], "directives[0].op"],
  ["no target", [{ op: "drop" }], "directives[0].target"],
  ["an unknown key", [{ op: "reposition", target: { tokens: [0, 1] } }], "directives[0].target"],
  ["a misspelt boundary", [{ op: "reposition", at: { mesage: 1 } }], "directives[0].at"],
  ["a negative message", [{ op: "reposition", at: { message: -1 } }], "directives[0].at.message"],
  ["a fractional token", [{ op: "reposition", at: { token: 1.5 } }], "directives[0].at.token"],
  ["a huge token", [{ op: "reposition", at: { token: 1e300 } }], "directives[0].at.token"],
  ["a boolean id", [{ op: "drop", target: { messages: [0, true] } }], "directives[0].target.messages[1]"],
  ["a triple", [{ op: "drop", target: { tokens: [0, 1, 2] } }], "directives[0].target.tokens"],
  ["a key beside a target's", [{ op: "drop", target: { tokens: [0, 1], part: "content" } }], "directives[0].target.part"],
  ["two forms of boundary", [{ op: "reposition", at: { message: 1, token: 2 } }], "directives[0].at.token"],
  ["an unknown part", [{ op: "drop", target: { messages: [0], part: "body" } }], "directives[0].target.part"],
  ["an occurrence of 0", [{ op: "drop", target: { text: { message: 0, exact: "x", occurrence: 0 } } }], "directives[0].target.text.occurrence"],
  ["an empty text", [{ op: "drop", target: { text: { message: 0, exact: "" } } }], "directives[0].target.text.exact"],
  ["a forged source", [{ op: "reposition", source: "x" }], "directives[0].source"],
  ["null for a boundary", [{ op: "reposition", at: null }], "directives[0].at"],
])("%s is refused by field", (_name, json, param) => {
  const error = refusal(json);
  expect({ kind: error.kind, param: error.param }).toEqual({ kind: "invalid", param });
  expect(error.message.length).toBeGreaterThan(10);
});

test("the limit of directives holds", () => {
  const many = Array.from({ length: LIMITS.directives }, () => ({ op: "reposition" }));
  expect(parseDirectives(many)).toHaveLength(LIMITS.directives);
  expect(refusal([...many, { op: "reposition" }])).toMatchObject({ code: "directive_limit", param: "directives" });
});

function drop(target: object): object[] {
  return [{ op: "drop", target }];
}

function splice(replacement: unknown): object[] {
  return [{ op: "splice", target: { tokens: [0, 1] }, with: replacement }];
}

test("the limits of lists and texts hold", () => {
  const ids = Array.from({ length: LIMITS.messageIds }, (_, i) => i);
  expect(parseDirectives(drop({ messages: ids }))).toHaveLength(1);
  expect(refusal(drop({ messages: [...ids, 0] }))).toMatchObject({ code: "directive_invalid", param: "directives[0].target.messages" });
  expect(refusal(drop({ messages: [] }))).toMatchObject({ param: "directives[0].target.messages" });
  expect(refusal(drop({ text: { message: 0, exact: "a".repeat(LIMITS.textCharacters + 1) } }))).toMatchObject({ param: "directives[0].target.text.exact" });
  const most = Array.from({ length: LIMITS.replacementTokens }, () => 1);
  expect(parseDirectives(splice(most))).toHaveLength(1);
  expect(refusal(splice([...most, 1]))).toMatchObject({ param: "directives[0].with" });
  expect(refusal(splice("a".repeat(LIMITS.textCharacters + 1)))).toMatchObject({ param: "directives[0].with" });
});

test.each<[string, object, string]>([
  ["a splice without a replacement", { op: "splice", target: { tokens: [0, 1] } }, "with"],
  ["a replacement of mixed kinds", { op: "splice", target: { tokens: [0, 1] }, with: [1, "a"] }, "with[1]"],
  ["a replacement that is a number", { op: "splice", target: { tokens: [0, 1] }, with: 5 }, "with"],
  ["an unknown mode", { op: "splice", target: { tokens: [0, 1] }, with: [], mode: "erase" }, "mode"],
  ["a refresh of nothing", { op: "splice", target: { tokens: [0, 1] }, with: [], mode: "refresh", refresh_tokens: 0 }, "refresh_tokens"],
  ["a decay without turns", { op: "decay", target: { tokens: [0, 1] } }, "turns"],
  ["a decay of half a turn", { op: "decay", target: { tokens: [0, 1] }, turns: 0.5 }, "turns"],
  ["a pin until two things", { op: "pin", target: { tokens: [0, 1] }, until: { turns: 1, seconds: 1 } }, "until.seconds"],
  ["a pin until no time", { op: "pin", target: { tokens: [0, 1] }, until: { seconds: 0 } }, "until.seconds"],
  ["a priority", { op: "pin", target: { tokens: [0, 1] }, priority: 100 }, "priority"],
  ["a strict reposition", { op: "reposition", strict: true }, "strict"],
  ["a part of a text target", { op: "drop", target: { text: { message: 0, exact: "x", part: "content" } } }, "target.text.part"],
])("%s is refused by field", (_name, directive, field) => {
  expect(refusal([directive])).toMatchObject({ kind: "invalid", code: "directive_invalid", param: `directives[0].${field}` });
});

test.each<[string, object, string]>([
  ["a target without a form", { op: "drop", target: {} }, 'Expected {"messages": [ids]}, {"tokens": [start, end]} or {"text": {"message": i, "exact": "…"}}. Got {}.'],
  ["a target of a misspelt form", { op: "drop", target: { message: [3] } }, 'Expected {"messages": [ids]}, {"tokens": [start, end]} or {"text": {"message": i, "exact": "…"}}. Got {"message":[3]}.'],
  ["no target", { op: "drop" }, 'Expected {"messages": [ids]}, {"tokens": [start, end]} or {"text": {"message": i, "exact": "…"}}. Nothing came.'],
  ["a boundary that is a number", { op: "reposition", at: 3 }, 'Expected {"message": i} or {"token": n}. Got 3.'],
  ["a replacement of another type", { op: "splice", target: { tokens: [1, 2] }, with: { text: "a" } }, 'Expected a text or an array of token ids. Got {"text":"a"}.'],
  ["a pin until something else", { op: "pin", target: { tokens: [1, 2] }, until: { turn: 1 } }, 'Expected {"turns": n} or {"seconds": n}. Got {"turn":1}.'],
  ["half a range", { op: "drop", target: { tokens: [1] } }, "Too small: expected array to have >=2 items. Got [1]."],
])("%s is told which forms there are, or what is wrong in the nearest one", (_what, directive, message) => {
  expect(refusal([directive]).message).toBe(message);
});
