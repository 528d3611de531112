import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { assert, asyncProperty, constantFrom, jsonValue } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { chatSchema, completionSchema } from "../src/openai/schema.ts";
import { IM_START } from "./scripted.ts";
import { openWorld, type Answer, type World } from "./world.ts";

/**
 * Bad input over all fields: each is refused with its kind, status and field, in OpenAI's shape; nothing of the cache has changed, and
 * the next request is served as before.
 */
let world: World;
beforeAll(async () => {
  world = await openWorld({ contextLength: 256 });
  await world.post("/v1/chat/completions", GOOD);
});
afterAll(() => world.close());

const message = (content: string, role = "user") => ({ role, content });
const THREE = [message("You are kind.", "system"), message("one"), message("two")];
const GOOD = { messages: THREE, temperature: 0 };
const drop = (more: object) => ({ directives: [{ op: "drop", target: { messages: [1] }, at: { message: 2 }, ...more }] });

type Case = [name: string, body: unknown, status: number, param: string | null | RegExp, code?: string];

const CHAT: Case[] = [
  ["no messages", { messages: undefined }, 400, "messages", "field_missing"],
  ["messages that are null", { messages: null }, 400, "messages"],
  ["no message in the list", { messages: [] }, 400, "messages"],
  ["a role that nobody knows", { messages: [message("x", "robot")] }, 400, "messages[0].role"],
  ["a message without content", { messages: [{ role: "user" }] }, 400, "messages[0].content"],
  ["content that is a number", { messages: [{ role: "user", content: 3 }] }, 400, "messages[0].content"],
  ["a part without text", { messages: [{ role: "user", content: [{ type: "text" }] }] }, 400, "messages[0].content[0].text"],
  ["a part of an unknown type", { messages: [{ role: "user", content: [{ type: "smell" }] }] }, 400, "messages[0].content[0].type"],
  ["an image", { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }, 422, "messages[0].content[0].type", "unsupported"],
  ["the function role", { messages: [{ role: "function", name: "f", content: "x" }] }, 422, "messages[0].role", "unsupported"],
  ["a negative temperature", { temperature: -0.1 }, 400, "temperature"],
  ["a huge temperature", { temperature: 1e9 }, 400, "temperature"],
  ["a temperature in words", { temperature: "warm" }, 400, "temperature"],
  ["top_p of 0", { top_p: 0 }, 400, "top_p"],
  ["top_p above 1", { top_p: 1.01 }, 400, "top_p"],
  ["a fractional top_k", { top_k: 1.5 }, 400, "top_k"],
  ["a top_k below -1", { top_k: -2 }, 400, "top_k"],
  ["min_p above 1", { min_p: 2 }, 400, "min_p"],
  ["a fractional seed", { seed: 0.5 }, 400, "seed"],
  ["a seed of more than 64 bits", { seed: 2 ** 64 }, 400, "seed"],
  ["negative max_tokens", { max_tokens: -1 }, 400, "max_tokens"],
  ["fractional max_tokens", { max_tokens: 2.5 }, 400, "max_tokens"],
  ["max_tokens that contradict", { max_tokens: 2, max_completion_tokens: 3 }, 400, "max_tokens"],
  ["an empty stop", { stop: "" }, 400, "stop"],
  ["too many stops", { stop: Array.from({ length: 17 }, () => "x") }, 400, "stop"],
  ["a stop that is too long", { stop: "x".repeat(1025) }, 400, "stop"],
  ["a stop token outside the vocabulary", { stop_token_ids: [100_000] }, 400, "stop_token_ids[0]"],
  ["top_logprobs without logprobs", { top_logprobs: 2 }, 400, "top_logprobs"],
  ["too many alternatives", { logprobs: true, top_logprobs: 21 }, 400, "top_logprobs"],
  ["logprobs in numbers", { logprobs: 3 }, 400, "logprobs"],
  ["stream options without a stream", { stream_options: { include_usage: true } }, 400, "stream_options"],
  ["a stream in words", { stream: "true" }, 400, "stream"],
  ["no answer at all", { n: 0 }, 400, "n"],
  ["two answers (R21)", { n: 2 }, 422, "n", "unsupported"],
  ["an answer in JSON", { response_format: { type: "json_object" } }, 422, "response_format", "unsupported"],
  ["a format that nobody knows", { response_format: { type: "yaml" } }, 400, "response_format.type"],
  ["a forced tool", { tool_choice: "required" }, 422, "tool_choice", "unsupported"],
  ["a tool choice that nobody knows", { tool_choice: "perhaps" }, 400, "tool_choice"],
  ["a tool without a name", { tools: [{ type: "function", function: {} }] }, 400, "tools[0].function.name"],
  ["a tool that is no object", { tools: ["search"] }, 400, "tools[0]"],
  ["a frequency penalty", { frequency_penalty: 0.5 }, 422, "frequency_penalty", "unsupported"],
  ["a penalty out of range", { presence_penalty: 3 }, 400, "presence_penalty"],
  ["a bias on logits", { logit_bias: { 5: 1 } }, 422, "logit_bias", "unsupported"],
  ["another model", { model: "gpt-9" }, 404, "model", "model_not_found"],
  ["a model that is a number", { model: 4 }, 400, "model"],
  ["a prompt past the context", { messages: [message("x".repeat(300))] }, 400, "messages", "context_length_exceeded"],
  ["a field that is nearly ours", { directive: [] }, 400, "directive", "field_misspelled"],
  ["another field that is nearly ours", { drop_messages: { 2: [1] } }, 400, "drop_messages", "field_misspelled"],
  ["an unknown key of cache", { cache: { reports: true } }, 400, "cache.reports", "field_unknown"],
  ["an unknown compat", { cache: { compat: "x" } }, 400, "cache.compat"],
  ["directives that are an object", { directives: {} }, 400, "directives"],
  ["too many directives", { directives: Array.from({ length: 1025 }, () => ({ op: "reposition" })) }, 400, "directives"],
  ["a directive that is null", { directives: [null] }, 400, "directives[0]"],
  ["a verb that nobody knows", { directives: [{ op: "burn" }] }, 400, "directives[0].op"],
  ["a pin for no turn", { directives: [{ op: "pin", target: { messages: [1] }, until: { turns: 0 } }] }, 400, "directives[0].until.turns"],
  ["a pin for ever and a day", { directives: [{ op: "pin", target: { messages: [1] }, until: { turns: 1, seconds: 1 } }] }, 400, /^directives\[0\]\.until/],
  ["a decay without turns", { directives: [{ op: "decay", target: { messages: [1] } }] }, 400, "directives[0].turns"],
  ["a scratch without a target", { directives: [{ op: "scratch" }] }, 400, /^directives\[0\]\.target/],
  ["a forget that leaves nothing", { add_generation_prompt: false, directives: [{ op: "splice", target: { messages: [0, 1, 2] }, with: "", mode: "forget" }] }, 400, "directives[0].target", "target_invalid"],
  ["a splice of nothing by nothing", { directives: [{ op: "splice", target: { tokens: [3, 3] }, with: "" }] }, 400, "directives[0].with"],
  ["splices that overlap", { directives: [{ op: "splice", target: { tokens: [3, 6] }, with: "x" }, { op: "splice", target: { tokens: [5, 8] }, with: "y" }] }, 400, /^directives\[1\]/],
  ["a splice in a mode that nobody knows", { directives: [{ op: "splice", target: { tokens: [3, 6] }, with: "x", mode: "burn" }] }, 400, "directives[0].mode"],
  ["a refresh of nothing", { directives: [{ op: "splice", target: { tokens: [3, 6] }, with: "x", mode: "refresh", refresh_tokens: 0 }] }, 400, "directives[0].refresh_tokens"],
  ["an unknown key of a directive", drop({ when: 3 }), 400, "directives[0].when"],
  ["a message that does not exist", drop({ target: { messages: [7] } }), 400, /^directives\[0\]\.target\.messages/],
  ["a negative message", drop({ target: { messages: [-1] } }), 400, /^directives\[0\]\.target/],
  ["a fractional message", drop({ target: { messages: [0.5] } }), 400, /^directives\[0\]\.target/],
  ["an empty range of tokens", drop({ target: { tokens: [4, 4] } }), 400, /^directives\[0\]\.target\.tokens/],
  ["a range backwards", drop({ target: { tokens: [9, 4] } }), 400, /^directives\[0\]\.target\.tokens/],
  ["a range past the log", drop({ target: { tokens: [0, 9999] } }), 400, /^directives\[0\]\.target\.tokens/],
  ["a target behind its boundary", drop({ at: { message: 0 } }), 400, /^directives\[0\]/],
  ["a boundary past the log", drop({ at: { message: 9 } }), 400, /^directives\[0\]\.at/],
  ["a boundary inside the generation header", drop({ at: { token: 10_000 } }), 400, /^directives\[0\]\.at/],
  ["a drop without a target", { directives: [{ op: "drop" }] }, 400, /^directives\[0\]\.target/],
  ["AKV: both drops", { drop_message: { 2: [1] }, drop_rule: {} }, 400, "drop_rule"],
  ["AKV: a list of pairs", { drop_message: [[2, [1]]] }, 400, "drop_message"],
  ["AKV: ids that are no list", { drop_message: { 2: 1 } }, 400, /^drop_message/],
  ["AKV: an id behind its trigger", { drop_message: { 1: [2] } }, 400, /^drop_message/],
  ["AKV: a leading zero", { drop_message: { "02": [1] } }, 400, /^drop_message/],
  ["AKV: a boolean id", { drop_message: { 2: [true] } }, 400, /^drop_message/],
  ["AKV: a trigger past the last message", { drop_message: { 9: [1] } }, 400, /^drop_message/],
  ["AKV: an unknown rule", { drop_rule: { type: "all" } }, 400, "drop_rule.type"],
  ["AKV: a rule without what it drops", { drop_rule: { type: "thinking_drop" } }, 400, "drop_rule"],
  ["AKV: an unknown key of a rule", { drop_rule: { type: "message_drop", drop_messages: {}, x: 1 } }, 400, "drop_rule.x"],
  ["AKV: repositions that fall", { reposition: [2, 1] }, 400, /^reposition/],
  ["AKV: a reposition past the last message", { reposition: [3] }, 400, /^reposition/],
  ["AKV: a reposition in words", { reposition: ["1"] }, 400, /^reposition/],
  ["AKV: a reposition of nothing", { drop_message: { 2: [0, 1, 2] }, reposition: [2] }, 400, /^reposition/],
];

