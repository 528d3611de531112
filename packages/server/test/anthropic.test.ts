import Anthropic, { AuthenticationError, BadRequestError, NotFoundError, UnprocessableEntityError } from "@anthropic-ai/sdk";
import type { AddressInfo } from "node:net";
import { array, assert, asyncProperty, constantFrom, integer } from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { HERMES_TEMPLATE, REASONING_TEMPLATE, scriptOf } from "./scripted.ts";
import { openWorld, type World, type WorldOptions } from "./world.ts";

/** Anthropic's endpoints, by the official client over a socket, and by hand where the client would not send it. */
async function listening(options: WorldOptions): Promise<{ world: World; client: Anthropic }> {
  const world = await openWorld(options);
  await world.app.fastify.listen({ host: "127.0.0.1", port: 0 });
  const { port } = world.app.fastify.server.address() as AddressInfo;
  return { world, client: new Anthropic({ apiKey: "any", baseURL: `http://127.0.0.1:${port}`, maxRetries: 0 }) };
}

let world: World;
let client: Anthropic;
beforeAll(async () => {
  ({ world, client } = await listening({ chatTemplate: HERMES_TEMPLATE }));
});
afterAll(() => world.close());
beforeEach(() => say("Hello."));

const say = (text: string) => world.runtime.script.answers.set(0n, scriptOf(text));
const BASE = { model: "scripted", max_tokens: 400, temperature: 0 } as const;
const HI = { ...BASE, messages: [{ role: "user" as const, content: "hi" }] };
const TOOLS: Anthropic.Tool[] = [{ name: "read", description: "Reads a file", input_schema: { type: "object", properties: { path: { type: "string" } } } }];
const CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.js"}}\n</tool_call>';
const post = (body: object, path = "/v1/messages") => world.post(path, body);
const tokensOf = async (body: object) => (await world.post("/tokenize", body)).json as { tokens: number[]; owners: number[] };

interface Ours {
  usage: Anthropic.Usage;
  cache: { prompt_tokens: number; visible_tokens: number; computed_tokens: number; directives: { op: string; source?: string; status: string; ranges: [number, number][]; hidden?: number }[] };
  context_management: { applied_edits: unknown[] };
  prompt_token_ids: number[];
  token_ids: number[];
  warnings?: string[];
}
const ours = (message: unknown) => message as Ours;
const total = ({ input_tokens: input, cache_creation_input_tokens: created, cache_read_input_tokens: read }: Anthropic.Usage) => input + (created ?? 0) + (read ?? 0);

