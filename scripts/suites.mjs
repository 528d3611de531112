// The suites of `npm test`: each runs commands, shows their output, and says how many checks passed, failed and were skipped.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./setup.mjs";

/** Runs a command, shows its output and keeps it. */
function show(command, args, env) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    const keep = (stream) => (chunk) => {
      text += chunk;
      stream.write(chunk);
    };
    child.stdout.on("data", keep(process.stdout));
    child.stderr.on("data", keep(process.stderr));
    child.on("error", (error) => resolve({ status: 1, text: String(error) }));
    child.on("close", (status) => resolve({ status: status ?? 1, text }));
  });
}

/** A command that passes or fails as one check. */
const check = (command, ...args) => async ({ env }) => {
  const { status } = await show(command, args, env);
  return { passed: status === 0 ? 1 : 0, failed: status === 0 ? 0 : 1, skipped: 0 };
};

async function rust({ env, long }) {
  const { status, text } = await show("cargo", ["test", "--workspace", "--locked", "--", ...(long ? ["--include-ignored"] : [])], env);
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const [, passed, failed, ignored] of text.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm)) {
    total.passed += Number(passed);
    total.failed += Number(failed);
    total.skipped += Number(ignored);
  }
  if (status !== 0 && total.failed === 0) total.failed = 1;
  return total;
}

/** The crates type-check for 64-bit Arm, where that target is installed; with --long the NEON level's tests run by qemu. */
async function neon({ env, long }) {
  const { status, text } = await show("packages/kernels-cuda/scripts/test-neon.sh", long ? [] : ["check"], env);
  const absent = text.includes("NEON skipped");
  return { passed: status === 0 && !absent ? 1 : 0, failed: status === 0 ? 0 : 1, skipped: absent ? 1 : 0 };
}

/** Vitest on some paths; the counts come from its JSON report. */
const vitest = (name, ...paths) => async ({ env }) => {
  const report = join(ROOT, ".cache", `vitest-${name}.json`);
  rmSync(report, { force: true });
  const { status } = await show("npx", ["vitest", "run", ...paths, "--reporter=default", "--reporter=json", `--outputFile.json=${report}`], env);
  if (!existsSync(report)) return { passed: 0, failed: 1, skipped: 0 };
  const counts = JSON.parse(readFileSync(report, "utf8"));
  const brokenFiles = counts.testResults.filter((file) => file.status === "failed" && file.assertionResults.every((test) => test.status !== "failed"));
  const total = { passed: counts.numPassedTests, failed: counts.numFailedTests + brokenFiles.length, skipped: counts.numPendingTests + counts.numTodoTests };
  if (status !== 0 && total.failed === 0) total.failed = 1;
  return total;
};

/** The real models that tests use. Where they cannot be fetched, tests on them are skipped by name; in CI that is a failure. */
async function models({ env }) {
  const wanted = ["smollm2-135m", "qwen2.5-coder-0.5b"];
  let missing = 0;
  for (const name of wanted) missing += (await show(process.execPath, ["packages/server/dist/cli.mjs", "pull", name], env)).status === 0 ? 0 : 1;
  const inCi = env.CI === "true";
  if (missing > 0 && !inCi) console.log(`${missing} model(s) could not be fetched: tests on them will be skipped.`);
  return { passed: wanted.length - missing, failed: inCi ? missing : 0, skipped: inCi ? 0 : missing };
}

export const SUITES = {
  lint: check("npx", "oxlint", "--deny-warnings"),
  types: check("npx", "tsc", "-p", "tsconfig.json"),
  rustfmt: check("cargo", "fmt", "--all", "--check"),
  clippy: check("cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"),
  models,
  rust,
  neon,
  radix: vitest("radix", "packages/radix"),
  kvstore: vitest("kvstore", "packages/kvstore"),
  directives: vitest("directives", "packages/directives"),
  "kernels-cuda": vitest("kernels-cuda", "packages/kernels-cuda"),
  engine: vitest("engine", "packages/engine"),
  server: vitest("server", "packages/server"),
  e2e: vitest("e2e", "e2e"),
};
