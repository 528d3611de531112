import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { CommandLine, killAll } from "./kit/command-line.ts";
import { describeWithModel } from "./real-models.ts";
import { tinyModel } from "./servers.ts";

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

afterEach(killAll);

async function serve(...more: string[]): Promise<{ server: CommandLine; address: string }> {
  const server = new CommandLine(["serve", "--model", model, "--port", "0", "--cache-mem", "16MiB", ...more]);
  const address = await server.printed(/^address +(\S+)$/m);
  return { server, address };
}

const post = (address: string, path: string, body: object, signal?: AbortSignal) =>
  fetch(`${address}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: signal ?? null });

async function run(args: readonly string[], input?: string, env?: Record<string, string>): Promise<{ code: number | null; output: string; errors: string }> {
  const process = new CommandLine(args, env && { env });
  process.child.stdin.end(input ?? "");
  const code = await process.exit;
  return { code, output: process.output, errors: process.errors };
}

describe("palimpsest serve", () => {
  test("prints address, model, level and a command that works; health names the level", async () => {
    const { server, address } = await serve("--alias", "small", "--kernels", "reference", "--cache-dtype", "f32", "--ctx", "512");
    expect(server.output).toMatch(/^listening on http:\/\/127\.0\.0\.1:\d+$/m);
    expect(server.output).toMatch(/^level +reference, f32 cells, \d+ threads$/m);
    expect(server.errors).toContain("loading tiny 100 %");
    const curl = /^try +curl (\S+) .*-d '(.*)'$/m.exec(server.output);
    const answer = await post("", curl?.[1] ?? "", JSON.parse(curl?.[2] ?? "") as object);
    expect(answer.status).toBe(200);
    expect(await (await fetch(`${address}/health`)).json()).toMatchObject({ status: "ok", level: "reference", cache_dtype: "f32", context_length: 512 });
    expect((await post(address, "/v1/completions", { model: "small", prompt: "a", max_tokens: 1 })).status).toBe(200);
    const { memory_bytes: memory } = (await (await fetch(`${address}/v1/cache`)).json()) as { memory_bytes: Record<string, number> };
    expect(Object.keys(memory)).toEqual(["weights", "cells", "scratch"]);
    for (const bytes of Object.values(memory)) expect(bytes).toBeGreaterThan(10_000);
    expect(await (await fetch(`${address}/metrics`)).text()).toContain(`palimpsest_memory_bytes{of="weights"} ${memory["weights"]}`);
    server.child.kill("SIGTERM");
    expect(await server.exit).toBe(0);
  });

  test("cells of q8_0 take half the memory, and the server says so", async () => {
    const cellBytes: Record<string, number> = {};
    for (const dtype of ["f16", "q8_0"]) {
      const { server, address } = await serve("--cache-dtype", dtype);
      expect(server.output).toContain(`, ${dtype} cells, `);
      const answer = await post(address, "/v1/completions", { prompt: "a", max_tokens: 8, ignore_eos: true });
      expect([answer.status, ((await answer.json()) as { usage: object }).usage]).toMatchObject([200, { completion_tokens: 8 }]);
      const health = (await (await fetch(`${address}/health`)).json()) as { cache_dtype: string; cell_bytes: number };
      const models = (await (await fetch(`${address}/v1/models`)).json()) as { data: object[] };
      expect([health.cache_dtype, models.data[0]]).toMatchObject([dtype, { cache_dtype: dtype, cell_bytes: health.cell_bytes }]);
      cellBytes[dtype] = health.cell_bytes;
      server.child.kill("SIGKILL");
    }
    expect(cellBytes["q8_0"]! / cellBytes["f16"]!).toBeLessThan(0.6);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("%s lets a running answer end, then exits with 0", async (signal) => {
    const { server, address } = await serve();
    const answer = await post(address, "/v1/completions", { prompt: "a", max_tokens: 300, ignore_eos: true, stream: true });
    server.child.kill(signal);
    const text = await answer.text();
    expect(text).toMatch(/"finish_reason":"length"[^]*data: \[DONE\]\n\n$/);
    expect(await server.exit).toBe(0);
  });

  test("a second signal stops at once, with 0", async () => {
    const { server, address } = await serve();
    const answer = await post(address, "/v1/completions", { prompt: "a", max_tokens: 4000, ignore_eos: true, stream: true });
    const reading = answer.text().catch(() => "cut off");
    server.child.kill("SIGTERM");
    while (!server.errors.includes("second signal")) await sleep(5);
    server.child.kill("SIGTERM");
    expect(await server.exit).toBe(0);
    expect(await reading).toBe("cut off");
  });

  test("after --drain-s answers are cancelled and say so", async () => {
    const { server, address } = await serve("--drain-s", "0");
    const answer = await post(address, "/v1/completions", { prompt: "a", max_tokens: 4000, ignore_eos: true, stream: true });
    server.child.kill("SIGTERM");
    expect(await answer.text()).toContain('"code":"server_draining"');
    expect(await server.exit).toBe(0);
  });

  test("a busy port is said before anything is loaded, with the flag that helps", async () => {
    const { address } = await serve();
    const second = await run(["serve", "--model", model, "--port", new URL(address).port]);
    expect(second).toMatchObject({ code: 1, errors: expect.stringMatching(/^palimpsest: port \d+ is busy; choose another one with --port N/) as string });
  });

  test("a model that is not there, or damaged, is an error with its reason", async () => {
    for (const name of ["/nowhere/model.gguf", "smollm2-135n"]) {
      const { output, errors } = await run(["serve", "--port", "0", "--model", name]);
      expect(errors).toContain(name);
      expect(output).not.toContain("listening");
    }
    expect(await run(["serve", "--port", "0", "--model", model, "--ctx", "99999999"])).toMatchObject({ errors: expect.stringMatching(/^palimpsest: --ctx 99999999 is more than the model's context/) as string });
    const damaged = join(mkdtempSync(join(tmpdir(), "damaged-")), "damaged.gguf");
    writeFileSync(damaged, "GGUF and then nothing");
    expect(await run(["serve", "--port", "0", "--model", damaged])).toMatchObject({ code: 1, errors: expect.stringMatching(/palimpsest: \S+/) as string });
  });
});

describe("palimpsest", () => {
  test.each([
    [["serv"], 2, /unknown command "serv"; the nearest is "serve"/],
    [["serve", "--prot", "1"], 2, /unknown flag --prot; the nearest is --port/],
    [["serve", "--kernels", "cuda"], 2, /--kernels cuda is not supported/],
    [["serve", "--pages", "4", "--cache-mem", "1GiB"], 2, /give one of them/],
    [["serve", "extra"], 2, /takes no arguments, got "extra"/],
    [["plan"], 2, /takes FILE/],
    [["replay", "trace.json", "--policy", "p"], 2, /replay is not supported/],
    [["plan", "/nowhere.json"], 2, /\/nowhere\.json/],
    [["chat", "--url", "http://127.0.0.1:9"], 0, /^$/],
  ] as const)("%j ends with %i", async (args, code, message) => {
    const result = await run(args);
    expect(result.code).toBe(code);
    expect(result.errors).toMatch(message);
  });

  test("help lists commands and flags with their defaults", async () => {
    expect((await run(["help"])).output).toContain("plan FILE");
    expect((await run(["serve", "--help"])).output).toMatch(/--drain-s N +.*\(default: 30\)/);
    expect((await run(["--version"])).output).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("models lists the catalog and what is in the cache folder", async () => {
    const home = mkdtempSync(join(tmpdir(), "home-"));
    expect(await run(["models"], "", { PALIMPSEST_HOME: home })).toMatchObject({ code: 0, output: expect.stringContaining("smollm2-135m") as string });
  });
});

describe("palimpsest chat and plan", () => {
  test("act on the running conversation", async () => {
    const { address } = await serve();
    const lines = ["A first message.", "/view", "/plan drop 0", "/drop 0..1", "/reposition", "/view", "A second message.", "/undo", "/drop 99", "/drop three", '/splice text message 2 exact "second" with "very last"', "/scratch 3", "/decay 2 turns 1", "/pin 2 until 8 turns", '/splice text message 2 exact "A" with "The" forget', "/wrong", "/quit"];
    const { code, output } = await run(["chat", "--url", address, "--temperature", "0", "--max-tokens", "4"], `${lines.join("\n")}\n`);
    expect(code).toBe(0);
    expect(output).toMatch(/\[read \d+, moved 0, computed \d+, skipped 0\]/);
    expect(output).toMatch(/^(?:> )? *0 user +\d+ tokens +A first message\.$/m);
    expect(output).toMatch(/^(?:> )? *0 user +\d+ tokens dropped +A first message\.$/m);
    expect(output).toMatch(/drop: applied, hides \d+ tokens/);
    expect(output).toMatch(/of \d+ tokens visible; the next answer computes \d+/);
    expect(output).toMatch(/drop: applied, hides \d+ tokens[^]*\n> .*99/);
    expect(output).toMatch(/Line 1, column \d+: expected/i);
    expect(output).toMatch(/splice: applied, hides \d+, inserts \d+, moves \d+ tokens/);
    expect(output).toMatch(/scratch: applied, hides \d+(?:, moves \d+)? tokens/);
    expect(output).toMatch(/decay: applied/);
    expect(output).toMatch(/pin: applied/);
    expect(output).toMatch(/splice: applied, hides \d+, inserts \d+ tokens; costs (\d+)(?: \([^)]*\))?, as edited text \1/);
    expect(output).toContain("there is no command /wrong");
  });

  test("a plan prints what each directive would do", async () => {
    const { address } = await serve();
    const file = join(mkdtempSync(join(tmpdir(), "plan-")), "request.json");
    writeFileSync(file, JSON.stringify({ messages: [{ role: "user", content: "one" }, { role: "user", content: "two" }], directives: [{ op: "drop", target: { messages: [0] } }, { op: "reposition" }] }));
    const { code, output } = await run(["plan", file, "--url", address]);
    expect(code).toBe(0);
    expect(output).toMatch(/^drop: applied, hides \d+ tokens; costs 0, as edited text \d+\nreposition: applied, moves \d+ tokens\n\d+ of \d+ tokens visible; the next answer computes \d+, with edited text \d+\n$/);
  });

  test("chat can start a server of its own", async () => {
    const { code, output } = await run(["chat", "--model", model, "--cache-mem", "16MiB", "--max-tokens", "2"], "Hello.\n/quit\n");
    expect(code).toBe(0);
    expect(output).toMatch(/\[read \d+, moved 0, computed \d+/);
  });
});

describeWithModel("smollm2-135m", "the snippet of the server's README", () => {
  test("serves the default model and ends when it is told to", async () => {
    const readme = readFileSync(resolve(import.meta.dirname, "../packages/server/README.md"), "utf8");
    const snippet = /```ts\n([^]*?)```/.exec(readme)?.[1] ?? "";
    // Beside the packages, so that their names resolve.
    const folder = resolve(import.meta.dirname, "../.cache");
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `readme-${process.pid}.mjs`);
    writeFileSync(file, snippet.replace("8080", "0"));
    const server = new CommandLine([], { script: file });
    const models = await server.printed(/^ready: (\S+)$/m);
    expect(await (await fetch(models)).json()).toMatchObject({ data: [{ id: "smollm2-135m" }] });
    server.child.kill("SIGTERM");
    expect(await server.exit).toBe(0);
    rmSync(file);
  });
});
