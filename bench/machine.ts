import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../", import.meta.url));

const cpuTimes = () => cpus().reduce((sum, { times }) => ({ idle: sum.idle + times.idle, all: sum.all + times.idle + times.user + times.sys + times.nice + times.irq }), { idle: 0, all: 0 });

/** Share of the machine that others used during a wait of 200 ms: above 10 % a figure is not to be believed. */
export async function busyness(): Promise<number> {
  const before = cpuTimes();
  await new Promise((resolve) => setTimeout(resolve, 200));
  const after = cpuTimes();
  return 1 - (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

export const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

/** Builds and runs a Rust program of `packages/kernels-cuda/crates/…/examples`. What it prints. */
export function example(crate: "kernels" | "model", name: string, ...args: string[]): string {
  const { status, stdout, error } = spawnSync("cargo", ["run", "--release", "--locked", "--quiet", "-p", `palimpsest-${crate}`, "--example", name, "--", ...args], { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  if (error) throw error;
  if (status !== 0) throw new Error(`the example ${name} ended with ${String(status)}`);
  return stdout;
}

/** What the machine can do at most: bytes read and operations on bytes, in 10⁹ a second, by all threads together. */
export interface Roof {
  readGBs: number;
  int8Gops: number;
}

export const roof = (threads: number): Roof => JSON.parse(example("kernels", "roof", String(threads))) as Roof;

/** Milliseconds that the main thread has run. Linux tells by thread; elsewhere the event loop's busy time stands for it. */
export function mainThreadMs(): number {
  try {
    const [ns = "0"] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(ns) / 1e6;
  } catch {
    return performance.eventLoopUtilization().active;
  }
}
