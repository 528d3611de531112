// Builds the native part into a folder of its own and moves it in by rename: a process that has the old file loaded keeps it whole.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../", import.meta.url));
const cli = createRequire(import.meta.url).resolve("@napi-rs/cli/package.json").replace(/package\.json$/, "dist/cli.js");
const made = mkdtempSync(join(folder, ".build-"));
try {
  const manifest = join(folder, "crates/binding/Cargo.toml");
  const out = ["--platform", "--release", "--no-js", "--manifest-path", manifest, "--output-dir", made];
  execFileSync(process.execPath, [cli, "build", ...out, ...process.argv.slice(2)], { cwd: folder, stdio: "inherit" });
  for (const file of readdirSync(made)) renameSync(join(made, file), join(folder, file));
} finally {
  rmSync(made, { recursive: true, force: true });
}
