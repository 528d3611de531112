// `npm test [-- --long] [NAME …]`: sets up what is missing, runs every suite (or the named ones), prints seconds for each.
import { mkdirSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { ROOT, setup } from "./setup.mjs";
import { SUITES } from "./suites.mjs";
import { requireTools } from "./tools.mjs";

const long = process.argv.includes("--long");
const names = process.argv.slice(2).filter((argument) => argument !== "--long");
const unknown = names.filter((name) => !(name in SUITES));
if (unknown.length > 0) {
  console.error(`No suite ${unknown.join(", ")}. There are: ${Object.keys(SUITES).join(", ")}; and the flag --long.`);
  process.exit(1);
}

requireTools();
const started = performance.now();
await setup();
mkdirSync(join(ROOT, ".cache"), { recursive: true });
const rows = [{ name: "setup", passed: 0, failed: 0, skipped: 0, seconds: (performance.now() - started) / 1000 }];
const env = { ...process.env, ...(long ? { PALIMPSEST_LONG: "1" } : {}) };
for (const [name, suite] of Object.entries(SUITES)) {
  if (names.length > 0 && !names.includes(name)) continue;
  console.log(`\n──── ${name} ${"─".repeat(60 - name.length)}`);
  const start = performance.now();
  rows.push({ name, ...(await suite({ env, long })), seconds: (performance.now() - start) / 1000 });
}

const sum = (field) => rows.reduce((total, row) => total + row[field], 0);
const line = (...cells) => console.log(cells.map((cell, at) => (at === 0 ? String(cell).padEnd(14) : String(cell).padStart(9))).join(""));
console.log(`\n${availableParallelism()} cores, load ${loadavg().map((value) => value.toFixed(2)).join(" ")}`);
line("suite", "seconds", "passed", "failed", "skipped");
for (const row of rows) line(row.name, row.seconds.toFixed(1), row.passed, row.failed, row.skipped);
line("all", sum("seconds").toFixed(1), sum("passed"), sum("failed"), sum("skipped"));
console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
process.exit(sum("failed") === 0 ? 0 : 1);
