import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as api from "../src/index.ts";
import { fold, type Log, parseDirectives, parseText, printText } from "../src/index.ts";

const guide = readFileSync(new URL("../../../docs/directives.md", import.meta.url), "utf8");
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

/** Bodies of the fenced blocks of a kind, in order. */
function blocks(kind: string): string[] {
  return [...guide.matchAll(/^```([^\n]*)\n(.*?)^```$/gms)].filter(([, name]) => name === kind).map(([, , body]) => body!);
}

const requests = blocks("json request").map((body) => JSON.parse(body) as { prompt: number[]; directives: unknown });
const reports = blocks("json report").map((body) => JSON.parse(body) as Record<string, unknown>);

test("guide and README say first that AMORTIZE hides and does not delete", () => {
  for (const text of [guide, readme]) {
    const first = text.split("\n").find((line) => line !== "" && !line.startsWith("#"))!;
    expect(first).toMatch(/hide/);
    expect(first).toMatch(/not delete/);
  }
});

test("the guide has five worked examples", () => {
  expect(requests).toHaveLength(5);
  expect(reports).toHaveLength(5);
});

test.each(requests.map((request, i) => ({ request, report: reports[i]!, number: i + 1 })))("worked example $number comes to what the guide says", ({ request, report }) => {
  const log: Log = { tokens: Int32Array.from(request.prompt), header: request.prompt.length, contextLength: 2_048 };
  const { visible, nextPosition, stages, forgotten, outcomes } = fold(log, parseDirectives(request.directives));
  const said = { prompt_tokens: log.tokens.length, visible_tokens: visible, next_position: nextPosition, stages, forgotten_tokens: forgotten, directives: outcomes };
  expect(said).toMatchObject(report);
});

test("the guide's lines of text directives are read, and print as they stand", () => {
  const text = blocks("")[0]!.trim();
  expect(printText(parseText(text))).toBe(text);
});

test("every function that the guide names exists", () => {
  const names = [...guide.matchAll(/`((?:read|write|diff|parse|print|plan|akv|applied)[A-Za-z]+)(?:\([^`]*)?`/g)].map(([, name]) => name!);
  expect(names.length).toBeGreaterThan(15);
  for (const name of names) expect(Object.keys(api)).toContain(name);
});

test("every verb is in the guide's grammar and table", () => {
  for (const { name } of api.standardVerbs) {
    expect(guide).toContain(`"op": "${name}"`);
    expect(guide).toMatch(new RegExp(`^\\| \`${name}\``, "m"));
  }
});
