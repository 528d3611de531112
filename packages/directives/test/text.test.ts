import { expect, test } from "vitest";
import { DirectiveError, LIMITS, parseDirectives, parseText, printText, standardVerbs } from "../src/index.ts";
import { randomGrammar } from "./random-grammar.ts";
import { Random } from "./random-logs.ts";

function refusal(text: string): DirectiveError {
  try {
    parseText(text);
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error(`${text} was accepted`);
}

test.each<[string, unknown]>([
  ["drop messages 3,4..6 part thinking after 7", { op: "drop", target: { messages: [3, 4, 5, 6], part: "thinking" }, at: { message: 7 } }],
  ["reposition after 7", { op: "reposition", at: { message: 7 } }],
  ["reposition", { op: "reposition" }],
  ['splice tokens 120..180 with "[elided]" refresh 16 at 400', { op: "splice", target: { tokens: [120, 180] }, with: "[elided]", mode: "refresh", refresh_tokens: 16, at: { token: 400 } }],
  ["splice tokens 5..5 with [1, 2, 3] forget", { op: "splice", target: { tokens: [5, 5] }, with: [1, 2, 3], mode: "forget" }],
  ['splice with "" messages 4 refresh', { op: "splice", target: { messages: [4] }, with: "", mode: "refresh" }],
  ['drop text message 2 exact "a \\"b\\"" occurrence 2', { op: "drop", target: { text: { message: 2, exact: 'a "b"', occurrence: 2 } } }],
  ["pin messages 0 until 8 turns", { op: "pin", target: { messages: [0] }, until: { turns: 8 } }],
  ["pin tokens 0..512 until 0.5 seconds", { op: "pin", target: { tokens: [0, 512] }, until: { seconds: 0.5 } }],
  ["decay messages 4 turns 3 after 4", { op: "decay", target: { messages: [4] }, turns: 3, at: { message: 4 } }],
  ["scratch messages 5 part thinking after 5", { op: "scratch", target: { messages: [5], part: "thinking" }, at: { message: 5 } }],
])("%s is read as JSON has it", (text, directive) => {
  expect(parseText(text)).toEqual([directive]);
});

test("empty lines and comments say nothing, and lines may end as Windows ends them", () => {
  expect(parseText("# first\r\n\r\n  drop messages 1\r\n\t# second\r\nreposition\r\n")).toHaveLength(2);
});

test("printing and reading are inverse, through JSON and back (random directives)", () => {
  for (let seed = 1; seed <= 5_000; seed++) {
    const random = new Random(seed);
    const directives = parseDirectives(Array.from({ length: random.int(1, 4) }, () => randomGrammar(random)));
    const text = printText(directives);
    expect(text.split("\n"), `seed ${seed}`).toHaveLength(directives.length);
    expect(parseText(text), `seed ${seed}: ${text}`).toEqual(directives);
    expect(printText(parseText(text))).toBe(text);
  }
});

test("every example of every verb has a text form that is read back", () => {
  for (const { examples } of standardVerbs) expect(parseText(printText(examples))).toEqual(examples);
});

test.each([
  ["dropp messages 1", 1, 1, "one of drop, reposition"],
  ["reposition\ndrop messages x", 2, 15, "a message number"],
  ["drop messages 3,", 1, 17, "a message number"],
  ["drop messages 6..4", 1, 15, "a rising range"],
  ["drop messages 1 part head", 1, 1, "target.part"],
  ["drop tokens 5", 1, 14, '".."'],
  ["drop tokens 5..", 1, 16, "the token behind the last"],
  ["drop tokens 05..7", 1, 13, "the first token"],
  ["drop messages 1 after 2 at 3", 1, 25, '"at" only once'],
  ["drop messages 1 tokens 2..3", 1, 17, '"target" only once'],
  ["drop", 1, 1, "target"],
  ["reposition messages 4", 1, 1, "target"],
  ["drop messages 1 until 3 turns", 1, 17, "a clause of"],
  ['splice tokens 1..2 with "abc', 1, 25, "a string in quotes"],
  ["splice tokens 1..2 with [1,", 1, 25, "a string in quotes"],
  ["splice tokens 1..2 with nothing", 1, 25, "a string in quotes"],
  ["pin messages 1 until 3 moons", 1, 1, "until"],
  ["drop text message 1 exact 5", 1, 1, "exact"],
  ["drop messages 99999999999999999999", 1, 15, "a message number"],
  ["drop messages 0..9999999", 1, 15, `${LIMITS.messageIds} messages`],
  ["drop messages 1 !", 1, 17, "a clause of"],
])("%j is refused with its place and what was expected", (text, line, column, expected) => {
  const error = refusal(text);
  expect(error).toMatchObject({ kind: "invalid", code: "text_syntax", param: `line ${line}, column ${column}` });
  expect(error.message).toContain(expected);
});

test("the limit of directives holds in the text form too", () => {
  expect(parseText("reposition\n".repeat(LIMITS.directives))).toHaveLength(LIMITS.directives);
  expect(refusal("reposition\n".repeat(LIMITS.directives + 1))).toMatchObject({ code: "directive_limit" });
});
