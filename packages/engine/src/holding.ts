import { AddressedCells, type CellLease, type PathAddresses } from "@palimpsest/kvstore";
import type { MatchLease, MatchSpan, Path, Pin, PinOptions } from "@palimpsest/radix";
import type { Cache } from "./cache.ts";
import { CellTable } from "./table.ts";

/**
 * Pages of which a sequence is the one writer, and the cells in them that are not published yet.
 *
 *     pages   | a a a a | b b b b | b c · · |
 *               released  ^ base    ^ used         lease: [base, capacity)
 */
interface OwnPages {
  pages: Int32Array;
  lease: CellLease;
  base: number;
  used: number;
  capacity: number;
}

/**
 * All that one sequence holds of the cache: the match it began with, the pages it writes, its leases on what it published, and the
 * pages it was promised. `release` gives everything back; nothing else does.
 */
export class Holding {
  readonly table: CellTable;
  readonly #cache: Cache;
  readonly #namespace: string;
  readonly #addresses: PathAddresses;
  /** The match, then what was published, in cell order as far as they follow one another. */
  readonly #leases: MatchLease<AddressedCells>[];
  /** In the order in which they are filled; only the last one has room. */
  readonly #own: OwnPages[] = [];
  /** Cells that are erased from here on must not come back with what we compute. */
  readonly #epoch: number;
  #promised: number;
  /** Some of our cells are not in the tree: behind them none can be entered. */
  #private = false;
  /** Slots of our own pages that the tree has taken nevertheless. */
  readonly #shared = new Set<number>();
  #released = false;

  /** Takes over the match, and the pages that were promised for it. */
  constructor(cache: Cache, namespace: string, match: MatchLease<AddressedCells>, promised: number) {
    this.#cache = cache;
    this.#epoch = cache.tree.epoch;
    this.#namespace = namespace;
    this.#leases = [match];
    this.#promised = promised;
    this.#addresses = cache.addresses(namespace, match.spans);
    this.table = new CellTable(cache.pool.pageSize);
    for (const { start, value } of match.spans) if (value !== null) this.table.addLease(start, value.lease);
  }

  /** Pages that may still be taken. */
  get promised(): number {
    return this.#promised;
  }

  /** Cells that can be taken without another page. */
  get room(): number {
    const last = this.#own.at(-1);
    return last === undefined ? 0 : last.capacity - last.used;
  }

