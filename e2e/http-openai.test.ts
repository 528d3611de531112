import { BadRequestError, NotFoundError, type OpenAI } from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeWithModel } from "./real-models.ts";
import { openServer, tinyModel, type TestServer } from "./servers.ts";

/** The official client against a listening server on a real model: chats that edit themselves, streamed and not, aborts, errors. */

interface Report {
  prompt_tokens: number;
  visible_tokens: number;
  cached_tokens: number;
  repositioned_tokens: number;
  computed_tokens: number;
  skipped_tokens: number;
  bytes_moved: number;
  directives: { op: string; status: string; ranges?: [number, number][]; at_token: number }[];
  miss: { at_token: number; reason: string } | null;
}
type Answer = OpenAI.ChatCompletion & { cache: Report };
type Message = OpenAI.ChatCompletionMessageParam;

const TOOLS: OpenAI.ChatCompletionTool[] = [
  { type: "function", function: { name: "read_file", description: "Reads a file", parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] } } },
];

/** A chat of ten messages as an agent has it: a question, calls of tools and their results, an answer, a new question. */
const CHAT: Message[] = [
  { role: "system", content: "You are a careful programmer. Answer in one short sentence." },
  { role: "user", content: "What does the function add in math.js do?" },
  { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "read_file", arguments: '{"path": "math.js"}' } }] },
  { role: "tool", tool_call_id: "call_1", content: "export function add(a, b) { return a + b; }\n// <|im_end|> is text here" },
  { role: "assistant", content: "It returns the sum of its two arguments." },
  { role: "user", content: "And where is it used?" },
  { role: "assistant", content: null, tool_calls: [{ id: "call_2", type: "function", function: { name: "read_file", arguments: '{"path": "main.js"}' } }] },
  { role: "tool", tool_call_id: "call_2", content: 'import { add } from "./math.js";\nconsole.log(add(1, 2));' },
  { role: "assistant", content: "It is used in main.js, which prints 3." },
  { role: "user", content: "Name the file that prints the number." },
];

/** What the agent drops, and after which message; each drop is followed by a reposition. */
const EDITS = [
  { drop: 3, after: 4 },
  { drop: 2, after: 6 },
  { drop: 7, after: 9 },
];

const TURNS = [2, 4, 6, 8, 10];

function directivesUpTo(messages: number): object[] {
  return EDITS.filter(({ after }) => after < messages).flatMap(({ drop, after }) => [
    { op: "drop", target: { messages: [drop] }, at: { message: after } },
    { op: "reposition", at: { message: after } },
  ]);
}

const FIXED = { model: "model", temperature: 0, max_tokens: 6, logprobs: true, top_logprobs: 3, tools: TOOLS } as const;
const bodyOf = (messages: number) => ({ ...FIXED, messages: CHAT.slice(0, messages), directives: directivesUpTo(messages) });

describe("a generated model over HTTP, with the official client", () => {
  suite(tinyModel);
});
describeWithModel("smollm2-135m", "SmolLM2 over HTTP, with the official client", (path) => suite(async () => path));
// The long form; the short one proves the server, not the model.
if (process.env["PALIMPSEST_LONG"] === "1") describeWithModel("qwen2.5-coder-0.5b", "Qwen2.5-Coder over HTTP, with the official client", (path) => suite(async () => path));

