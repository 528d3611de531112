/**
 * A binary heap in which each item knows its place, so that an item enters, leaves and moves in O(log n) and nothing ever scans. The
 * candidates for eviction live in one.
 */
export class Heap<T extends { heapIndex: number }> {
  readonly #items: T[] = [];
  readonly #before: (one: T, other: T) => boolean;

  constructor(before: (one: T, other: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  /** The item that goes before all others. */
  first(): T | null {
    return this.#items[0] ?? null;
  }

  holds(item: T): boolean {
    return item.heapIndex >= 0 && this.#items[item.heapIndex] === item;
  }

  /** Adds the item, or moves it to where it now belongs. */
  put(item: T): void {
    if (!this.holds(item)) this.#set(this.#items.length, item);
    this.#sink(this.#rise(item.heapIndex));
  }

  /** Does nothing when the item is not here. */
  remove(item: T): void {
    if (!this.holds(item)) return;
    const index = item.heapIndex;
    item.heapIndex = -1;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#set(index, last);
    this.#sink(this.#rise(index));
  }

  /** Two places that stand in the wrong order, for integrity checks; null when there are none. */
  disorder(): [number, number] | null {
    for (let i = 1; i < this.#items.length; i++) {
      const parent = (i - 1) >> 1;
      if (this.#before(this.#items[i]!, this.#items[parent]!)) return [parent, i];
    }
    return null;
  }

  #set(index: number, item: T): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }

  #rise(from: number): number {
    const item = this.#items[from]!;
    let at = from;
    while (at > 0) {
      const parent = this.#items[(at - 1) >> 1]!;
      if (!this.#before(item, parent)) break;
      this.#set(at, parent);
      at = (at - 1) >> 1;
    }
    this.#set(at, item);
    return at;
  }

  #sink(from: number): void {
    const item = this.#items[from]!;
    let at = from;
    while (true) {
      let child = 2 * at + 1;
      if (child >= this.#items.length) break;
      if (child + 1 < this.#items.length && this.#before(this.#items[child + 1]!, this.#items[child]!)) child++;
      if (!this.#before(this.#items[child]!, item)) break;
      this.#set(at, this.#items[child]!);
      at = child;
    }
    this.#set(at, item);
  }
}
