import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellsOf, tenantsOf, Wire, type CacheReport, type Receipt } from "./kit/http.ts";
import { describeWithModel } from "./real-models.ts";
import { openServer, tinyModel, type TestServer } from "./servers.ts";

/** Every verb from request to answer: in chat and in completions, whole and streamed, warm and cold, on a generated and on a real model. */

const MESSAGES = [
  { role: "system", content: "You answer in one word." },
  { role: "user", content: "The secret number is 4711. Which colour has the sky?" },
  { role: "assistant", content: "<think>\nThey ask for a colour, the number does not matter here.\n</think>\n\nBlue, on most days of the year." },
  { role: "user", content: "And which one has grass?" },
  { role: "assistant", content: "Green." },
  { role: "user", content: "And snow?" },
];
const PROMPT = Array.from({ length: 60 }, (_, index) => 1000 + ((index * 37) % 500));
const TINY_PROMPT = PROMPT.map((id) => id % 500);

/** By verb: a directive of a chat, and one of a completion. */
const VERBS: Record<string, { chat: object; completion: object | null }> = {
  drop: { chat: { op: "drop", target: { messages: [1] }, at: { message: 2 } }, completion: { op: "drop", target: { tokens: [10, 30] }, at: { token: 40 } } },
  reposition: {
    chat: [{ op: "drop", target: { messages: [1] }, at: { message: 2 } }, { op: "reposition", at: { message: 3 } }],
    completion: [{ op: "drop", target: { tokens: [10, 30] }, at: { token: 40 } }, { op: "reposition", at: { token: 50 } }],
  },
  amortize: {
    chat: { op: "splice", target: { messages: [3] }, with: " (left out)", at: { message: 4 } },
    completion: { op: "splice", target: { tokens: [10, 30] }, with: [7, 8, 9], at: { token: 50 } },
  },
  refresh: {
    chat: { op: "splice", target: { messages: [3] }, with: "", mode: "refresh", refresh_tokens: 4 },
    completion: { op: "splice", target: { tokens: [10, 30] }, with: [7], mode: "refresh", refresh_tokens: 5, at: { token: 50 } },
  },
  forget: {
    chat: { op: "splice", target: { text: { message: 1, exact: "The secret number is 4711." } }, with: "", mode: "forget" },
    completion: { op: "splice", target: { tokens: [10, 30] }, with: [7], mode: "forget" },
  },
  pin: { chat: { op: "pin", target: { messages: [0] }, until: { turns: 9 } }, completion: { op: "pin", target: { tokens: [0, 10] }, until: { seconds: 60 } } },
  decay: { chat: { op: "decay", target: { messages: [1] }, turns: 2, at: { message: 1 } }, completion: null },
  scratch: {
    chat: { op: "scratch", target: { messages: [2], part: "thinking" }, at: { message: 2 } },
    completion: { op: "scratch", target: { tokens: [10, 30] } },
  },
};

const listOf = (directives: object): object[] => (Array.isArray(directives) ? directives : [directives]);

describe("a generated model", () => {
  suite(tinyModel, TINY_PROMPT);
});
describeWithModel("smollm2-135m", "SmolLM2-135M", (path) => suite(() => Promise.resolve(path), PROMPT));

