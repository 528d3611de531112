import { array, assert, asyncProperty, constantFrom, integer, string } from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { IM_END, scriptedLogprob, scriptOf, TOOL_CALL } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());
beforeEach(() => {
  world.runtime.script.answers = new Map([[0n, scriptOf("Hello.")]]);
});

const say = (text: string) => world.runtime.script.answers.set(0n, scriptOf(text));
const user = (content: unknown) => ({ role: "user", content });
const HI = { messages: [user("hi")] };

interface Choice {
  text?: string;
  delta?: { role?: string; content?: string };
  message?: { role: string; content: string; refusal: null };
  finish_reason: string | null;
  logprobs: { content?: unknown[]; tokens?: string[] } | null;
  token_ids?: number[];
}
interface Chunk {
  id: string;
  object: string;
  choices: Choice[];
  usage?: Record<string, unknown> | null;
  cache?: Record<string, unknown>;
  warnings?: string[];
  prompt_token_ids?: number[];
  error?: Record<string, unknown>;
}

const chat = async (body: object) => (await world.post("/v1/chat/completions", { ...HI, ...body })).json as Chunk;
const idsOf = async (messages: unknown[]) => (await chat({ messages, return_token_ids: true })).prompt_token_ids;
const complete = async (body: object) => (await world.post("/v1/completions", body)).json as Chunk;
const streamed = (path: string, body: object) => world.stream(path, body) as unknown as Promise<Chunk[]>;
const textOf = (chunks: Chunk[]) => chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? "").join("");

describe("a chat answer", () => {
  test("has OpenAI's shape", async () => {
    expect(await chat({})).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/) as string,
      object: "chat.completion",
      model: "scripted",
      choices: [{ index: 0, message: { role: "assistant", content: "Hello.", refusal: null }, logprobs: null, finish_reason: "stop" }],
      usage: { completion_tokens: 6, prompt_tokens: expect.any(Number) as number, prompt_tokens_details: { cached_tokens: expect.any(Number) as number } },
    });
  });

  test("is the same for content in parts and for the developer's role", async () => {
    expect(await idsOf([user([{ type: "text", text: "a" }, { type: "text", text: "b" }])])).toEqual(await idsOf([user("a\nb")]));
    expect(await idsOf([{ role: "developer", content: "x" }, user("y")])).toEqual(await idsOf([{ role: "system", content: "x" }, user("y")]));
  });

  test("ends at max_tokens, at the end of a turn, and goes on past it with ignore_eos", async () => {
    expect(await chat({ max_tokens: 3 })).toMatchObject({ choices: [{ message: { content: "Hel" }, finish_reason: "length" }], usage: { completion_tokens: 3 } });
    expect(await chat({ max_completion_tokens: 3 })).toMatchObject({ choices: [{ message: { content: "Hel" } }] });
    const more = await chat({ ignore_eos: true, max_tokens: 9, return_token_ids: true });
    expect(more.choices[0]).toMatchObject({ finish_reason: "length", token_ids: [...scriptOf("Hello."), IM_END, IM_END, IM_END], message: { content: "Hello." } });
  });

  test("ends at a stop string or a stop token, without it", async () => {
    expect(await chat({ stop: "lo" })).toMatchObject({ choices: [{ message: { content: "Hel" }, finish_reason: "stop" }] });
    expect(await chat({ stop: ["zzz", "o."] })).toMatchObject({ choices: [{ message: { content: "Hell" }, finish_reason: "stop" }] });
    expect(await chat({ stop_token_ids: [".".charCodeAt(0)] })).toMatchObject({ choices: [{ finish_reason: "stop" }] });
  });

  test("names ignored fields in warnings, whole and streamed", async () => {
    expect((await chat({ frobnicate: 1 })).warnings).toEqual(['The unknown field "frobnicate" was ignored.']);
    const chunks = await streamed("/v1/chat/completions", { ...HI, frobnicate: 1 });
    expect(chunks.map((chunk) => chunk.warnings?.length ?? 0)).toEqual([...Array<number>(chunks.length - 1).fill(0), 1]);
  });

  test("keeps mark-up of tool calls as text", async () => {
    world.runtime.script.answers.set(0n, [TOOL_CALL, ...scriptOf("{}")]);
    expect(await chat({})).toMatchObject({ choices: [{ message: { content: "<tool_call>{}" } }] });
  });

  test("may be asked for under any name of the model, or none", async () => {
    for (const model of ["scripted", "other-name", null]) expect(await chat({ model })).toMatchObject({ model: "scripted" });
  });

  test("has log-probabilities with bytes, a token that is half a character too", async () => {
    say("é");
    const { choices } = await chat({ logprobs: true, top_logprobs: 2, max_tokens: 2 });
    expect(choices[0]?.logprobs?.content).toEqual([
      { token: "bytes:\\xc3", logprob: scriptedLogprob(0xc3), bytes: [0xc3], top_logprobs: [expect.objectContaining({ bytes: [0] }) as object, expect.objectContaining({ bytes: [13] }) as object] },
      { token: "bytes:\\xa9", logprob: scriptedLogprob(0xa9), bytes: [0xa9], top_logprobs: [expect.any(Object) as object, expect.any(Object) as object] },
    ]);
  });

  test("computes only the prompt with max_tokens of 0", async () => {
    expect(await chat({ max_tokens: 0 })).toMatchObject({ choices: [{ message: { content: "" }, finish_reason: "length" }], usage: { completion_tokens: 0 } });
  });
});