const COMPLETION: Case[] = [
  ["no prompt", { prompt: undefined }, 400, "prompt", "field_missing"],
  ["a prompt past the context in a context request", { prompt: Array.from({ length: 257 }, () => 65), directives: [] }, 400, "prompt", "context_length_exceeded"],
  ["a replacement outside the vocabulary", { prompt: "abcd", directives: [{ op: "splice", target: { tokens: [1, 2] }, with: [65, 999_999] }] }, 400, "directives[0].with[1]", "replacement_invalid"],
  ["an empty prompt", { prompt: "" }, 400, "prompt"],
  ["an empty list of ids", { prompt: [] }, 400, "prompt"],
  ["a prompt that is a number", { prompt: 5 }, 400, "prompt"],
  ["ids and text mixed", { prompt: [1, "a"] }, 400, /^prompt/],
  ["a negative id", { prompt: [1, -1] }, 400, /^prompt/],
  ["a fractional id", { prompt: [1.5] }, 400, /^prompt/],
  ["an id outside the vocabulary", { prompt: [1, 2, 260] }, 400, "prompt[2]"],
  ["two prompts", { prompt: ["a", "b"] }, 422, /^prompt/, "unsupported"],
  ["a prompt past the context", { prompt: Array.from({ length: 257 }, () => 65) }, 400, "prompt", "context_length_exceeded"],
  ["a prompt that leaves no room", { prompt: Array.from({ length: 256 }, () => 65) }, 400, "prompt", "context_length_exceeded"],
  ["an answer in JSON", { prompt: "a", response_format: { type: "json_object" } }, 422, "response_format", "unsupported"],
  ["a suffix", { prompt: "a", suffix: "b" }, 422, "suffix", "unsupported"],
  ["the best of three", { prompt: "a", best_of: 3 }, 422, "best_of", "unsupported"],
  ["too many logprobs", { prompt: "a", logprobs: 21 }, 400, "logprobs"],
  ["logprobs in booleans", { prompt: "a", logprobs: true }, 400, "logprobs"],
  ["an echo in words", { prompt: "a", echo: "yes" }, 400, "echo"],
  ["a target by message", { prompt: "abc", directives: [{ op: "drop", target: { messages: [0] } }] }, 400, /^directives\[0\]\.target/],
  ["a boundary by message", { prompt: "abc", directives: [{ op: "drop", target: { tokens: [0, 1] }, at: { message: 0 } }] }, 400, /^directives\[0\]\.at/],
  ["AKV's field", { prompt: "abc", drop_message: { 0: [0] } }, 400, "drop_message"],
  ["a decay, which counts turns", { prompt: "abc", directives: [{ op: "decay", target: { tokens: [0, 1] }, turns: 1, at: { token: 2 } }] }, 400, "directives[0].turns"],
  ["a pin that counts turns", { prompt: "abc", directives: [{ op: "pin", target: { tokens: [0, 1] }, until: { turns: 1 } }] }, 400, "directives[0].until.turns"],
  ["a forget of the whole prompt", { prompt: "abc", directives: [{ op: "splice", target: { tokens: [0, 3] }, with: [], mode: "forget" }] }, 400, "directives[0].target", "target_invalid"],
];

