import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { KVSTORE_ERROR_CODES } from "../src/index.ts";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

describe("the table of errors in the README", () => {
  it("has every code with its kind, and no other", () => {
    const rows = [...readme.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, code, kind]) => [code, kind]);
    expect(Object.fromEntries(rows)).toEqual(KVSTORE_ERROR_CODES);
  });
});
