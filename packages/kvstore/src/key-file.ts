import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";
import { KvstoreError } from "./errors.ts";

/** nonce (12), wrapped key (32), tag (16), then zeros: no slot crosses a sector. All zeros: free. */
export const SLOT_BYTES = 64;
const NONCE_BYTES = 12;
const KEY_BYTES = 32;
const TAG_BYTES = 16;
const USED_BYTES = NONCE_BYTES + KEY_BYTES + TAG_BYTES;

/** What slot 0 is wrapped for: tells a wrong store key from a damaged slot. */
const CHECK = "palimpsest keys 1";

/** Where data keys are kept, by slot, each for one purpose. */
export interface DataKeys {
  /** New keys, one for each purpose, that survive what the store survives before this resolves. */
  create(purposes: readonly string[]): Promise<{ slot: number; key: Uint8Array }[]>;
  /** Null: the slot is free, damaged, or of another purpose. */
  key(slot: number, purpose: string): Uint8Array | null;
  /** Nobody can read these keys once this has resolved; those neither that an earlier call could not destroy. */
  destroy(slots: readonly number[]): Promise<void>;
  /** Destroys all keys but these. */
  keepOnly(slots: ReadonlySet<number>): Promise<void>;
  close(): Promise<void>;
}

/**
 * Data keys in a file of fixed slots, each encrypted under the store key for one purpose. Destroying a key overwrites its slot in place
 * and waits until that is on the disk: from then on nobody can read what was encrypted with it, wherever copies of that may lie.
 */
export class KeyFile implements DataKeys {
  readonly #file: FileHandle;
  readonly #storeKey: Uint8Array;
  #slots: Buffer;
  /** Free slots below the end of the file. */
  #free: number[] = [];
  /** Slots that were destroyed here, while nobody knows whether the disk has heard of it. */
  readonly #doomed = new Set<number>();

  private constructor(file: FileHandle, storeKey: Uint8Array, slots: Buffer) {
    this.#file = file;
    this.#storeKey = storeKey;
    this.#slots = slots;
  }

  /** `store_key_wrong` when the file was made under another key. */
  static async open(path: string, storeKey: Uint8Array): Promise<KeyFile> {
    if (storeKey.length !== KEY_BYTES) throw new KvstoreError("argument_invalid", `a store key has ${KEY_BYTES} bytes, not ${storeKey.length}`, "storeKey");
    // Read and write, made when it is not there, readable by its owner alone.
    const file = await open(path, "a+", 0o600).then(async (made) => {
      await made.close();
      return open(path, "r+");
    });
    const { size } = await file.stat();
    const slots = Buffer.alloc(Math.floor(size / SLOT_BYTES) * SLOT_BYTES);
    await file.read(slots, 0, slots.length, 0);
    const keys = new KeyFile(file, storeKey.slice(), slots);
    try {
      if (keys.count === 0) await keys.#write([{ slot: 0, content: keys.#wrap(randomBytes(KEY_BYTES), CHECK) }]);
      else if (keys.key(0, CHECK) === null) throw new KvstoreError("store_key_wrong", `${path} was made under another store key`, "storeKey");
    } catch (error) {
      await file.close();
      throw error;
    }
    return keys;
  }

  /** Slots, free ones included. */
  get count(): number {
    return this.#slots.length / SLOT_BYTES;
  }

  get used(): number {
    return this.count - this.#free.length - this.#doomed.size;
  }

  async create(purposes: readonly string[]): Promise<{ slot: number; key: Uint8Array }[]> {
    let next = this.count;
    const made = purposes.map((purpose) => {
      const key = randomBytes(KEY_BYTES);
      return { slot: this.#free.pop() ?? next++, key, content: this.#wrap(key, purpose) };
    });
    try {
      await this.#write(made);
    } catch (error) {
      await this.destroy(made.map(({ slot }) => slot).filter((slot) => slot < this.count)).catch(() => undefined);
      throw error;
    }
    return made.map(({ slot, key }) => ({ slot, key }));
  }

  key(slot: number, purpose: string): Uint8Array | null {
    if (!(slot >= 0 && slot < this.count)) return null;
    const content = this.#slots.subarray(slot * SLOT_BYTES, slot * SLOT_BYTES + USED_BYTES);
    const decipher = createDecipheriv("aes-256-gcm", this.#storeKey, content.subarray(0, NONCE_BYTES));
    decipher.setAAD(Buffer.from(purpose));
    decipher.setAuthTag(content.subarray(NONCE_BYTES + KEY_BYTES));
    try {
      const key = decipher.update(content.subarray(NONCE_BYTES, NONCE_BYTES + KEY_BYTES));
      decipher.final();
      return key;
    } catch {
      return null;
    }
  }

  /** Overwrites the slots, in memory at once and on the disk before this resolves; those too that an earlier call could not. */
  async destroy(slots: readonly number[]): Promise<void> {
    for (const slot of slots) {
      this.#slots.fill(0, slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES);
      this.#doomed.add(slot);
    }
    const doomed = [...this.#doomed];
    if (doomed.length === 0) return;
    const zero = Buffer.alloc(SLOT_BYTES);
    await this.#write(doomed.map((slot) => ({ slot, content: zero })));
    for (const slot of doomed) if (this.#doomed.delete(slot)) this.#free.push(slot);
  }

  /** After opening: destroys all keys but these, which something is encrypted with. */
  async keepOnly(slots: ReadonlySet<number>): Promise<void> {
    const zero = Buffer.alloc(SLOT_BYTES);
    const leaked: number[] = [];
    this.#free = [];
    for (let slot = 1; slot < this.count; slot++) {
      if (slots.has(slot)) continue;
      if (this.#slots.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES).equals(zero)) this.#free.push(slot);
      else leaked.push(slot);
    }
    await this.destroy(leaked);
  }

  /** Idempotent. Forgets the store key. */
  async close(): Promise<void> {
    this.#storeKey.fill(0);
    await this.#file.close();
  }

  #wrap(key: Buffer, purpose: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#storeKey, nonce);
    cipher.setAAD(Buffer.from(purpose));
    const wrapped = cipher.update(key);
    cipher.final();
    return Buffer.concat([nonce, wrapped, cipher.getAuthTag()], SLOT_BYTES);
  }

  /** Neighbouring slots in one write. */
  async #write(changes: readonly { slot: number; content: Buffer }[]): Promise<void> {
    const ordered = changes.toSorted((one, other) => one.slot - other.slot);
    const end = Math.max(this.count, (ordered.at(-1)?.slot ?? 0) + 1);
    if (end > this.count) this.#slots = Buffer.concat([this.#slots], end * SLOT_BYTES);
    for (const { slot, content } of ordered) content.copy(this.#slots, slot * SLOT_BYTES);
    for (let first = 0; first < ordered.length; ) {
      let last = first;
      while (ordered[last + 1]?.slot === ordered[last]!.slot + 1) last++;
      const from = ordered[first]!.slot * SLOT_BYTES;
      const length = (last - first + 1) * SLOT_BYTES;
      // A copy: the slots may change again before the write is done.
      await this.#file.write(Buffer.from(this.#slots.subarray(from, from + length)), 0, length, from);
      first = last + 1;
    }
    await this.#file.datasync();
  }
}
