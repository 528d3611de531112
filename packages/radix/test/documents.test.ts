import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { namespaceKey, parseNamespaceKey, RADIX_ERROR_CODES, RadixError } from "../src/index.ts";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

describe("the example in the README", () => {
  it("is the program beside this test, has at most 60 lines, and prints what the README says", () => {
    const file = fileURLToPath(new URL("example.ts", import.meta.url));
    const program = readFileSync(file, "utf8");
    expect(readme).toContain(`\`\`\`ts\n${program}\`\`\``);
    expect(program.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
    const root = fileURLToPath(new URL("../../..", import.meta.url));
    const run = spawnSync(process.execPath, ["--import", "tsx", file], { cwd: root, encoding: "utf8" });
    expect(run.stderr).toBe("");
    expect(readme).toContain(`\`\`\`text\n${run.stdout}\`\`\``);
  });
});

describe("the table of errors in the README", () => {
  it("has every code with its kind, and no other", () => {
    const rows = [...readme.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, code, kind]) => [code, kind]);
    expect(Object.fromEntries(rows)).toEqual(RADIX_ERROR_CODES);
  });
});

describe("a namespace", () => {
  const namespace = { model: "m", layout: "l", dtype: "f16", rotary: "r", tenant: "t" };

  it("is one string, different for every part, and back", () => {
    const keys = new Set(Object.keys(namespace).map((part) => namespaceKey({ ...namespace, [part]: "x" })));
    keys.add(namespaceKey(namespace));
    keys.add(namespaceKey({ ...namespace, model: 'm","l' }));
    expect(keys.size).toBe(7);
    expect(parseNamespaceKey(namespaceKey(namespace))).toEqual(namespace);
  });

  it("is refused when it is none", () => {
    expect(() => namespaceKey({ ...namespace, tenant: undefined as unknown as string })).toThrow(RadixError);
    for (const key of ["", "[]", '[2,"m","l","f","r","t"]', '[1,"m","l","f","r",1]']) expect(() => parseNamespaceKey(key)).toThrow(RadixError);
  });
});
