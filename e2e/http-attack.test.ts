import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../packages/directives/test/random-logs.ts";
import { tenantsOf, Wire } from "./kit/http.ts";
import { openServer, tinyModel, type TestServer } from "./servers.ts";

/**
 * Random requests with every verb against a server whose cache holds a few of them, several at a time, some of them abandoned, some
 * malformed. Whatever is answered is answered as by a server that never saw anything else, to the bit; nothing else is ever said than
 * what is wrong with a request; and in the end every page is back.
 */
const LONG = process.env["PALIMPSEST_LONG"] === "1";
const REQUESTS = LONG ? 20_000 : 2_000;
const ANSWER_MS_MAX = 60_000;
const PAGES = 40;

let warm: TestServer;
let cold: TestServer;
beforeAll(async () => {
  const path = await tinyModel();
  const keys = Array.from({ length: REQUESTS }, (_, index) => `cold-${index}`);
  warm = await openServer(path, { pages: PAGES, tenants: tenantsOf("alice", "bob") });
  cold = await openServer(path, { pages: 512, tenants: tenantsOf(...keys) });
}, 60_000);
afterAll(async () => {
  await warm.close();
  await cold.close();
});

type Json = Record<string, unknown>;

/** Logs of a few families: they share beginnings, as those of agents do. */
function prompt(random: Random): number[] {
  const family = random.int(0, 3);
  return Array.from({ length: random.int(1, 150) }, (_, index) => (index * 37 + family * 101 + (index > 60 ? random.int(0, 1) : 0)) % 500);
}

const TEXTS = ["What is in the file?", "The file has three lines, and none of them is long.", "<think>let me see</think>\nDone.", "Go on.", "", "1, 2, 3", "Ü — 😀"];

function messages(random: Random): Json[] {
  return Array.from({ length: random.int(1, 7) }, (_, index) => {
    const role = index === 0 && random.chance(0.3) ? "system" : random.pick(["user", "assistant", "tool"]);
    return { role, content: random.pick(TEXTS), ...(role === "assistant" && random.chance(0.2) ? { reasoning_content: "hm" } : {}) };
  });
}

/** Mostly right; now and then a number is out of range, or a target behind its boundary. */
function directive(random: Random, log: Json[], tokens: number): Json {
  const chat = log.length > 0;
  const wild = random.chance(0.08);
  const at = random.pick<{ message: number } | { token: number } | null>([null, { token: random.int(1, tokens) }, chat ? { message: random.int(0, log.length - 1) } : { token: random.int(1, tokens) }]);
  // A message has at least so many tokens; what lies before a boundary by message is named by message.
  const [last, end] = at === null || wild ? [log.length - 1, tokens] : "message" in at ? [at.message, 3 * (at.message + 1)] : [Math.floor(at.token / 40) - 1, at.token];
  const range = (): [number, number] => {
    const start = random.int(0, end - 1);
    return [start, wild ? random.int(0, 2 * tokens) : random.int(start + 1, end)];
  };
  const target = () => {
    if (!chat || last < 0 || random.chance(0.4)) return { tokens: range() };
    const message = random.int(0, last);
    const words = String(log[message]!["content"]).split(" ");
    if (random.chance(0.3) && words[0] !== "") return { text: { message, exact: random.pick(words.filter((word) => word !== "")), ...(wild ? { occurrence: 2 } : {}) } };
    const ids = Array.from({ length: random.int(1, 2) }, () => (wild ? random.int(0, log.length + 1) : random.int(0, last)));
    return { messages: ids, ...(random.chance(0.3) ? { part: random.pick(["content", "thinking", "tool_calls", "tool_result"]) } : {}) };
  };
  const boundary = at === null ? {} : { at };
  const mode = () => random.pick<Json>([{}, { mode: "amortize" }, { mode: "refresh" }, { mode: "refresh", refresh_tokens: random.int(1, 40) }, { mode: "forget" }]);
  const replacement = () => random.pick<unknown>([[], [7, 8], [random.int(0, 499)], "text", "", "<|im_end|>"]);
  switch (random.pick(["drop", "drop", "reposition", "splice", "splice", "splice", "pin", chat ? "decay" : "pin", "scratch"])) {
    case "drop":
      return { op: "drop", target: target(), ...boundary };
    case "reposition":
      return { op: "reposition", ...boundary };
    case "splice":
      return { op: "splice", target: target(), with: replacement(), ...mode(), ...boundary };
    case "pin":
      return { op: "pin", target: target(), ...random.pick<Json>([{}, { until: { seconds: 0.2 } }, chat ? { until: { turns: 2 } } : {}]), ...boundary };
    case "decay":
      return { op: "decay", target: target(), turns: random.int(1, 3), ...boundary };
    default:
      return { op: "scratch", target: target(), ...boundary };
  }
}

