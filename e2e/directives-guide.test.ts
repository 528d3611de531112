import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, tinyModel, type TestServer } from "./servers.ts";

/** The worked examples of docs/directives.md, sent as they stand. */
const guide = readFileSync(new URL("../docs/directives.md", import.meta.url), "utf8");
const blocks = (kind: string) => [...guide.matchAll(/^```([^\n]*)\n(.*?)^```$/gms)].filter(([, name]) => name === kind).map(([, , body]) => JSON.parse(body!) as Record<string, unknown>);
const reports = blocks("json report");
const examples = blocks("json request").map((request, i) => ({ number: i + 1, request, report: reports[i]! }));

let server: TestServer;
beforeAll(async () => {
  server = await openServer(await tinyModel());
});
afterAll(() => server.close());

test("the guide has five worked examples, each with its report", () => {
  expect([examples.length, reports.length]).toEqual([5, 5]);
});

test.each(examples)("worked example $number answers with the report that the guide shows", async ({ request, report }) => {
  const response = await fetch(`${server.address}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...request, max_tokens: 1, temperature: 0 }),
  });
  const body = (await response.json()) as { cache?: object; error?: object };
  expect({ status: response.status, error: body.error }).toEqual({ status: 200, error: undefined });
  expect(body.cache).toMatchObject(report);
});
