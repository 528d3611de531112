// Brings a checkout to the point where it runs: packages installed, native library and TypeScript built. What is up to date is skipped.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STATE = join(ROOT, ".cache");
const SKIPPED = new Set(["node_modules", "dist", "target", "test", "bench", ".turbo", "npm"]);

/** Runs a command in the root; ends the process with its status when it fails. */
export function run(command, args, options = {}) {
  const env = { ...process.env, TURBO_TELEMETRY_DISABLED: "1", ...options.env };
  const result = spawnSync(command, args, { cwd: ROOT, stdio: "inherit", ...options, env });
  if (result.error) throw result.error;
  if (result.status !== 0) {
    console.error(`\n\`${command} ${args.join(" ")}\` failed with ${result.signal ?? `status ${result.status}`}.`);
    process.exit(result.status ?? 1);
  }
}

const hashOf = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");

function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!SKIPPED.has(entry.name)) yield* sources(path);
    } else if (/\.(ts|mjs|cjs|rs|json|toml|html|cu|ptx)$/.test(entry.name)) yield path;
  }
}

/** One hash over everything that a build reads. */
function buildHash() {
  const hash = createHash("sha256");
  const roots = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "tsconfig.base.json", "package-lock.json"].map((name) => join(ROOT, name));
  const files = [...roots.filter(existsSync), ...sources(join(ROOT, "packages"))].toSorted();
  for (const file of files) hash.update(`${relative(ROOT, file)}\0${hashOf(file)}\n`);
  return hash.digest("hex");
}

function readStamp(name) {
  const path = join(STATE, name);
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

function processRuns(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** The process that holds the lock, or 0 when it is gone and the lock may be taken over. */
function lockOwner(lock) {
  try {
    const owner = Number(readFileSync(lock, "utf8"));
    if (owner > 0) return processRuns(owner) ? owner : 0;
    // Made, but not yet written: leave its maker a moment.
    return Date.now() - statSync(lock).mtimeMs < 2_000 ? -1 : 0;
  } catch {
    return -1;
  }
}

/** Two starts at once: the second waits for the first instead of building into the same folders. */
async function withLock(action) {
  mkdirSync(STATE, { recursive: true });
  const lock = join(STATE, "setup.lock");
  for (let told = false; ; ) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = lockOwner(lock);
    if (owner === 0) {
      rmSync(lock, { force: true });
      continue;
    }
    if (!told && owner > 0) console.log(`Another setup is running (process ${owner}); waiting for it.`);
    told ||= owner > 0;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  const release = () => rmSync(lock, { force: true });
  process.once("exit", release);
  try {
    return action();
  } finally {
    process.off("exit", release);
    release();
  }
}

function install() {
  const wanted = hashOf(join(ROOT, "package-lock.json"));
  if (existsSync(join(ROOT, "node_modules")) && readStamp("install") === wanted) return;
  console.log("Installing packages …");
  run("npm", ["ci", "--no-audit", "--no-fund"]);
  writeFileSync(join(STATE, "install"), wanted);
}

function build() {
  const wanted = buildHash();
  const made = ["packages/server/dist/cli.mjs", "packages/kernels-cuda/dist/index.mjs"].every((path) => existsSync(join(ROOT, path)));
  if (made && readStamp("build") === wanted) return;
  console.log("Building the native library (the first time takes a minute or two) …");
  run("npm", ["run", "build:native", "--workspace", "packages/kernels-cuda"]);
  console.log("Building the packages …");
  run("npx", ["turbo", "run", "build"]);
  writeFileSync(join(STATE, "build"), wanted);
}

/** Idempotent; seconds when there is nothing to do, and no network then. */
export function setup() {
  return withLock(() => {
    install();
    build();
  });
}
