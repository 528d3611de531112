import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { KvstoreError } from "./errors.ts";
import { KeyFile } from "./key-file.ts";
import { LmdbTier } from "./lmdb-tier.ts";
import { SealedTier } from "./sealed-tier.ts";
import type { PreparedPut, Tier, TierEntry, TierRecord } from "./tier.ts";

export interface DiskFolderOptions {
  /** A folder; made where it is not there, for its owner alone. */
  path: string;
  /** Bytes of cells. */
  bytesMax: number;
  /**
   * File with the 32 bytes of the store key, made where it is not there. Default: `store.key` in the folder: whoever has the folder can
   * read what was not erased.
   */
  keyFile?: string | undefined;
}

const STORE_KEY_BYTES = 32;

/** Who has the folder open. */
interface Holder {
  pid: number;
  /** When that process began, in milliseconds since 1970: process numbers come again. */
  since: number;
}

/**
 * A disk tier and all that belongs to it in one folder: blocks (`cells`), their keys (`keys`), the store key, and a lock. One process at a
 * time; the lock of a process that is gone does not count.
 */
export class DiskFolder implements Tier {
  readonly name: string;
  readonly bytesMax: number;
  readonly durable: boolean;
  readonly #tier: SealedTier;
  readonly #lock: string;

  private constructor(tier: SealedTier, lock: string) {
    this.#tier = tier;
    this.#lock = lock;
    this.name = tier.name;
    this.bytesMax = tier.bytesMax;
    this.durable = tier.durable;
  }

  /** `tier_unusable`: another process has it, or what is there is damaged or may not be read; `store_key_wrong`; `argument_invalid`. */
  static async open({ path, bytesMax, keyFile = join(path, "store.key") }: DiskFolderOptions): Promise<DiskFolder> {
    const unusable = (error: unknown) => {
      if (error instanceof KvstoreError) return error;
      return new KvstoreError("tier_unusable", `the folder of cells ${path} cannot be used: ${error instanceof Error ? error.message : String(error)}`);
    };
    const lock = join(path, "lock");
    try {
      await mkdir(path, { recursive: true, mode: 0o700 });
      await takeLock(lock, path);
    } catch (error) {
      throw unusable(error);
    }
    try {
      const keys = await KeyFile.open(join(path, "keys"), await storeKey(keyFile));
      try {
        const tier = await LmdbTier.open({ path: join(path, "cells"), bytesMax });
        return new DiskFolder(new SealedTier(tier, keys), lock);
      } catch (error) {
        await keys.close();
        throw error;
      }
    } catch (error) {
      await rm(lock, { force: true });
      throw unusable(error);
    }
  }

  load(): Promise<TierEntry[]> {
    return this.#tier.load();
  }

  prepare(records: readonly TierRecord[]): Promise<PreparedPut> {
    return this.#tier.prepare(records);
  }

  put(records: readonly TierRecord[]): Promise<void> {
    return this.#tier.put(records);
  }

  get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    return this.#tier.get(keys);
  }

  remove(keys: readonly string[], meta: boolean): Promise<void> {
    return this.#tier.remove(keys, meta);
  }

  async close(): Promise<void> {
    await this.#tier.close();
    await rm(this.#lock, { force: true });
  }
}

/** The key in a file, made there when it is not; on the disk before anything is encrypted with it. */
async function storeKey(file: string): Promise<Uint8Array> {
  try {
    const made = await open(file, "wx", 0o600);
    try {
      await made.writeFile(randomBytes(STORE_KEY_BYTES));
      await made.sync();
    } finally {
      await made.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const key = await readFile(file);
  if (key.length === STORE_KEY_BYTES) return key;
  throw new KvstoreError("argument_invalid", `${file} is no store key: it has ${key.length} bytes, not ${STORE_KEY_BYTES}`, "keyFile");
}

async function takeLock(file: string, path: string): Promise<void> {
  const mine: Holder = { pid: process.pid, since: Math.round(performance.timeOrigin) };
  // Two that find the same dead lock: the second to write finds the first one's.
  for (let tries = 0; tries < 2; tries++) {
    try {
      await writeFile(file, JSON.stringify(mine), { flag: "wx", mode: 0o600 });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holder = holderOf(await readFile(file, "utf8"));
    if (holder !== null && lives(holder, mine)) {
      throw new KvstoreError("tier_unusable", `process ${holder.pid} uses the folder of cells ${path}; where that is no server any more, remove ${file}`);
    }
    await rm(file, { force: true });
  }
  throw new KvstoreError("tier_unusable", `somebody else has just opened the folder of cells ${path}`);
}

function holderOf(text: string): Holder | null {
  try {
    return JSON.parse(text) as Holder;
  } catch {
    // Cut off while it was written.
    return null;
  }
}

function lives(holder: Holder, mine: Holder): boolean {
  // In a container the next process often has the number of the last one.
  if (holder.pid === mine.pid) return holder.since === mine.since;
  try {
    process.kill(holder.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
