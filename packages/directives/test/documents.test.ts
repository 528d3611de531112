import { readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import * as directives from "../src/index.ts";
import { DIRECTIVE_ERROR_CODES, parseText, printText, standardRegistry } from "../src/index.ts";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
/** Bodies of the fenced blocks of a language, in order. */
const blocks = (language: string) => [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].filter(([, name]) => name === language).map(([, , body = ""]) => body);

describe("The README", () => {
  it("has every error code with its kind, and no other", () => {
    const rows = [...readme.matchAll(/^\| `(\w+)` \| (invalid|unsupported) \|/gm)].map(([, code, kind]) => [code, kind]);
    expect(Object.fromEntries(rows)).toEqual(DIRECTIVE_ERROR_CODES);
  });

  it("names every verb", () => {
    for (const { name } of standardRegistry.list()) expect(readme).toContain(`\`${name}\``);
  });

  it("has a first example that prints what it says", () => {
    const log = vi.fn<(...values: unknown[]) => void>();
    const code = (blocks("ts")[0] ?? "").replace(/import \{ (.*?), type Log \} from .*;/, "const { $1 } = api;").replace(": Log", "");
    // oxlint-disable-next-line no-new-func -- the example is run as it stands, but for its import
    new Function("api", "console", code)(directives, { log });
    expect(log.mock.calls[0]).toEqual([7, 7, 2]);
    expect(log.mock.calls[1]).toEqual(["h2-5 s5:-3"]);
    expect(log.mock.calls[2]?.[0]).toEqual([
      { cell: 0, length: 8, position: 0, view: [] },
      { cell: 8, length: 2, position: 5, view: [{ cell: 0, length: 2, birth: 0, shift: 0 }, { cell: 5, length: 3, birth: 5, shift: -3 }] },
    ]);
  });

  it("has text directives that read and print the same", () => {
    const text = (blocks("")[0] ?? "").trim();
    expect(printText(parseText(text)).trim()).toBe(text);
  });
});
