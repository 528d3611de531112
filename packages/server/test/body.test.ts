import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { readBody, pathText } from "../src/openai/body.ts";
import { bodySpec, chatSchema, completionSchema } from "../src/openai/schema.ts";

const chat = bodySpec(chatSchema(DEFAULT_LIMITS));
const completion = bodySpec(completionSchema(DEFAULT_LIMITS));
const message = { role: "user", content: "hi" };
const readChat = (body: object) => readBody(chat, { messages: [message], ...body }, DEFAULT_LIMITS);
const refusal = (code: string, param?: string) => expect.objectContaining({ kind: "invalid", code, ...(param === undefined ? {} : { param }) }) as Error;

describe("a body", () => {
  test("may have fields that nobody knows: they are ignored and named", () => {
    const { warnings } = readChat({ frobnicate: 1, max_token: 3 });
    expect(warnings).toEqual(['The unknown field "frobnicate" was ignored.', 'The unknown field "max_token" was ignored. The nearest known one is "max_tokens".']);
  });

  test.each(["directive", "drop_messages", "dropMessage", "Drop-Rule", "repositon", "repositions", "caches", "ignore_eo", "return_tokens_ids", "drop", "splice"])(
    "with %s, which is nearly a field of ours, is refused",
    (field) => {
      expect(() => readChat({ [field]: [] })).toThrowError(refusal("field_misspelled", field));
    },
  );

  test.each(["cache_salt", "seeds", "drops_in_the_ocean", "pinned"])("with %s, which is not near, is served", (field) => {
    expect(readChat({ [field]: 1 }).warnings).toHaveLength(1);
  });

  test("takes null for every optional field as absent", () => {
    const fields = [...chat.fields].filter((field) => field !== "messages");
    expect(readChat(Object.fromEntries(fields.map((field) => [field, null]))).warnings).toEqual([]);
  });

  test.each([
    [{ temperature: 2.1 }, "field_invalid", "temperature"],
    [{ temperature: "hot" }, "field_invalid", "temperature"],
    [{ max_tokens: -1 }, "field_invalid", "max_tokens"],
    [{ max_tokens: 1.5 }, "field_invalid", "max_tokens"],
    [{ max_tokens: 1e300 }, "field_invalid", "max_tokens"],
    [{ top_p: 0 }, "field_invalid", "top_p"],
    [{ stop: [""] }, "field_invalid", "stop[0]"],
    [{ stop: 5 }, "field_invalid", "stop"],
    [{ stop: ["a", 7] }, "field_invalid", "stop[1]"],
    [{ stream: "yes" }, "field_invalid", "stream"],
    [{ cache: { report: 1 } }, "field_invalid", "cache.report"],
    [{ cache: { reprot: true } }, "field_unknown", "cache.reprot"],
    [{ cache: { compat: "vllm" } }, "field_invalid", "cache.compat"],
    [{ cache: [] }, "field_invalid", "cache"],
    [{ messages: [] }, "field_invalid", "messages"],
    [{ messages: "hi" }, "field_invalid", "messages"],
    [{ messages: undefined }, "field_missing", "messages"],
    [{ messages: [message, { role: "robot", content: "" }] }, "field_invalid", "messages[1].role"],
    [{ messages: [{ role: "user" }] }, "field_missing", "messages[0].content"],
    [{ messages: [{ role: "user", content: 5 }] }, "field_invalid", "messages[0].content"],
    [{ messages: [{ role: "user", content: [{ type: "text", text: 5 }] }] }, "field_invalid", "messages[0].content[0].text"],
    [{ messages: [{ role: "user", content: [{ type: "video" }] }] }, "field_invalid", "messages[0].content[0].type"],
    [{ messages: [null] }, "field_invalid", "messages[0]"],
    [{ tools: [{ type: "function", function: {} }] }, "field_missing", "tools[0].function.name"],
    [{ tool_choice: "some" }, "field_invalid", "tool_choice"],
    [{ response_format: { type: "xml" } }, "field_invalid", "response_format.type"],
    [{ top_logprobs: 21 }, "field_invalid", "top_logprobs"],
    [{ n: 0 }, "field_invalid", "n"],
    [{ logit_bias: { x: 1 } }, "field_invalid", undefined],
  ])("%j is refused with its field", (body, code, param) => {
    expect(() => readChat(body)).toThrowError(refusal(code, param));
  });

  test.each([
    [{ prompt: 5 }, "prompt"],
    [{ prompt: [1, "a"] }, "prompt"],
    [{ prompt: [1.5] }, "prompt"],
    [{ prompt: [-1] }, "prompt"],
    [{ prompt: "a", logprobs: true }, "logprobs"],
    [{ prompt: "a", logprobs: 21 }, "logprobs"],
  ])("a completion %j is refused with its field", (body, param) => {
    expect(() => readBody(completion, body, DEFAULT_LIMITS)).toThrowError(
      expect.objectContaining({ kind: "invalid", param: expect.stringMatching(new RegExp(`^${param}`)) as string, message: expect.stringContaining("expected") as string }) as Error,
    );
  });

  test.each([[null], [[]], ["text"], [5]])("that is %j and no object is refused", (body) => {
    expect(() => readBody(chat, body, DEFAULT_LIMITS)).toThrowError(refusal("body_invalid"));
  });

  test("nested deeper than the limit is refused before anything walks it", () => {
    let value: unknown = 1;
    for (let i = 0; i < 100_000; i++) value = [value];
    expect(() => readChat({ metadata: { value } })).toThrowError(refusal("body_invalid"));
  });

  test("says what was expected and what came", () => {
    expect(() => readChat({ temperature: "hot" })).toThrowError('temperature: expected a number from 0 to 2, got "hot"');
  });
});

test("a path is written with its index", () => {
  expect(pathText(["directives", 2, "target", "tokens"])).toBe("directives[2].target.tokens");
});
