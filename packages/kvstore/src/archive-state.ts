import type { PathAddresses } from "./address.ts";
import { BlockIndex, encodeMeta, type Entry } from "./block-index.ts";
import type { Budgets } from "./budget.ts";
import type { Clock } from "./clock.ts";
import { Lane, type Wanted } from "./lane.ts";
import { Shelf } from "./shelf.ts";
import type { CellPort, Tier, TierRecord } from "./tier.ts";

export interface ArchiveLimits {
  /** Bytes of cells on their way from the device; they hold their pages until they were copied. */
  demotingBytesMax: number;
  /** Bytes of cells on their way to the device. */
  promotingBytesMax: number;
  /** Bytes of one read or write. */
  batchBytes: number;
  /** A read or write that takes longer has failed. */
  deadlineMs: number;
}

export const ARCHIVE_LIMITS: ArchiveLimits = {
  demotingBytesMax: 256 * 2 ** 20,
  promotingBytesMax: 256 * 2 ** 20,
  batchBytes: 32 * 2 ** 20,
  deadlineMs: 30_000,
};

/** What happened so far, in blocks. */
export interface ArchiveCounters {
  demoted: number;
  /** Offered while as many bytes as may be were on their way. */
  refused: number;
  /** Had a place nowhere, or were lost by an error. */
  lost: number;
  /** Left the last tier for want of space. */
  evicted: number;
  promoted: number;
  damaged: number;
  late: number;
  errors: number;
}

/**
 * What all parts of an archive share: which blocks there are, which tier has them, how to talk to the tiers. Bit t of `entry.tiers` is
 * set exactly while shelf t has the entry and tier t its cells.
 */
export class ArchiveState {
  readonly port: CellPort;
  readonly blockCells: number;
  readonly blockBytes: number;
  readonly limits: ArchiveLimits;
  readonly clock: Clock;
  readonly index = new BlockIndex();
  readonly shelves: readonly Shelf[];
  readonly lanes: readonly Lane[];
  readonly counters: ArchiveCounters = { demoted: 0, refused: 0, lost: 0, evicted: 0, promoted: 0, damaged: 0, late: 0, errors: 0 };
  readonly #accountOf: (namespace: string) => string;
  readonly #onError: (error: unknown) => void;

  constructor(options: {
    port: CellPort;
    tiers: readonly Tier[];
    blockCells: number;
    limits: ArchiveLimits;
    budgets: Budgets;
    clock: Clock;
    accountOf: (namespace: string) => string;
    onError: (error: unknown) => void;
  }) {
    const { port, tiers, blockCells, limits, budgets, clock } = options;
    this.port = port;
    this.blockCells = blockCells;
    this.blockBytes = blockCells * port.cellBytes;
    this.limits = limits;
    this.clock = clock;
    this.shelves = tiers.map((tier) => new Shelf(tier.bytesMax, this.blockBytes, budgets));
    this.lanes = tiers.map((tier, t) => new Lane(tier, clock, limits.deadlineMs, (key) => this.#wanted(t, key)));
    this.#accountOf = options.accountOf;
    this.#onError = options.onError;
  }

  get batchBlocks(): number {
    return Math.max(1, Math.floor(this.limits.batchBytes / this.blockBytes));
  }

  /** The entry of a block and those of all blocks in front of it, made where they are missing. */
  ensure(addresses: PathAddresses, number: number): Entry {
    let first = number;
    while (first >= 0 && this.index.get(addresses.key(first)) === undefined) first--;
    let entry = first < 0 ? null : this.index.get(addresses.key(first))!;
    for (let i = first + 1; i <= number; i++) entry = this.index.add(addresses.at(i), entry, this.#accountOf(addresses.namespace));
    return entry!;
  }

  accountOf(namespace: string): string {
    return this.#accountOf(namespace);
  }

  touch(entry: Entry): void {
    for (const shelf of this.shelves) shelf.touch(entry);
  }

  /** Tier t has the cells of these blocks no more. False: it could not be told so now, and will be with its next change. */
  async drop(entries: readonly Entry[], t: number): Promise<boolean> {
    const gone: Entry[] = [];
    for (const entry of entries) {
      this.shelves[t]!.remove(entry);
      entry.tiers &= ~(1 << t);
      gone.push(...this.index.prune(entry));
    }
    const done = await Promise.all([this.lanes[t]!.forget(entries.map(({ key }) => key)), this.forget(gone)]);
    return done.every(Boolean);
  }

  /** Forgets the entry and its parents where nothing needs them. */
  prune(entry: Entry): Promise<boolean> {
    return this.forget(this.index.prune(entry));
  }

  /** Makes every tier that was given one of these blocks remove what nobody wants of them any more. */
  async forget(entries: readonly Entry[]): Promise<boolean> {
    const done = await Promise.all(
      this.lanes.map((lane, t) => lane.forget(entries.filter((entry) => (entry.given & (1 << t)) !== 0).map(({ key }) => key))),
    );
    return done.every(Boolean);
  }

  /** The records of blocks with cells, after those of the blocks in front of them that tier t does not know. */
  records(t: number, blocks: readonly { entry: Entry; bytes: Uint8Array }[]): TierRecord[] {
    const cells = new Map(blocks.map(({ entry, bytes }) => [entry, bytes]));
    const records = new Map<Entry, TierRecord>();
    const add = (entry: Entry) => {
      const bytes = cells.get(entry) ?? null;
      records.set(entry, { key: entry.key, meta: encodeMeta(entry), bytes });
    };
    for (const { entry } of blocks) {
      add(entry);
      if (!this.lanes[t]!.tier.durable) continue;
      const known = (at: Entry) => (at.given & (1 << t)) !== 0 || records.has(at);
      for (let at = entry.parent; at !== null && !known(at); at = at.parent) add(at);
    }
    return [...records.values()];
  }

  failed(error: unknown): void {
    this.counters.errors++;
    this.#onError(error);
  }

  #wanted(t: number, key: string): Wanted {
    const entry = this.index.get(key);
    if (entry === undefined) return "nothing";
    if ((entry.tiers & (1 << t)) !== 0) return "cells";
    return (entry.given & (1 << t)) !== 0 ? "meta" : "nothing";
  }
}