function suite(model: () => Promise<string>, prompt: readonly number[]): void {
  let server: TestServer;
  let wire: Wire;
  const fresh = Array.from({ length: 64 }, (_, index) => `cold-${index}`);
  beforeAll(async () => {
    server = await openServer(await model(), { pages: 2048, tenants: tenantsOf("alice", "bob", ...fresh) });
    wire = new Wire(server.address);
  }, 60_000);
  afterAll(() => server.close());
  /** A tenant of whom nothing is cached: what it computes is what a process that never saw anything computes. */
  const cold = () => fresh.pop()!;

  const bodies = Object.entries(VERBS).flatMap(([name, { chat, completion }]) => {
    const inChat = { name: `${name} in chat`, body: { messages: MESSAGES, directives: listOf(chat), max_tokens: 5 } };
    return completion === null ? [inChat] : [inChat, { name: `${name} in a completion`, body: { prompt, directives: listOf(completion), max_tokens: 5 } }];
  });

  test.each(bodies)("$name: applied, and the same warm and cold, whole and streamed, as planned", async ({ body }) => {
    const key = cold();
    const planned = await wire.plan(body, key);
    const whole = await wire.answer(body, key);
    expect(whole.cache.directives.map(({ status }) => status)).toEqual(listOf(body.directives).map(() => "applied"));
    const { erased: receipt, ...report } = whole.cache;
    expect(planned).toMatchObject({ ...report });
    expect(receipt === undefined).toBe(!JSON.stringify(body).includes("forget"));
    // The plain log first, so that the edited one finds what it may of it.
    await wire.answer({ ...body, directives: [] }, "alice");
    for (const stream of [true, false]) {
      const { text, ids, logprobs } = await wire.answer(body, "alice", stream);
      expect({ text, ids, logprobs }).toEqual({ text: whole.text, ids: whole.ids, logprobs: whole.logprobs });
    }
    const streamed = await wire.answer(body, cold(), true);
    expect({ ...streamed, cache: { ...streamed.cache, erased: undefined } }).toEqual({ ...whole, cache: { ...report, erased: undefined } });
    const again = await wire.answer(body, key);
    expect(again.cache.computed_tokens).toBe(1);
    expect(again.cache.directives).toEqual(whole.cache.directives);
  });

  test("a scratch hides the reasoning alone: what follows reads the answer and not the thought", async () => {
    const directives = listOf(VERBS["scratch"]!.chat);
    const { cache } = await wire.answer({ messages: MESSAGES, directives, max_tokens: 1 }, "alice");
    const { tokens } = await wire.post<{ tokens: number[] }>("/tokenize", { messages: MESSAGES }, "alice");
    const [start, end] = cache.directives[0]!.ranges![0]!;
    const { prompt: hidden } = await wire.post<{ prompt: string }>("/detokenize", { tokens: tokens.slice(start, end) }, "alice");
    expect(hidden).toContain("the number does not matter");
    expect(hidden).not.toContain("think>");
    expect(cache).toMatchObject({ visible_tokens: tokens.length - (end - start), next_position: tokens.length - (end - start) });
  });

  test("a decay is off until its turn, then drops for good, whatever turn it is asked in", async () => {
    const decay = { op: "decay", target: { messages: [1] }, turns: 2, at: { message: 1 } };
    const reports: CacheReport[] = [];
    for (const count of [2, 4, 6]) {
      const body = { messages: MESSAGES.slice(0, count), directives: [decay], max_tokens: 1 };
      reports.push((await wire.answer(body, "bob")).cache);
    }
    expect(reports.map(({ stages, directives: [only] }) => [stages, only!.hidden ?? 0])).toEqual([[1, 0], [1, 0], [2, expect.any(Number)]]);
    const dropped = reports[2]!.directives[0]!;
    expect(dropped.hidden).toBe(dropped.ranges![0]![1] - dropped.ranges![0]![0]);
    const asDrop = await wire.plan({ messages: MESSAGES, directives: [{ op: "drop", target: { messages: [1] }, at: { message: 4 } }], max_tokens: 1 }, "bob");
    expect(asDrop.computed_tokens).toBe(1);
  });

  describe("forget", () => {
    test("R75: has the logits of the text that never had the span, computes one row when it comes again, and gives a receipt that adds up", async () => {
      const key = cold();
      const seen = { prompt, max_tokens: 4, ignore_eos: true };
      await wire.answer(seen, key);
      await wire.answer({ ...seen, directives: [{ op: "drop", target: { tokens: [2, 6] }, at: { token: 25 } }] }, key);
      const held = await cellsHeld();
      const forget = { ...seen, directives: [{ op: "splice", target: { tokens: [20, 30] }, with: [7, 8], mode: "forget" }] };
      const once = await wire.answer({ ...forget, max_tokens: 1 }, key);
      const never = await wire.answer({ prompt: [...prompt.slice(0, 20), 7, 8, ...prompt.slice(30)], max_tokens: 4 }, cold());
      expect(once.logprobs).toEqual(never.logprobs.slice(0, 1));
      expect(once.cache).toMatchObject({ prompt_tokens: 60, forgotten_tokens: 10, visible_tokens: 52, cached_tokens: 20, computed_tokens: 32 });
      expect(cellsOf(once.cache)).toBe(60 - 10 + 2);
      const { erased } = once.cache;
      // From the span on: 40 cells of the prompt and 3 of its answer; of the log with the drop, 35 behind its edit and 3 of its answer.
      expect(erased).toMatchObject({ readers: 0, complete: true, paths: [expect.stringMatching(/^[0-9a-f]{64}$/)], cells: { device: erased!.erased_tokens } });
      expect(erased!.erased_tokens).toBe(40 + 3 + 35 + 3);
      expect(new Date(erased!.time).getTime()).toBeGreaterThan(Date.now() - 60_000);
      expect(await cellsHeld()).toBe(held - erased!.erased_tokens + 32 + 52 + 3);
      const again = await wire.answer(forget, key);
      expect(again.cache).toMatchObject({ computed_tokens: 1, cached_tokens: 51, forgotten_tokens: 10 });
      expect(again.logprobs).toEqual(never.logprobs);
      expect(again.cache.erased).toMatchObject({ erased_tokens: 0, complete: true, paths: erased!.paths });
      expect((await wire.plan(seen, key)).cached_tokens).toBe(20);
    });

    test("is only planned by a plan: nothing is erased before the request itself", async () => {
      const key = cold();
      await wire.answer({ prompt, max_tokens: 1 }, key);
      const forget = { prompt, directives: listOf(VERBS["forget"]!.completion!), max_tokens: 1 };
      for (let again = 0; again < 2; again++) expect(await wire.plan(forget, key)).toMatchObject({ cached_tokens: 10, computed_tokens: 31, forgotten_tokens: 20 });
      expect((await wire.plan({ prompt, max_tokens: 1 }, key)).computed_tokens).toBe(1);
    });

    test("scores, with echo, what is left of the prompt from the row before it, and nothing for what is forgotten", async () => {
      const forgetting = await scored(prompt, [{ op: "splice", target: { tokens: [10, 30] }, with: [7, 8], mode: "forget" }]);
      const edited = await scored([...prompt.slice(0, 10), 7, 8, ...prompt.slice(30)], []);
      expect(forgetting).toEqual([...edited.slice(0, 10), ...Array.from({ length: 20 }, () => null), ...edited.slice(12)]);
      const head = await scored(prompt, [{ op: "splice", target: { tokens: [0, 4] }, with: [], mode: "forget" }]);
      expect(head).toEqual([null, null, null, null, ...(await scored(prompt.slice(4), []))]);
    });

    test("in a chat answers as the rendered text without the words does", async () => {
      const key = cold();
      const body = { messages: MESSAGES, directives: listOf(VERBS["forget"]!.chat), max_tokens: 4 };
      await wire.answer({ messages: MESSAGES, max_tokens: 2 }, key);
      const { logprobs, cache } = await wire.answer(body, key, true);
      const [[start, end]] = cache.directives[0]!.ranges! as [[number, number]];
      const { tokens } = await wire.post<{ tokens: number[] }>("/tokenize", { messages: MESSAGES }, key);
      const never = await wire.answer({ prompt: [...tokens.slice(0, start), ...tokens.slice(end)], max_tokens: 4 }, cold());
      expect(logprobs).toEqual(never.logprobs);
      expect(cache.erased!.erased_tokens).toBeGreaterThanOrEqual(tokens.length - start);
      expect((await wire.answer(body, key)).cache.computed_tokens).toBe(1);
    });

    test("with every other verb before and behind it answers the same warm and cold", async () => {
      for (const other of Object.keys(VERBS).filter((name) => name !== "forget" && VERBS[name]!.completion !== null)) {
        for (const at of [35, 60]) {
          const forget = { op: "splice", target: { tokens: [24, 34] }, with: [7], mode: "forget", at: { token: at } };
          const body = { prompt, directives: [...listOf(VERBS[other]!.completion!), forget], max_tokens: 3 };
          await wire.answer({ ...body, directives: listOf(VERBS[other]!.completion!) }, "alice");
          const warm = await wire.answer(body, "alice");
          const first = await wire.answer(body, cold());
          expect({ other, at, logprobs: warm.logprobs, ids: warm.ids }).toEqual({ other, at, logprobs: first.logprobs, ids: first.ids });
        }
      }
    });
  });

  describe("/v1/cache/erase", () => {
    test("removes a text and what followed it, of the caller alone", async () => {
      const [mine, theirs] = [cold(), cold()];
      for (const key of [mine, theirs]) await wire.answer({ prompt, max_tokens: 4 }, key);
      const body = { match: { tokens: prompt }, target: { tokens: [20, 30] } };
      const receipt = await erase(body, mine);
      expect(receipt).toMatchObject({ object: "cache.erasure", prompt_tokens: 60, ranges: [[20, 30]], erased_tokens: 40 + 3, cells: { device: 43 }, readers: 0, complete: true });
      expect(await wire.plan({ prompt, max_tokens: 1 }, mine)).toMatchObject({ cached_tokens: 20, computed_tokens: 40 });
      expect(await wire.plan({ prompt, max_tokens: 1 }, theirs)).toMatchObject({ computed_tokens: 1 });
      expect(await erase(body, mine)).toMatchObject({ erased_tokens: 0, complete: true });
      const all = await erase({ match: { tokens: prompt } }, theirs);
      expect(all).toMatchObject({ ranges: [[0, 60]], erased_tokens: 63 });
      expect(await wire.plan({ prompt, max_tokens: 1 }, theirs)).toMatchObject({ computed_tokens: 60, cached_tokens: 0 });
    });

    test("takes a chat, and a message or words of it", async () => {
      const key = cold();
      await wire.answer({ messages: MESSAGES, max_tokens: 2 }, key);
      const words = await erase({ match: { messages: MESSAGES }, target: { text: { message: 5, exact: "And snow?" } } }, key);
      expect(words.erased_tokens).toBeGreaterThan(0);
      const message = await erase({ match: { messages: MESSAGES.slice(0, 3) }, target: { messages: [1] } }, key);
      const [[start]] = message.ranges as [[number, number]];
      expect(await wire.plan({ messages: MESSAGES, max_tokens: 1 }, key)).toMatchObject({ cached_tokens: start });
      expect((await erase({ match: { messages: MESSAGES.slice(0, 1) } }, key)).erased_tokens).toBe(start);
    });
  });

  test("what is cheaper as an edit of the text has the logits of the edited text", async () => {
    const body = { prompt, directives: listOf(VERBS["amortize"]!.completion!), max_tokens: 4, cost: "cheapest" };
    const [key, other, third] = [cold(), cold(), cold()];
    const edited = await wire.answer(body, key);
    expect(edited.cache).toMatchObject({ computed_tokens: 60 - 20 + 3, directives: [{ status: "recomputed", hidden: 20, inserted: 3 }] });
    const never = await wire.answer({ prompt: [...prompt.slice(0, 10), 7, 8, 9, ...prompt.slice(30)], max_tokens: 4 }, other);
    expect({ ids: edited.ids, logprobs: edited.logprobs }).toEqual({ ids: never.ids, logprobs: never.logprobs });
    // Where the log itself is cached, the cache is edited.
    await wire.answer({ prompt, max_tokens: 1 }, third);
    expect((await wire.answer(body, third)).cache).toMatchObject({ directives: [{ status: "applied" }] });
  });

  test("no tenant hits another's cells", async () => {
    const [one, other] = [cold(), cold()];
    const body = { messages: MESSAGES, directives: listOf(VERBS["refresh"]!.chat), max_tokens: 2 };
    const first = await wire.answer(body, one);
    expect(await wire.plan(body, other)).toMatchObject({ cached_tokens: first.cache.cached_tokens, computed_tokens: first.cache.computed_tokens, miss: { at_token: 0 } });
    expect(await wire.answer(body, other)).toEqual(first);
    for (const path of ["/v1/cache", "/v1/cache/tree", "/v1/cache/pages", "/metrics"]) expect(await wire.get(path, other)).toMatchObject({ error: { code: "operator_key_required" } });
  });

  /** Log-probabilities of a prompt's own tokens. */
  async function scored(tokens: readonly number[], directives: object[]): Promise<(number | null)[]> {
    const body = { prompt: tokens, directives, echo: true, max_tokens: 0, logprobs: 1 };
    const { choices } = await wire.post<{ choices: { logprobs: { token_logprobs: (number | null)[] } }[] }>("/v1/completions", body, cold());
    return choices[0]!.logprobs.token_logprobs;
  }

  function erase(body: object, key: string) {
    return wire.post<Receipt & { object: string; ranges: [number, number][]; prompt_tokens: number }>("/v1/cache/erase", body, key);
  }

  async function cellsHeld(): Promise<number> {
    return (await wire.get<{ cells: number; holeCells: number }>("/v1/cache/tree", "operator")).cells;
  }
}

