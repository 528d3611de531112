import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const CLI = resolve(import.meta.dirname, "../../packages/server/dist/cli.mjs");
const running = new Set<CommandLine>();

export interface CommandLineOptions {
  cwd?: string;
  /** Beside those of this process. */
  env?: Readonly<Record<string, string>>;
  /** Instead of the built command line. */
  script?: string;
}

/** The built command line as a process of its own: what people type, what it prints, and how it ends. */
export class CommandLine {
  readonly child: ChildProcessWithoutNullStreams;
  output = "";
  errors = "";
  readonly exit: Promise<number | null>;

  constructor(args: readonly string[], { cwd, env, script = CLI }: CommandLineOptions = {}) {
    if (!existsSync(script)) throw new Error(`${script} is not there; run npm run build`);
    this.child = spawn(process.execPath, [script, ...args], { cwd, env: { ...process.env, ...env } });
    this.child.stdout.setEncoding("utf8").on("data", (text: string) => (this.output += text));
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => (this.errors += text));
    this.exit = once(this.child, "close").then(([code]) => code as number | null);
    running.add(this);
  }

  /** Waits until something was printed; returns its first group. */
  async printed(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.output);
      if (match !== null) return match[1] ?? match[0];
      if (this.child.exitCode !== null) throw new Error(`ended with ${this.child.exitCode}: ${this.errors}`);
      await sleep(10);
    }
  }
}

/** Ends all that a test has started. */
export function killAll(): void {
  for (const { child } of running) child.kill("SIGKILL");
  running.clear();
}