const ERASURE: Case[] = [
  ["nothing", {}, 400, "match", "field_missing"],
  ["neither tokens nor messages", { match: {} }, 400, /^match/],
  ["tokens and messages", { match: { tokens: [1], messages: THREE } }, 400, /^match/],
  ["no token", { match: { tokens: [] } }, 400, "match.tokens"],
  ["an id outside the vocabulary", { match: { tokens: [1, 999] } }, 400, "match.tokens[1]"],
  ["ids that are no ids", { match: { tokens: [1, "a"] } }, 400, /^match/],
  ["a message with an image", { match: { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] } }, 422, "match.messages[0].content[0].type"],
  ["an unknown key of match", { match: { tokens: [1], all: true } }, 400, /^match/],
  ["a target past the text", { match: { tokens: [1, 2] }, target: { tokens: [1, 3] } }, 400, "target"],
  ["an empty target", { match: { tokens: [1, 2] }, target: { tokens: [1, 1] } }, 400, "target"],
  ["a message that is not there", { match: { messages: THREE }, target: { messages: [3] } }, 400, "target"],
  ["another model", { model: "gpt-9", match: { tokens: [1] } }, 404, "model", "model_not_found"],
];

/** True when all of it holds; what does not throws. */
async function refused(path: string, body: unknown, [, , status, param, code]: Case): Promise<true> {
  const before = await world.get("/v1/cache");
  const answer = await world.post(path, body);
  const { error } = answer.json as { error: Record<string, unknown> };
  expect(answer.json).toEqual({ error: { message: expect.any(String) as string, type: error["type"], param: error["param"], code: error["code"], kind: error["kind"] } });
  expect({ status: answer.status, message: error["message"] }).toEqual({ status, message: expect.any(String) as string });
  expect(error["kind"]).toBe(status === 422 ? "unsupported" : "invalid");
  expect(error["type"]).toBe(status === 422 ? "unsupported" : "invalid_request_error");
  if (param instanceof RegExp) expect(error["param"]).toMatch(param);
  else expect(error["param"]).toBe(param);
  if (code !== undefined) expect(error["code"]).toBe(code);
  expect(String(error["message"]).length).toBeGreaterThan(20);
  expect((await world.get("/v1/cache")).json).toEqual(before.json);
  await served();
  return true;
}

