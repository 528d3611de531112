import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { identify, OPEN_ACCESS, readTenants, requireOperator } from "../src/tenants.ts";

const folder = mkdtempSync(join(tmpdir(), "tenants-"));
afterAll(() => rmSync(folder, { recursive: true }));

function file(content: unknown): string {
  const path = join(folder, `${Math.random().toString(36).slice(2)}.json`);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

describe("tenants", () => {
  test("come from the key alone, by either header", () => {
    const table = readTenants(file({ tenants: { alice: ["a1", "a2"], bob: ["b"] }, operators: ["op"] }));
    expect(identify(table, { authorization: "Bearer a1" })).toEqual({ namespace: "tenant/alice", operator: false });
    expect(identify(table, { "x-api-key": "a2" })).toEqual(identify(table, { authorization: "bearer a1" }));
    expect(identify(table, { "x-api-key": "b" }).namespace).toBe("tenant/bob");
    expect(identify(table, { "x-api-key": "op" }).operator).toBe(true);
    expect(() => requireOperator(identify(table, { "x-api-key": "b" }))).toThrowError(expect.objectContaining({ status: 403 }) as Error);
  });

  test.each([[{}], [{ authorization: "Bearer wrong" }], [{ authorization: "a1" }], [{ "x-api-key": "" }]])("refuse %j", (headers) => {
    const table = readTenants(file({ tenants: { alice: ["a1"] } }));
    expect(() => identify(table, headers)).toThrowError(expect.objectContaining({ code: "invalid_api_key", status: 401 }) as Error);
  });

  test("are one namespace for all where none are configured", () => {
    expect(identify(OPEN_ACCESS, { authorization: "Bearer anything" })).toEqual(identify(OPEN_ACCESS, {}));
  });

  test.each([
    [{ tenants: { alice: ["k"], bob: ["k"] } }],
    [{ tenants: {} }],
    [{ tenants: { "a/b": ["k"] } }],
    [{ tenants: { alice: [""] } }],
    [{ tenants: { alice: ["k"] }, operator: ["o"] }],
    [{ alice: ["k"] }],
    ["{"],
  ])("are not read from %j", (content) => {
    expect(() => readTenants(file(content))).toThrowError(expect.objectContaining({ kind: "invalid" }) as Error);
  });
});