describe("a message", () => {
  test("whole: has Anthropic's shape", async () => {
    const message = await client.messages.create(Object.assign({ top_p: 0.9, top_k: 5 }, HI, { metadata: { user_id: "u" } }));
    expect(message).toMatchObject({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/) as string, type: "message", role: "assistant", model: "scripted",
      content: [{ type: "text", text: "Hello." }], stop_reason: "end_turn", stop_sequence: null, usage: { output_tokens: 6 },
    });
    expect(total(message.usage)).toBe((await tokensOf({ messages: HI.messages })).tokens.length);
    expect(message).not.toHaveProperty("cache");
    expect(message).not.toHaveProperty("warnings");
  });

  test("streamed: has Anthropic's events in their order, and the client makes the same message of them", async () => {
    const events: string[] = [];
    const stream = client.messages.stream(HI).on("streamEvent", (event) => events.push(event.type));
    const message = await stream.finalMessage();
    expect(message).toMatchObject({ content: [{ type: "text", text: "Hello." }], stop_reason: "end_turn", usage: { output_tokens: 6 } });
    expect(events).toEqual(["message_start", "content_block_start", ...Array<string>(6).fill("content_block_delta"), "content_block_stop", "message_delta", "message_stop"]);
    const { text } = await post({ ...HI, stream: true });
    for (const [, event, data] of text.matchAll(/event: (\w+)\ndata: (.*)\n\n/g)) expect((JSON.parse(data ?? "") as { type: string }).type).toBe(event);
    expect(text).not.toContain("[DONE]");
  });

  test("ends for its own reason: a stop sequence, its length, the context", async () => {
    expect(await client.messages.create({ ...HI, stop_sequences: ["zzz", "lo"] })).toMatchObject({ content: [{ text: "Hel" }], stop_reason: "stop_sequence", stop_sequence: "lo" });
    expect(await client.messages.create({ ...HI, max_tokens: 3 })).toMatchObject({ content: [{ text: "Hel" }], stop_reason: "max_tokens", stop_sequence: null, usage: { output_tokens: 3 } });
    const small = await openWorld({ contextLength: 40 });
    small.runtime.script.answers.set(0n, scriptOf("x".repeat(100)));
    expect((await small.post("/v1/messages", HI)).json).toMatchObject({ stop_reason: "model_context_window_exceeded" });
    await small.close();
  });

  test("is rendered as the same chat: system and content as texts or blocks", async () => {
    const texts = { system: "Be brief.", messages: [{ role: "user", content: "a\nb" }, { role: "assistant", content: "cd" }, { role: "user", content: "e" }] };
    const blocks = {
      system: [{ type: "text", text: "Be brief." }],
      messages: [
        { role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] },
        { role: "assistant", content: [{ type: "text", text: "c" }, { type: "text", text: "d" }] },
        { role: "user", content: [{ type: "text", text: "e" }] },
      ],
    };
    const chat = await tokensOf({ messages: [{ role: "system", content: "Be brief." }, ...texts.messages] });
    for (const body of [texts, blocks]) expect(ours((await post({ ...BASE, ...body, return_token_ids: true })).json).prompt_token_ids).toEqual(chat.tokens);
    const answer = ours((await post({ ...HI, return_token_ids: true })).json);
    expect(answer.token_ids).toEqual(scriptOf("Hello."));
  });

  test("without text is a message without blocks", async () => {
    say("");
    expect(await client.messages.create(HI)).toMatchObject({ content: [], stop_reason: "end_turn" });
    expect((await client.messages.stream(HI).finalMessage()).content).toEqual([]);
  });

  test("takes a key of either form, and any version header", async () => {
    expect((await world.post("/v1/messages", HI, { "anthropic-version": "2023-06-01", "anthropic-beta": "context-management-2025-06-27" })).status).toBe(200);
    expect((await world.post("/v1/messages?beta=true", HI)).status).toBe(200);
    expect((await world.post("/v1/messages", { ...HI, model: undefined })).status).toBe(200);
  });
});