  /** So many pages more may be taken; false where the cache has not so many to promise. */
  promise(pages: number): boolean {
    if (!this.#cache.promise(pages)) return false;
    this.#promised += pages;
    return true;
  }

  /** Gives the missing cells [from, to) places in pages of our own. */
  take(from: number, to: number): void {
    const { pageSize } = this.table;
    for (let cell = from; cell < to; ) {
      let own = this.#own.at(-1);
      if (own === undefined || own.used === own.capacity) own = this.#more(Math.ceil((to - cell) / pageSize));
      const length = Math.min(to - cell, own.capacity - own.used);
      this.table.add({ cell, length, pages: own.pages, first: own.used });
      own.used += length;
      cell += length;
    }
  }

  /**
   * Publishes the cells [from, to) of the path: computed, in our own pages, and the next of these to be published. Where the tree has
   * them already, computed by somebody else, we go on with its cells, and our own go.
   */
  publish(path: Path, from: number, to: number): void {
    if (this.#private) return;
    if (this.#cache.archive !== null) this.#addresses.extend(path, to);
    for (let cell = from; cell < to; ) {
      const value = new AddressedCells(this.#gather(cell, to), this.#addresses, cell);
      const end = cell + value.length;
      const lease = this.#cache.publish(this.#namespace, path, cell, end, value, this.#epoch);
      if (lease === null || !this.#adopt(lease)) {
        this.#private = true;
        return;
      }
      this.#disown(end - cell);
      this.#keep(lease);
      cell = end;
    }
  }

  /** Sees to it that the archive has what we hold of the tree, also what it had to let go meanwhile. */
  keepAll(): void {
    // What was erased since we began is ours to read, and nobody's to keep.
    if (this.#cache.archive === null || this.#cache.tree.epoch !== this.#epoch) return;
    for (const lease of this.#leases) this.#keep(lease);
  }

  /** No row reads the cells [from, to) any more: what we hold of them in the tree is given back, in front of all others when pages are short. */
  skip(from: number, to: number): void {
    for (const [lease, start, end] of this.#overlapping(from, to)) {
      lease.skip(start, end);
      this.table.remove(start, end);
    }
  }

  /** Says what the cells [from, to) are worth, of those that the tree has. */
  rank(from: number, to: number, rank: number): void {
    for (const [lease, start, end] of this.#overlapping(from, to)) lease.rank(start, end, rank);
  }

  /** Pins the cells [from, to), of those that the tree has; null, and none is pinned, where the budget has no room. */
  pin(from: number, to: number, options: PinOptions): Pin[] | null {
    const pins: Pin[] = [];
    try {
      for (const [lease, start, end] of this.#overlapping(from, to)) pins.push(lease.pin(start, end, options));
      return pins;
    } catch (error) {
      for (const pin of pins) pin.release();
      if ((error as { code?: unknown }).code !== "pins_exceeded") throw error;
      return null;
    }
  }

  /** Idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#cache.unpromise(this.#promised);
    this.#promised = 0;
    this.table.clear();
    for (const lease of this.#leases) lease.release();
    for (const { lease, base, used } of this.#own) {
      const slots = Int32Array.from({ length: used - base }, (_, i) => lease.slot(i)).filter((slot) => !this.#shared.has(slot));
      // What was refused for being erased must go now; what was never offered, before the page goes on with others' cells only.
      if (this.#private) this.#cache.wipe(slots);
      else this.#cache.scrub(slots);
      lease.release();
    }
    this.#own.length = 0;
  }

  /** Places that only this sequence may write. For the auditor: no slot is named by two sequences. */
  *writableSlots(): Generator<number> {
    for (const { lease } of this.#own) for (let i = 0; i < lease.length; i++) yield lease.slot(i);
  }

  *#overlapping(from: number, to: number): Generator<[lease: MatchLease<AddressedCells>, start: number, end: number]> {
    for (const lease of this.#leases) {
      const [start, end] = [Math.max(from, lease.start), Math.min(to, lease.length)];
      if (start < end) yield [lease, start, end];
    }
  }

  #more(count: number): OwnPages {
    // Whoever runs without a promise takes only what there is.
    if (count > this.#promised) this.promise(count - this.#promised);
    const lease = this.#cache.take(count);
    this.#promised -= count;
    const own = { pages: lease.pages, lease, base: 0, used: 0, capacity: lease.length };
    this.#own.push(own);
    return own;
  }

  /** A lease for the tree on as many of the next cells as lie in whole pages one after another. */
  #gather(cell: number, to: number): CellLease {
    const { pageSize } = this.table;
    let value: CellLease | null = null;
    let left = to - cell;
    for (const { lease, base, used } of this.#own) {
      if (left === 0) break;
      if (value !== null && ((value.offset + value.length) % pageSize !== 0 || base % pageSize !== 0)) break;
      const length = Math.min(left, used - base);
      const part = lease.slice(0, length, "cached");
      value = value === null ? part : value.join(part);
      left -= length;
    }
    return value!;
  }

  /**
   * Goes on with the tree's cells. False where they would take pages that others were promised: we keep our own then, and of the tree only
   * what it took of them.
   */
  #adopt(lease: MatchLease<AddressedCells>): boolean {
    this.#leases.push(lease);
    const isOurs = (start: number, value: AddressedCells) => value.lease.slot(0) === this.table.slot(start);
    if (this.#cache.available < 0) {
      const { spans } = lease;
      for (const { start, length, value } of spans) {
        if (value === null) continue;
        if (!isOurs(start, value)) lease.skip(start, start + length);
        else for (let i = 0; i < length; i++) this.#shared.add(value.lease.slot(i));
      }
      return false;
    }
    for (const { start, value } of lease.spans) {
      if (value === null || isOurs(start, value)) continue;
      this.#cache.scrub(Int32Array.from({ length: value.length }, (_, i) => this.table.slot(start + i)));
      this.table.move(start, value.lease);
    }
    return true;
  }

  #keep(lease: MatchLease<AddressedCells>): void {
    if (this.#cache.archive === null) return;
    for (const { start, length, value } of lease.spans) {
      if (value !== null) this.#cache.keep({ start, length, value, before: (cells) => this.#before(start, cells) });
    }
  }

  /** What we hold in front of a cell, as far up as to cover so many cells, nearest last. A span that ends elsewhere ends the search. */
  #before(end: number, cells: number): MatchSpan<AddressedCells>[] {
    const found: MatchSpan<AddressedCells>[] = [];
    for (let at = end; at > end - cells; ) {
      let span: MatchSpan<AddressedCells> | undefined;
      for (let i = this.#leases.length - 1; i >= 0 && span === undefined; i--) {
        span = this.#leases[i]!.spans.findLast(({ start, length, value }) => value !== null && start + length === at);
      }
      if (span === undefined) break;
      found.push(span);
      at = span.start;
    }
    return found.toReversed();
  }

  /** The next `count` cells in our pages are held through the tree's lease now, or replaced by others. */
  #disown(count: number): void {
    for (let left = count; left > 0; ) {
      const own = this.#own[0]!;
      const length = Math.min(left, own.used - own.base);
      const [done, rest] = own.lease.split(length);
      done.release();
      own.lease = rest;
      own.base += length;
      left -= length;
      if (own.base < own.capacity) continue;
      rest.release();
      this.#own.shift();
    }
  }
}
