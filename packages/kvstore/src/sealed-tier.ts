import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { KeyFile } from "./key-file.ts";
import type { Tier, TierEntry, TierRecord } from "./tier.ts";

const SEAL_VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** nonce and tag. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES;
/** In front of a sealed meta: version (uint8), slots of the keys of meta and cells (int32, −1: none). */
const HEADER_BYTES = 9;

interface Slots {
  meta: number;
  /** −1: no cells. */
  cells: number;
}

/**
 * Encrypts what another tier keeps: AES-256-GCM with a data key of their own for the cells of each block, and another for its meta (which
 * has the tokens). Removing a block destroys its keys first, so that what the other tier leaves of it on a disk, or has copied elsewhere,
 * is of no use to anybody who has the store key and all keys that remain. What was changed by anybody but this is not decrypted.
 */
export class SealedTier implements Tier {
  readonly name: string;
  readonly bytesMax: number;
  readonly durable: boolean;
  readonly #inner: Tier;
  readonly #keys: KeyFile;
  readonly #slots = new Map<string, Slots>();

  constructor(inner: Tier, keys: KeyFile) {
    this.#inner = inner;
    this.#keys = keys;
    this.name = inner.name;
    this.bytesMax = inner.bytesMax;
    this.durable = inner.durable;
  }

  async load(): Promise<TierEntry[]> {
    const found: TierEntry[] = [];
    const damaged: string[] = [];
    const withoutCells: string[] = [];
    for (const { key, meta, bytes } of await this.#inner.load()) {
      const opened = this.#openMeta(key, meta);
      if (opened === null) {
        damaged.push(key);
        continue;
      }
      const cellsKey = bytes === -1 ? null : this.#keys.key(opened.slots.cells, purpose(key, "cells"));
      if (bytes !== -1 && cellsKey === null) withoutCells.push(key);
      cellsKey?.fill(0);
      if (cellsKey === null) opened.slots.cells = -1;
      this.#slots.set(key, opened.slots);
      found.push({ key, meta: opened.meta, bytes: cellsKey === null ? -1 : bytes - SEAL_BYTES });
    }
    await this.#keys.keepOnly(new Set([...this.#slots.values()].flatMap(({ meta, cells }) => [meta, cells])));
    if (damaged.length > 0) await this.#inner.remove(damaged, true);
    if (withoutCells.length > 0) await this.#inner.remove(withoutCells, false);
    return found;
  }