describe("the number of generated tokens", () => {
  const WAYS: [what: string, body: object, ids: number[], reason: string][] = [
    ["at the end of the turn", {}, scriptOf("Hello."), "stop"],
    ["at its length", { max_tokens: 3 }, scriptOf("Hel"), "length"],
    ["at its length exactly where it would have ended", { max_tokens: 6 }, scriptOf("Hello."), "length"],
    ["past the end of the turn", { ignore_eos: true, max_tokens: 8 }, [...scriptOf("Hello."), IM_END, IM_END], "length"],
    ["at a stop string", { stop: "lo" }, scriptOf("Hello"), "stop"],
    ["at a stop string that is the whole answer", { stop: "Hello." }, scriptOf("Hello."), "stop"],
    ["at a stop string that ends with the length", { stop: "l", max_tokens: 3 }, scriptOf("Hel"), "stop"],
    ["in a tail that might have become a stop string", { stop: ".x" }, scriptOf("Hello."), "stop"],
    ["at a stop token", { stop_token_ids: ["o".charCodeAt(0)] }, scriptOf("Hell"), "stop"],
    ["before it began", { max_tokens: 0 }, [], "length"],
  ];

  test.each(WAYS)("is that of its ids when it ended %s, whole and streamed, at both endpoints", async (_what, body, ids, reason) => {
    for (const [path, prompt] of [["/v1/chat/completions", HI], ["/v1/completions", { prompt: "p" }]] as const) {
      const request = { ...prompt, max_tokens: 40, ...body, return_token_ids: true };
      const whole = (await world.post(path, request)).json as Chunk;
      expect(whole).toMatchObject({ usage: { completion_tokens: ids.length }, choices: [{ token_ids: ids, finish_reason: reason }] });
      const chunks = await streamed(path, { ...request, stream_options: { include_usage: true } });
      expect(chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? [])).toEqual(ids);
      expect(chunks.at(-1)).toMatchObject({ usage: { completion_tokens: ids.length } });
    }
  });
});

