import Anthropic from "@anthropic-ai/sdk";
import type { OpenAI } from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithModel } from "./real-models.ts";
import { openServer, type TestServer } from "./servers.ts";

/** A real model that calls a tool, gets its result and answers, with both official clients, whole and streamed. */
describeWithModel("qwen2.5-coder-0.5b", "Qwen2.5-Coder with a tool", (path) => {
  let server: TestServer;
  let anthropic: Anthropic;
  beforeAll(async () => {
    server = await openServer(path);
    anthropic = new Anthropic({ baseURL: server.address, apiKey: "any key", maxRetries: 0 });
  }, 120_000);
  afterAll(() => server.close());

  const schema = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] };
  const WELL = "Now tell me in plain words: how is the weather in Paris?";
  const QUESTION = "What is the weather in Paris? Use the tool.";
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: QUESTION }];
  const openai = { model: "model", temperature: 0, max_tokens: 64, messages, tools: [{ type: "function" as const, function: { name: "get_weather", description: "Weather of a city", parameters: schema } }] };
  const claude = { model: "model", max_tokens: 64, messages: [{ role: "user" as const, content: QUESTION }], tools: [{ name: "get_weather", description: "Weather of a city", input_schema: schema }] };
  const GREEDY = { temperature: 0 };

  test("calls it, and goes on with the result", async () => {
    const first = await server.client.chat.completions.create(openai);
    const [choice] = first.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    const [call] = choice?.message.tool_calls ?? [];
    expect(call).toMatchObject({ type: "function", function: { name: "get_weather" } });
    expect(JSON.parse(call?.type === "function" ? call.function.arguments : "")).toEqual({ city: "Paris" });
    const streamed = await server.client.chat.completions.stream(openai).finalChatCompletion();
    expect(streamed.choices[0]?.message.tool_calls).toMatchObject([{ function: { name: "get_weather", arguments: call?.type === "function" ? call.function.arguments : "" } }]);
    const next = await server.client.chat.completions.create({ ...openai, messages: [...messages, choice!.message, { role: "tool", tool_call_id: call?.id ?? "", content: "sunny, 21 degrees" }, { role: "user", content: WELL }] });
    expect(next.choices[0]?.message.content).toMatch(/sunny|21/);
  });

  test("calls it in Anthropic's blocks, and clears the result on the cache", async () => {
    const first = await anthropic.messages.create(Object.assign({}, claude, GREEDY));
    expect(first).toMatchObject({ stop_reason: "tool_use", content: [{ type: "tool_use", name: "get_weather", input: { city: "Paris" } }] });
    expect(await anthropic.messages.stream(Object.assign({}, claude, GREEDY)).finalMessage()).toMatchObject({ stop_reason: "tool_use", content: [{ type: "tool_use", input: { city: "Paris" } }] });
    const use = first.content.find((block) => block.type === "tool_use");
    const result = { role: "user" as const, content: [{ type: "tool_result" as const, tool_use_id: use?.id ?? "", content: "sunny, 21 degrees, wind from the west, no rain expected until the weekend" }, { type: "text" as const, text: WELL }] };
    const history = [...claude.messages, { role: "assistant" as const, content: first.content }, result];
    const next = await anthropic.messages.create(Object.assign({}, claude, GREEDY, { messages: history }));
    expect(next.content[0]).toMatchObject({ type: "text", text: expect.stringMatching(/sunny|21/) as string });
    const edit = { type: "clear_tool_uses_20250919" as const, trigger: { type: "tool_uses" as const, value: 0 }, keep: { type: "tool_uses" as const, value: 0 } };
    const cleared = await anthropic.beta.messages.create(Object.assign({}, claude, GREEDY, { messages: history, context_management: { edits: [edit] }, betas: ["context-management-2025-06-27"] }));
    expect(cleared.context_management?.applied_edits).toMatchObject([{ cleared_tool_uses: 1 }]);
    // The result is in the cache already: only the replacement and what comes after the boundary is computed.
    expect(cleared.usage.input_tokens).toBeLessThan(16);
  });
});
