import { AddressedCells, type CellArchive, type CellLease, type PathAddresses } from "@palimpsest/kvstore";
import type { MatchLease, Path } from "@palimpsest/radix";
import type { Cache } from "./cache.ts";
import type { EngineLimits } from "./limits.ts";
import { cellsRead, planWork } from "./planner.ts";
import { RangeSet } from "./ranges.ts";
import type { Sequence } from "./sequence.ts";

/** What happened to requests whose cells were in a tier. */
export interface RestoreCounts {
  /** Cells that came back and were entered into the tree. */
  restoredCells: number;
  /** Cells that were computed although a tier had them: at the measured rates that was faster. */
  recomputedCells: number;
  /** Cells that were asked for and came too late, damaged, or not at all. */
  missedCells: number;
}

/**
 * Brings cells of waiting requests back from the tiers, in front of their admission: nobody who waits for a tier holds anything but the
 * pages that are being written, and no step waits for one. What comes is entered into the tree, where the request finds it; what does not
 * come in time is computed.
 */
export class Restorer {
  readonly counts: RestoreCounts = { restoredCells: 0, recomputedCells: 0, missedCells: 0 };
  readonly #cache: Cache;
  readonly #archive: CellArchive;
  readonly #limits: EngineLimits;
  readonly #cellsPerSecond: () => number | null;
  /** Blocks that are on their way, by address. */
  readonly #coming = new Map<string, Promise<void>>();

  /** `cellsPerSecond`: how fast prompts are computed, as measured; null as long as nobody knows. */
  constructor(cache: Cache, archive: CellArchive, limits: EngineLimits, cellsPerSecond: () => number | null) {
    this.#cache = cache;
    this.#archive = archive;
    this.#limits = limits;
    this.#cellsPerSecond = cellsPerSecond;
  }

  /**
   * Begins to bring what a request needs and a tier has, if that is expected to be faster than computing it. A promise: the request
   * should be looked at again when it has resolved, and may not hold its match until then. Null: nothing to wait for.
   */
  begin(sequence: Sequence, match: MatchLease<AddressedCells>): Promise<void> | null {
    if (this.#archive.isEmpty || sequence.request.echo) return null;
    const path = sequence.path();
    const addresses = this.#cache.addresses(sequence.namespace, match.spans);
    addresses.extend(path);
    const numbers = this.#wanted(sequence, match, addresses);
    if (numbers.length === 0) return null;
    const underWay = numbers.map((number) => this.#coming.get(addresses.key(number))).find((promise) => promise !== undefined);
    // Somebody else asked for a part of it: the rest is asked for afterwards.
    if (underWay !== undefined) return underWay;
    const { blockCells } = this.#archive;
    sequence.restored = true;
    if (!this.#isFaster(addresses, numbers)) {
      this.counts.recomputedCells += numbers.length * blockCells;
      return null;
    }
    const pages = Math.ceil((numbers.length * blockCells) / this.#cache.pool.pageSize);
    if (!this.#cache.promise(pages)) {
      // They are tried again when the request is, with the pages that it needs in any case.
      sequence.restored = false;
      return null;
    }
    // Taken while the match holds what it found: it is not evicted for this.
    return this.#bring({ namespace: sequence.namespace, path, addresses, numbers, lease: this.#cache.take(pages, "held"), epoch: this.#cache.tree.epoch });
  }

  #isFaster(addresses: PathAddresses, numbers: readonly number[]): boolean {
    const rate = this.#cellsPerSecond();
    // Nothing was computed yet: try.
    return rate === null || this.#archive.worthPromoting(addresses, numbers, (cells) => (1000 * cells) / rate);
  }

  /** Blocks that a tier has, with a cell that the request's rows read, directly or through others that are to be computed, and that is not resident. */
  #wanted({ fold, readsOpen }: Sequence, match: MatchLease<AddressedCells>, addresses: PathAddresses): number[] {
    const { blockCells } = this.#archive;
    const resident = new RangeSet();
    for (const { start, length, value } of match.spans) if (value !== null) resident.add(start, start + length);
    const missing = (number: number) => resident.countWithin(number * blockCells, (number + 1) * blockCells) < blockCells;
    const found = this.#archive.find(addresses).flatMap((here, number) => (here && missing(number) ? [number] : []));
    if (found.length === 0) return [];
    const known = Math.max(match.length, (found.at(-1)! + 1) * blockCells);
    const reachable = new RangeSet();
    reachable.addAll(resident);
    for (const number of found) reachable.add(number * blockCells, (number + 1) * blockCells);
    const work = planWork(fold, reachable, { echo: false, ask: true, open: readsOpen, known });
    const read = cellsRead(fold, work, readsOpen);
    const isRead = (number: number) => {
      for (const [from, to] of resident.gaps(number * blockCells, (number + 1) * blockCells)) if (read.countWithin(from, to) > 0) return true;
      return false;
    };
    return found.filter(isRead);
  }

  #bring(order: Order): Promise<void> {
    const { addresses, numbers, lease } = order;
    const { blockCells } = this.#archive;
    const blocks = numbers.map((number, i) => ({ addresses, number, cells: [lease.slice(i * blockCells, (i + 1) * blockCells, "held")] }));
    const rate = this.#cellsPerSecond();
    const computeMs = rate === null ? Infinity : (1000 * numbers.length * blockCells) / rate;
    const deadlineMs = Math.min(this.#limits.restoreMsMax, Math.max(computeMs, RESTORE_MS_MIN));
    const brought = this.#archive
      .promote(blocks, { deadlineMs })
      .then((results) => this.#enter(order, results.map((result) => result === "arrived")))
      .finally(() => {
        for (const { cells } of blocks) for (const part of cells) part.release();
        lease.release();
      });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, deadlineMs)));
    const keys = numbers.map((number) => addresses.key(number));
    const waited = Promise.race([brought, late]).finally(() => {
      clearTimeout(timer);
      for (const key of keys) if (this.#coming.get(key) === waited) this.#coming.delete(key);
    });
    for (const key of keys) this.#coming.set(key, waited);
    return waited;
  }

