import { Ledger, type Budgets } from "./budget.ts";
import { KvstoreError } from "./errors.ts";
import { CellLease } from "./lease.ts";
import type { Audit, Holder } from "./types.ts";

export interface PagePoolOptions {
  /** Pages of the pool, numbered from 0. */
  pages: number;
  /** Cells in a page, 1 or more. Default 16. */
  pageSize?: number;
  /** Bytes of a page, for figures and budgets by bytes. Default 0: unknown. */
  pageBytes?: number;
  /** Pages that accounts may hold at most, from allocation until nobody holds the page any more. */
  budgets?: Budgets;
  /** The same in bytes; needs `pageBytes`. The smaller of both holds. */
  byteBudgets?: Budgets;
  /**
   * When fewer than `low` pages are free, `wanted` says how many to free until `high` are. Default 0 and 0: when allocation fails.
   */
  watermarks?: { low: number; high: number };
  /** Told when a page is held no more: what waited for a transfer may have room now. It must not call the pool. */
  onUnheld?: () => void;
}

/** The order in which a page counts: by the first kind of holder that it has. */
const HELD = 0;
const LEASED = 1;
const CACHED = 2;
const FREE = 3;
const HOLDERS = ["held", "leased", "cached"] as const satisfies readonly Holder[];
const KIND: Readonly<Record<Holder, number>> = { held: HELD, leased: LEASED, cached: CACHED };

/**
 * Pages of cells and who holds them. The pool knows numbers only: the cells themselves lie wherever the engine keeps them. Pages are
 * taken and given back through leases; nothing else frees. Taking and giving back cost the same for every page, whatever the pool.
 */
export class PagePool {
  readonly pages: number;
  readonly pageSize: number;
  readonly pageBytes: number;
  readonly #watermarks: { low: number; high: number };
  readonly #ledger: Ledger;
  /** References of a page by kind of holder: `#references[page · 3 + kind]`. */
  readonly #references: Int32Array;
  /** Pages by the kind they count as. */
  readonly #counts = new Int32Array(4);
  /** Free pages that never held cells or were zeroed since, and free pages that hold what was there. The last to come goes first. */
  readonly #clean: Stack;
  readonly #dirty: Stack;
  /** Who is charged for the page. */
  readonly #account: string[];
  readonly #onUnheld: () => void;
  readonly #stale: Stack;
  /** 1: the page is among the stale ones already. */
  readonly #isStale: Uint8Array;
  #leases = 0;
  #short = false;

  constructor(options: PagePoolOptions) {
    const { pages, pageSize = 16, pageBytes = 0, watermarks = { low: 0, high: 0 } } = options;
    whole(pages, 1, "pages");
    whole(pageSize, 1, "pageSize");
    whole(pageBytes, 0, "pageBytes");
    whole(watermarks.low, 0, "watermarks.low");
    whole(watermarks.high, watermarks.low, "watermarks.high");
    whole(pages, watermarks.high, "pages");
    this.pages = pages;
    this.pageSize = pageSize;
    this.pageBytes = pageBytes;
    this.#watermarks = watermarks;
    this.#ledger = new Ledger(inPages(options), "pages");
    this.#onUnheld = options.onUnheld ?? (() => {});
    this.#references = new Int32Array(pages * 3);
    this.#counts[FREE] = pages;
    this.#clean = new Stack(pages);
    this.#dirty = new Stack(pages);
    this.#stale = new Stack(pages);
    this.#isStale = new Uint8Array(pages);
    for (let page = pages - 1; page >= 0; page--) this.#clean.push(page);
    this.#account = Array.from<string>({ length: pages }).fill("");
  }

  /** Pages that nobody holds. */
  get free(): number {
    return this.#counts[FREE]!;
  }

  /** Leases that have not been released. */
  get leases(): number {
    return this.#leases;
  }

