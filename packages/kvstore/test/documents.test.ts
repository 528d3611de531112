import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { KVSTORE_ERROR_CODES } from "../src/index.ts";

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
    expect(Object.fromEntries(rows)).toEqual(KVSTORE_ERROR_CODES);
  });
});