describe("a completion", () => {
  test("of ids equals that of their text", async () => {
    const text = await complete({ prompt: "abc", return_token_ids: true });
    const ids = await complete({ prompt: scriptOf("abc"), return_token_ids: true });
    expect(text.prompt_token_ids).toEqual(scriptOf("abc"));
    expect(ids.choices).toEqual(text.choices);
    expect(text).toMatchObject({ object: "text_completion", choices: [{ index: 0, text: "Hello.", finish_reason: "stop", logprobs: null }] });
  });

  test("takes one prompt in a list, and 16 tokens unless told otherwise", async () => {
    say("x".repeat(40));
    expect(await complete({ prompt: ["abc"] })).toMatchObject({ choices: [{ text: "x".repeat(16), finish_reason: "length" }] });
    expect(await complete({ prompt: [[97, 98]] })).toMatchObject({ usage: { prompt_tokens: 2 } });
  });

  test("with echo and no tokens scores the prompt; the first token has no score", async () => {
    const { choices, usage } = await complete({ prompt: "héy", echo: true, max_tokens: 0, logprobs: 1 });
    const bytes = scriptOf("héy");
    expect(choices[0]).toMatchObject({
      text: "héy",
      finish_reason: "length",
      logprobs: {
        tokens: ["h", "bytes:\\xc3", "bytes:\\xa9", "y"],
        token_logprobs: [null, ...bytes.slice(1).map(scriptedLogprob)],
        text_offset: [0, 1, 1, 2],
      },
    });
    expect(choices[0]?.logprobs).toMatchObject({ top_logprobs: [null, expect.any(Object), expect.any(Object), { "\0": scriptedLogprob(0), y: scriptedLogprob(121) }] });
    expect(usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 0 });
  });

  test("with echo computes every token anew, whatever is cached, and gives the same scores", async () => {
    const body = { prompt: "a prompt that is long enough to be cached", echo: true, max_tokens: 2, logprobs: 0, cache: { report: true } };
    const first = await complete(body);
    const second = await complete(body);
    expect(second.choices).toEqual(first.choices);
    expect(second.cache).toMatchObject({ computed_tokens: body.prompt.length, cached_tokens: 0 });
    expect(second.choices[0]).toMatchObject({ text: `${body.prompt}He` });
  });

  test("without echo gets no prompt, and no report unless it asks", async () => {
    const plain = await complete({ prompt: "abcdef" });
    expect(plain).not.toHaveProperty("cache");
    expect(plain).not.toHaveProperty("prompt_token_ids");
    expect(plain.usage?.["prompt_tokens_details"]).toEqual({ cached_tokens: expect.any(Number) as number });
    expect(await complete({ prompt: "abcdef", cache: { report: true } })).toHaveProperty("cache.prompt_tokens", 6);
  });
});

