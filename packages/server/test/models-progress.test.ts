import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { MODEL_ERROR_CODES, cacheFolder, formatBytes, modelsFolder, progressBar } from "../src/models/index.ts";

function written(isTTY: boolean, columns = 80): { lines: string[]; bar: ReturnType<typeof progressBar> } {
  const lines: string[] = [];
  return { lines, bar: progressBar("smollm2-135m", { isTTY, columns, write: (text: string) => lines.push(text) }) };
}

describe("the progress bar", () => {
  test("is one line of a terminal, never wider than it", () => {
    const { lines, bar } = written(true, 60);
    for (let step = 0; step <= 200; step += 1) bar.onProgress({ phase: "downloading", bytes: step * 500_000, total: 100_000_000 });
    bar.onProgress({ phase: "verifying", bytes: 1, total: 2 });
    bar.done();
    // One line for each change that can be seen: a percent, or a step of the bar.
    expect(lines.length).toBeLessThanOrEqual(101 + 25 + 1 + 1);
    expect(new Set(lines).size).toBe(lines.length);
    expect(lines.at(-1)).toBe("\n");
    for (const line of lines.slice(0, -1)) {
      expect(line.startsWith("\r")).toBe(true);
      expect(line.replace("\r", "").replace("\u001b[K", "").length).toBeLessThan(60);
    }
    expect(lines.at(-3)).toContain("100 %");
  });

  test("is a line for each tenth in a log", () => {
    const { lines, bar } = written(false);
    for (let step = 0; step <= 100; step += 1) bar.onProgress({ phase: "downloading", bytes: step * 1_000_000, total: 100_000_000 });
    for (const bytes of [0, 1, 2]) bar.onProgress({ phase: "verifying", bytes, total: 2 });
    bar.done();
    expect(lines.length).toBe(12);
    expect(lines[11]).toBe("verifying smollm2-135m\n");
    expect(lines[3]).toBe("fetching smollm2-135m: 30 % of 100.0 MB\n");
  });

  test("counts where nobody knows the size", () => {
    const { lines, bar } = written(true);
    bar.onProgress({ phase: "downloading", bytes: 1_500_000, total: null });
    expect(lines[0]).toContain("1.5 MB");
  });
});

test("bytes are written as people read them", () => {
  expect([0, 999, 1000, 98_362_432, 2.5e9, 3e12].map(formatBytes)).toEqual(["0 B", "999 B", "1.0 kB", "98.4 MB", "2.5 GB", "3000.0 GB"]);
});

test("the cache folder is PALIMPSEST_HOME where that is set", () => {
  expect(modelsFolder({ PALIMPSEST_HOME: "some/folder" })).toBe(path.resolve("some/folder/models"));
  expect(cacheFolder({}).endsWith(path.join(".cache", "palimpsest"))).toBe(true);
  expect(cacheFolder({ PALIMPSEST_HOME: "" })).toBe(cacheFolder({}));
});

test("docs/models.md has the table of codes, and no other", () => {
  const page = readFileSync(new URL("../../../docs/models.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\w+) \| (.+) \|$/gm)].map(([, code, kind, means]) => [code, kind, means]);
  expect(rows).toEqual(Object.entries(MODEL_ERROR_CODES).map(([code, { kind, means }]) => [code, kind, means]));
});