  /** Stretches of blocks that arrived next to each other enter the tree as one value each. */
  #enter({ namespace, path, addresses, numbers, lease, epoch }: Order, arrived: readonly boolean[]): void {
    const { blockCells } = this.#archive;
    const last = arrived.lastIndexOf(true);
    this.counts.missedCells += arrived.filter((here) => !here).length * blockCells;
    if (last < 0) return;
    let place: MatchLease<AddressedCells>;
    try {
      place = this.#cache.tree.outline(namespace, path, (numbers[last]! + 1) * blockCells);
    } catch (error) {
      if ((error as { kind?: unknown }).kind === "capacity") return;
      throw error;
    }
    for (let i = 0; i <= last; ) {
      let end = i + 1;
      while (end <= last && arrived[end] && numbers[end] === numbers[end - 1]! + 1) end++;
      if (arrived[i]) {
        const cells = (end - i) * blockCells;
        const from = numbers[i]! * blockCells;
        const value = new AddressedCells(lease.slice(i * blockCells, end * blockCells, "cached"), addresses, from);
        const entered = this.#cache.publish(namespace, path, from, from + cells, value, epoch);
        // Erased while it was on its way: nobody else knows of these copies.
        if (entered === null) this.#cache.wipe(slotsOf(lease, i * blockCells, end * blockCells));
        else this.counts.restoredCells += cells;
        entered?.release();
      }
      i = end;
    }
    place.release();
  }
}

/** What is on its way: the blocks of a path, in pages of their own, one after another. */
interface Order {
  namespace: string;
  path: Path;
  addresses: PathAddresses;
  numbers: readonly number[];
  lease: CellLease;
  epoch: number;
}

/** Less than this no request waits for a tier: a timer and a read take as long. */
const RESTORE_MS_MIN = 20;

function slotsOf(lease: CellLease, from: number, to: number): Int32Array {
  return Int32Array.from({ length: to - from }, (_, i) => lease.slot(from + i));
}
