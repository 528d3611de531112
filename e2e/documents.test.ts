import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const tracked = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: ROOT, encoding: "utf8" }).split("\n").filter((path) => existsSync(join(ROOT, path)));
const pages = tracked.filter((path) => path.endsWith(".md"));

it("links in documents lead to files that are there", () => {
  const dead = pages.flatMap((page) => {
    const links = [...readFileSync(join(ROOT, page), "utf8").matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, target = ""]) => target);
    return links.filter((target) => !existsSync(join(ROOT, dirname(page), target))).map((target) => `${page} → ${target}`);
  });
  expect(dead).toEqual([]);
});

it("every package has a README and a bench that `npm run bench` finds", () => {
  const packages = [...new Set(tracked.flatMap((path) => /^packages\/([^/]+)\/package\.json$/.exec(path)?.[1] ?? []))];
  expect(packages.length).toBeGreaterThanOrEqual(6);
  const lacking = packages.filter((name) => !tracked.includes(`packages/${name}/README.md`) || !tracked.some((path) => path.startsWith(`packages/${name}/bench/`) && path.endsWith(".bench.ts")));
  expect(lacking).toEqual([]);
});
