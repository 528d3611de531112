import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { createApp } from "../src/app.ts";
import { readTenants } from "../src/tenants.ts";
import { scriptOf } from "./scripted.ts";
import { eventsOf, openWorld, type World, type WorldOptions } from "./world.ts";

/** A listening server: health, clients that vanish, slow clients, capacity, draining, tenants. */
let world: World;
let address: string;
afterEach(() => world?.close());

async function listen(options: WorldOptions = {}): Promise<void> {
  world = await openWorld(options);
  await world.app.fastify.listen({ port: 0, host: "127.0.0.1" });
  address = `http://127.0.0.1:${(world.app.fastify.server.address() as AddressInfo).port}`;
}

const LONG = { messages: [{ role: "user", content: "go on for long" }], max_tokens: 2000 };
const longScript = () => world.runtime.script.answers.set(0n, scriptOf("x".repeat(2000)));

async function open(path: string, body: object): Promise<IncomingMessage> {
  const sent = request(`${address}${path}`, { method: "POST", headers: { "content-type": "application/json" } });
  sent.on("error", () => {});
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  response.on("error", () => {});
  return response;
}

async function all(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk as string;
  return text;
}

interface CacheState {
  pages: { total: number; free: number; cached: number; leased: number; held: number };
  requests: { running: number; waiting: number };
}
const state = async () => (await (await fetch(`${address}/v1/cache`)).json()) as CacheState;

/** Resolves when nothing runs and no page is leased; fails after some steps. */
async function quiet(): Promise<void> {
  for (let tries = 0; tries < 4000; tries++) {
    const { pages, requests } = await state();
    if (pages.leased === 0 && requests.running === 0 && requests.waiting === 0 && world.app.lifecycle.requests === 0) {
      expect(pages.free + pages.cached + pages.leased + pages.held).toBe(pages.total);
      return;
    }
    await sleep(5);
  }
  throw new Error(`pages stay leased: ${JSON.stringify(await state())}`);
}

describe("health", () => {
  test("says how far loading is with 503, then ok with the level, then that it drains", async () => {
    const app = createApp();
    app.lifecycle.progress = 0.4;
    const health = async () => {
      const answer = await app.fastify.inject("/health");
      return [answer.statusCode, answer.json()] as const;
    };
    expect(await health()).toEqual([503, { status: "loading", progress: 0.4 }]);
    const early = await app.fastify.inject({ method: "POST", url: "/v1/completions", payload: { prompt: "a" } });
    expect([early.statusCode, early.headers["retry-after"], early.json()]).toEqual([503, "2", { error: expect.objectContaining({ code: "model_loading", kind: "capacity", type: "capacity" }) as object }]);
    world = await openWorld();
    app.lifecycle.ready(world.service);
    expect(await health()).toEqual([200, expect.objectContaining({ status: "ok", level: "reference", cache_dtype: "f32", model: "scripted" })]);
    await app.lifecycle.drain(0);
    expect((await health())[0]).toBe(503);
    await app.fastify.close();
  });

  test("R26: says when the engine last ran and how long somebody has waited", async () => {
    await listen();
    expect(await (await fetch(`${address}/health`)).json()).toMatchObject({ last_step_ms: null, oldest_waiting_ms: null });
    await world.post("/v1/completions", { prompt: "a" });
    expect(await (await fetch(`${address}/health`)).json()).toMatchObject({ last_step_ms: expect.any(Number) as number });
  });

  test("R26: a step that does not end is no health", async () => {
    const slow = await openWorld({ limits: { stepMsMax: 5 } });
    slow.runtime.script.stepMs = 200;
    const answer = slow.post("/v1/completions", { prompt: "a", max_tokens: 1 });
    await sleep(100);
    expect(await slow.get("/health")).toMatchObject({ status: 503, json: { status: "stalled", step_ms: expect.any(Number) as number } });
    expect(await answer).toMatchObject({ status: 200 });
    expect(await slow.get("/health")).toMatchObject({ status: 200, json: { status: "ok", step_ms: null } });
    await slow.close();
  });
});

