import { execFile, execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeWithModel } from "./real-models.ts";

const ROOT = resolve(import.meta.dirname, "..");
const run = promisify(execFile);

interface Snippet {
  /** "node", "python3" or "curl", from the snippet's first line. */
  with: string;
  code: string;
}

/** Snippets whose first line says how to run them. */
function snippets(file: string): Snippet[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(/```(?:js|python|sh)\n(?:\/\/|#) run: (\w+)[^\n]*\n(.*?)```/gs)].map(([, tool = "", code = ""]) => ({ with: tool, code }));
}

/** The server as a user starts it, on a free port; resolves with its address when it answers. */
async function startServer(): Promise<{ process: ChildProcess; address: string }> {
  const server = spawn(process.execPath, [join(ROOT, "packages/server/dist/cli.mjs"), "serve", "--port", "0"], { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  const address = await new Promise<string>((found, failed) => {
    const read = (chunk: Buffer) => {
      printed += chunk.toString();
      const match = /http:\/\/127\.0\.0\.1:\d+/.exec(printed);
      if (match) found(match[0]);
    };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
    server.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${printed}`)));
  });
  const health = async () => (await fetch(`${address}/health`)).status;
  while ((await health().catch(() => 0)) !== 200) await new Promise((wait) => setTimeout(wait, 100));
  return { process: server, address };
}

describeWithModel("smollm2-135m", "The README's snippets", () => {
  let server: Awaited<ReturnType<typeof startServer>>;
  let folder: string;
  const found = snippets("README.md");

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-readme-"));
    server = await startServer();
  }, 120_000);
  afterAll(() => {
    server.process.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  const at = (code: string) => code.replaceAll("http://127.0.0.1:8080", server.address);
  const codeFor = (tool: string) => at(found.find((snippet) => snippet.with === tool)?.code ?? "");

  it("are all of a kind that this test runs", () => {
    expect(found.map((snippet) => snippet.with).toSorted()).toEqual(["curl", "node", "python3"]);
  });

  it("JavaScript: the edit computes only new tokens and moves no byte", async () => {
    mkdirSync(join(ROOT, ".cache"), { recursive: true });
    // Inside the checkout, so that `openai` is found.
    const file = join(ROOT, ".cache", `readme-${process.pid}.mjs`);
    writeFileSync(file, codeFor("node"));
    const { stdout } = await run(process.execPath, [file]).finally(() => rmSync(file, { force: true }));
    const [prompt = 0, visible = 0, computed = 0, moved = -1] = stdout.trim().split(" ").map(Number);
    expect(prompt).toBeGreaterThan(300);
    expect(visible).toBeLessThan(prompt / 2);
    expect(computed).toBeLessThan(40);
    expect(moved).toBe(0);
  }, 60_000);

  it("Python: fields of ours go into extra_body", async () => {
    const venv = join(folder, "venv");
    execFileSync("python3", ["-m", "venv", venv]);
    execFileSync(join(venv, "bin", "python"), ["-m", "pip", "install", "--quiet", "openai==3.57.0"]);
    const { stdout } = await run(join(venv, "bin", "python"), ["-c", codeFor("python3")]);
    const [visible = "", status = ""] = stdout.trim().split(" ");
    expect(Number(visible)).toBeGreaterThan(0);
    expect(status).toBe("applied");
  }, 180_000);

  it("curl: by hand", async () => {
    const { stdout } = await run("sh", ["-c", codeFor("curl")]);
    const answer = JSON.parse(stdout) as { choices: { text: string }[]; cache: { visible_tokens: number; prompt_tokens: number } };
    expect(answer.choices[0]?.text).not.toBe("");
    expect(answer.cache.visible_tokens).toBe(answer.cache.prompt_tokens - 2);
  });
});
