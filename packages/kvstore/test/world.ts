import type { CellPort, Clock, DataKeys, Tier, TierEntry, TierRecord } from "../src/index.ts";
import type { Random } from "./support.ts";

export const CELL_BYTES = 8;

/** What a call comes to when its turn has come. */
type Call = () => void;

/**
 * Time, and all calls that have been made and not answered. The test says when which of them is answered; a world that has ended answers
 * nothing any more.
 */
export class World implements Clock {
  readonly random: Random;
  readonly #open: Call[] = [];
  #timers: { at: number; act: Call }[] = [];
  #now = 0;
  ended = false;
  /** Calls that fail, in a thousand. */
  faults = 0;

  constructor(random: Random) {
    this.random = random;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, act: Call): () => void {
    const timer = { at: this.#now + ms, act };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }

  get waiting(): number {
    return this.#open.length;
  }

  /** An answer that comes when the test lets it. */
  later<T>(answer: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#open.push(() => {
        try {
          resolve(answer());
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
  }

  faulty(): boolean {
    return this.random.int(1_000) < this.faults;
  }

  /** Answers one call, any. */
  answer(): void {
    if (this.#open.length > 0) this.#open.splice(this.random.int(this.#open.length), 1)[0]!();
  }

  pass(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers.toSorted((one, other) => one.at - other.at)) {
      if (timer.at > this.#now || !this.#timers.includes(timer)) continue;
      this.#timers = this.#timers.filter((one) => one !== timer);
      timer.act();
    }
  }

  /** Nothing that was begun is answered; `last` is called for each open call, as if the machine had got so far. */
  end(last: (call: Call) => void): void {
    this.ended = true;
    for (const call of this.#open.splice(0)) last(call);
    this.#timers = [];
  }
}

/** What is on a disk: it outlives a world. */
export type Disk = Map<string, { meta: Uint8Array; bytes: Uint8Array | null }>;

/** A tier whose answers come when the world wants, and whose writes fail, are torn or are lost as the world wants. */
export class FaultyTier implements Tier {
  readonly name: string;
  readonly bytesMax: number;
  readonly durable: boolean;
  readonly disk: Disk;
  readonly #world: World;

  constructor(world: World, name: string, bytesMax: number, durable: boolean, disk: Disk) {
    this.#world = world;
    this.name = name;
    this.bytesMax = bytesMax;
    this.durable = durable;
    this.disk = disk;
  }

  load(): Promise<TierEntry[]> {
    const entries = [...this.disk].map(([key, { meta, bytes }]) => ({ key, meta, bytes: bytes?.length ?? -1 }));
    return Promise.resolve(entries);
  }

  put(records: readonly TierRecord[]): Promise<void> {
    // The bytes are the caller's again after the answer, so they are copied when the write happens.
    return this.#world.later(() => {
      const { random } = this.#world;
      const fault = this.#world.faulty() ? random.int(4) : -1;
      if (fault === 0) throw new Error("write error");
      for (const { key, meta, bytes } of records) {
        if (fault === 1 && random.int(2) === 0) continue;
        if (bytes === null && this.disk.has(key)) continue;
        const stored = bytes?.slice() ?? null;
        if (fault === 2 && stored !== null && random.int(2) === 0) stored.fill(random.int(256), random.int(stored.length));
        this.disk.set(key, { meta: meta.slice(), bytes: stored });
      }
      if (fault === 3) throw new Error("written, and reported as an error");
    });
  }

  get(keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    return this.#world.later(() => {
      if (this.#world.faulty()) throw new Error("read error");
      return keys.map((key) => this.disk.get(key)?.bytes?.slice() ?? null);
    });
  }

  remove(keys: readonly string[], meta: boolean): Promise<void> {
    return this.#world.later(() => {
      if (this.#world.faulty()) throw new Error("remove error");
      for (const key of keys) {
        if (meta) this.disk.delete(key);
        else if (this.disk.has(key)) this.disk.set(key, { ...this.disk.get(key)!, bytes: null });
      }
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** The engine's cells in an array, read and written when the world wants. */
export class FaultyPort implements CellPort {
  readonly cellBytes = CELL_BYTES;
  readonly bytes: Uint8Array;
  readonly #world: World;

  constructor(world: World, slots: number) {
    this.#world = world;
    this.bytes = new Uint8Array(slots * CELL_BYTES);
  }

  read(slots: Int32Array, into: Uint8Array): Promise<void> {
    return this.#world.later(() => {
      slots.forEach((slot, i) => into.set(this.cell(slot), i * CELL_BYTES));
      if (this.#world.faulty()) throw new Error("device error");
    });
  }

  write(slots: Int32Array, from: Uint8Array): Promise<void> {
    return this.#world.later(() => {
      if (this.#world.faulty()) throw new Error("device error");
      slots.forEach((slot, i) => this.cell(slot).set(from.subarray(i * CELL_BYTES, (i + 1) * CELL_BYTES)));
    });
  }

  clear(slots: Int32Array): Promise<void> {
    return this.#world.later(() => slots.forEach((slot) => this.cell(slot).fill(0)));
  }

  cell(slot: number): Uint8Array {
    return this.bytes.subarray(slot * CELL_BYTES, (slot + 1) * CELL_BYTES);
  }
}

/** Keys that are there after a death, by slot. */
export type KeyTable = Map<number, { purpose: string; key: Uint8Array }>;

/** Data keys whose changes happen when the world wants, or fail. */
export class FaultyKeys implements DataKeys {
  readonly #world: World;
  readonly #table: KeyTable;
  #next: number;
  /** Gone for us, and perhaps not from the table. */
  readonly #doomed = new Set<number>();

  constructor(world: World, table: KeyTable) {
    this.#world = world;
    this.#table = table;
    this.#next = Math.max(0, ...table.keys()) + 1;
  }

  create(purposes: readonly string[]): Promise<{ slot: number; key: Uint8Array }[]> {
    const made = purposes.map((purpose) => ({ slot: this.#next++, purpose, key: Uint8Array.from({ length: 32 }, () => this.#world.random.int(256)) }));
    return this.#world.later(() => {
      if (this.#world.faulty()) throw new Error("key error");
      for (const { slot, purpose, key } of made) this.#table.set(slot, { purpose, key: key.slice() });
      return made.map(({ slot, key }) => ({ slot, key }));
    });
  }

  key(slot: number, purpose: string): Uint8Array | null {
    const found = this.#table.get(slot);
    return found?.purpose === purpose && !this.#doomed.has(slot) ? found.key.slice() : null;
  }

  destroy(slots: readonly number[]): Promise<void> {
    for (const slot of slots) this.#doomed.add(slot);
    const doomed = [...this.#doomed];
    return this.#world.later(() => {
      if (this.#world.faulty()) throw new Error("key error");
      for (const slot of doomed) this.#table.delete(slot);
    });
  }

  keepOnly(slots: ReadonlySet<number>): Promise<void> {
    return this.destroy([...this.#table.keys()].filter((slot) => !slots.has(slot)));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
