import { array, assert, asyncProperty, constantFrom, integer, property } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ToolCallReader, type Shown } from "../src/openai/tool-calls.ts";
import { HERMES_TEMPLATE, scriptOf } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;

interface Read {
  text: string;
  calls: [name: string, args: string][];
}
const readOf = (shown: readonly Shown[]): Read => ({ text: shown.map(({ text }) => text).join(""), calls: shown.flatMap(({ calls }) => calls).map(({ name, arguments: given }) => [name, given]) });

/** Reads an answer in pieces of these lengths, again and again. */
function read(answer: string, lengths: readonly number[] = [answer.length]): Read {
  const reader = new ToolCallReader(["f"]);
  const shown: Shown[] = [];
  for (let at = 0, turn = 0; at < answer.length; turn++) {
    const length = lengths[turn % lengths.length] as number;
    shown.push(...reader.push(answer.slice(at, at + length)));
    at += length;
  }
  return readOf([...shown, ...reader.end()]);
}

describe("a call is read", () => {
  test.each<[string, string, Read]>([
    ["alone", call("f", '{"a": 1}'), { text: "", calls: [["f", '{"a": 1}']] }],
    ["behind text, without the white space around it", `I will look.\n\n${call("f", "{}")}\n`, { text: "I will look.", calls: [["f", "{}"]] }],
    ["among others and text", `a\n${call("f", "{}")}\n${call("g", '{"x": [1, {"y": "}"}]}')}\nb `, { text: "ab ", calls: [["f", "{}"], ["g", '{"x": [1, {"y": "}"}]}']] }],
    ["with every digit of its numbers", call("f", '{"id": 12345678901234567890, "one": 1.0}'), { text: "", calls: [["f", '{"id": 12345678901234567890, "one": 1.0}']] }],
    ["with the mark of an end inside a text", call("f", '{"a": "</tool_call> \\" }"}'), { text: "", calls: [["f", '{"a": "</tool_call> \\" }"}']] }],
    ["with its members in another order", '<tool_call>{"arguments": {"name": "no", "arguments": {}}, "name": "f"}</tool_call>', { text: "", calls: [["f", '{"name": "no", "arguments": {}}']] }],
    ["with an escaped name of a member", '<tool_call>{"name": "f", "\\u0061rguments": {"b": 2}}</tool_call>', { text: "", calls: [["f", '{"b": 2}']] }],
    ["without arguments", '<tool_call>{"name": "f"}</tool_call>', { text: "", calls: [["f", "{}"]] }],
    ["with arguments that are a text", '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', { text: "", calls: [["f", '{"a": 1}']] }],
    ["without its marks, at the beginning of the answer, where it names a tool of the request", ' {"name": "f", "arguments": {"a": "}"}}\n', { text: "", calls: [["f", '{"a": "}"}']] }],
    ["without its marks, one behind the other", '{"name": "f"}\n{"name": "f", "arguments": {"b": 1}}\n{"name": "g"}', { text: '{"name": "g"}', calls: [["f", "{}"], ["f", '{"b": 1}']] }],
    ["without its marks, before text", '{"name": "f"} done', { text: "done", calls: [["f", "{}"]] }],
    ["when the answer ends before its end mark", '<tool_call>\n{"name": "f", "arguments": {}}\n</tool', { text: "", calls: [["f", "{}"]] }],
  ])("%s", (_what, answer, expected) => {
    expect(read(answer)).toEqual(expected);
    expect(read(answer, [1])).toEqual(expected);
  });
});

