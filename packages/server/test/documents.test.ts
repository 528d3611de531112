import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { SERVER_ERROR_CODES, STATUS_OF_KIND } from "../src/errors.ts";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { openApiDocument } from "../src/openapi.ts";
import { OWN_FIELDS } from "../src/openai/body.ts";

const api = readFileSync(new URL("../../../docs/api.md", import.meta.url), "utf8");

test("docs/reports.md names a test of each report, which has its number", () => {
  const page = readFileSync(new URL("../../../docs/reports.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| (R\d\d) \| .+ \| `(.+)` \|$/gm)].map(([, report = "", file = ""]) => ({ report, file }));
  expect(rows.length).toBeGreaterThanOrEqual(30);
  const missing = rows.filter(({ report, file }) => !readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8").includes(report));
  expect(missing).toEqual([]);
});

describe("docs/api.md", () => {
  test("has the table of codes that the server has, and no other", () => {
    const rows = [...api.matchAll(/^\| `(\w+)` \| (\w+) \| (\d+) \| (.+) \|$/gm)].map(([, code, kind, status, means]) => ({ code, kind, status: Number(status), means }));
    const table = Object.entries(SERVER_ERROR_CODES).map(([code, entry]) => ({
      code,
      kind: entry.kind,
      status: "status" in entry ? entry.status : STATUS_OF_KIND[entry.kind],
      means: entry.means,
    }));
    expect(rows).toEqual(table);
  });

  test("names every field of our own", () => {
    expect(OWN_FIELDS.filter((field) => !api.includes(`\`${field}\``))).toEqual([]);
  });

  test("names every endpoint that the machine-readable description has", () => {
    const paths = Object.keys(openApiDocument(DEFAULT_LIMITS).paths).map((path) => path.replace("{id}", ":id"));
    expect(paths.filter((path) => !api.includes(path))).toEqual([]);
  });
});
