import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENGINE_ERROR_CODES, ENGINE_LIMITS } from "@palimpsest/engine";
import { writeTinyModel } from "@palimpsest/kernels-cuda";
import { expect, test } from "vitest";
import { example } from "./kit/readme-example.ts";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
const readme = read("../README.md");

test("the README's table of errors has every code with its kind, and no other", () => {
  const section = readme.slice(readme.indexOf("## Errors"));
  const rows = [...section.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, code, kind]) => [code, kind]);
  expect(Object.fromEntries(rows)).toStrictEqual(ENGINE_ERROR_CODES);
});

test("the README's table of limits has every limit with its default, and no other", () => {
  const section = readme.slice(readme.indexOf("## Limits"), readme.indexOf("## Errors"));
  const rows = [...section.matchAll(/^\| `(\w+)` \| (\d+) \|/gm)].map(([, name, value]) => [name, Number(value)]);
  expect(Object.fromEntries(rows)).toStrictEqual(ENGINE_LIMITS);
});

test("the README's example is the one that runs here", async () => {
  expect(readme).toContain(read("./kit/readme-example.ts"));
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
  try {
    const path = join(folder, "tiny.gguf");
    await writeTinyModel(path, { vocabularySize: 512 });
    const ids = await example(path, Int32Array.from({ length: 20 }, (_, i) => 3 * i));
    expect(ids).toHaveLength(16);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