describe("what is no call stays text, to the letter:", () => {
  test.each([
    ["text alone", "a <tool> b < c <tool_calls "],
    ["an end without a beginning", "a </tool_call> b"],
    ["a call that was cut off", ' so:\n<tool_call>\n{"name": "f", "arguments": {"a": '],
    ["a call cut off inside an escape", '<tool_call>{"name": "f", "arguments": {"a": "\\u00'],
    ["no object", "x \n<tool_call>\n\nf(1)\n</tool_call>\n"],
    ["no JSON", "<tool_call>{name: 'f'}</tool_call>"],
    ["no name", '<tool_call>{"arguments": {}}</tool_call>'],
    ["an empty name", '<tool_call>{"name": "", "arguments": {}}</tool_call>'],
    ["a name that is a number", '<tool_call>{"name": 3, "arguments": {}}</tool_call>'],
    ["arguments that are a list", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'],
    ["something else before the end mark", '<tool_call>{"name": "f", "arguments": {}} and </tool_call>'],
    ["white space at the end", "a \n "],
    ["white space alone", " \n "],
    ["an object without marks that names no tool of the request", ' {"name": "g", "arguments": {}} '],
    ["an object without marks behind text", 'So: {"name": "f", "arguments": {}}'],
    ["an object without marks that is something else", '{ "names": ["f"]}'],
    ["an object without marks that was cut off", '{"name": "f", "arguments": {'],
    ["the beginning of an object", ' { "na'],
  ])("%s", (_what, answer) => {
    expect(read(answer)).toEqual({ text: answer, calls: [] });
    expect(read(answer, [1])).toEqual({ text: answer, calls: [] });
  });

  test("a right call behind a wrong one is read", () => {
    expect(read(`<tool_call>{no}</tool_call> ${call("f", "{}")}`)).toEqual({ text: "<tool_call>{no}</tool_call>", calls: [["f", "{}"]] });
    expect(read(`<tool_call>${call("f", "{}")}`)).toEqual({ text: "<tool_call>", calls: [["f", "{}"]] });
  });
});

const PIECES = [
  '{"name": "f", "arguments": {}}', '{"name": "g"}', "{ ", '"na',
  "a", "é", "\u{1f600}", " ", "\n", "<", "</", "tool_call>", "<tool_call>", "</tool_call>", "{", "}", '"', "\\", call("f", '{"a": "é"}'), call("g", "{}"), '<tool_call>{"name": 1}</tool_call>',
  '<tool_call>{"name": "f", "arguments": {"b": [1, "}"]}}', '"name": "x"',
];
const answers = array(constantFrom(...PIECES), { maxLength: 8 }).map((pieces) => pieces.join(""));

test("R07: what is read is the same for every way of cutting an answer, and text only grows", () => {
  assert(
    property(answers, array(integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (answer, lengths) => {
      expect(read(answer, lengths)).toEqual(read(answer));
    }),
    { numRuns: 3_000 },
  );
});

test("a long answer is read in linear time", () => {
  const long = "x".repeat(1_000_000);
  expect(read(call("f", `{"a": "${long}"}`), [7]).calls[0]?.[1]).toHaveLength(long.length + 9);
  const wrong = "<tool_call>{".repeat(50_000);
  expect(read(wrong, [7])).toEqual({ text: wrong, calls: [] });
});

interface Delta {
  role?: string;
  content?: string;
  tool_calls?: { index: number; id?: string; type?: string; function: { name?: string; arguments?: string } }[];
}
interface Choice {
  delta: Delta;
  message: { role: string; content: string | null; tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[] };
  finish_reason: string | null;
  token_ids: number[];
  logprobs: { content: unknown[] };
}
interface Answer {
  choices: [Choice];
}

describe("a chat answer", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld({ chatTemplate: HERMES_TEMPLATE });
  });
  afterAll(() => world.close());

  const TOOLS = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
  const body = { messages: [{ role: "user", content: "hi" }], tools: TOOLS, seed: 0, return_token_ids: true, logprobs: true, max_tokens: 2_000 };
  const say = (text: string) => world.runtime.script.answers.set(0n, scriptOf(text));
  const whole = async (more: object = {}) => ((await world.post("/v1/chat/completions", { ...body, ...more })).json as Answer).choices[0];
  const chunks = async (more: object = {}) => ((await world.stream("/v1/chat/completions", { ...body, ...more })) as unknown as Answer[]).map(({ choices }) => choices[0]);

  test("has calls with ids, null content and a reason of its own", async () => {
    say(`${call("f", '{"a": 1}')}\n${call("g", "{}")}`);
    const { message, finish_reason } = await whole();
    expect(finish_reason).toBe("tool_calls");
    expect(message).toEqual({
      role: "assistant", content: null, refusal: null,
      tool_calls: [
        { id: expect.stringMatching(/^call_[0-9a-f]{24}$/) as string, type: "function", function: { name: "f", arguments: '{"a": 1}' } },
        { id: expect.stringMatching(/^call_[0-9a-f]{24}$/) as string, type: "function", function: { name: "g", arguments: "{}" } },
      ],
    });
    expect(new Set(message.tool_calls?.map(({ id }) => id)).size).toBe(2);
  });

  test("streams a call as its head and then its arguments, each delta once", async () => {
    say(`Look: ${call("f", '{"a": 1}')}`);
    const deltas = (await chunks()).map(({ delta }) => delta);
    expect(deltas[0]).toMatchObject({ role: "assistant", content: "L" });
    expect(deltas.filter(({ tool_calls: calls }) => calls)).toEqual([
      { tool_calls: [{ index: 0, id: expect.any(String) as string, type: "function", function: { name: "f", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"a": 1}' } }] },
    ]);
    expect((await chunks()).at(-1)).toMatchObject({ delta: {}, finish_reason: "tool_calls" });
  });

  test("keeps calls as text without tools, with tool_choice none, and when it was cut off within one", async () => {
    const answer = `a ${call("f", "{}")}`;
    say(answer);
    for (const more of [{ tools: undefined }, { tools: [] }, { tool_choice: "none" }]) {
      expect(await whole(more)).toMatchObject({ message: { content: answer }, finish_reason: "stop" });
      expect((await whole(more)).message).not.toHaveProperty("tool_calls");
    }
    expect(await whole({ max_tokens: 20 })).toMatchObject({ message: { content: answer.slice(0, 20) }, finish_reason: "length" });
  });

  test("that ended for its length says so, calls or not", async () => {
    const answer = call("f", "{}");
    say(`${answer}more`);
    expect(await whole({ max_tokens: answer.length + 2 })).toMatchObject({ message: { content: "mo", tool_calls: [expect.any(Object)] }, finish_reason: "length" });
  });

  test("with a stop string inside a call ends there, and what came before is text", async () => {
    say(call("f", '{"a": "STOP"}'));
    expect(await whole({ stop: "STOP" })).toMatchObject({ message: { content: '<tool_call>\n{"name": "f", "arguments": {"a": "' }, finish_reason: "stop" });
  });

  test("R08: sent back with its calls and their results renders them, also where arguments are no JSON", async () => {
    say(call("f", '{"a": 1}'));
    const { message } = await whole();
    const result = { role: "tool", tool_call_id: message.tool_calls?.[0]?.id, content: "found" };
    say("done");
    for (const given of ['{"a": 1}', "{"]) {
      const history = { ...message, content: "", tool_calls: message.tool_calls?.map(({ id, type }) => ({ id, type, function: { name: "f", arguments: given } })) };
      expect(await whole({ messages: [...body.messages, history, result] })).toMatchObject({ message: { content: "done" } });
    }
  });

  test("in a template without a known form keeps calls as text, and the model says so", async () => {
    const plain = await openWorld();
    plain.runtime.script.answers.set(0n, scriptOf(call("f", "{}")));
    expect((await plain.post("/v1/chat/completions", body)).json).toMatchObject({ choices: [{ message: { content: call("f", "{}") }, finish_reason: "stop" }] });
    expect((await plain.get("/v1/models/scripted")).json).toMatchObject({ capabilities: { tool_call_format: null } });
    expect((await world.get("/v1/models/scripted")).json).toMatchObject({ capabilities: { tool_call_format: "hermes" } });
    await plain.close();
  });

  test("streamed concatenates to the whole one: content, calls, ids of tokens and log-probabilities", async () => {
    await assert(
      asyncProperty(answers, integer({ min: 1, max: 200 }), constantFrom([], ["}}"], ["é"]), async (answer, max_tokens, stop) => {
        say(answer);
        const one = await whole({ max_tokens, stop });
        const all = await chunks({ max_tokens, stop });
        expect(all.map(({ delta }) => delta.content ?? "").join("")).toBe(one.message.content ?? "");
        const calls: { name: string; arguments: string }[] = [];
        for (const { index, function: part } of all.flatMap(({ delta }) => delta.tool_calls ?? [])) {
          const entry = (calls[index] ??= { name: "", arguments: "" });
          entry.name += part.name ?? "";
          entry.arguments += part.arguments ?? "";
        }
        expect(calls).toEqual((one.message.tool_calls ?? []).map((made) => made.function));
        expect(all.flatMap((chunk) => chunk.token_ids)).toEqual(one.token_ids);
        expect(all.flatMap((chunk) => chunk.logprobs.content)).toEqual(one.logprobs.content);
        expect(all.map((chunk) => chunk.finish_reason).filter(Boolean)).toEqual([one.finish_reason]);
        expect(all.filter(({ delta }) => delta.role !== undefined)).toHaveLength(1);
      }),
      { numRuns: 60 },
    );
  });
});