async function served(): Promise<void> {
  const next = await world.post("/v1/chat/completions", GOOD);
  expect(next.status).toBe(200);
  expect(next.json).toMatchObject({ choices: [{ message: { content: "Hello." }, finish_reason: "stop" }], usage: { completion_tokens: 6 } });
}

describe("a chat request is refused for", () => {
  test.each(CHAT)("%s", async (...row) => expect(await refused("/v1/chat/completions", { ...GOOD, ...(row[1] as object) }, row)).toBe(true));
});

describe("a chat stream is refused, before any header of a stream, for", () => {
  test.each(CHAT.filter(([name]) => !name.includes("stream")))("%s", async (...row) =>
    expect(await refused("/v1/chat/completions", { ...GOOD, stream: true, ...(row[1] as object) }, row)).toBe(true),
  );
});

describe("a completion is refused for", () => {
  test.each(COMPLETION)("%s", async (...row) => expect(await refused("/v1/completions", row[1], row)).toBe(true));
});

describe("a plan is refused for", () => {
  test.each([...CHAT.slice(50), ...COMPLETION.slice(1)])("%s", async (...row) => {
    const body = row[1] as Record<string, unknown>;
    expect(await refused("/v1/directives/plan", "prompt" in body ? body : { ...GOOD, ...body }, row)).toBe(true);
  });
});

