import type { Database, RootDatabase } from "lmdb";
import { KvstoreError } from "./errors.ts";
import type { Tier, TierEntry, TierRecord } from "./tier.ts";

export interface LmdbTierOptions {
  /** A folder; made where it is not there. One process at a time. */
  path: string;
  bytesMax: number;
  name?: string;
}

/** In front of each meta: when it was written (float64), and the bytes of its cells (int32, −1: none). */
const HEADER_BYTES = 12;

/**
 * Blocks in an LMDB file, as they are: cells and metas in two tables that change in one transaction. What was committed survives the
 * death of the process at any moment. LMDB leaves what was removed in its file until the space is used again: where that matters, put a
 * `SealedTier` around it.
 */
export class LmdbTier implements Tier {
  readonly name: string;
  readonly bytesMax: number;
  readonly durable = true;
  readonly #environment: RootDatabase<Buffer, Buffer>;
  readonly #metas: Database<Buffer, Buffer>;
  readonly #cells: Database<Buffer, Buffer>;
  #written = 0;

  private constructor(options: LmdbTierOptions, environment: RootDatabase<Buffer, Buffer>) {
    this.name = options.name ?? "disk";
    this.bytesMax = options.bytesMax;
    this.#environment = environment;
    this.#metas = environment.openDB<Buffer, Buffer>({ name: "metas", encoding: "binary", keyEncoding: "binary" });
    this.#cells = environment.openDB<Buffer, Buffer>({ name: "cells", encoding: "binary", keyEncoding: "binary" });
  }

  /** `tier_unusable` when the file is none of LMDB's, or damaged. */
  static async open(options: LmdbTierOptions): Promise<LmdbTier> {
    if (!(options.bytesMax >= 0)) throw new KvstoreError("argument_invalid", `bytesMax is 0 or more, not ${options.bytesMax}`, "bytesMax");
    // Loaded here: who keeps no disk tier needs no native code.
    const { open } = await import("lmdb");
    try {
      const environment = open<Buffer, Buffer>({ path: options.path, encoding: "binary", keyEncoding: "binary", compression: false, maxDbs: 2 });
      return new LmdbTier(options, environment);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new KvstoreError("tier_unusable", `the store of cells at ${options.path} cannot be opened: ${reason}`);
    }
  }

  async load(): Promise<TierEntry[]> {
    const found: { entry: TierEntry; written: number }[] = [];
    for (const { key, value } of this.#metas.getRange()) {
      if (value.length < HEADER_BYTES) continue;
      const meta = new Uint8Array(value.subarray(HEADER_BYTES));
      const written = value.readDoubleLE(0);
      found.push({ entry: { key: key.toString("hex"), meta, bytes: value.readInt32LE(8) }, written });
      if (written > this.#written) this.#written = written;
    }
    return found.toSorted((one, other) => one.written - other.written).map(({ entry }) => entry);
  }

  async put(records: readonly TierRecord[]): Promise<void> {
    await this.#environment.transaction(() => {
      for (const { key, meta, bytes } of records) {
        const name = Buffer.from(key, "hex");
        if (bytes === null && this.#metas.doesExist(name)) continue;
        const value = Buffer.alloc(HEADER_BYTES + meta.length);
        value.writeDoubleLE(++this.#written, 0);
        value.writeInt32LE(bytes?.length ?? -1, 8);
        value.set(meta, HEADER_BYTES);
        void this.#metas.put(name, value);
        if (bytes !== null) void this.#cells.put(name, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
      }
    });
    await this.#environment.flushed;
  }

  async get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    const names = keys.map((key) => Buffer.from(key, "hex"));
    // Brings the pages into memory on another thread, so that reading them here waits for no disk.
    await this.#cells.prefetch(names);
    return names.map((name) => this.#cells.get(name) ?? null);
  }

  async remove(keys: readonly string[], meta: boolean): Promise<void> {
    await this.#environment.transaction(() => {
      for (const key of keys) {
        const name = Buffer.from(key, "hex");
        void this.#cells.remove(name);
        if (meta) void this.#metas.remove(name);
        else {
          const value = this.#metas.get(name);
          if (value === undefined) continue;
          const without = Buffer.from(value);
          without.writeInt32LE(-1, 8);
          void this.#metas.put(name, without);
        }
      }
    });
    await this.#environment.flushed;
  }

  async close(): Promise<void> {
    await this.#environment.close();
  }}