function request(random: Random): { path: string; body: Json } {
  const chat = random.chance(0.5);
  const log = chat ? { messages: messages(random) } : { prompt: prompt(random) };
  const count = (log.messages ?? []).length;
  const tokens = log.prompt?.length ?? 5 * count;
  const directives = Array.from({ length: random.pick([0, 1, 1, 2, 3, 6]) }, () => directive(random, log.messages ?? [], tokens));
  const body: Json = {
    ...log,
    ...(random.chance(0.9) ? { directives } : {}),
    max_tokens: random.int(0, 6),
    temperature: random.pick([0, 0, 1]),
    seed: random.int(0, 3),
    logprobs: chat ? true : 0,
    return_token_ids: true,
    ignore_eos: random.chance(0.8),
    stream: random.chance(0.4),
    ...(chat && random.chance(0.2) ? { cache: { scratch: "thinking" } } : {}),
    ...(random.chance(0.1) ? { cost: "cheapest" } : {}),
    ...(!chat && random.chance(0.15) ? { echo: true } : {}),
    ...(chat && random.chance(0.1) ? { add_generation_prompt: false } : {}),
    ...(chat && random.chance(0.2) ? random.pick<Json>([{ drop_message: { [random.int(0, count - (random.chance(0.9) ? 1 : 0))]: [0] } }, { reposition: [random.int(0, count - 1)] }, { drop_rule: { type: "thinking_drop" } }]) : {}),
  };
  return { path: chat ? "/v1/chat/completions" : "/v1/completions", body: random.chance(0.06) ? damaged(random, body) : body };
}

/** One value of a body, somewhere, is another. */
function damaged(random: Random, body: Json): Json {
  const copy = structuredClone(body);
  let at: Json = copy;
  for (;;) {
    const keys = Object.keys(at);
    if (keys.length === 0) return copy;
    const key = random.pick(keys);
    const value = at[key];
    if (typeof value === "object" && value !== null && random.chance(0.8)) at = value as Json;
    else {
      at[key] = random.pick<unknown>([null, -1, 1.5, 1e300, "x", [], {}, [[]], true, { op: "drop" }]);
      return copy;
    }
  }
}

interface Seen {
  status: number;
  text: string;
}

async function send(server: TestServer, path: string, body: object, key: string, abortAfterMs?: number): Promise<Seen | "aborted"> {
  const signal = AbortSignal.any([AbortSignal.timeout(ANSWER_MS_MAX), ...(abortAfterMs === undefined ? [] : [AbortSignal.timeout(abortAfterMs)])]);
  try {
    const response = await new Wire(server.address).send(path, body, key, signal);
    return { status: response.status, text: await response.text() };
  } catch (error) {
    if (abortAfterMs !== undefined) return "aborted";
    throw new Error(`no answer within ${ANSWER_MS_MAX} ms: ${JSON.stringify(body)}`, { cause: error });
  }
}

/** Token ids and log-probabilities of an answer, whole or streamed; an error in a stream is thrown. */
function said({ text }: Seen, stream: unknown): { ids: unknown[]; logprobs: unknown[] } {
  const chunks = stream === true ? text.split("\n\n").filter((frame) => frame.startsWith("data: {")).map((frame) => JSON.parse(frame.slice(6)) as Json) : [JSON.parse(text) as Json];
  const refused = chunks.find((chunk) => "error" in chunk);
  if (refused !== undefined) throw new Error(JSON.stringify(refused));
  const choices = chunks.flatMap((chunk) => chunk["choices"] as { token_ids?: unknown[]; logprobs: { token_logprobs?: unknown[]; content?: { logprob: unknown }[] } | null }[]);
  return {
    ids: choices.flatMap((choice) => choice.token_ids ?? []),
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? logprobs?.content?.map(({ logprob }) => logprob) ?? []),
  };
}

