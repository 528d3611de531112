// `npm start [-- ARGS]`: sets up what is missing, then becomes `palimpsest serve ARGS`.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { ROOT, setup } from "./setup.mjs";
import { requireTools } from "./tools.mjs";

// npm passes a signal to its shell, which ends and leaves this process behind: a parent that is gone means the same as SIGTERM.
const parent = process.ppid;
requireTools();
await setup();
const server = spawn(process.execPath, [join(ROOT, "packages/server/dist/cli.mjs"), "serve", ...process.argv.slice(2)], { stdio: "inherit" });
// A terminal sends Ctrl-C to the whole group; a supervisor signals only this process. The server counts signals, so each reaches it once.
process.on("SIGINT", () => {
  if (!process.stdin.isTTY) server.kill("SIGINT");
});
process.on("SIGTERM", () => server.kill("SIGTERM"));
const orphaned = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(orphaned);
  server.kill("SIGTERM");
}, 500).unref();
server.on("exit", (code, signal) => process.exit(code ?? (signal === null ? 0 : 1)));
