import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { conformance, fold, parseDirectives, parseText, printText, standardRegistry, type Verb, verbsOf } from "../src/index.ts";
import { chatLog } from "./random-logs.ts";

// Inside the package, so that what is written here resolves its imports like any other source.
const folder = mkdtempSync(join(fileURLToPath(new URL(".", import.meta.url)), ".generated-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const script = fileURLToPath(new URL("../scripts/new-verb.mjs", import.meta.url));
const guide = readFileSync(new URL("../../../docs/add-a-verb.md", import.meta.url), "utf8");

/** The verbs of a module that was just written. */
async function load(file: string): Promise<readonly Verb[]> {
  return verbsOf((await import(/* @vite-ignore */ file)) as Record<string, unknown>, file);
}

test("the guide's verb passes the suite, keeps the last tool results, and has the text form that the guide shows", async () => {
  const code = /```js\n\/\/ index\.js\n(.*?)```/s.exec(guide)![1]!;
  mkdirSync(join(folder, "keep-last"));
  writeFileSync(join(folder, "keep-last", "index.js"), code);
  const verbs = await load(join(folder, "keep-last", "index.js"));
  for (const { run } of conformance(verbs[0]!, { cases: 100 })) expect(run).not.toThrow();
  const registry = standardRegistry.with(verbs);
  const directives = parseText("keep_last tool 1 after 6", { registry });
  expect(printText(directives, { registry })).toBe("keep_last tool 1 after 6");
  // Messages: 0 system, 1 user, 2 assistant, 3 tool, 4 user, 5 assistant, 6 tool, 7 user.
  const { outcomes } = fold(chatLog([2, 2, 2, 3, 2, 2, 3, 2]), directives, { registry });
  expect(outcomes[0]).toMatchObject({ op: "keep_last", ranges: [[6, 9]], hidden: 3, status: "applied" });
  expect(() => parseDirectives([{ op: "keep_last", role: "robot", count: 1 }], { registry })).toThrowError(expect.objectContaining({ param: "directives[0].role" }));
});

test("the template writes a package whose verb passes the suite as it is", async () => {
  const target = join(folder, "package");
  const output = execFileSync("node", [script, "first_try", target], { encoding: "utf8" });
  expect(output).toContain(target);
  expect(JSON.parse(readFileSync(join(target, "package.json"), "utf8"))).toMatchObject({ name: "palimpsest-verb-first-try", exports: "./index.js" });
  const [verb] = await load(join(target, "index.js"));
  expect(verb!.name).toBe("first_try");
  for (const { run } of conformance(verb!, { cases: 60 })) expect(run).not.toThrow();
});

test.each([[[]], [["Bad-Name"]], [["fine", "."]]])("the template refuses %j", (args) => {
  expect(() => execFileSync("node", [script, ...args], { cwd: folder, stdio: "pipe" })).toThrow(/Command failed/);
});

test("a module without verbs, and a verb that is there already, are refused", () => {
  expect(() => verbsOf({}, "nothing")).toThrowError(expect.objectContaining({ code: "verb_invalid" }));
  expect(() => verbsOf({ verbs: [{ name: "half" }] }, "half")).toThrowError(expect.objectContaining({ code: "verb_invalid" }));
  expect(() => standardRegistry.with([standardRegistry.list()[0]!])).toThrowError(expect.objectContaining({ code: "verb_invalid" }));
  expect(verbsOf({ default: standardRegistry.list()[0] }, "one")).toHaveLength(1);
});

test("the guide lists every kind of operation and every question that a verb may ask", () => {
  const operations = ["hide", "compact", "replace", "edit", "retain"];
  for (const kind of operations) expect(guide).toContain(`| \`${kind}\` |`);
  for (const name of ["boundary", "ranges", "contiguous", "replacement", "messagesBefore", "turnsAfter"]) expect(guide).toContain(`| \`${name}(`);
});
