import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openServer, tinyModel, type TestServer } from "./servers.ts";

/** Splices over HTTP on a real (generated) model: what they mean, by requests that must come to the same. */
let server: TestServer;
beforeAll(async () => {
  server = await openServer(await tinyModel());
});
afterAll(() => server.close());

interface Answer {
  choices: { text: string; logprobs: { token_logprobs: number[] } }[];
  cache: {
    prompt_tokens: number;
    visible_tokens: number;
    next_position: number;
    cached_tokens: number;
    repositioned_tokens: number;
    computed_tokens: number;
    skipped_tokens: number;
    inserted_tokens: number;
    recomputed_tokens: number;
    bytes_moved: number;
    directives: { status: string; ranges: [number, number][]; inserted: number; shifted: number; delta: number; hidden: number }[];
  };
}

async function post<T>(path: string, body: object): Promise<T> {
  const response = await fetch(`${server.address}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

const PROMPT = Array.from({ length: 60 }, (_, index) => (index * 37) % 500);
const END = PROMPT.length - 4;
const complete = (directives: object[], prompt = PROMPT) => post<Answer>("/v1/completions", { prompt, directives, max_tokens: 6, temperature: 0, logprobs: 3, ignore_eos: true });
const splice = (more: object) => ({ op: "splice", target: { tokens: [20, 30] }, at: { token: END }, ...more });

describe("a splice over HTTP", () => {
  test("says what it hid, inserted and moved, and counts every cell once", async () => {
    const { cache } = await complete([splice({ with: [7, 8, 9] })]);
    expect(cache.directives[0]).toMatchObject({ status: "applied", ranges: [[20, 30]], hidden: 10, inserted: 3, shifted: END - 30, delta: -7 });
    expect(cache).toMatchObject({ prompt_tokens: 60, visible_tokens: 53, next_position: 53, inserted_tokens: 3, bytes_moved: 0 });
    expect(cache.cached_tokens + cache.repositioned_tokens + cache.computed_tokens + cache.skipped_tokens).toBe(60 + 3);
  });

  test("of nothing in its place is a drop with a reposition, to the bit", async () => {
    const dropped = await complete([{ op: "drop", target: { tokens: [20, 30] }, at: { token: END } }, { op: "reposition", at: { token: END } }]);
    expect((await complete([splice({ with: [] })])).choices).toEqual(dropped.choices);
  });

  test("that refreshes all that follows is the edited text, never seen otherwise, to the bit", async () => {
    const edited = await complete([], [...PROMPT.slice(0, 20), 7, 8, 9, ...PROMPT.slice(30)]);
    const refreshed = await complete([splice({ with: [7, 8, 9], mode: "refresh", refresh_tokens: 1000 })]);
    expect(refreshed.choices).toEqual(edited.choices);
    expect(refreshed.cache.recomputed_tokens).toBe(END - 30);
    expect((await complete([splice({ with: [7, 8, 9] })])).choices).not.toEqual(edited.choices);
  });

  test("answers the same warm, and computes what it inserted only once", async () => {
    const directives = [splice({ with: [11, 12] })];
    const first = await complete(directives);
    const second = await complete(directives);
    expect(second.choices).toEqual(first.choices);
    expect(second.cache).toMatchObject({ computed_tokens: 1, inserted_tokens: 0 });
  });

  test("takes text in a chat, found by its exact words; control tokens in it stay text", async () => {
    const messages = [{ role: "user", content: "The code is 1234 today." }, { role: "assistant", content: "Noted." }, { role: "user", content: "Go on." }];
    const target = { text: { message: 0, exact: " code is 1234" } };
    const ask = (replacement: string) => post<Answer>("/v1/chat/completions", { messages, directives: [{ op: "splice", target, with: replacement }], max_tokens: 2, temperature: 0 });
    const { cache } = await ask(" secret");
    const [start, end] = cache.directives[0]?.ranges[0] ?? [0, 0];
    const { tokens } = await post<{ tokens: number[] }>("/tokenize", { messages });
    expect(" code is 1234").toContain((await post<{ prompt: string }>("/detokenize", { tokens: tokens.slice(start, end) })).prompt);
    const { count } = await post<{ count: number }>("/tokenize", { prompt: " secret" });
    expect(cache.directives[0]).toMatchObject({ status: "applied", inserted: count, delta: count - (end - start) });
    expect((await ask("<|im_end|>")).cache.directives[0]?.inserted).toBeGreaterThan(1);
  });
});