describe("a client that leaves", () => {
  test.each([
    ["in the middle of a stream", true, 40],
    ["before the first token of a stream", true, 0],
    ["while its whole answer is computed", false, 40],
  ])("R17, R18, R25: %s ends the computation within a step, with all pages back", async (_, stream, afterMs) => {
    await listen();
    longScript();
    world.runtime.script.stepMs = 5;
    const sent = request(`${address}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" } });
    sent.on("error", () => {});
    sent.end(JSON.stringify({ ...LONG, stream }));
    while ((await state()).requests.running + (await state()).requests.waiting === 0) await sleep(1);
    await sleep(afterMs);
    sent.destroy();
    await quiet();
    const steps = world.runtime.steps;
    await sleep(40);
    expect(world.runtime.steps - steps).toBeLessThanOrEqual(1);
    world.runtime.script.stepMs = 0;
    expect(await world.post("/v1/completions", { prompt: "next", max_tokens: 2 })).toMatchObject({ status: 200 });
  });

  test("R17: in the queue is forgotten", async () => {
    await listen({ pages: 20, engineLimits: { runningMax: 1 } });
    longScript();
    world.runtime.script.stepMs = 2;
    const running = await open("/v1/completions", { prompt: "first", max_tokens: 200, stream: true });
    const waiting = await open("/v1/completions", { prompt: "second", max_tokens: 200, stream: true });
    expect((await state()).requests).toEqual({ running: 1, waiting: 1 });
    waiting.destroy();
    while ((await state()).requests.waiting > 0) await sleep(1);
    running.destroy();
    await quiet();
  });
});

describe("a client that is slow", () => {
  test("R13: gets comments while it waits for its turn, headers at once", async () => {
    await listen({ limits: { heartbeatMs: 15 } });
    world.runtime.script.stepMs = 100;
    const before = performance.now();
    const response = await open("/v1/completions", { prompt: "a", max_tokens: 1, stream: true });
    expect(performance.now() - before).toBeLessThan(90);
    const text = await all(response);
    expect(text.match(/^: /gm)?.length).toBeGreaterThan(2);
    expect(eventsOf(text).at(-1)).toMatchObject({ choices: [{ finish_reason: "length" }] });
  });

  test("R15: gets every frame once; one that takes nothing loses its stream and its pages", async () => {
    await listen({ limits: { stallMsMax: 150 }, contextLength: 65_536, pages: 8192 });
    longScript();
    const slow = await open("/v1/chat/completions", { ...LONG, stream: true, logprobs: true, top_logprobs: 20 });
    let text = "";
    slow.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      slow.pause();
      setTimeout(() => slow.resume(), 1);
    });
    await once(slow, "end");
    expect(eventsOf(text).map((chunk) => (chunk["choices"] as { delta?: { content?: string } }[])[0]?.delta?.content ?? "").join("")).toBe("x".repeat(2000));
    // One frame of more than any socket's buffer: the scores of the whole prompt.
    const stalled = await open("/v1/completions", { prompt: "y".repeat(20_000), echo: true, max_tokens: 1, logprobs: 20, stream: true });
    stalled.pause();
    const closed = new Promise((resolve) => stalled.once("close", resolve));
    await quiet();
    stalled.resume();
    await closed;
    expect(stalled.complete).toBe(false);
  });
});

describe("capacity", () => {
  test("that can never suffice is 503 with retry-after, streamed or not", async () => {
    await listen({ pages: 4 });
    for (const stream of [false, true]) {
      const answer = await world.post("/v1/completions", { prompt: "x".repeat(200), max_tokens: 4, stream });
      expect(answer).toMatchObject({ status: 503, json: { error: { kind: "capacity", type: "capacity" } } });
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    }
    expect(await world.post("/v1/completions", { prompt: "x", max_tokens: 4 })).toMatchObject({ status: 200 });
    await quiet();
  });

  test("of requests is 429, and frees itself", async () => {
    await listen({ limits: { requestsMax: 1 } });
    longScript();
    world.runtime.script.stepMs = 2;
    const running = await open("/v1/completions", { prompt: "first", max_tokens: 500, stream: true });
    const second = await world.post("/v1/completions", { prompt: "second" });
    expect(second).toMatchObject({ status: 429, headers: { "retry-after": "1" }, json: { error: { code: "requests_exceeded", kind: "capacity" } } });
    running.destroy();
    await quiet();
    expect(await world.post("/v1/completions", { prompt: "second", max_tokens: 1 })).toMatchObject({ status: 200 });
  });

  test("left to the server, an answer's length fits into the cache", async () => {
    await listen({ pages: 8 });
    world.runtime.script.answers.set(0n, scriptOf("y".repeat(500)));
    const answer = await world.post("/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] });
    expect(answer).toMatchObject({ status: 200, json: { choices: [{ finish_reason: "length" }] } });
  });
});

describe("a server that is told to end", () => {
  test("lets running answers end, refuses new ones, then cancels what takes too long", async () => {
    await listen();
    world.runtime.script.answers.set(0n, scriptOf("z".repeat(50)));
    world.runtime.script.stepMs = 3;
    const running = await open("/v1/completions", { prompt: "a", max_tokens: 50, stream: true });
    const drained = world.app.lifecycle.drain(10_000);
    expect(await world.post("/v1/completions", { prompt: "b" })).toMatchObject({ status: 503, json: { error: { code: "server_draining" } } });
    expect(eventsOf(await all(running)).at(-1)).toMatchObject({ choices: [{ finish_reason: "length" }] });
    await drained;
  });

  test("cancels answers when the time is up, and says so in their streams", async () => {
    await listen();
    longScript();
    world.runtime.script.stepMs = 3;
    const running = await open("/v1/completions", { prompt: "a", max_tokens: 2000, stream: true });
    const whole = world.post("/v1/completions", { prompt: "b", max_tokens: 2000 });
    while (world.app.lifecycle.requests < 2) await sleep(1);
    await world.app.lifecycle.drain(50);
    expect(eventsOf(await all(running)).at(-1)).toMatchObject({ error: { code: "server_draining", kind: "capacity" } });
    expect(await whole).toMatchObject({ status: 503 });
  });
});

const as = (key: string) => ({ authorization: `Bearer ${key}` });

describe("tenants over HTTP", () => {
  const file = join(mkdtempSync(join(tmpdir(), "tenants-")), "tenants.json");
  writeFileSync(file, JSON.stringify({ tenants: { alice: ["key-a"], bob: ["key-b"] }, operators: ["key-o"] }));

  test("R48: neither hit nor see each other's cells", async () => {
    await listen({ tenants: readTenants(file) });
    const body = { prompt: "a secret that alice warmed", max_tokens: 1, cache: { report: true } };
    const ask = async (key: string) => (await world.post("/v1/completions", body, as(key))).json as { cache: { computed_tokens: number; cached_tokens: number; miss: { reason: string } | null } };
    const computed = (await ask("key-a")).cache.computed_tokens;
    expect((await ask("key-a")).cache.computed_tokens).toBe(1);
    const bob = (await ask("key-b")).cache;
    expect(bob).toMatchObject({ computed_tokens: computed, miss: { reason: "new" } });
    expect((await ask("key-b")).cache.computed_tokens).toBe(1);
  });

  test("need a key; operators see the whole server, tenants do not", async () => {
    await listen({ tenants: readTenants(file) });
    expect(await world.get("/v1/models")).toMatchObject({ status: 401, json: { error: { code: "invalid_api_key" } } });
    expect(await world.get("/health")).toMatchObject({ status: 200 });
    for (const path of ["/metrics", "/v1/cache", "/v1/cache/tree", "/v1/cache/pages"]) {
      expect([path, (await world.get(path, as("key-a"))).status, (await world.get(path, as("key-o"))).status]).toEqual([path, 403, 200]);
    }
  });
});

describe("the rest of the surface", () => {
  test("models have context, capabilities and the dtype of cells, under every name", async () => {
    await listen();
    const list = (await world.get("/v1/models")).json as { object: string; data: { id: string }[] };
    expect(list.data.map((model) => model.id)).toEqual(["scripted", "other-name"]);
    expect((await world.get("/v1/models/other-name")).json).toMatchObject({
      object: "model",
      context_length: 4096,
      cache_dtype: "f32",
      capabilities: { directives: expect.arrayContaining(["drop", "reposition"]) as string[] },
    });
  });

  test("R83: metrics count every cell of a prompt once", async () => {
    await listen();
    for (let turn = 0; turn < 2; turn++) await world.post("/v1/completions", { prompt: "abcdefgh", max_tokens: 2 });
    const metrics = (await world.get("/metrics")).text;
    const value = (line: string) => Number(new RegExp(`^${line.replaceAll(/[{}"]/g, "\\$&")} (\\S+)$`, "m").exec(metrics)?.[1]);
    const cells = ["cached", "repositioned", "computed", "skipped"].map((how) => value(`palimpsest_prompt_cells_total{how="${how}"}`));
    expect(cells.reduce((sum, count) => sum + count, 0)).toBe(16);
    expect(cells[0]).toBe(7);
    expect(value("palimpsest_prompt_tokens_total")).toBe(16);
    expect(value("palimpsest_generated_tokens_total")).toBe(4);
    expect(value('palimpsest_requests_total{endpoint="/v1/completions",status="200"}')).toBe(2);
    expect(metrics).toContain('palimpsest_time_to_first_token_seconds_bucket{le="+Inf"} 2');
    expect(value("palimpsest_answer_seconds_count")).toBe(2);
    expect(value("palimpsest_steps_total")).toBeGreaterThanOrEqual(2);
    await world.stream("/v1/completions", { prompt: "abcdefgh", max_tokens: 2 });
    await world.post("/v1/completions", { prompt: 5 });
    const later = (await world.get("/metrics")).text;
    expect(later).toContain('palimpsest_requests_total{endpoint="/v1/completions",status="200"} 3');
    expect(later).toContain('palimpsest_requests_total{endpoint="/v1/completions",status="400"} 1');
  });

  test("the pages name address, model, level and a command, and escape what a client says", async () => {
    await listen();
    const page = await world.raw("GET", "/", undefined, { host: '"><script>' });
    expect(page.status).toBe(200);
    expect(page.text).not.toContain("<script>");
    expect(page.text).toContain("scripted");
    expect(page.text).toContain("reference");
    expect(page.text).toContain("curl ");
    expect((await world.get("/docs")).text).toContain("/v1/directives/plan");
    const document = (await world.get("/openapi.json")).json as { paths: Record<string, { post?: { requestBody?: unknown } }> };
    expect(JSON.stringify(document.paths["/v1/chat/completions"]?.post?.requestBody)).toContain("top_logprobs");
  });

  test("browsers may call from the origin that was allowed, and from no other", async () => {
    await listen({ corsOrigin: "http://localhost:5173" });
    const preflight = await world.raw("OPTIONS", "/v1/chat/completions", undefined, { "access-control-request-headers": "content-type" });
    expect(preflight).toMatchObject({ status: 204, headers: { "access-control-allow-origin": "http://localhost:5173" } });
    const stream = await open("/v1/completions", { prompt: "a", stream: true });
    expect(stream.headers["access-control-allow-origin"]).toBe("http://localhost:5173");
    await all(stream);
    await world.close();
    await listen();
    expect((await world.get("/health")).headers).not.toHaveProperty("access-control-allow-origin");
  });

  test("bytes that are no HTTP get the same shape of error", async () => {
    await listen();
    const { port } = new URL(address);
    const socket = connect(Number(port), "127.0.0.1");
    socket.end("BLAH\r\n\r\n");
    let text = "";
    for await (const chunk of socket.setEncoding("utf8")) text += chunk as string;
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n")))).toMatchObject({ error: { code: "request_invalid", kind: "invalid" } });
  });
});
