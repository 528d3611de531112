import { within, type Clock } from "./clock.ts";
import { KvstoreError } from "./errors.ts";
import { RateMeter } from "./rates.ts";
import type { Tier, TierRecord } from "./tier.ts";

function wipe(found: readonly (Uint8Array | null)[]): void {
  for (const bytes of found) bytes?.fill(0);
}

function isLate(error: unknown): boolean {
  return error instanceof KvstoreError && error.code === "transfer_late";
}

/** What a tier is meant to have of a block now. */
export type Wanted = "cells" | "meta" | "nothing";

/**
 * The calls to one tier: changes one after another, reads beside them, each with a deadline, each measured. A call that does not answer
 * in time has failed. What a failed or late call leaves behind is removed with a later change.
 */
export class Lane {
  readonly tier: Tier;
  readonly reads = new RateMeter();
  readonly writes = new RateMeter();
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #wanted: (key: string) => Wanted;
  /** Keys of which the tier may have more than it is meant to. */
  readonly #leftovers = new Set<string>();
  /** Calls that took too long, and their keys: writes, and removals. */
  readonly #lateWrites = new Map<Promise<void>, readonly string[]>();
  readonly #lateRemovals = new Map<Promise<void>, readonly string[]>();
  #tail: Promise<unknown> = Promise.resolve();
  readonly #reading = new Set<Promise<unknown>>();
  #busy = 0;

  constructor(tier: Tier, clock: Clock, deadlineMs: number, wanted: (key: string) => Wanted) {
    this.tier = tier;
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#wanted = wanted;
  }

  get idle(): boolean {
    return this.#busy === 0;
  }

  /** Also what a write that has not answered may still bring. */
  get leftovers(): ReadonlySet<string> {
    return new Set([...this.#leftovers, ...[...this.#lateWrites.values()].flat()]);
  }

  /** `stored` is called before any other change begins. */
  put(records: readonly TierRecord[], stored: () => void): Promise<void> {
    const prepared = this.tier.prepare?.(records);
    // Whoever waits for it hears of it; until then nobody does.
    prepared?.catch(() => undefined);
    return this.#change(async () => {
      await this.#forget([...this.#leftovers]);
      const open = new Set([...this.#lateRemovals.values(), ...this.#lateWrites.values()].flat());
      if (records.some(({ key }) => open.has(key))) {
        await prepared?.then((put) => put.cancel());
        throw new KvstoreError("transfer_late", `${this.tier.name} has not answered yet what became of one of these blocks`);
      }
      const bytes = records.reduce((sum, record) => sum + (record.bytes?.length ?? 0), 0);
      const before = this.#clock.now();
      const keys = records.map(({ key }) => key);
      const write = prepared === undefined ? this.tier.put(records) : prepared.then((put) => put.commit());
      try {
        await within(this.#clock, this.#deadlineMs, `writing to ${this.tier.name}`, write);
      } catch (error) {
        // Nobody can say what of it is there, or will be when it answers after all.
        for (const key of keys) this.#leftovers.add(key);
        if (isLate(error)) this.#whenAnswered(write, keys, this.#lateWrites);
        throw error;
      }
      this.writes.observe(bytes, this.#clock.now() - before);
      stored();
    });
  }

  /** Removes what the tier has of these keys beyond what is wanted when their turn comes. False: not all of it could be removed. */
  forget(keys: readonly string[]): Promise<boolean> {
    return keys.length === 0 ? Promise.resolve(true) : this.#change(() => this.#forget(keys));
  }

  async get(keys: readonly string[], deadlineMs: number): Promise<(Uint8Array | null)[]> {
    this.#busy++;
    const before = this.#clock.now();
    const observe = (found: readonly (Uint8Array | null)[]) => {
      this.reads.observe(found.reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0), this.#clock.now() - before);
    };
    // What comes too late says all the more how long it takes.
    const late = (found: readonly (Uint8Array | null)[]) => {
      observe(found);
      wipe(found);
    };
    const ms = Math.min(deadlineMs, this.#deadlineMs);
    const read = within(this.#clock, ms, `reading from ${this.tier.name}`, this.tier.get(keys), late);
    this.#reading.add(read);
    try {
      const found = await read;
      observe(found);
      return found;
    } finally {
      this.#reading.delete(read);
      this.#busy--;
    }
  }

  /** Waits for the changes so far. */
  async settled(): Promise<void> {
    await this.#tail;
  }

  /** Waits for the calls so far, reads as well. */
  async answered(): Promise<void> {
    await Promise.allSettled([this.#tail, ...this.#reading]);
  }

  /** What a call did that failed for us and may go on for the tier is put right when it answers. */
  #whenAnswered(call: Promise<void>, keys: readonly string[], late: Map<Promise<void>, readonly string[]>): void {
    late.set(call, keys);
    const answered = () => {
      late.delete(call);
      for (const key of keys) this.#leftovers.add(key);
      return this.forget(keys);
    };
    void call.then(answered, answered);
  }

  async #forget(keys: readonly string[]): Promise<boolean> {
    const [whole, cells] = (["nothing", "meta"] as const).map((wanted) => keys.filter((key) => this.#wanted(key) === wanted));
    for (const key of keys) if (this.#wanted(key) === "cells") this.#leftovers.delete(key);
    const done = [await this.#remove(whole!, true), await this.#remove(cells!, false)];
    return done.every(Boolean);
  }

  async #remove(keys: readonly string[], meta: boolean): Promise<boolean> {
    if (keys.length === 0) return true;
    const removal = this.tier.remove(keys, meta);
    try {
      await within(this.#clock, this.#deadlineMs, `removing from ${this.tier.name}`, removal);
      for (const key of keys) this.#leftovers.delete(key);
      return true;
    } catch (error) {
      for (const key of keys) this.#leftovers.add(key);
      if (isLate(error)) this.#whenAnswered(removal, keys, this.#lateRemovals);
      return false;
    }
  }

  #change<T>(act: () => Promise<T>): Promise<T> {
    this.#busy++;
    const done = this.#tail.then(act).finally(() => this.#busy--);
    this.#tail = done.catch(() => undefined);
    return done;
  }
}
