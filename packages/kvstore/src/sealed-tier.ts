import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { KvstoreError } from "./errors.ts";
import type { DataKeys } from "./key-file.ts";
import type { PreparedPut, Tier, TierEntry, TierRecord } from "./tier.ts";

const SEAL_VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** nonce and tag. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES;
/** In front of a sealed meta: version (uint8), slots of the keys of meta and cells (int32, −1: none). */
const HEADER_BYTES = 9;

/** Encrypted at a time, so that what comes out stays in a cache until it is where it belongs. */
const PIECE_BYTES = 32 * 1024;

interface Slots {
  meta: number;
  /** −1: no cells. */
  cells: number;
}

interface Sealed {
  /** Slot of the meta's key when it was encrypted; −1: a new one was made. */
  known: number;
  slots: Slots;
  record: TierRecord;
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
  readonly #keys: DataKeys;
  readonly #slots = new Map<string, Slots>();
  readonly #free: Uint8Array[] = [];
  #tail: Promise<void> = Promise.resolve();

  constructor(inner: Tier, keys: DataKeys) {
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
    const { commit } = await this.prepare(records);
    await commit();
  }

  /** Makes the keys and encrypts. */
  async prepare(records: readonly TierRecord[]): Promise<PreparedPut> {
    const known = records.map(({ key }) => this.#slots.get(key)?.meta ?? -1);
    const purposes = records.flatMap(({ key, bytes }, i) => [
      ...(known[i]! >= 0 ? [] : [purpose(key, "meta")]),
      ...(bytes === null ? [] : [purpose(key, "cells")]),
    ]);
    const made = await this.#keys.create(purposes);
    const cancel = () => this.#keys.destroy(made.map(({ slot }) => slot));
    try {
      const sealed: Sealed[] = [];
      const fresh = made.values();
      for (const [i, record] of records.entries()) {
        sealed.push(this.#seal(record, known[i]!, () => fresh.next().value!));
        // A block takes a fraction of a millisecond; whatever else waits goes on in between.
        if (record.bytes !== null) await setImmediate();
      }
      return { commit: () => this.#inTurn(() => this.#commit(sealed, cancel)), cancel };
    } catch (error) {
      await cancel();
      throw error;
    } finally {
      for (const { key } of made) key.fill(0);
    }
  }

  #seal({ key, meta, bytes }: TierRecord, known: number, fresh: () => { slot: number; key: Uint8Array }): Sealed {
    const metaKey = known < 0 ? fresh() : { slot: known, key: this.#keys.key(known, purpose(key, "meta")) };
    if (metaKey.key === null) throw new KvstoreError("transfer_late", `block ${key} was removed while it was encrypted`);
    const cellsKey = bytes === null ? null : fresh();
    const slots = { meta: metaKey.slot, cells: cellsKey?.slot ?? -1 };
    const cells = bytes === null ? null : seal(cellsKey!.key, purpose(key, "cells"), bytes, this.#buffer(bytes.length + SEAL_BYTES));
    return { known, slots, record: { key, meta: sealMeta(key, slots, metaKey.key, meta), bytes: cells } };
  }

  /** What was encrypted beside other changes may have been overtaken by them. */
  async #commit(sealed: readonly Sealed[], cancel: () => Promise<void>): Promise<void> {
    const now = new Map(sealed.map(({ record }) => [record.key, this.#slots.get(record.key)]));
    // A meta alone replaces nothing.
    const kept = sealed.filter(({ record }) => record.bytes !== null || now.get(record.key) === undefined);
    const stale = kept.find(({ known, record }) => known >= 0 && now.get(record.key)?.meta !== known);
    try {
      if (stale !== undefined) throw new KvstoreError("transfer_late", `block ${stale.record.key} was removed while it was encrypted`);
      await this.#inner.put(kept.map(({ record }) => record));
    } catch (error) {
      await cancel();
      throw error;
    }
    const unused: number[] = [];
    for (const { known, record, slots } of sealed) {
      const before = now.get(record.key);
      if (record.bytes === null && before !== undefined) {
        if (known < 0) unused.push(slots.meta);
        continue;
      }
      if (before !== undefined) unused.push(...[before.cells, before.meta].filter((slot) => slot >= 0 && slot !== slots.meta));
      this.#slots.set(record.key, slots);
      if (record.bytes !== null) this.#free.push(record.bytes);
    }
    await this.#keys.destroy(unused);
  }

  /** A buffer that an earlier block was encrypted into: fresh memory costs as much as encrypting. */
  #buffer(length: number): Uint8Array {
    const free = this.#free.pop();
    return free?.length === length ? free : new Uint8Array(length);
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
    await this.#destroyKeys(keys, meta);
    await this.#inTurn(async () => {
      // Those, too, that a write had made which had not answered.
      await this.#destroyKeys(keys, meta);
      await this.#inner.remove(keys, meta);
    });
  }

  async #destroyKeys(keys: readonly string[], meta: boolean): Promise<void> {
    const doomed: number[] = [];
    for (const key of keys) {
      const slots = this.#slots.get(key);
      if (slots === undefined) continue;
      if (slots.cells >= 0) doomed.push(slots.cells);
      slots.cells = -1;
      if (!meta) continue;
      doomed.push(slots.meta);
      this.#slots.delete(key);
    }
    await this.#keys.destroy(doomed);
  }

  /** Changes of the inner tier one after another, also where the archive no longer waits for the first: each goes by what is there. */
  #inTurn(act: () => Promise<void>): Promise<void> {
    this.#tail = this.#tail.catch(() => undefined).then(act);
    return this.#tail;
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
function seal(dataKey: Uint8Array, of: string, bytes: Uint8Array, sealed: Uint8Array = new Uint8Array(bytes.length + SEAL_BYTES)): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", dataKey, nonce);
  cipher.setAAD(Buffer.from(of));
  sealed.set(nonce);
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) sealed.set(cipher.update(bytes.subarray(at, at + PIECE_BYTES)), NONCE_BYTES + at);
  cipher.final();
  sealed.set(cipher.getAuthTag(), NONCE_BYTES + bytes.length);
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