describe("a stream", () => {
  test("has the role once, then deltas, a reason, usage if asked, and the end", async () => {
    const chunks = await streamed("/v1/chat/completions", { ...HI, stream_options: { include_usage: true } });
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(chunks.every((chunk) => chunk.object === "chat.completion.chunk")).toBe(true);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta?.role).filter(Boolean)).toEqual(["assistant"]);
    expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: "stop" });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 6 } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  test.each([[{ max_tokens: 3 }], [{ stop: "lo" }], [{}]])("R05: has usage exactly once however it ends: %j", async (body) => {
    for (const include of [true, false, undefined]) {
      const options = include === undefined ? {} : { stream_options: { include_usage: include } };
      const chunks = await streamed("/v1/completions", { prompt: "a", ...body, ...options });
      expect(chunks.filter((chunk) => (chunk.usage ?? null) !== null)).toHaveLength(include === true ? 1 : 0);
      expect(chunks.filter((chunk) => chunk.choices.length === 0)).toHaveLength(include === true ? 1 : 0);
    }
  });

  test.each([[{ directives: null }], [{ drop_message: {} }], [{ reposition: [] }], [{ directives: [] }], [{ drop_rule: null }]])(
    "of a context request has usage and report in its last chunk, unasked: %j",
    async (body) => {
      const chunks = await streamed("/v1/chat/completions", { ...HI, ...body, stream_options: { include_usage: false } });
      expect(chunks.filter((chunk) => chunk.cache !== undefined)).toEqual([chunks.at(-1)]);
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens_details: { cached_tokens: expect.any(Number) as number, repos_tokens: 0, drop_skipped_tokens: 0 } }, cache: { directives: [] } });
    },
  );

  test.each([[{ drop_message: {} }], [{ reposition: [] }], [{ drop_message: null }], [{ directives: [] }]])("of completions may ask for no edit: %j", async (body) => {
    const chunks = await streamed("/v1/completions", { prompt: "a", ...body });
    expect(chunks.at(-1)).toMatchObject({ cache: { directives: [], prompt_tokens: 1 } });
  });

  test("that asks for a report alone has it in the chunk with the reason", async () => {
    const chunks = await streamed("/v1/completions", { prompt: "a", cache: { report: true } });
    expect(chunks.at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }], cache: { prompt_tokens: 1 } });
  });

  test("has the prompt's ids with its first chunk and every generated id once", async () => {
    const chunks = await streamed("/v1/chat/completions", { ...HI, return_token_ids: true });
    expect(chunks.filter((chunk) => chunk.prompt_token_ids !== undefined)).toEqual([chunks[0]]);
    const ids = chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? []);
    expect(ids.slice(0, 6)).toEqual(scriptOf("Hello."));
  });

  test("R02: concatenates to the whole answer for every grouping of tokens, at both endpoints", async () => {
    const unit = constantFrom("a", "b", "é", "\u{1f600}", "漢", " ");
    const text = string({ unit, maxLength: 12 });
    const garbage = array(integer({ min: 128, max: 255 }), { maxLength: 3 });
    const stops = array(string({ unit, minLength: 1, maxLength: 3 }), { maxLength: 2 });
    await assert(
      asyncProperty(text, garbage, text, stops, integer({ min: 1, max: 40 }), async (before, bytes, after, stop, max) => {
        world.runtime.script.answers.set(0n, [...scriptOf(before), ...bytes, ...scriptOf(after)]);
        const body = { stop, max_tokens: max, temperature: 0, return_token_ids: true, seed: 0 };
        for (const [path, request] of [["/v1/chat/completions", { ...HI, ...body, logprobs: true, top_logprobs: 1 }], ["/v1/completions", { prompt: "p", ...body, logprobs: 1 }]] as const) {
          const whole = (await world.post(path, request)).json as Chunk;
          const chunks = await streamed(path, request);
          expect(textOf(chunks)).toBe(whole.choices[0]?.message?.content ?? whole.choices[0]?.text);
          expect(chunks.flatMap((chunk) => chunk.choices[0]?.token_ids ?? [])).toEqual(whole.choices[0]?.token_ids);
          expect(chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? chunk.choices[0]?.logprobs?.tokens ?? [])).toEqual(whole.choices[0]?.logprobs?.content ?? whole.choices[0]?.logprobs?.tokens);
          expect(chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean)).toEqual([whole.choices[0]?.finish_reason]);
          for (const chunk of chunks) expect(chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? "").not.toMatch(/\p{Surrogate}/u);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("that fails in the middle says so in a chunk, then ends; the next one is served", async () => {
    world.runtime.script.failNext = true;
    world.runtime.script.stepMs = 60;
    const chunks = await streamed("/v1/chat/completions", { ...HI, messages: [user("another beginning")] });
    world.runtime.script.stepMs = 0;
    expect(chunks.at(-1)?.error).toMatchObject({ kind: "internal" });
    expect(textOf(await streamed("/v1/chat/completions", HI))).toBe("Hello.");
  });

  test("an answer that fails is a 500 without its cause; the next one is served", async () => {
    world.runtime.script.failNext = true;
    const answer = await world.post("/v1/chat/completions", { messages: [user("yet another beginning")] });
    expect(answer).toMatchObject({ status: 500, json: { error: { kind: "internal" } } });
    expect(answer.text).not.toContain("injected");
    expect(await chat({})).toMatchObject({ choices: [{ message: { content: "Hello." } }] });
  });
});
