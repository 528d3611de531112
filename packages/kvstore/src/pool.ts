import { KvstoreError } from "./errors.ts";
import { CellLease } from "./lease.ts";
import type { Audit, Holder } from "./types.ts";

export interface PagePoolOptions {
  /** Pages of the pool, numbered from 0. */
  pages: number;
  /** Cells in a page, 1 or more. Default 16. */
  pageSize?: number;
}

/** In the order in which a page counts: by the first kind of holder that it has. */
const HOLDERS: readonly Holder[] = ["held", "leased", "cached"];
const FREE = HOLDERS.length;

/**
 * Pages of cells and who holds them. The pool knows numbers only: the cells themselves lie wherever the engine keeps them. Pages are
 * taken and given back through leases; nothing else frees.
 */
export class PagePool {
  readonly pages: number;
  readonly pageSize: number;
  /** References by kind of holder: `#references[kind][page]`. */
  readonly #references: readonly Int32Array[];
  /** The free pages are `#free[0 … #freeCount)`. The last to come goes out first: its bytes are the likeliest to be in a cache. */
  readonly #free: Int32Array;
  #freeCount: number;
  /** Pages by the kind they count as; the last is free. */
  readonly #counts: Int32Array;
  /** 1: held cells once, so it must be zeroed before it is used again. */
  readonly #used: Uint8Array;
  #stale: number[] = [];
  #leases = 0;

  constructor(options: PagePoolOptions) {
    const { pages, pageSize = 16 } = options;
    if (!Number.isInteger(pages) || pages < 1) throw new KvstoreError("argument_invalid", `a pool has at least one page, not ${pages}`, "pages");
    if (!Number.isInteger(pageSize) || pageSize < 1) {
      throw new KvstoreError("argument_invalid", `a page has at least one cell, not ${pageSize}`, "pageSize");
    }
    this.pages = pages;
    this.pageSize = pageSize;
    this.#references = HOLDERS.map(() => new Int32Array(pages));
    this.#free = Int32Array.from({ length: pages }, (_, i) => pages - 1 - i);
    this.#freeCount = pages;
    this.#counts = Int32Array.from([0, 0, 0, pages]);
    this.#used = new Uint8Array(pages);
  }

  get free(): number {
    return this.#freeCount;
  }

  /** Leases that have not been released. */
  get leases(): number {
    return this.#leases;
  }

  /**
   * Takes `count` pages, all or none. The lease covers all their cells and is their one writer. `pages_exhausted` when fewer are free.
   * Pages that held cells before are named once by `takeStale`.
   */
  allocate(count: number, holder: Holder): CellLease {
    if (!Number.isInteger(count) || count < 0) throw new KvstoreError("argument_invalid", `a number of pages was expected, not ${count}`, "count");
    if (count > this.#freeCount) {
      throw new KvstoreError("pages_exhausted", `${count} pages were asked for, ${this.#freeCount} of ${this.pages} are free`, "count");
    }
    const pages = this.#free.slice(this.#freeCount - count, this.#freeCount).toReversed();
    this.#freeCount -= count;
    for (const page of pages) {
      if (this.#used[page] === 1) this.#stale.push(page);
      this.#used[page] = 1;
    }
    return new CellLease(this, this.#port, pages, 0, count * this.pageSize, holder, true);
  }

  /** Pages for `cells` cells that begin at the start of a page. */
  allocateCells(cells: number, holder: Holder): CellLease {
    return this.allocate(Math.ceil(cells / this.pageSize), holder);
  }

  /**
   * The pages allocated since the last call that held cells before: zero them before the next step (a masked score of 0 times a NaN
   * left behind is NaN). A page that was given back and taken again in between may be named twice.
   */
  takeStale(): Int32Array {
    const stale = Int32Array.from(this.#stale);
    this.#stale = [];
    return stale;
  }

  /** Kept while pages come and go; `free + cached + leased + held = total` always. */
  audit(): Audit {
    const [held, leased, cached, free] = this.#counts as unknown as [number, number, number, number];
    return { total: this.pages, free, cached, leased, held };
  }

  /** Throws `pool_damaged` unless the counts are what the pages say. Looks at every page: for tests. */
  checkIntegrity(): void {
    const counts = [0, 0, 0, 0];
    for (let page = 0; page < this.pages; page++) counts[this.#kind(page)]!++;
    const kept = [...this.#counts];
    const free = new Set(this.#free.subarray(0, this.#freeCount));
    const wrong =
      counts.some((count, kind) => count !== kept[kind]) ||
      free.size !== this.#freeCount ||
      counts[FREE] !== this.#freeCount ||
      [...free].some((page) => this.#kind(page) !== FREE) ||
      this.#references.some((references) => references.some((count) => count < 0));
    if (wrong) throw new KvstoreError("pool_damaged", `pages say [${counts}], kept [${kept}], free list of ${free.size}`);
  }

  /** What leases may do to the pool. */
  readonly #port: PoolPort = {
    open: () => this.#leases++,
    close: () => this.#leases--,
    add: (page, holder) => this.#change(page, HOLDERS.indexOf(holder), 1),
    drop: (page, holder) => this.#change(page, HOLDERS.indexOf(holder), -1),
  };

  #kind(page: number): number {
    for (let kind = 0; kind < FREE; kind++) if (this.#references[kind]![page]! > 0) return kind;
    return FREE;
  }

  #change(page: number, kind: number, by: 1 | -1): void {
    const before = this.#kind(page);
    this.#references[kind]![page]! += by;
    const after = this.#kind(page);
    if (before === after) return;
    this.#counts[before]!--;
    this.#counts[after]!++;
    if (after === FREE) this.#free[this.#freeCount++] = page;
  }
}

export interface PoolPort {
  open(): void;
  close(): void;
  add(page: number, holder: Holder): void;
  drop(page: number, holder: Holder): void;
}
