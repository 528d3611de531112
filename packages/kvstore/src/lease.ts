import { KvstoreError } from "./errors.ts";
import type { PagePool, PoolPort } from "./pool.ts";
import type { Holder, PageId, Slot } from "./types.ts";

/**
 * A hold on consecutive cells of a list of pages: the cells [start, start + length) of the list. Every page that has one of them is
 * held once, so a page in which two leases meet is held twice. A handle is used up by `release`, `split` and `move`; using it
 * afterwards is `lease_released`, except that `release` may be repeated.
 */
export class CellLease {
  readonly pool: PagePool;
  readonly length: number;
  readonly holder: Holder;
  /** Whether the owner may write these cells. Of all leases on a cell at most one may. */
  readonly writer: boolean;
  readonly #port: PoolPort;
  /** Shared between the parts of a split. */
  readonly #pages: Int32Array;
  readonly #start: number;
  #released = false;

  /** Made by `PagePool.allocate` and by other leases. */
  constructor(pool: PagePool, port: PoolPort, pages: Int32Array, start: number, length: number, holder: Holder, writer: boolean) {
    this.pool = pool;
    this.#port = port;
    this.#pages = pages;
    this.#start = start;
    this.length = length;
    this.holder = holder;
    this.writer = writer;
    port.opened();
    port.hold(pages, this.#firstPage, this.#endPage, holder);
  }

  get released(): boolean {
    return this.#released;
  }

  /** Slot of the first cell inside the first page. */
  get offset(): number {
    return this.#start % this.pool.pageSize;
  }

  get pageCount(): number {
    return this.#endPage - this.#firstPage;
  }

  /** The pages of these cells, in order: a view, not to be written. */
  get pages(): Int32Array {
    return this.#pages.subarray(this.#firstPage, this.#endPage);
  }

  page(index: number): PageId {
    if (!(index >= 0 && index < this.pageCount)) throw new KvstoreError("argument_invalid", `page ${index} of ${this.pageCount}`, "index");
    return this.#pages[this.#firstPage + index] as PageId;
  }

  /** Writes the slots of all cells, in order, to `into` from `at` on. */
  slots(into: Int32Array, at = 0): void {
    const { pageSize } = this.pool;
    let cell = 0;
    for (let i = this.#firstPage; cell < this.length; i++) {
      const first = cell === 0 ? this.offset : 0;
      const end = Math.min(pageSize, first + this.length - cell);
      for (let offset = first; offset < end; offset++) into[at + cell++] = this.#pages[i]! * pageSize + offset;
    }
  }

  /** Where cell `index` of this lease lies. */
  slot(index: number): Slot {
    if (!(index >= 0 && index < this.length)) throw new KvstoreError("argument_invalid", `cell ${index} of ${this.length}`, "index");
    const { pageSize } = this.pool;
    const at = this.#start + index;
    return (this.#pages[Math.floor(at / pageSize)]! * pageSize + (at % pageSize)) as Slot;
  }

  /** Another lease on the same cells. It may not write them. */
  retain(holder: Holder): CellLease {
    return this.slice(0, this.length, holder);
  }

  /** Another lease on the cells [from, to) of this one. It may not write them. */
  slice(from: number, to: number, holder: Holder): CellLease {
    this.#check(from, to);
    return new CellLease(this.pool, this.#port, this.#pages, this.#start + from, to - from, holder, false);
  }

  /** Two leases, on the cells [0, at) and [at, length), in place of this one. Each may write if this one could. */
  split(at: number): [CellLease, CellLease] {
    this.#check(at, this.length);
    const head = new CellLease(this.pool, this.#port, this.#pages, this.#start, at, this.holder, this.writer);
    const tail = new CellLease(this.pool, this.#port, this.#pages, this.#start + at, this.length - at, this.holder, this.writer);
    this.release();
    return [head, tail];
  }

  /** One lease on the cells of this one and then of `next`, in place of both. They must meet between two pages. */
  join(next: CellLease): CellLease {
    this.#check(0, this.length);
    next.#check(0, next.length);
    const { pageSize } = this.pool;
    const meet = (this.#start + this.length) % pageSize === 0 && next.#start % pageSize === 0;
    if (!meet || next.pool !== this.pool || next.holder !== this.holder || next === this) {
      throw new KvstoreError("argument_invalid", "only leases of one pool and one kind of holder that meet between two pages can be joined", "next");
    }
    const pages = new Int32Array(this.pageCount + next.pageCount);
    pages.set(this.pages);
    pages.set(next.pages, this.pageCount);
    const writer = this.writer && next.writer;
    const joined = new CellLease(this.pool, this.#port, pages, this.offset, this.length + next.length, this.holder, writer);
    this.release();
    next.release();
    return joined;
  }

  /** The same cells under another kind of holder, in place of this lease. */
  move(holder: Holder): CellLease {
    this.#check(0, this.length);
    const moved = new CellLease(this.pool, this.#port, this.#pages, this.#start, this.length, holder, this.writer);
    this.release();
    return moved;
  }

  /** Gives the cells back; a page that nobody else holds is free at once. Idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#port.closed();
    this.#port.drop(this.#pages, this.#firstPage, this.#endPage, this.holder);
  }

  get #firstPage(): number {
    return Math.floor(this.#start / this.pool.pageSize);
  }

  get #endPage(): number {
    return this.length === 0 ? this.#firstPage : Math.ceil((this.#start + this.length) / this.pool.pageSize);
  }

  #check(from: number, to: number): void {
    if (this.#released) throw new KvstoreError("lease_released", "this lease was released, split or moved");
    if (!Number.isInteger(from) || !Number.isInteger(to) || from < 0 || from > to || to > this.length) {
      throw new KvstoreError("argument_invalid", `[${from}, ${to}) is no range of ${this.length} cells`, "from");
    }
  }
}

/**
 * What a prefix tree needs to know of a value, for values that are leases of cells: fits `ValueOps` of @palimpsest/radix by its shape.
 * Values of the tree are `cached`, what it hands out for a match is `leased`.
 */
export const cellOps = {
  split: (value: CellLease, at: number): [CellLease, CellLease] => value.split(at),
  retain: (value: CellLease): CellLease => value.retain("leased"),
  release: (value: CellLease): void => value.release(),
};