describe("tools", () => {
  const QUESTION = { role: "user" as const, content: "What is in a.js?" };

  test("calls come as blocks, whole and streamed, and their results go back", async () => {
    say(`Let me look.\n${CALL}`);
    const body = { ...BASE, tools: TOOLS, messages: [QUESTION] };
    const message = await client.messages.create(body);
    const expected = {
      content: [{ type: "text", text: "Let me look." }, { type: "tool_use", id: expect.stringMatching(/^toolu_/) as string, name: "read", input: { path: "a.js" } }],
      stop_reason: "tool_use",
    };
    expect(message).toMatchObject(expected);
    expect(await client.messages.stream(body).finalMessage()).toMatchObject(expected);
    say("It is empty.");
    const use = message.content.find((block) => block.type === "tool_use");
    const next = await client.messages.create({
      ...body,
      messages: [QUESTION, { role: "assistant", content: message.content }, { role: "user", content: [{ type: "tool_result", tool_use_id: use?.id ?? "", content: [{ type: "text", text: "nothing" }] }, { type: "text", text: "Well?" }] }],
    });
    expect(next).toMatchObject({ content: [{ type: "text", text: "It is empty." }], stop_reason: "end_turn" });
  });

  test("are rendered as OpenAI's are: schema, call and result", async () => {
    const anthropic = {
      tools: TOOLS,
      messages: [
        QUESTION,
        { role: "assistant", content: [{ type: "text", text: "Look." }, { type: "tool_use", id: "t1", name: "read", input: { path: "a.js" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "nothing" }, { type: "text", text: "Well?" }] },
      ],
    };
    const openai = {
      tools: [{ type: "function", function: { name: "read", description: "Reads a file", parameters: TOOLS[0]?.input_schema } }],
      messages: [
        QUESTION,
        { role: "assistant", content: "Look.", tool_calls: [{ id: "t1", type: "function", function: { name: "read", arguments: '{"path": "a.js"}' } }] },
        { role: "tool", tool_call_id: "t1", content: "nothing" },
        { role: "user", content: "Well?" },
      ],
    };
    expect(ours((await post({ ...BASE, ...anthropic, return_token_ids: true })).json).prompt_token_ids).toEqual((await tokensOf(openai)).tokens);
  });

  test("with tool_choice none what looks like a call stays text", async () => {
    say(CALL);
    expect(await client.messages.create({ ...BASE, tools: TOOLS, tool_choice: { type: "none" }, messages: [QUESTION] })).toMatchObject({ content: [{ type: "text", text: CALL }], stop_reason: "end_turn" });
  });

  test("streamed blocks concatenate to the whole message for every answer", async () => {
    const parts = array(constantFrom("a", "é", "\u{1f600}", " ", "\n", CALL, "<tool_call>", "{", "}", '<tool_call>{"name": 1}</tool_call>'), { maxLength: 6 });
    await assert(
      asyncProperty(parts, integer({ min: 1, max: 120 }), async (answer, max_tokens) => {
        say(answer.join(""));
        const body = { ...BASE, max_tokens, tools: TOOLS, messages: [QUESTION] };
        const whole = await client.messages.create(body);
        const streamed = await client.messages.stream(body).finalMessage();
        expect(plainBlocks(streamed)).toEqual(plainBlocks(whole));
        expect([streamed.stop_reason, streamed.usage.output_tokens]).toEqual([whole.stop_reason, whole.usage.output_tokens]);
      }),
      { numRuns: 30 },
    );
  });
});

const plainBlocks = (message: Anthropic.Message) => message.content.map((block) => (block.type === "tool_use" ? [block.name, block.input] : block.type === "text" ? block.text : block));
const management = (more: object = {}) => ({
  edits: [{ type: "clear_tool_uses_20250919" as const, trigger: { type: "tool_uses" as const, value: 3 }, keep: { type: "tool_uses" as const, value: 2 }, ...more }],
});
const thoughtful = (text: string): Anthropic.Beta.BetaMessageParam => ({ role: "assistant", content: [{ type: "thinking", thinking: text, signature: "s" }, { type: "text", text: "ok" }] });
const withBlock = (content: object, role = "user") => ({ messages: [{ role, content: [content] }, ...(role === "assistant" ? [{ role: "user", content: "x" }] : [])] });

const billed = (token: string, more: object = {}) => ({
  ...BASE, max_tokens: 1, messages: [{ role: "user", content: "x-anthropic-billing-header: is text here" }], return_token_ids: true, cache: { report: true }, ...more,
  system: [{ type: "text", text: `x-anthropic-billing-header: cc_version=1; cch=${token};` }, { type: "text", text: "You are an agent with a name." }],
});

/** A loop of an agent: a call and its result in each turn. */
function agent(turns: number, start = "go"): Anthropic.MessageParam[] {
  const loop = Array.from({ length: turns }, (_, turn): Anthropic.MessageParam[] => [
    { role: "assistant", content: [{ type: "tool_use", id: `t${turn}`, name: "read", input: { path: `${turn}.js` } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: `t${turn}`, content: `the content of file ${turn}, which is long` }] },
  ]);
  return [{ role: "user", content: start }, ...loop.flat()];
}

const managed = (turns: number, more: object = {}) => ({ ...BASE, tools: TOOLS, messages: agent(turns), context_management: management(more), betas: ["context-management-2025-06-27"] });

describe("context_management", () => {

  test("clears old results on the cache, and says what it did", async () => {
    const message = await client.beta.messages.create(managed(5));
    const cleared = [0, 1, 2].map((turn) => `the content of file ${turn}, which is long`.length - "[cleared]".length).reduce((sum, tokens) => sum + tokens, 0);
    expect(message.context_management).toEqual({ applied_edits: [{ type: "clear_tool_uses_20250919", cleared_tool_uses: 3, cleared_input_tokens: cleared }] });
    const { cache } = ours(message);
    expect(cache.directives.map(({ op, source, status }) => [op, source, status])).toEqual(Array.from({ length: 3 }, () => ["splice", "clear_tool_uses_20250919", "applied"]));
    expect(cache.prompt_tokens - cache.visible_tokens).toBe(cleared);
  });

  test("streamed has the edits with its last usage", async () => {
    const { text } = await post({ ...managed(5), betas: undefined, stream: true });
    const deltas = [...text.matchAll(/event: message_delta\ndata: (.*)\n/g)].map(([, data]) => JSON.parse(data ?? "") as Ours);
    expect(deltas).toHaveLength(1);
    expect(deltas[0]?.context_management.applied_edits).toMatchObject([{ cleared_tool_uses: 3 }]);
    expect(deltas[0]?.usage).toMatchObject({ output_tokens: 6, cache_read_input_tokens: expect.any(Number) as number });
    const message = await client.beta.messages.stream(managed(5)).finalMessage();
    expect(message.context_management?.applied_edits).toMatchObject([{ cleared_tool_uses: 3 }]);
  });

  test("a turn later the same edits stand at the same places: only what is new is computed", async () => {
    const start = "an agent that goes on turn by turn";
    let known = 0;
    for (const turns of [4, 5, 6, 7]) {
      const message = await client.beta.messages.create({ ...managed(turns), messages: agent(turns, start), max_tokens: 1 });
      const { computed_tokens: computed, prompt_tokens: prompt } = ours(message).cache;
      expect(known === 0 || computed < prompt - known + 3 * "[cleared]".length + 30).toBe(true);
      known = prompt;
    }
  });

  test("below its trigger it clears nothing and says so", async () => {
    expect((await client.beta.messages.create(managed(2))).context_management).toEqual({ applied_edits: [] });
  });

  test("keeps excluded tools, and clears the inputs of calls when asked", async () => {
    expect((await client.beta.messages.create(managed(5, { exclude_tools: ["read"] }))).context_management).toEqual({ applied_edits: [] });
    const inputs = ours(await client.beta.messages.create(managed(5, { clear_tool_inputs: true })));
    expect(inputs.cache.directives.filter(({ op }) => op === "drop")).toHaveLength(3);
  });

  test("clears the reasoning of earlier turns, which the template then keeps in the text", async () => {
    const thinking = await listening({ chatTemplate: REASONING_TEMPLATE });
    const messages: Anthropic.Beta.BetaMessageParam[] = [{ role: "user", content: "a" }, thoughtful("one"), { role: "user", content: "b" }, thoughtful("second"), { role: "user", content: "c" }];
    const edits = { edits: [{ type: "clear_thinking_20251015" as const, keep: { type: "thinking_turns" as const, value: 1 } }] };
    const message = await thinking.client.beta.messages.create({ ...BASE, messages, context_management: edits, betas: ["context-management-2025-06-27"] });
    expect(message.context_management).toEqual({ applied_edits: [{ type: "clear_thinking_20251015", cleared_thinking_turns: 1, cleared_input_tokens: 3 }] });
    const plain = await thinking.client.messages.create({ ...BASE, messages: messages as Anthropic.MessageParam[] });
    // Without the edit the template itself leaves both out. What is cleared was computed once, before it was.
    expect(total(message.usage) - total(plain.usage)).toBe("<think></think>".length * 2 + "second".length + "one".length);
    await thinking.world.close();
  });
});

describe("cache_control", () => {
  test("pins up to its block, and the usage tells reading from writing", async () => {
    const body = {
      ...BASE,
      system: [{ type: "text" as const, text: "A long instruction that stays.", cache_control: { type: "ephemeral" as const, ttl: "1h" as const } }],
      messages: [{ role: "user" as const, content: [{ type: "text" as const, text: "first", cache_control: { type: "ephemeral" as const } }] }],
    };
    const { owners } = await tokensOf({ messages: [{ role: "system", content: body.system[0]?.text }, { role: "user", content: "first" }] });
    const header = owners.filter((owner) => owner === 2).length;
    const first = await client.messages.create(body);
    expect(first.usage.input_tokens).toBe(header);
    expect(total(first.usage)).toBe(owners.length);
    // "<|im_start|>system" and a line end are what other prompts begin with too.
    expect(first.usage.cache_creation_input_tokens).toBeGreaterThan(owners.length - header - 10);
    expect(ours(first).cache.directives).toMatchObject([{ op: "pin", source: "cache_control", status: "applied" }, { op: "pin", source: "cache_control", status: "applied" }]);
    const second = await client.messages.create(body);
    expect(second.usage).toMatchObject({ cache_creation_input_tokens: 0, input_tokens: 1, cache_read_input_tokens: owners.length - 1 });
  });

  test("stands on tools, results and the request itself", async () => {
    const ephemeral = { type: "ephemeral" };
    const messages = agent(1);
    const answer = await post({ ...BASE, tools: [{ ...TOOLS[0], cache_control: ephemeral }], messages: [...messages.slice(0, 2), { role: "user", content: [{ type: "tool_result", tool_use_id: "t0", content: "x", cache_control: ephemeral }] }], cache_control: ephemeral });
    expect(ours(answer.json).cache.directives.map(({ op }) => op)).toEqual(["pin", "pin", "pin"]);
  });
});

describe("count_tokens", () => {
  test("counts what a message is given, edits included, and computes nothing", async () => {
    const before = world.runtime.steps;
    const { input_tokens: counted } = await client.messages.countTokens({ model: "scripted", system: "Be brief.", tools: TOOLS, messages: agent(2) });
    const edited = await client.beta.messages.countTokens({
      model: "scripted", tools: TOOLS, messages: agent(5),
      context_management: { edits: [{ type: "clear_tool_uses_20250919", trigger: { type: "tool_uses", value: 1 }, keep: { type: "tool_uses", value: 1 } }] },
    });
    expect(world.runtime.steps).toBe(before);
    const message = await client.messages.create({ ...BASE, system: "Be brief.", tools: TOOLS, messages: agent(2) });
    expect(total(message.usage)).toBe(counted);
    expect(edited.input_tokens).toBeLessThan(edited.context_management?.original_input_tokens ?? 0);
  });

  test("says which message of the log is which of the request, so that directives can name it", async () => {
    const answer = (await post({ system: "s", messages: agent(1), max_tokens: 5 }, "/v1/messages/count_tokens")).json as { log: { message: number; field: string; role: string; tokens: number }[]; input_tokens: number };
    expect(answer.log.map(({ message, field, role }) => [message, field, role])).toEqual([[0, "system", "system"], [1, "messages[0]", "user"], [2, "messages[1]", "assistant"], [3, "messages[2]", "tool"]]);
    expect(answer.log.reduce((sum, { tokens }) => sum + tokens, 0) + "<".length + "assistant\n".length).toBe(answer.input_tokens);
  });
});

describe("directives of our own", () => {
  test("edit the log that count_tokens shows, and get a report", async () => {
    const body = { ...BASE, system: "s", messages: [{ role: "user", content: "secret" }, { role: "assistant", content: "ok" }, { role: "user", content: "b" }], directives: [{ op: "drop", target: { messages: [1] }, at: { message: 2 } }, { op: "reposition", at: { message: 2 } }] };
    const { cache, prompt_token_ids: ids } = ours((await post({ ...body, return_token_ids: true })).json);
    const [start, end] = cache.directives[0]?.ranges[0] ?? [0, 0];
    expect(world.service.tokenizer.decode(ids.slice(start, end))).toBe("<|im_start|>user\nsecret<|im_end|>\n");
    const { text } = await post({ ...body, stream: true });
    expect(JSON.parse(/event: message_delta\ndata: (.*)\n/.exec(text)?.[1] ?? "")).toMatchObject({ cache: { directives: [{ op: "drop" }, { op: "reposition" }] } });
    expect(ours((await post({ ...HI, cache: { report: true } })).json).cache).toMatchObject({ directives: [] });
  });
});

test("R27: a billing header that changes with every request does not break the prefix, and can be kept", async () => {
  const first = ours((await post(billed("36ee5"))).json);
  const second = ours((await post(billed("0aaa9"))).json);
  expect(second.prompt_token_ids).toEqual(first.prompt_token_ids);
  expect(second.cache.computed_tokens).toBe(1);
  expect(world.service.tokenizer.decode(first.prompt_token_ids)).toBe("<|im_start|>system\nYou are an agent with a name.<|im_end|>\n<|im_start|>user\nx-anthropic-billing-header: is text here<|im_end|>\n<|im_start|>assistant\n");
  expect(first.warnings).toEqual([expect.stringContaining("billing header") as string]);
  const kept = ours((await post(billed("36ee5", { cache: { volatile: "keep" } }))).json);
  expect(world.service.tokenizer.decode(kept.prompt_token_ids)).toContain("cch=36ee5");
});

describe("errors", () => {
  type Case = [what: string, body: object, param: string, status?: number];
  const CASES: Case[] = [
    ["no max_tokens", { max_tokens: undefined }, "max_tokens"],
    ["a fractional max_tokens", { max_tokens: 1.5 }, "max_tokens"],
    ["no messages", { messages: undefined }, "messages"],
    ["an empty list of messages", { messages: [] }, "messages"],
    ["an unknown role", { messages: [{ role: "tool", content: "x" }] }, "messages[0].role"],
    ["content that is a number", { messages: [{ role: "user", content: 3 }] }, "messages[0].content"],
    ["a block of an unknown type", withBlock({ type: "smell" }), "messages[0].content[0].type"],
    ["a text block without text", withBlock({ type: "text" }), "messages[0].content[0].text"],
    ["an image", withBlock({ type: "image", source: {} }), "messages[0].content[0].type", 422],
    ["an image in a result", { messages: [...agent(1).slice(0, 2), { role: "user", content: [{ type: "tool_result", tool_use_id: "t0", content: [{ type: "image", source: {} }] }] }] }, "messages[2].content[0].content[0].type", 422],
    ["a result without its call", withBlock({ type: "tool_result", tool_use_id: "t9", content: "x" }), "messages[0].content[0].tool_use_id"],
    ["a result that an assistant writes", withBlock({ type: "tool_result", tool_use_id: "t9", content: "x" }, "assistant"), "messages[0].content[0].type"],
    ["a call that a user writes", withBlock({ type: "tool_use", id: "t", name: "f", input: {} }), "messages[0].content[0].type"],
    ["a call whose input is a text", withBlock({ type: "tool_use", id: "t", name: "f", input: "x" }, "assistant"), "messages[0].content[0].input"],
    ["an answer that is begun already", { messages: [...HI.messages, { role: "assistant", content: "I" }] }, "messages[1].role", 422],
    ["a system prompt that is a number", { system: 3 }, "system"],
    ["an image in the system prompt", { system: [{ type: "image" }] }, "system[0].type"],
    ["a tool without a name", { tools: [{ input_schema: {} }] }, "tools[0].name"],
    ["a tool of the server", { tools: [{ type: "web_search_20250305", name: "web_search" }] }, "tools[0].type", 422],
    ["a forced tool", { tools: TOOLS, tool_choice: { type: "any" } }, "tool_choice.type", 422],
    ["an unknown tool_choice", { tool_choice: { type: "maybe" } }, "tool_choice.type"],
    ["calls one by one", { tool_choice: { type: "auto", disable_parallel_tool_use: true } }, "tool_choice.disable_parallel_tool_use", 422],
    ["thinking", { thinking: { type: "enabled", budget_tokens: 1024 } }, "thinking.type", 422],
    ["a temperature that is too high", { temperature: 3 }, "temperature"],
    ["top_p of 0", { top_p: 0 }, "top_p"],
    ["a negative top_k", { top_k: -1 }, "top_k"],
    ["an empty stop sequence", { stop_sequences: [""] }, "stop_sequences[0]"],
    ["too many stop sequences", { stop_sequences: Array.from({ length: 17 }, () => "x") }, "stop_sequences"],
    ["a container", { container: "c" }, "container", 422],
    ["servers of tools", { mcp_servers: [] }, "mcp_servers", 422],
    ["an output format", { output_config: { format: {} } }, "output_config", 422],
    ["AKV's fields", { drop_message: { 0: [0] } }, "drop_message", 422],
    ["a misspelled field of ours", { directive: [] }, "directive"],
    ["an unknown key of cache", { cache: { compat: "akv" } }, "cache.compat"],
    ["a directive past the log", { directives: [{ op: "drop", target: { messages: [5] } }] }, "directives[0].target.messages"],
    ["an unknown edit", { context_management: { edits: [{ type: "clear_all" }] } }, "context_management.edits[0].type"],
    ["a compaction", { context_management: { edits: [{ type: "compact_20260112" }] } }, "context_management.edits[0].type", 422],
    ["an unknown key of an edit", { context_management: { edits: [{ type: "clear_tool_uses_20250919", kep: 1 }] } }, "context_management.edits[0].kep"],
    ["an unknown cache_control", withBlock({ type: "text", text: "a", cache_control: { type: "forever" } }), "messages[0].content[0].cache_control.type"],
    ["five breakpoints", { messages: [{ role: "user", content: Array.from({ length: 5 }, () => ({ type: "text", text: "a", cache_control: { type: "ephemeral" } })) }] }, "messages[0].content[4].cache_control"],
    ["a prompt past the context", { messages: [{ role: "user", content: "x".repeat(5_000) }] }, "messages"],
  ];

  test.each(CASES)("%s: named, in Anthropic's shape, before any header of a stream", async (_what, more, param, status = 400) => {
    for (const stream of [false, true]) {
      const answer = await post({ ...HI, ...more, stream });
      expect({ status: answer.status, json: answer.json }).toMatchObject({
        status, json: { type: "error", error: { type: "invalid_request_error", kind: status === 422 ? "unsupported" : "invalid", param, message: expect.any(String) as string } },
      });
    }
    expect((await post(HI)).status).toBe(200);
  });

  test("are the client's own classes", async () => {
    await expect(client.messages.create(Object.assign({}, HI, { temperature: 9 }))).rejects.toBeInstanceOf(BadRequestError);
    await expect(client.messages.create({ ...HI, model: "claude" })).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.messages.create({ ...HI, thinking: { type: "enabled", budget_tokens: 2_000 } })).rejects.toBeInstanceOf(UnprocessableEntityError);
    await expect(client.messages.stream({ ...HI, temperature: 9 }).finalMessage()).rejects.toBeInstanceOf(BadRequestError);
    await expect(client.messages.countTokens({ model: "claude", messages: [] })).rejects.toBeInstanceOf(BadRequestError);
  });

  test("of an answer that fails while it is streamed is an event", async () => {
    world.runtime.script.failNext = true;
    world.runtime.script.stepMs = 60;
    const { text } = await post({ ...HI, messages: [{ role: "user", content: "another beginning" }], stream: true });
    world.runtime.script.stepMs = 0;
    expect(/event: error\ndata: (.*)\n/.exec(text)?.[1]).toContain('"type":"api_error"');
    world.runtime.script.failNext = true;
    world.runtime.script.stepMs = 60;
    await expect(client.messages.stream({ ...HI, messages: [{ role: "user", content: "yet another beginning" }] }).finalMessage()).rejects.toThrow("internal");
    world.runtime.script.stepMs = 0;
    expect(await client.messages.create(HI)).toMatchObject({ content: [{ text: "Hello." }] });
  });

  test("of a key: the tenant's, by x-api-key as the client sends it", async () => {
    const { createHash } = await import("node:crypto");
    const key = createHash("sha256").update("alice-key").digest("hex");
    const tenants = await listening({ tenants: new Map([[key, { namespace: "tenant/alice", operator: false }]]) });
    await expect(tenants.client.messages.create(HI)).rejects.toBeInstanceOf(AuthenticationError);
    const alice = tenants.client.withOptions({ apiKey: "alice-key" });
    expect(await alice.messages.create(HI)).toMatchObject({ content: [{ text: "Hello." }] });
    await tenants.world.close();
  });
});