function suite(modelFile: () => Promise<string>): void {
  let path: string;
  let server: TestServer;
  beforeAll(async () => {
    path = await modelFile();
    server = await openServer(path);
  });
  afterAll(() => server.close());

  const ask = async (messages: number, to = server) => (await to.client.chat.completions.create(bodyOf(messages) as OpenAI.ChatCompletionCreateParamsNonStreaming)) as Answer;

  const complete = (prompt: string) => server.client.completions.create({ model: "model", prompt, max_tokens: 8, temperature: 0, logprobs: 0 });

  test("a chat that drops and repositions turn by turn computes only what is new, and ends with the bits of a fresh server", async () => {
    let known = 0;
    let last: Answer | null = null;
    for (const messages of TURNS) {
      const answer = await ask(messages);
      const { cache } = answer;
      expect(cache.bytes_moved).toBe(0);
      expect(cache.cached_tokens + cache.repositioned_tokens + cache.computed_tokens + cache.skipped_tokens).toBe(cache.prompt_tokens);
      expect(cache.computed_tokens).toBeLessThanOrEqual(cache.prompt_tokens - known);
      expect(cache.directives.every(({ status }) => status === "applied")).toBe(true);
      const { owners } = (await server.client.post("/../tokenize", { body: { messages: CHAT.slice(0, messages), tools: TOOLS } })) as { owners: number[] };
      for (const [index, { drop }] of EDITS.filter(({ after }) => after < messages).entries()) {
        expect(cache.directives[2 * index]?.ranges).toEqual([[owners.indexOf(drop), owners.lastIndexOf(drop) + 1]]);
      }
      // The next rendering begins with this log up to the generation header.
      known = owners.indexOf(messages);
      last = answer;
    }
    const fresh = await openServer(path);
    try {
      const cold = await ask(10, fresh);
      expect(cold.choices).toEqual(last?.choices);
      expect(cold.cache.computed_tokens).toBeGreaterThan(last?.cache.computed_tokens ?? 0);
    } finally {
      await fresh.close();
    }
  });

  test("a stream has the text, the scores and the report of the whole answer", async () => {
    const whole = await ask(10);
    const stream = await server.client.chat.completions.create({ ...bodyOf(10), stream: true } as OpenAI.ChatCompletionCreateParamsStreaming);
    let content = "";
    const scores: unknown[] = [];
    const last: { cache?: Report; usage?: OpenAI.CompletionUsage | null } = {};
    for await (const chunk of stream) {
      content += chunk.choices[0]?.delta.content ?? "";
      scores.push(...(chunk.choices[0]?.logprobs?.content ?? []));
      Object.assign(last, { cache: (chunk as unknown as { cache?: Report }).cache, usage: chunk.usage });
    }
    expect(content).toBe(whole.choices[0]?.message.content);
    expect(scores).toEqual(whole.choices[0]?.logprobs?.content);
    expect(last.usage).toMatchObject({ prompt_tokens: whole.usage?.prompt_tokens, completion_tokens: whole.usage?.completion_tokens });
    expect(last.cache?.directives).toEqual(whole.cache.directives);
  });

  test("a client that aborts gives all pages back, and its retry finds what was computed", async () => {
    const controller = new AbortController();
    const body = { ...bodyOf(8), max_tokens: 1500, ignore_eos: true, stream: true } as unknown as OpenAI.ChatCompletionCreateParamsStreaming;
    const stream = await server.client.chat.completions.create(body, { signal: controller.signal });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 3) controller.abort();
    expect(chunks).toBeLessThan(1500);
    for (let tries = 0; server.service.engine.state().pages.leased > 0 && tries < 500; tries++) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(server.service.engine.state().pages.leased).toBe(0);
    expect((await ask(8)).cache.computed_tokens).toBeLessThanOrEqual(1);
  });

  test("errors reach the client with kind, code and field", async () => {
    await expect(ask(10).then(() => server.client.chat.completions.create({ ...bodyOf(2), n: 2 } as never))).rejects.toMatchObject({ status: 422, code: "unsupported", param: "n" });
    await expect(server.client.chat.completions.create({ ...bodyOf(2), model: "gpt-9" } as never)).rejects.toBeInstanceOf(NotFoundError);
    await expect(server.client.chat.completions.create({ ...bodyOf(2), temperature: 9 } as never)).rejects.toBeInstanceOf(BadRequestError);
  });

  test("completions, models and log-probabilities of a prompt have the client's types", async () => {
    const models = await server.client.models.list();
    expect(models.data.map((model) => model.id)).toEqual(["model"]);
    const completion = await server.client.completions.create({ model: "model", prompt: "One, two, three,", max_tokens: 0, echo: true, logprobs: 2 });
    const { tokens, token_logprobs: scores } = completion.choices[0]?.logprobs ?? {};
    expect(tokens?.join("")).toBe("One, two, three,");
    expect(scores?.[0]).toBeNull();
    expect(scores?.slice(1).every((score) => typeof score === "number" && score <= 0)).toBe(true);
  });

  test("eight clients at once get the answers that each gets alone", async () => {
    const prompts = Array.from({ length: 8 }, (_, index) => `Count from ${index} on: ${index},`);
    const together = await Promise.all(prompts.map(complete));
    for (const [index, prompt] of prompts.entries()) expect((await complete(prompt)).choices).toEqual(together[index]?.choices);
  });
}
