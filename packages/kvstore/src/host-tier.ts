import { KvstoreError } from "./errors.ts";
import type { Tier, TierEntry, TierRecord } from "./tier.ts";

export interface HostTierOptions {
  bytesMax: number;
  /** Bytes of a block: all records have this length. */
  blockBytes: number;
}

/** Blocks in host memory: one array for each, used again and again, and zeroed as soon as its block is removed. */
export class HostTier implements Tier {
  readonly name = "host";
  readonly durable = false;
  readonly bytesMax: number;
  readonly #blockBytes: number;
  readonly #blocks = new Map<string, Uint8Array>();
  readonly #free: Uint8Array[] = [];

  constructor({ bytesMax, blockBytes }: HostTierOptions) {
    if (!(bytesMax >= 0) || !(blockBytes >= 1)) throw new KvstoreError("argument_invalid", `${bytesMax} bytes in blocks of ${blockBytes}`, "bytesMax");
    this.bytesMax = bytesMax;
    this.#blockBytes = blockBytes;
  }

  load(): Promise<TierEntry[]> {
    return Promise.resolve([]);
  }

  async put(records: readonly TierRecord[]): Promise<void> {
    const wrong = records.find(({ bytes }) => bytes !== null && bytes.length !== this.#blockBytes);
    if (wrong !== undefined) throw new KvstoreError("argument_invalid", `a block has ${this.#blockBytes} bytes, not ${wrong.bytes!.length}`);
    for (const { key, bytes } of records) {
      if (bytes === null) continue;
      const block = this.#blocks.get(key) ?? this.#free.pop() ?? new Uint8Array(this.#blockBytes);
      block.set(bytes);
      this.#blocks.set(key, block);
    }
  }

  async get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    return keys.map((key) => this.#blocks.get(key)?.slice() ?? null);
  }

  async remove(keys: readonly string[], _meta: boolean): Promise<void> {
    for (const key of keys) {
      const block = this.#blocks.get(key);
      if (block === undefined) continue;
      block.fill(0);
      this.#blocks.delete(key);
      this.#free.push(block);
    }
  }

  async close(): Promise<void> {
    for (const block of this.#blocks.values()) block.fill(0);
    this.#blocks.clear();
    this.#free.length = 0;
  }
}
