import { RadixError } from "./errors.ts";
import { Heap } from "./heap.ts";
import { endOf } from "./node.ts";
import type { NodeStore, Stretch } from "./store.ts";
import type { Pin, PinOptions } from "./types.ts";

/** Pins of all accounts: within budgets, ending by themselves, and never in the way of an eviction that may revoke them. */
export class PinBook<V> {
  readonly #store: NodeStore<V>;
  readonly #clock: () => number;
  readonly #byEnd = new Heap<StretchPin<V>>((one, other) => one.until < other.until);
  readonly #cells = new Map<string, number>();
  #total = 0;

  constructor(store: NodeStore<V>, clock: () => number) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Pinned cells, each as often as it is pinned. */
  get cells(): number {
    return this.#total;
  }

  cellsOf(account: string): number {
    this.expire();
    return this.#cells.get(account) ?? 0;
  }

  add(stretch: Stretch<V> | null, options: PinOptions): Pin {
    this.expire();
    const { pinsMax, pinnedCellsMax } = this.#store.limits;
    const cells = stretch === null ? 0 : endOf(stretch.last) - stretch.start;
    const held = this.#cells.get(options.account) ?? 0;
    if (held + cells > pinnedCellsMax) {
      const message = `account ${options.account} has ${held} of at most ${pinnedCellsMax} pinned cells, ${cells} more do not fit`;
      throw new RadixError("pins_exceeded", message, "account");
    }
    if (this.#byEnd.size >= pinsMax) throw new RadixError("pins_exceeded", `there are ${pinsMax} pins already`);
    const pin = new StretchPin<V>(this, stretch, cells, options);
    if (cells === 0) return pin;
    this.#byEnd.put(pin);
    this.#count(options.account, cells);
    this.#walk(pin, 1);
    return pin;
  }

  /** Ends what has run out. Called before every eviction. */
  expire(): void {
    const first = this.#byEnd.first();
    if (first === null || first.until === Infinity) return;
    const now = this.#clock();
    for (let pin = this.#byEnd.first(); pin !== null && pin.until <= now; pin = this.#byEnd.first()) this.remove(pin);
  }

  remove(pin: StretchPin<V>): void {
    if (!this.#byEnd.holds(pin)) return;
    this.#byEnd.remove(pin);
    this.#count(pin.account, -pin.cells);
    this.#walk(pin, -1);
  }

  holds(pin: StretchPin<V>): boolean {
    return this.#byEnd.holds(pin);
  }

  disorder(): boolean {
    return this.#byEnd.disorder() !== null || [...this.#cells.values()].reduce((sum, cells) => sum + cells, 0) !== this.#total;
  }

  #count(account: string, cells: number): void {
    const now = (this.#cells.get(account) ?? 0) + cells;
    if (now === 0) this.#cells.delete(account);
    else this.#cells.set(account, now);
    this.#total += cells;
  }

  #walk(pin: StretchPin<V>, by: 1 | -1): void {
    const { last, start } = pin.stretch!;
    for (let node = last; endOf(node) > start; node = node.parent!) {
      node.pins += by;
      this.#store.settle(node);
    }
    if (by < 0) this.#store.prune(last);
  }
}

class StretchPin<V> implements Pin {
  readonly stretch: Stretch<V> | null;
  readonly cells: number;
  readonly account: string;
  readonly until: number;
  heapIndex = -1;
  readonly #book: PinBook<V>;

  constructor(book: PinBook<V>, stretch: Stretch<V> | null, cells: number, { account, until }: PinOptions) {
    this.#book = book;
    this.stretch = stretch;
    this.cells = cells;
    this.account = account;
    this.until = until;
  }

  get active(): boolean {
    return this.#book.holds(this);
  }

  release(): void {
    this.#book.remove(this);
  }
}