describe("an erasure is refused of", () => {
  test.each(ERASURE)("%s", async (...row) => expect(await refused("/v1/cache/erase", row[1], row)).toBe(true));
});

async function raw(payload: string | Buffer, headers: Record<string, string> = { "content-type": "application/json" }): Promise<Answer> {
  const answer = await world.raw("POST", "/v1/chat/completions", payload, headers);
  await served();
  return answer;
}

describe("a body is refused that", () => {
  test.each([
    ["is no JSON", '{"messages": [', "json_invalid"],
    ["is empty", "", "json_invalid"],
    ["is no UTF-8", Buffer.from('{"messages": [{"role": "user", "content": "\xff\xfe"}]}', "latin1"), "json_invalid"],
    ["is a list", "[]", "body_invalid"],
    ["is null", "null", "body_invalid"],
    ["is a string", '"hi"', "body_invalid"],
    ["is nested too deeply", `{"messages": ${"[".repeat(5000)}${"]".repeat(5000)}}`, "body_invalid"],
    ["is nested so deeply that a recursion would end", `{"metadata": ${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}}`, "body_invalid"],
  ])("%s", async (_, payload, code) => {
    const answer = await raw(payload);
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ error: { code, kind: "invalid", param: null } });
  });

  test("was sent as something else than JSON", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
      expect(await raw(JSON.stringify(GOOD), { "content-type": type })).toMatchObject({ status: 400, json: { error: { code: "content_type_invalid" } } });
    }
  });

  test("exceeds 16 MiB", async () => {
    const answer = await raw(JSON.stringify({ ...GOOD, user: "x".repeat(20 * 1024 * 1024) }));
    expect(answer).toMatchObject({ status: 413, json: { error: { code: "body_too_large", kind: "invalid" } } });
  });
});

test("A client that is still sending a body beyond the limit reads the refusal, and one that stops in the middle too", async () => {
  const other = await openWorld({ limits: { bodyBytesMax: 1000, discardBytesMax: 32 * 1024 * 1024, discardIdleMs: 50 } });
  const address = await other.app.fastify.listen({ host: "127.0.0.1", port: 0 });
  const headers = { "content-type": "application/json" };
  try {
    const response = await fetch(`${address}/v1/completions`, { method: "POST", headers, body: JSON.stringify({ prompt: "x".repeat(24 * 1024 * 1024) }) });
    expect([response.status, await response.json()]).toMatchObject([413, { error: { code: "body_too_large" } }]);
    const stopped = request(`${address}/v1/completions`, { method: "POST", headers: { ...headers, "content-length": 5000 } });
    stopped.on("error", () => {}).write("{");
    const [answer] = (await once(stopped, "response")) as [IncomingMessage];
    expect(answer.statusCode).toBe(413);
    stopped.destroy();
  } finally {
    await other.close();
  }
});

