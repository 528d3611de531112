import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openServer, tinyModel } from "./servers.ts";
import { describeUnless } from "./real-models.ts";

const PACKAGE = "openai==3.57.0";
const FOLDER = resolve(import.meta.dirname, "../.cache/python-openai-3.57.0");
const PYTHON = join(FOLDER, "bin", "python");

const run = (command: string, args: string[]) => spawnSync(command, args, { encoding: "utf8", timeout: 240_000 });

/** An environment of its own with the client in it, made once for a checkout. Null, with the reason, where it cannot be had. */
function environment(): { reason: string } | null {
  const done = () => existsSync(PYTHON) && run(PYTHON, ["-c", "import openai"]).status === 0;
  if (done()) return null;
  mkdirSync(FOLDER, { recursive: true });
  const made = run("python3", ["-m", "venv", FOLDER]);
  if (made.status !== 0) return { reason: `python3 -m venv failed: ${made.error?.message ?? made.stderr}` };
  const installed = run(PYTHON, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]);
  return installed.status === 0 && done() ? null : { reason: `pip could not install ${PACKAGE}: ${installed.stderr.trim().split("\n").at(-1)}` };
}

const SCRIPT = `
import json, sys
from openai import OpenAI, UnprocessableEntityError

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="any key", max_retries=0)
messages = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "A long tool output that is stale by now."},
    {"role": "user", "content": "Say hello."},
]
drop = {"directives": [{"op": "drop", "target": {"messages": [1]}, "at": {"message": 2}}, {"op": "reposition", "at": {"message": 2}}]}
common = dict(model="model", messages=messages, temperature=0, max_tokens=4, extra_body=drop)
whole = client.chat.completions.create(**common)
streamed, cache = "", None
for chunk in client.chat.completions.create(**common, stream=True):
    if chunk.choices:
        streamed += chunk.choices[0].delta.content or ""
    cache = getattr(chunk, "cache", None) or cache
try:
    client.chat.completions.create(**{**common, "n": 2})
    refused = None
except UnprocessableEntityError as error:
    refused = [error.status_code, error.param]
print(json.dumps({
    "text": whole.choices[0].message.content,
    "streamed": streamed,
    "hidden": whole.cache["directives"][0]["hidden"],
    "stream_hidden": cache["directives"][0]["hidden"],
    "usage": whole.usage.prompt_tokens_details.model_dump(),
    "refused": refused,
}))
`;

const missing = environment();
describeUnless(missing?.reason ?? null, "Python's official client over HTTP", () => {
  test("drops a message through extra_body, streamed and not, and gets errors as its own exceptions", async () => {
    const server = await openServer(await tinyModel());
    try {
      const { stdout } = await promisify(execFile)(PYTHON, ["-c", SCRIPT, server.address]);
      const result = JSON.parse(stdout) as Record<string, unknown>;
      const hidden = "<|im_start|>user\nA long tool output that is stale by now.<|im_end|>\n";
      const { tokens } = (await (await fetch(`${server.address}/tokenize`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ prompt: hidden }) })).json()) as { tokens: number[] };
      expect(result).toMatchObject({ hidden: tokens.length, stream_hidden: tokens.length, refused: [422, "n"], usage: { drop_skipped_tokens: expect.any(Number) as number } });
      expect(result["streamed"]).toBe(result["text"]);
    } finally {
      await server.close();
    }
  });
});