const ALLOWED = new Set([200, 400, 404, 422, 429, 503]);

/** Counts of one report add up, whatever was resident. (What one edit of the text inserts another may cover; then only the fold knows.) */
function checkReport(text: string, body: string): void {
  const { cache } = JSON.parse(text) as { cache?: Record<string, number> };
  if (cache === undefined || body.includes("cheapest") || body.split('"forget"').length > 2) return;
  const { cached_tokens: cached, repositioned_tokens: moved, computed_tokens: computed, skipped_tokens: skipped } = cache as { [name: string]: number };
  const directives = cache["directives"] as unknown as { inserted?: number; recomputed?: number }[];
  const born = directives.reduce((sum, { inserted = 0, recomputed = 0 }) => sum + inserted + recomputed, 0);
  expect(cached! + moved! + computed! + skipped!).toBe(cache["prompt_tokens"]! - cache["forgotten_tokens"]! + born);
}

test(`${REQUESTS} random requests are answered as by a server that never saw another, or refused by name`, async () => {
  const tally = { answered: 0, refused: 0, aborted: 0, compared: 0, erased: 0, planned: 0 };
  let next = 0;
  const one = async (number: number, random: Random, { path, body }: ReturnType<typeof request>) => {
    const key = random.pick(["alice", "bob"]);
    if (random.chance(0.04)) {
      const match = "messages" in body ? { messages: body["messages"] } : { tokens: body["prompt"] };
      const erased = (await send(warm, "/v1/cache/erase", { match }, key)) as Seen;
      expect(ALLOWED, `${erased.text}`).toContain(erased.status);
      tally.erased++;
    }
    if (random.chance(0.1)) {
      const plan = (await send(warm, "/v1/directives/plan", body, key)) as Seen;
      expect(ALLOWED, `${plan.text}`).toContain(plan.status);
      tally.planned++;
    }
    const seen = await send(warm, path, body, key, random.chance(0.12) ? random.int(0, 12) : undefined);
    if (seen === "aborted") return void tally.aborted++;
    expect(ALLOWED, `${seen.text}`).toContain(seen.status);
    if (seen.status !== 200) {
      const { error } = JSON.parse(seen.text) as { error: { message: string; kind: string } };
      expect(error.message.length).toBeGreaterThan(10);
      expect(["invalid", "unsupported", "capacity"]).toContain(error.kind);
      return void tally.refused++;
    }
    tally.answered++;
    if (body["stream"] !== true) checkReport(seen.text, JSON.stringify(body));
    // What is cheapest depends on the cache, and the longest answer on its size.
    if (body["cost"] === "cheapest" || body["max_tokens"] === null) return;
    const alone = (await send(cold, path, body, `cold-${number}`)) as Seen;
    expect(alone.status).toBe(200);
    const drawn = body["temperature"] !== 0 && body["seed"] === null;
    if (!drawn) expect(said(seen, body["stream"])).toEqual(said(alone, body["stream"]));
    tally.compared++;
  };
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      while (next < REQUESTS) {
        const number = next++;
        const random = new Random(number + 1);
        const asked = request(random);
        try {
          await one(number, random, asked);
        } catch (cause) {
          throw new Error(`request ${number}: ${JSON.stringify(asked)}`, { cause });
        }
        if (next % 50 === 0) warm.service.engine.checkIntegrity();
      }
    }),
  );
  console.info(JSON.stringify(tally));
  expect(tally.compared).toBeGreaterThan(REQUESTS / 4);
  expect(tally.refused).toBeGreaterThan(REQUESTS / 20);
  expect(tally.aborted).toBeGreaterThan(REQUESTS / 100);
  // Who was abandoned leaves within a step.
  for (let waited = 0; warm.service.engine.state().running > 0 && waited < 200; waited++) await sleep(10);
  for (const server of [warm, cold]) {
    server.service.engine.checkIntegrity();
    const { pages } = (await (await fetch(`${server.address}/v1/cache`, { headers: { authorization: "Bearer operator" } })).json()) as { pages: Record<string, number> };
    expect(pages).toMatchObject({ leased: 0, held: 0 });
    expect(pages["free"]! + pages["cached"]!).toBe(pages["total"]);
  }
}, 900_000);
