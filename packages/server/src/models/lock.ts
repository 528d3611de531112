import { link, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { ModelError, writeError } from "./errors.ts";

/** How long a lock of another machine, or one whose holder cannot be seen, counts without a sign of life. */
const SILENCE_MS_MAX = 60_000;
const SIGN_OF_LIFE_MS = 10_000;
/** How long a lock may be empty between being made and being written. */
const UNWRITTEN_MS_MAX = 2_000;
const POLL_MS = 200;

export interface LockOptions {
  /** Called once when somebody else holds the lock. */
  onWait?: (() => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Runs `action` while no other process runs under the same lock file. A lock whose holder died is taken over: at once where the holder
 * was a process of this machine, otherwise after a minute without a sign of life.
 */
export async function withLock<T>(file: string, action: () => Promise<T>, options: LockOptions = {}): Promise<T> {
  const content = JSON.stringify({ pid: process.pid, host: hostname(), token: crypto.randomUUID() });
  await acquire(file, content, options);
  const signs = setInterval(() => {
    const now = new Date();
    utimes(file, now, now).catch(() => undefined);
  }, SIGN_OF_LIFE_MS);
  signs.unref();
  try {
    return await action();
  } finally {
    clearInterval(signs);
    // Somebody may have taken it over while this process was stopped for long.
    if ((await readFile(file, "utf8").catch(() => "")) === content) await rm(file, { force: true });
  }
}

async function acquire(file: string, content: string, { onWait, signal }: LockOptions): Promise<void> {
  for (let waited = false; ; waited = true) {
    if (signal?.aborted) throw new ModelError("download_cancelled", "stopped while another process was fetching the model");
    try {
      await writeFile(file, content, { flag: "wx" });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw writeError(error, file);
    }
    const abandoned = await abandonedContent(file);
    if (abandoned !== null) {
      await removeAbandoned(file, abandoned);
      continue;
    }
    if (!waited) onWait?.();
    await sleep(POLL_MS);
  }
}

/** What a lock says whose holder is gone; null where the holder lives or may live. */
async function abandonedContent(file: string): Promise<string | null> {
  try {
    const silence = Date.now() - (await stat(file)).mtimeMs;
    const content = await readFile(file, "utf8");
    const holder = parseHolder(content);
    // Just made and not yet written, or cut off while it was.
    if (holder === null) return silence > UNWRITTEN_MS_MAX ? content : null;
    if (holder.host === hostname() && holder.pid !== process.pid) return isRunning(holder.pid) ? null : content;
    return silence > SILENCE_MS_MAX ? content : null;
  } catch {
    // Gone meanwhile.
    return null;
  }
}

/** Two that find a lock abandoned must not remove each other's new one: each moves away what it found, and looks at it again. */
export async function removeAbandoned(file: string, content: string): Promise<void> {
  const moved = `${file}.${crypto.randomUUID()}`;
  try {
    await rename(file, moved);
    if ((await readFile(moved, "utf8")) !== content) await link(moved, file);
  } catch {
    // Somebody else was faster.
  } finally {
    await rm(moved, { force: true });
  }
}

function parseHolder(content: string): { pid: number; host: string } | null {
  try {
    return JSON.parse(content) as { pid: number; host: string };
  } catch {
    return null;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
