import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { CommandLine, killAll } from "./kit/command-line.ts";
import { tinyModel } from "./servers.ts";

/** A verb of somebody else: written by the template, made into `keep_last` by the guide, installed by path, and used over HTTP. */
const ROOT = resolve(import.meta.dirname, "..");
const guide = readFileSync(join(ROOT, "docs/add-a-verb.md"), "utf8");
const NEW_VERB = join(ROOT, "packages/directives/scripts/new-verb.mjs");

let folder: string;
let model: string;
beforeAll(async () => {
  model = await tinyModel();
  folder = mkdtempSync(join(tmpdir(), "palimpsest-verbs-"));
  const npm = (...args: string[]) => execFileSync("npm", [...args, "--silent", "--no-audit", "--no-fund", "--prefer-offline"], { cwd: folder, encoding: "utf8" });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "somebody", private: true, type: "module" }));
  execFileSync("node", [NEW_VERB, "keep_last"], { cwd: folder });
  const code = /```js\n\/\/ index\.js\n(.*?)```/s.exec(guide)![1]!;
  writeFileSync(join(folder, "palimpsest-verb-keep_last", "index.js"), code);
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, "--workspace", "packages/directives"], { cwd: ROOT, encoding: "utf8" });
  npm("install", join(folder, packed.trim().split("\n").at(-1)!), "./palimpsest-verb-keep_last");
}, 180_000);
afterEach(killAll);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const serve = (...more: string[]) => new CommandLine(["serve", "--model", model, "--port", "0", "--cache-mem", "16MiB", ...more], { cwd: folder });

const index = (body: string) => `import { defineVerb, standardRegistry } from "@palimpsest/directives";\nimport { z } from "zod";\n${body}`;

const MESSAGES = [
  { role: "user", content: "Read all three." },
  ...[1, 2, 3].flatMap((n) => [
    { role: "assistant", content: "", tool_calls: [{ id: `c${n}`, type: "function", function: { name: "read", arguments: `{"n": ${n}}` } }] },
    { role: "tool", tool_call_id: `c${n}`, content: `Text number ${n}.` },
  ]),
];

describe("a verb of an npm package", () => {
  test.each([["palimpsest-verb-keep-last"], ["./palimpsest-verb-keep_last"]])("serves under --verbs %s: in requests, plans, reports and the list of verbs", async (name) => {
    const server = serve("--verbs", name);
    const address = await server.printed(/^address +(\S+)$/m);
    expect(server.output).toMatch(/^verbs +keep_last, and the standard ones$/m);
    const post = async (path: string, body: object) => {
      const response = await fetch(`${address}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as { cache: { computed_tokens: number; directives: object[] }; directives: object[]; error: object; choices: unknown[] } };
    };
    const common = { messages: MESSAGES, max_tokens: 2, temperature: 0 };
    const kept = { ...common, directives: [{ op: "keep_last", role: "tool", count: 1 }] };
    const outcome = { op: "keep_last", status: "applied", ranges: [expect.any(Array), expect.any(Array)] };
    expect((await post("/v1/directives/plan", kept)).body.directives).toMatchObject([outcome]);
    const answer = await post("/v1/chat/completions", kept);
    expect(answer.body.cache.directives).toMatchObject([outcome]);
    const dropped = await post("/v1/chat/completions", { ...common, directives: [{ op: "drop", target: { messages: [2, 4] } }] });
    // By its effect it is this drop: the same path, so everything is there.
    expect(dropped.body.choices).toEqual(answer.body.choices);
    expect(dropped.body.cache.computed_tokens).toBe(1);
    expect(await post("/v1/chat/completions", { ...kept, directives: [{ op: "keep_last", role: "robot", count: 1 }] })).toMatchObject({ status: 400, body: { error: { param: "directives[0].role" } } });
    expect(await (await fetch(`${address}/v1/models/tiny`)).json()).toMatchObject({ capabilities: { directives: expect.arrayContaining(["drop", "keep_last"]) } });
  }, 60_000);

  test.each([
    ["that is not there", null, /--verbs palimpsest-verb-bad: it was not found from .*npm install palimpsest-verb-bad/],
    ["that cannot be loaded", "export const verbs = [", /--verbs palimpsest-verb-bad: .*index\.js cannot be loaded: /],
    ["that throws", 'throw new Error("no luck");', /--verbs palimpsest-verb-bad: .*index\.js cannot be loaded: no luck/],
    ["without verbs", "export const answer = 42;", /--verbs palimpsest-verb-bad: Expected "palimpsest-verb-bad" to export an array "verbs"/],
    ["with a verb that is taken", index('export const verbs = [standardRegistry.get("drop")];'), /--verbs palimpsest-verb-bad: The verb "drop" is registered already/],
    [
      "with a verb that takes anything",
      index('export default defineVerb({ name: "loose", schema: z.object({ op: z.literal("loose") }), documentation: "Does nothing, to anyone at all.", examples: [{ op: "loose" }], lower: (c) => ({ at: 0, operations: [] }) });'),
      /--verbs palimpsest-verb-bad: its verb "loose" does not conform \(loose refuses unknown fields by name\)/,
    ],
    [
      "with a verb that throws",
      index('export default defineVerb({ name: "broken", schema: z.strictObject({ op: z.literal("broken") }), documentation: "Throws whatever it is asked.", examples: [{ op: "broken" }], lower() { return undefined.at; } });'),
      /--verbs palimpsest-verb-bad: its verb "broken" does not conform/,
    ],
  ])("%s ends the start with a sentence that names it", async (_, code, message) => {
    const bad = join(folder, "node_modules/palimpsest-verb-bad");
    rmSync(bad, { recursive: true, force: true });
    if (code !== null) {
      mkdirSync(bad, { recursive: true });
      writeFileSync(join(bad, "package.json"), JSON.stringify({ name: "palimpsest-verb-bad", type: "module", exports: { ".": { import: "./index.js" } } }));
      writeFileSync(join(bad, "index.js"), code);
    }
    const server = serve("--verbs", "palimpsest-verb-bad");
    expect(await server.exit).toBe(2);
    expect(server.errors).toMatch(message);
    expect(server.output).not.toContain("listening");
  }, 30_000);

  test("twice is a verb that is taken", async () => {
    const server = serve("--verbs", "palimpsest-verb-keep-last", "--verbs", "./palimpsest-verb-keep_last");
    expect(await server.exit).toBe(2);
    expect(server.errors).toMatch(/--verbs \.\/palimpsest-verb-keep_last: The verb "keep_last" is registered already/);
  }, 30_000);
});
