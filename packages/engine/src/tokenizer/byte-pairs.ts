import type { Merges } from "./merges.ts";
import { runAtOnce } from "./slices.ts";

/** Words up to this many bytes are merged by scanning for the lowest rank; longer ones with a heap. */
const SCAN_BYTES_MAX = 40;

/** Merges done between two chances to pause. */
const MERGES_PER_PAUSE = 2_048;

/** Bytes of a word looked at between two chances to pause. */
const BYTES_PER_PAUSE = 16_384;

/** Symbols of a merged word and the byte each begins at. Views of scratch memory: valid until the next call. */
export interface MergedWord {
  symbols: Int32Array;
  starts: Int32Array;
}

/**
 * Merges the bytes of words, always the pair of lowest rank and among equals the leftmost. O(n log n) in the length of a word, so a
 * megabyte without a blank is no trap.
 */
export class BytePairMerger {
  readonly #merges: Merges;
  readonly #symbols = new Int32Array(SCAN_BYTES_MAX);
  readonly #starts = new Int32Array(SCAN_BYTES_MAX);
  readonly #ranks = new Int32Array(SCAN_BYTES_MAX);

  constructor(merges: Merges) {
    this.#merges = merges;
  }

  merge(bytes: Uint8Array): MergedWord {
    return bytes.length <= SCAN_BYTES_MAX ? this.#scan(bytes) : runAtOnce(mergeWithHeap(bytes, this.#merges));
  }

  /** The same for a word of any length, with chances to pause. */
  *mergeInSteps(bytes: Uint8Array): Generator<void, MergedWord> {
    return bytes.length <= SCAN_BYTES_MAX ? this.#scan(bytes) : yield* mergeWithHeap(bytes, this.#merges);
  }

  #scan(bytes: Uint8Array): MergedWord {
    const merges = this.#merges;
    const symbols = this.#symbols;
    const starts = this.#starts;
    const ranks = this.#ranks;
    let count = bytes.length;
    for (let index = 0; index < count; index += 1) {
      symbols[index] = merges.symbolOfByte[bytes[index] as number] as number;
      starts[index] = index;
      if (index > 0) ranks[index - 1] = merges.rank(symbols[index - 1] as number, symbols[index] as number);
    }
    for (;;) {
      let best = -1;
      for (let index = 0; index + 1 < count; index += 1) {
        const rank = ranks[index] as number;
        if (rank >= 0 && (best < 0 || rank < (ranks[best] as number))) best = index;
      }
      if (best < 0) break;
      symbols[best] = merges.result[ranks[best] as number] as number;
      symbols.copyWithin(best + 1, best + 2, count);
      starts.copyWithin(best + 1, best + 2, count);
      ranks.copyWithin(best, best + 1, count - 1);
      count -= 1;
      if (best > 0) ranks[best - 1] = merges.rank(symbols[best - 1] as number, symbols[best] as number);
      if (best + 1 < count) ranks[best] = merges.rank(symbols[best] as number, symbols[best + 1] as number);
    }
    return { symbols: symbols.subarray(0, count), starts: starts.subarray(0, count) };
  }
}

/** A heap of numbers, smallest first. Four children a node: half the levels, and the children of a node share a cache line. */
class NumberHeap {
  readonly #values: Float64Array;
  #size: number;

  /** @param values room for all that will ever be in it at once; the first `size` are in it, once they are `ordered` */
  constructor(values: Float64Array, size: number) {
    this.#values = values;
    this.#size = size;
  }

  *ordered(): Generator<void> {
    for (let at = (this.#size - 2) >> 2; at >= 0; at -= 1) {
      this.#sink(at, this.#values[at] as number);
      if (at % BYTES_PER_PAUSE === 0) yield;
    }
  }

  push(value: number): void {
    const values = this.#values;
    let at = this.#size;
    this.#size += 1;
    while (at > 0) {
      const parent = (at - 1) >> 2;
      if ((values[parent] as number) <= value) break;
      values[at] = values[parent] as number;
      at = parent;
    }
    values[at] = value;
  }

  /** The smallest value, or −1 when there is none. */
  pop(): number {
    if (this.#size === 0) return -1;
    const smallest = this.#values[0] as number;
    this.#size -= 1;
    this.#sink(0, this.#values[this.#size] as number);
    return smallest;
  }

  #sink(from: number, value: number): void {
    const values = this.#values;
    const size = this.#size;
    let at = from;
    for (;;) {
      const first = 4 * at + 1;
      if (first >= size) break;
      const last = Math.min(first + 4, size);
      let child = first;
      for (let other = first + 1; other < last; other += 1) if ((values[other] as number) < (values[child] as number)) child = other;
      if ((values[child] as number) >= value) break;
      values[at] = values[child] as number;
      at = child;
    }
    values[at] = value;
  }
}

/** An entry of the heap is rank · 2³² + the byte where the left symbol begins: the order in which merges are done. */
const ENTRY_BASE = 2 ** 32;

/** The symbols stand in a linked list by the byte they begin at; an entry whose pair has changed since is passed over. */
function* mergeWithHeap(bytes: Uint8Array, merges: Merges): Generator<void, MergedWord> {
  const length = bytes.length;
  const symbols = new Int32Array(length);
  const next = new Int32Array(length);
  const previous = new Int32Array(length);
  const ranks = new Int32Array(length).fill(-1);
  // Each merge ends one symbol and looks at two pairs, so there are fewer than 3n entries in all.
  const entries = new Float64Array(3 * length);
  let count = 0;
  for (let at = 0; at < length; at += 1) {
    symbols[at] = merges.symbolOfByte[bytes[at] as number] as number;
    next[at] = at + 1 < length ? at + 1 : -1;
    previous[at] = at - 1;
    if (at === 0) continue;
    if (at % BYTES_PER_PAUSE === 0) yield;
    const rank = merges.rank(symbols[at - 1] as number, symbols[at] as number);
    ranks[at - 1] = rank;
    if (rank >= 0) entries[count++] = rank * ENTRY_BASE + at - 1;
  }
  const heap = new NumberHeap(entries, count);
  yield* heap.ordered();
  const look = (left: number, right: number) => {
    const rank = merges.rank(symbols[left] as number, symbols[right] as number);
    ranks[left] = rank;
    if (rank >= 0) heap.push(rank * ENTRY_BASE + left);
  };

  let popped = 0;
  for (let entry = heap.pop(); entry >= 0; entry = heap.pop()) {
    popped += 1;
    if (popped % MERGES_PER_PAUSE === 0) yield;
    const rank = Math.floor(entry / ENTRY_BASE);
    const left = entry - rank * ENTRY_BASE;
    if (ranks[left] !== rank) continue;
    const right = next[left] as number;
    const after = next[right] as number;
    symbols[left] = merges.result[rank] as number;
    ranks[left] = -1;
    ranks[right] = -1;
    next[left] = after;
    if (after >= 0) {
      previous[after] = left;
      look(left, after);
    }
    const before = previous[left] as number;
    if (before >= 0) look(before, left);
  }
  return compactList(symbols, next);
}

function compactList(symbols: Int32Array, next: Int32Array): MergedWord {
  const starts: number[] = [];
  for (let at = 0; at >= 0; at = next[at] as number) starts.push(at);
  return { symbols: Int32Array.from(starts, (at) => symbols[at] as number), starts: Int32Array.from(starts) };
}
