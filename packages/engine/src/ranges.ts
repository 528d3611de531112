/** A set of whole numbers as disjoint half-open ranges, ascending. */
export class RangeSet {
  /** start, end, start, end, … */
  readonly #bounds: number[] = [];

  get total(): number {
    let total = 0;
    for (let i = 0; i < this.#bounds.length; i += 2) total += this.#bounds[i + 1]! - this.#bounds[i]!;
    return total;
  }

  get isEmpty(): boolean {
    return this.#bounds.length === 0;
  }

  /** Adds [start, end). Cheap at the end, where most ranges come. */
  add(start: number, end: number): void {
    if (start >= end) return;
    const bounds = this.#bounds;
    const from = this.#firstReaching(start);
    let to = from;
    let low = start;
    let high = end;
    for (; to < bounds.length && bounds[to]! <= end; to += 2) {
      low = Math.min(low, bounds[to]!);
      high = Math.max(high, bounds[to + 1]!);
    }
    if (from === bounds.length) bounds.push(low, high);
    else bounds.splice(from, to - from, low, high);
  }

  /** Adds what is in `other` and not in `except`. */
  addAll(other: RangeSet): void {
    for (const [start, end] of other.ranges()) this.add(start, end);
  }

  has(value: number): boolean {
    const at = this.#firstReaching(value + 1);
    return at < this.#bounds.length && this.#bounds[at]! <= value;
  }

  /** How many numbers of [start, end) are in the set. */
  countWithin(start: number, end: number): number {
    let count = 0;
    for (let i = this.#firstReaching(start); i < this.#bounds.length && this.#bounds[i]! < end; i += 2) {
      count += Math.max(0, Math.min(end, this.#bounds[i + 1]!) - Math.max(start, this.#bounds[i]!));
    }
    return count;
  }

  /** How many numbers are in both sets. */
  countShared(other: RangeSet): number {
    let count = 0;
    for (const [start, end] of other.ranges()) count += this.countWithin(start, end);
    return count;
  }

  /** The numbers of [start, end) that are not in the set. */
  *gaps(start: number, end: number): Generator<[number, number]> {
    let at = start;
    for (let i = this.#firstReaching(start); i < this.#bounds.length && this.#bounds[i]! < end; i += 2) {
      if (this.#bounds[i]! > at) yield [at, this.#bounds[i]!];
      at = Math.max(at, this.#bounds[i + 1]!);
    }
    if (at < end) yield [at, end];
  }

  *ranges(): Generator<[number, number]> {
    for (let i = 0; i < this.#bounds.length; i += 2) yield [this.#bounds[i]!, this.#bounds[i + 1]!];
  }

  /** Index in `#bounds` of the first range that ends at or behind `value`. */
  #firstReaching(value: number): number {
    let low = 0;
    let high = this.#bounds.length / 2;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#bounds[2 * middle + 1]! >= value) high = middle;
      else low = middle + 1;
    }
    return 2 * low;
  }
}
