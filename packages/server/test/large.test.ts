import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openWorld, type World } from "./world.ts";

/** Texts of megabytes keep nobody else from the server. */
let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const MEGABYTES = "a line of a log that somebody pasted, 0123456789\n".repeat(280_000);

test("another client is answered while 14 MB are tokenised", async () => {
  for (const [path, body] of [
    ["/v1/completions", { prompt: MEGABYTES, directives: [] }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: MEGABYTES }], directives: [] }],
  ] as const) {
    const state = { done: false };
    const large = world.post(path, body).finally(() => (state.done = true));
    let answered = 0;
    while (!state.done) {
      const other = await world.post("/v1/completions", { prompt: "abc", max_tokens: 1 });
      expect(other.status).toBe(200);
      answered++;
    }
    // Before it was cut into slices, at most the requests on either side of one long stop came through.
    expect(answered).toBeGreaterThan(10);
    expect(await large).toMatchObject({ status: 400, json: { error: { code: "context_length_exceeded" } } });
  }
}, 60_000);

test("what certainly cannot fit is refused before it is tokenised", async () => {
  const tokenizer = vi.spyOn(world.service.tokenizer, "encodeInSlices");
  const error = { code: "context_length_exceeded", kind: "invalid" };
  expect(await world.post("/v1/completions", { prompt: MEGABYTES })).toMatchObject({ status: 400, json: { error: { ...error, param: "prompt" } } });
  expect(tokenizer).not.toHaveBeenCalled();
  expect(await world.post("/v1/completions", { prompt: "abc" })).toMatchObject({ status: 200 });
  expect(tokenizer).toHaveBeenCalledOnce();
  tokenizer.mockRestore();
  const answer = await world.post("/v1/chat/completions", { messages: [{ role: "user", content: MEGABYTES }] });
  expect(answer).toMatchObject({ status: 400, json: { error: { ...error, param: "messages" } } });
  expect(answer.text).toContain("at least");
});

test("a client that leaves ends the tokenisation of its text, and gives its place back", async () => {
  await world.app.fastify.listen({ host: "127.0.0.1", port: 0 });
  const { port } = world.app.fastify.server.address() as AddressInfo;
  const call = request({ port, host: "127.0.0.1", method: "POST", path: "/tokenize", headers: { "content-type": "application/json" } });
  call.on("error", () => undefined);
  const tokenizer = vi.spyOn(world.service.tokenizer, "encodeInSlices");
  call.end(JSON.stringify({ prompt: MEGABYTES }));
  await vi.waitFor(() => expect(world.app.lifecycle.requests).toBe(1), { timeout: 20_000, interval: 1 });
  call.destroy();
  await vi.waitFor(() => expect(world.app.lifecycle.requests).toBe(0), { timeout: 20_000, interval: 1 });
  expect(tokenizer).toHaveBeenCalledOnce();
  await expect(tokenizer.mock.results[0]?.value).rejects.toMatchObject({ code: "client_closed" });
}, 60_000);