  async put(records: readonly TierRecord[]): Promise<void> {
    const purposes = records.flatMap(({ key, bytes }) => [
      ...(this.#slots.has(key) ? [] : [purpose(key, "meta")]),
      ...(bytes === null ? [] : [purpose(key, "cells")]),
    ]);
    const made = await this.#keys.create(purposes);
    const replaced: number[] = [];
    const slots = new Map<string, Slots>();
    try {
      const sealed: TierRecord[] = [];
      const fresh = made.values();
      for (const { key, meta, bytes } of records) {
        const before = this.#slots.get(key);
        const metaKey = before === undefined ? fresh.next().value! : { slot: before.meta, key: this.#keys.key(before.meta, purpose(key, "meta"))! };
        const cellsKey = bytes === null ? null : fresh.next().value!;
        if (cellsKey !== null && before !== undefined && before.cells >= 0) replaced.push(before.cells);
        const now = { meta: metaKey.slot, cells: cellsKey?.slot ?? before?.cells ?? -1 };
        slots.set(key, now);
        const cells = bytes === null ? null : seal(cellsKey!.key, purpose(key, "cells"), bytes);
        sealed.push({ key, meta: sealMeta(key, now, metaKey.key, meta), bytes: cells });
        // A block takes a fraction of a millisecond; whatever else waits goes on in between.
        if (bytes !== null) await setImmediate();
      }
      await this.#inner.put(sealed);
    } catch (error) {
      await this.#keys.destroy(made.map(({ slot }) => slot));
      throw error;
    } finally {
      for (const { key } of made) key.fill(0);
    }
    for (const [key, now] of slots) this.#slots.set(key, now);
    await this.#keys.destroy(replaced);
  }

  async get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    const found = await this.#inner.get(keys);
    const opened: (Uint8Array | null)[] = [];
    for (const [i, key] of keys.entries()) {
      const sealed = found[i] ?? null;
      const slots = this.#slots.get(key);
      const dataKey = sealed === null || slots === undefined ? null : this.#keys.key(slots.cells, purpose(key, "cells"));
      opened.push(dataKey === null ? null : unseal(dataKey, purpose(key, "cells"), sealed!));
      dataKey?.fill(0);
      if (sealed !== null) await setImmediate();
    }
    return opened;
  }

  /** The keys go first: what is interrupted behind them leaves nothing that can be read. */
  async remove(keys: readonly string[], meta: boolean): Promise<void> {
    const known = keys.flatMap((key) => {
      const slots = this.#slots.get(key);
      return slots === undefined ? [] : [{ key, slots }];
    });
    const doomed = known.flatMap(({ slots }) => [...(slots.cells >= 0 ? [slots.cells] : []), ...(meta ? [slots.meta] : [])]);
    for (const { key, slots } of known) {
      if (meta) this.#slots.delete(key);
      else slots.cells = -1;
    }
    await this.#keys.destroy(doomed);
    await this.#inner.remove(keys, meta);
  }

  async close(): Promise<void> {
    await this.#inner.close();
    await this.#keys.close();
  }

  #openMeta(key: string, sealed: Uint8Array): { meta: Uint8Array; slots: Slots } | null {
    if (sealed.length < HEADER_BYTES + SEAL_BYTES || sealed[0] !== SEAL_VERSION) return null;
    const view = new DataView(sealed.buffer, sealed.byteOffset, HEADER_BYTES);
    const slots = { meta: view.getInt32(1, true), cells: view.getInt32(5, true) };
    const dataKey = this.#keys.key(slots.meta, purpose(key, "meta"));
    if (dataKey === null) return null;
    const meta = unseal(dataKey, `${purpose(key, "meta")} ${slots.cells}`, sealed.subarray(HEADER_BYTES));
    dataKey.fill(0);
    return meta === null ? null : { meta, slots };
  }
}

function purpose(key: string, of: "meta" | "cells"): string {
  return `${SEAL_VERSION} ${of} ${key}`;
}

function sealMeta(key: string, slots: Slots, dataKey: Uint8Array, meta: Uint8Array): Uint8Array {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt8(SEAL_VERSION, 0);
  header.writeInt32LE(slots.meta, 1);
  header.writeInt32LE(slots.cells, 5);
  return Buffer.concat([header, seal(dataKey, `${purpose(key, "meta")} ${slots.cells}`, meta)]);
}

/** nonce, ciphertext, tag. */
function seal(dataKey: Uint8Array, of: string, bytes: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", dataKey, nonce);
  cipher.setAAD(Buffer.from(of));
  const sealed = Buffer.allocUnsafeSlow(bytes.length + SEAL_BYTES);
  nonce.copy(sealed);
  cipher.update(bytes).copy(sealed, NONCE_BYTES);
  cipher.final();
  cipher.getAuthTag().copy(sealed, NONCE_BYTES + bytes.length);
  return sealed;
}

/** Null: it was not sealed with this key for this, or was changed since. */
function unseal(dataKey: Uint8Array, of: string, sealed: Uint8Array): Uint8Array | null {
  if (sealed.length < SEAL_BYTES) return null;
  const decipher = createDecipheriv("aes-256-gcm", dataKey, sealed.subarray(0, NONCE_BYTES));
  decipher.setAAD(Buffer.from(of));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  const bytes = decipher.update(sealed.subarray(NONCE_BYTES, sealed.length - TAG_BYTES));
  try {
    decipher.final();
    return bytes;
  } catch {
    bytes.fill(0);
    return null;
  }
}