describe("an address is refused that", () => {
  test.each(["/%", "/v1/models/%zz", "/v1/messages/%"])("cannot be decoded: %s", async (path) => {
    const { status, json } = await world.get(path);
    expect(status).toBe(400);
    expect(json).toMatchObject({ error: { code: "request_invalid", kind: "invalid", type: "invalid_request_error" } });
  });

  test("does not exist", async () => {
    expect(await world.get("/v1/nothing")).toMatchObject({ status: 404, json: { error: { code: "route_not_found", kind: "invalid" } } });
  });

  test.each([
    ["GET", "/v1/chat/completions", "POST"],
    ["DELETE", "/v1/models/scripted", "GET"],
    ["POST", "/health", "GET"],
  ])("does not take %s: %s", async (method, path, allowed) => {
    const answer = await world.raw(method, path, method === "POST" ? "{}" : undefined);
    expect(answer).toMatchObject({ status: 405, json: { error: { code: "method_not_allowed" } } });
    expect(answer.headers["allow"]).toBe(allowed);
  });

  test("is of a model that is not loaded", async () => {
    expect(await world.get("/v1/models/gpt-9")).toMatchObject({ status: 404, json: { error: { code: "model_not_found", param: "model" } } });
  });

  test("is answered in the dialect of its endpoint", async () => {
    expect(await world.post("/v1/messages", {})).toMatchObject({ status: 400, json: { type: "error", error: { type: "invalid_request_error", kind: "invalid" } } });
    expect((await world.raw("GET", "/v1/messages")).json).toMatchObject({ type: "error", error: { code: "method_not_allowed" } });
  });
});

test("control tokens of a prompt are control tokens, and text in a chat", async () => {
  const completion = await world.post("/tokenize", { prompt: "<|im_start|>" });
  expect(completion.json).toMatchObject({ tokens: [IM_START], count: 1 });
  const chat = await world.post("/tokenize", { messages: [message("<|im_start|>")], add_generation_prompt: false });
  const tokens = (chat.json as { tokens: number[] }).tokens;
  expect(tokens.filter((id) => id === IM_START)).toHaveLength(1);
});

describe("a body that would cost more to check than to compute", () => {
  const MEBIBYTE = 1024 * 1024;
  const list = (item: string, bytes = 15 * MEBIBYTE) => `[${Array.from({ length: Math.floor(bytes / (item.length + 1)) }, () => item).join(",")}]`;

  test.each([
    ["of millions of wrong ids", () => `{"prompt": ${list('"a"').replace(/"\]$/, '1"]').replace('"a"', "1")}}`],
    ["of millions of ids past the context", () => `{"prompt": ${list("7")}}`],
    ["of millions of wrong stops", () => `{"prompt": "a", "stop": ${list("1")}}`],
    ["of millions of empty parts", () => `{"prompt": "a", "messages": [{"role": "user", "content": ${list("{}")}}]}`],
    ["of millions of directives", () => `{"prompt": "a", "directives": ${list("0")}}`],
    ["of millions of fields", () => `{${Array.from({ length: 1_000_000 }, (_, index) => `"f${index}": 1`).join(",")}}`],
    ["with a name of many megabytes", () => `{"prompt": "a", "${"n".repeat(15 * MEBIBYTE)}": 1, "max_tokens": -1}`],
  ])("%s is refused in bounded time", async (_, payload) => {
    const body = payload();
    const before = performance.now();
    const answer = await world.raw("POST", "/v1/completions", body);
    expect(answer.status).toBe(400);
    expect(performance.now() - before).toBeLessThan(30_000);
    await served();
  });
});

test("any JSON in any field is answered, never with a defect of the server", async () => {
  const unknown = jsonValue({ maxDepth: 3 });
  await assert(
    asyncProperty(constantFrom(...Object.keys(chatSchema(DEFAULT_LIMITS).shape)), constantFrom(...Object.keys(completionSchema(DEFAULT_LIMITS).shape)), unknown, async (chatField, completionField, value) => {
      for (const [path, body] of [
        ["/v1/chat/completions", { ...GOOD, max_tokens: 2, [chatField]: value }],
        ["/v1/completions", { prompt: "abc", max_tokens: 2, [completionField]: value }],
        ["/v1/directives/plan", { ...GOOD, [chatField]: value }],
        ["/tokenize", { messages: THREE, [chatField]: value }],
      ] as const) {
        const { status } = await world.post(path, body);
        expect([200, 400, 404, 422]).toContain(status);
      }
    }),
    { numRuns: 300 },
  );
  await served();
});
