import { Ledger, type Budgets } from "./budget.ts";
import type { Entry } from "./block-index.ts";

/** What one tier holds, in order of last use, within its bytes and the budgets of accounts. */
export class Shelf {
  readonly bytesMax: number;
  readonly #blockBytes: number;
  readonly #ledger: Ledger;
  /** Least recently used first. */
  readonly #order = new Set<Entry>();
  readonly #ofAccount = new Map<string, Set<Entry>>();
  /** Bytes that are on their way here. */
  #coming = 0;

  constructor(bytesMax: number, blockBytes: number, budgets: Budgets) {
    this.bytesMax = bytesMax;
    this.#blockBytes = blockBytes;
    this.#ledger = new Ledger(budgets, "bytes");
  }

  get blocks(): number {
    return this.#order.size;
  }

  /** Of what is here and on its way. */
  get bytes(): number {
    return this.#order.size * this.#blockBytes + this.#coming;
  }

  has(entry: Entry): boolean {
    return this.#order.has(entry);
  }

  entries(): IterableIterator<Entry> {
    return this.#order.values();
  }

  usage(account: string): { bytes: number; bytesMax: number } {
    return { bytes: this.#ledger.usedBy(account), bytesMax: Math.min(this.#ledger.budgetOf(account), this.bytesMax) };
  }

  /** Whether a block of the account could ever be here. */
  fits(account: string): boolean {
    return this.#blockBytes <= this.bytesMax && this.#blockBytes <= this.#ledger.budgetOf(account);
  }

  /** Makes the space of a block taken before its bytes come: what is written is never more than the limits say. */
  reserve(account: string): boolean {
    if (this.bytes + this.#blockBytes > this.bytesMax || this.#ledger.roomOf(account) < this.#blockBytes) return false;
    this.#coming += this.#blockBytes;
    this.#ledger.take(account, this.#blockBytes);
    return true;
  }

  /** The inverse of `reserve`, when nothing came. */
  cancel(account: string): void {
    this.#coming -= this.#blockBytes;
    this.#ledger.give(account, this.#blockBytes);
  }

  /** What was reserved has come. */
  arrive(entry: Entry): void {
    this.#coming -= this.#blockBytes;
    this.#shelve(entry);
  }

  /** Found when the tier was opened. False: there is no room for it. */
  restore(entry: Entry): boolean {
    if (!this.reserve(entry.account)) return false;
    this.arrive(entry);
    return true;
  }

  touch(entry: Entry): void {
    if (!this.#order.delete(entry)) return;
    this.#order.add(entry);
    const mine = this.#ofAccount.get(entry.account)!;
    mine.delete(entry);
    mine.add(entry);
  }

  remove(entry: Entry): void {
    if (!this.#order.delete(entry)) return;
    const mine = this.#ofAccount.get(entry.account)!;
    mine.delete(entry);
    if (mine.size === 0) this.#ofAccount.delete(entry.account);
    this.#ledger.give(entry.account, this.#blockBytes);
  }

  /** What must go, and is not going already, so that `wanted` more blocks of an account fit: the account's own first where its budget is short. */
  victims(account: string, wanted: number): Entry[] {
    const overAccount = Math.ceil((wanted * this.#blockBytes - this.#ledger.roomOf(account)) / this.#blockBytes);
    const victims = new Set<Entry>();
    for (const entry of this.#ofAccount.get(account) ?? []) {
      if (victims.size >= overAccount) break;
      if (entry.moving === 0) victims.add(entry);
    }
    const over = Math.ceil((this.bytes + wanted * this.#blockBytes - this.bytesMax) / this.#blockBytes);
    for (const entry of this.#order) {
      if (victims.size >= over) break;
      if (entry.moving === 0) victims.add(entry);
    }
    return [...victims];
  }

  /** The least recently used blocks beyond a share of the whole, at most `max`. */
  surplus(share: number, max: number): Entry[] {
    const over = Math.min(max, Math.ceil((this.bytes - share * this.bytesMax) / this.#blockBytes));
    const entries: Entry[] = [];
    for (const entry of this.#order) {
      if (entries.length >= over) break;
      if (entry.moving === 0) entries.push(entry);
    }
    return entries;
  }

  #shelve(entry: Entry): void {
    this.#order.add(entry);
    const mine = this.#ofAccount.get(entry.account) ?? new Set();
    this.#ofAccount.set(entry.account, mine.add(entry));
  }
}
