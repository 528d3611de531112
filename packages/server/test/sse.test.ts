import { EventEmitter, once } from "node:events";
import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { EventStream, type Delivery } from "../src/sse.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function serve(handler: (response: ServerResponse) => Promise<void>): Promise<string> {
  server = createServer((_, response) => void handler(response));
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const open = (url: string) => new Promise<IncomingMessage>((resolve, reject) => get(url, resolve).on("error", reject));

async function text(response: IncomingMessage): Promise<string> {
  let all = "";
  for await (const chunk of response.setEncoding("utf8")) all += chunk as string;
  return all;
}

const OPTIONS = { heartbeatMs: 20, stallMsMax: 5_000 };

describe("a stream of events", () => {
  test("sends headers and a comment before anything is computed, then comments while it waits", async () => {
    const gate = new EventEmitter();
    const waiting = once(gate, "release");
    const url = await serve(async (response) => {
      const stream = new EventStream(response, OPTIONS);
      stream.open();
      await waiting;
      await stream.send({ n: 1 });
      stream.end();
    });
    const response = await open(url);
    expect(response.statusCode).toBe(200);
    expect(response.headers["content-type"]).toContain("text/event-stream");
    await sleep(90);
    gate.emit("release");
    const all = await text(response);
    expect(all.startsWith(": accepted\n\n: waiting\n\n: waiting\n\n")).toBe(true);
    expect(all.endsWith('data: {"n":1}\n\n')).toBe(true);
  });

  test("R15: sends every frame exactly once to a reader that is slow, and never holds more than a frame beyond the buffer", async () => {
    const frames = 400;
    const pad = "x".repeat(4096);
    let buffered = 0;
    const url = await serve(async (response) => {
      const stream = new EventStream(response, { heartbeatMs: 1_000, stallMsMax: 5_000 });
      stream.open();
      for (let n = 0; n < frames; n++) {
        expect(await stream.send({ n, pad })).toBe("ok");
        buffered = Math.max(buffered, response.writableLength);
      }
      stream.end();
    });
    const response = await open(url);
    let all = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      all += chunk;
      response.pause();
      setTimeout(() => response.resume(), 1);
    });
    await new Promise((resolve) => response.once("end", resolve));
    const numbers = [...all.matchAll(/"n":(\d+)/g)].map((match) => Number(match[1]));
    expect(numbers).toEqual(Array.from({ length: frames }, (_, n) => n));
    expect(buffered).toBeLessThan(64 * 1024);
  });

  test("R15: tells a reader that takes nothing from one that has gone", async () => {
    const outcomes: Delivery[] = [];
    const gate = new EventEmitter();
    const url = await serve(async (response) => {
      const stream = new EventStream(response, { heartbeatMs: 1_000, stallMsMax: 150 });
      stream.open();
      let delivery: Delivery = "ok";
      while (delivery === "ok") delivery = await stream.send("y".repeat(65_536));
      outcomes.push(delivery);
      stream.end(delivery);
      gate.emit("ended");
    });
    for (const leave of [false, true]) {
      const over = once(gate, "ended");
      const response = await open(url);
      response.on("error", () => {});
      response.pause();
      if (leave) response.destroy();
      await over;
    }
    expect(outcomes).toEqual(["stalled", "closed"]);
  });
});