const text = (seed: number, length: number) => Array.from({ length }, (_, index) => (index * 7 + seed * 31) % 500);
const pinned = (tokens: number[], until: object | undefined) => ({ prompt: tokens, max_tokens: 1, directives: [{ op: "pin", target: { tokens: [0, tokens.length] }, ...(until === undefined ? {} : { until }) }] });

/** A cache of 32 pages of 16 cells, of which a tenant may pin a quarter. */
describe("pins in a small cache", () => {
  let server: TestServer;
  let wire: Wire;
  beforeAll(async () => {
    server = await openServer(await tinyModel(), { pages: 32, tenants: tenantsOf("alice", "bob") });
    wire = new Wire(server.address);
  });
  afterAll(() => server.close());
  const flood = async (key: string, first: number) => {
    for (let seed = first; seed < first + 6; seed++) await wire.answer({ prompt: text(seed, 150), max_tokens: 1 }, key);
  };
  const missing = async (tokens: number[]) => (await wire.plan({ prompt: tokens, max_tokens: 1 }, "alice")).computed_tokens;

  test("keep what they name while others come and go, and end with their time", async () => {
    const [kept, lost] = [text(1, 64), text(2, 64)];
    await wire.answer(pinned(kept, { seconds: 600 }), "alice");
    await wire.answer({ prompt: lost, max_tokens: 1 }, "alice");
    await flood("bob", 10);
    expect([await missing(kept), await missing(lost)]).toEqual([1, 64]);
    await wire.answer(pinned(kept, { seconds: 0.05 }), "alice");
    await new Promise((resolve) => setTimeout(resolve, 100));
    await flood("bob", 20);
    expect(await missing(kept)).toBe(64);
  });

  test("beyond the tenant's budget have no effect, and say so; the budget of another is its own", async () => {
    const [first, second] = [text(3, 100), text(4, 100)];
    expect((await wire.answer(pinned(first, { seconds: 60 }), "alice")).cache.directives[0]).toMatchObject({ status: "applied" });
    expect((await wire.answer(pinned(second, { seconds: 60 }), "alice")).cache.directives[0]).toMatchObject({ status: "no_effect", reason: "over_budget" });
    expect((await wire.answer(pinned(second, undefined), "bob", true)).cache.directives[0]).toMatchObject({ status: "applied" });
    // Asked again they count once.
    expect((await wire.answer(pinned(first, { seconds: 60 }), "alice")).cache.directives[0]).toMatchObject({ status: "applied" });
  });

  test("R77: never keep a request from running: whoever needs every page gets it", async () => {
    const { cache } = await wire.answer({ prompt: text(5, 480), max_tokens: 2 }, "bob");
    expect(cache.computed_tokens).toBe(480);
    expect(await missing(text(3, 100))).toBeGreaterThan(1);
  });
});
