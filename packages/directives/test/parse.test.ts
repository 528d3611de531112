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
