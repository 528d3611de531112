import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const packages = readdirSync(join(ROOT, "packages")).filter((name) => statSync(join(ROOT, "packages", name)).isDirectory());

/** Runs a tool of the workspace; its whole output when it fails. */
function tool(name: string, ...args: string[]): string {
  try {
    execFileSync("npx", ["--no-install", name, ...args], { cwd: ROOT, encoding: "utf8", stdio: "pipe" });
    return "";
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return `${stdout}\n${stderr}`;
  }
}

describe("What would be published", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-published-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(packages)("publint finds nothing in %s", (name) => {
    expect(tool("publint", "run", join("packages", name), "--strict")).toBe("");
  }, 60_000);

  it.each(packages)("the types of %s resolve", (name) => {
    const tarball = execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, "--workspace", `packages/${name}`], { cwd: ROOT, encoding: "utf8" }).trim().split("\n").at(-1) ?? "";
    // ESM only, by choice: `require` of an ES module works from Node 20.19 on.
    expect(tool("attw", join(folder, tarball), "--profile", "esm-only")).toBe("");
  }, 60_000);

  it("the native library is one file below 10 MB", () => {
    const natives = readdirSync(join(ROOT, "packages/kernels-cuda")).filter((name) => name.endsWith(".node"));
    expect(natives).toHaveLength(1);
    expect(statSync(join(ROOT, "packages/kernels-cuda", natives[0] ?? "")).size).toBeLessThan(10_000_000);
  });
});