  /** Pages to free now: from the moment that fewer than the low mark are free until the high mark is reached. */
  get wanted(): number {
    if (this.free < this.#watermarks.low) this.#short = true;
    if (this.free >= this.#watermarks.high) this.#short = false;
    return this.#short ? this.#watermarks.high - this.free : 0;
  }

  /** Pages that an account is charged for, and what it may have. */
  usage(account: string): { pages: number; pagesMax: number } {
    return { pages: this.#ledger.usedBy(account), pagesMax: Math.min(this.#ledger.budgetOf(account), this.pages) };
  }

  /**
   * Takes `count` pages, all or none, and charges `account` for them. The lease covers all their cells and is their one writer.
   * `pages_exhausted` when fewer are free, `budget_exceeded` when the account has not so many left. Pages that held cells before are
   * named once by `takeStale`.
   */
  allocate(count: number, holder: Holder, account = ""): CellLease {
    if (!Number.isInteger(count) || count < 0) throw new KvstoreError("argument_invalid", `a number of pages was expected, not ${count}`, "count");
    if (count > this.free) {
      throw new KvstoreError("pages_exhausted", `${count} pages were asked for, ${this.free} of ${this.pages} are free`, "count");
    }
    this.#ledger.take(account, count);
    const pages = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      const dirty = this.#dirty.size > 0;
      const page = dirty ? this.#dirty.pop() : this.#clean.pop();
      if (dirty && this.#isStale[page] === 0) {
        this.#isStale[page] = 1;
        this.#stale.push(page);
      }
      this.#account[page] = account;
      pages[i] = page;
    }
    return new CellLease(this, this.#port, pages, 0, count * this.pageSize, holder, true);
  }

  /** Pages for `cells` cells that begin at the start of a page. */
  allocateCells(cells: number, holder: Holder, account = ""): CellLease {
    return this.allocate(Math.ceil(cells / this.pageSize), holder, account);
  }

  /**
   * The pages allocated since the last call that held cells before: zero them before the next step (a masked score of 0 times a NaN
   * left behind is NaN).
   */
  takeStale(): Int32Array {
    const stale = this.#stale.takeAll();
    for (const page of stale) this.#isStale[page] = 0;
    return stale;
  }

  /**
   * The free pages that still hold what was there: zero them before anything is allocated, for instance after an erasure. They count
   * as zeroed from this call on.
   */
  takeDirty(): Int32Array {
    const dirty = this.#dirty.takeAll();
    for (const page of dirty) this.#clean.push(page);
    return dirty;
  }

  /** What a page counts as; null: it is free. */
  holderOf(page: number): Holder | null {
    return ([...HOLDERS, null] as const)[this.#kind(page)]!;
  }

  /** Kept while pages come and go; `free + cached + leased + held = total` always. */
  audit(): Audit {
    return {
      total: this.pages,
      free: this.#counts[FREE]!,
      cached: this.#counts[CACHED]!,
      leased: this.#counts[LEASED]!,
      held: this.#counts[HELD]!,
    };
  }

  /** Throws `pool_damaged` unless all that is kept is what the pages say. Looks at every page: for tests. */
  checkIntegrity(): void {
    const counts = [0, 0, 0, 0];
    const charged = new Map<string, number>();
    for (let page = 0; page < this.pages; page++) {
      const kind = this.#kind(page);
      counts[kind]!++;
      if (kind !== FREE) charged.set(this.#account[page]!, (charged.get(this.#account[page]!) ?? 0) + 1);
    }
    const free = new Set([...this.#clean.items(), ...this.#dirty.items()]);
    const wrong =
      counts.some((count, kind) => count !== this.#counts[kind]) ||
      free.size !== counts[FREE] ||
      this.#clean.size + this.#dirty.size !== free.size ||
      [...free].some((page) => this.#kind(page) !== FREE) ||
      this.#references.some((references) => references < 0) ||
      [...charged, ...this.#ledger.entries()].some(([account]) => charged.get(account) !== this.#ledger.usedBy(account));
    if (wrong) throw new KvstoreError("pool_damaged", `pages say [${counts}], kept [${[...this.#counts]}], ${free.size} pages in the free lists`);
  }

  /** What leases may do to the pool. */
  readonly #port: PoolPort = {
    opened: () => this.#leases++,
    closed: () => this.#leases--,
    hold: (pages, first, end, holder) => {
      for (let i = first; i < end; i++) this.#change(pages[i]!, KIND[holder], 1);
    },
    drop: (pages, first, end, holder) => {
      for (let i = first; i < end; i++) this.#change(pages[i]!, KIND[holder], -1);
    },
  };

  #kind(page: number): number {
    const at = page * 3;
    if (this.#references[at]! > 0) return HELD;
    if (this.#references[at + 1]! > 0) return LEASED;
    return this.#references[at + 2]! > 0 ? CACHED : FREE;
  }

  #change(page: number, kind: number, by: 1 | -1): void {
    const before = this.#kind(page);
    this.#references[page * 3 + kind]! += by;
    const after = this.#kind(page);
    if (before === after) return;
    this.#counts[before]!--;
    this.#counts[after]!++;
    if (after === FREE) {
      this.#dirty.push(page);
      this.#ledger.give(this.#account[page]!, 1);
      this.#account[page] = "";
    }
    if (before === HELD) this.#onUnheld();
  }
}

function whole(value: number, least: number, param: string): void {
  if (!Number.isInteger(value) || value < least) throw new KvstoreError("argument_invalid", `${param} must be ${least} or more, not ${value}`, param);
}

/** Both budgets as pages; the smaller one of an account holds. */
function inPages({ budgets = {}, byteBudgets = {}, pageBytes = 0 }: PagePoolOptions): Budgets {
  const bounded = byteBudgets.each !== undefined || Object.keys(byteBudgets.accounts ?? {}).length > 0;
  if (bounded && pageBytes === 0) throw new KvstoreError("argument_invalid", "a budget of bytes needs the bytes of a page", "pageBytes");
  const least = (pages: number | undefined, bytes: number | undefined) =>
    Math.min(pages ?? Infinity, bytes === undefined ? Infinity : Math.floor(bytes / pageBytes));
  const names = new Set([...Object.keys(budgets.accounts ?? {}), ...Object.keys(byteBudgets.accounts ?? {})]);
  const of = (account: string) => least(budgets.accounts?.[account] ?? budgets.each, byteBudgets.accounts?.[account] ?? byteBudgets.each);
  return { each: least(budgets.each, byteBudgets.each), accounts: Object.fromEntries([...names].map((account) => [account, of(account)])) };
}

/** Numbers, last in, first out, at most as many as there are pages. */
class Stack {
  readonly #items: Int32Array;
  #size = 0;

  constructor(max: number) {
    this.#items = new Int32Array(max);
  }

  get size(): number {
    return this.#size;
  }

  push(item: number): void {
    this.#items[this.#size++] = item;
  }

  pop(): number {
    return this.#items[--this.#size]!;
  }

  takeAll(): Int32Array {
    const all = this.#items.slice(0, this.#size);
    this.#size = 0;
    return all;
  }

  items(): Int32Array {
    return this.#items.subarray(0, this.#size);
  }
}

export interface PoolPort {
  opened(): void;
  closed(): void;
  hold(pages: Int32Array, first: number, end: number, holder: Holder): void;
  drop(pages: Int32Array, first: number, end: number, holder: Holder): void;
}
