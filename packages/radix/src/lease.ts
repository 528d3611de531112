import { RadixError } from "./errors.ts";
import { endOf, type Node } from "./node.ts";
import type { PinBook } from "./pins.ts";
import type { NodeStore, Stretch } from "./store.ts";
import type { Difference, MatchEnd, MatchLease, MatchSpan, Pin, PinOptions } from "./types.ts";

/** Ranks that the tree itself gives or knows. Any number is a rank. */
export const RANK = {
  /** No planned or leased query reads the cells. */
  unread: -2,
  /** Reasoning that later turns never see, side calls. */
  low: -1,
  normal: 0,
} as const;

/** A lease on the cells [start, length) of a path. It knows only its deepest node: the others are its ancestors, also after a split. */
export class PathLease<V> implements MatchLease<V> {
  readonly start: number;
  readonly length: number;
  readonly end: MatchEnd;
  readonly difference: Difference | null;
  readonly #store: NodeStore<V>;
  readonly #pins: PinBook<V>;
  /** Null where nothing matched, and after `release`. */
  #last: Node<V> | null;
  #spans: MatchSpan<V>[] = [];
  /** Ranges that the holder does not read. */
  #skipped: (readonly [from: number, to: number])[] = [];
  #released = false;

  /** `last` is null where nothing matched; otherwise its end is the lease's. */
  constructor(store: NodeStore<V>, pins: PinBook<V>, last: Node<V> | null, start: number, end: MatchEnd, difference: Difference | null) {
    this.#store = store;
    this.#pins = pins;
    this.#last = last;
    this.start = start;
    this.length = last === null ? start : endOf(last);
    this.end = end;
    this.difference = difference;
    store.leases++;
    if (last === null) return;
    for (let node = last; endOf(node) > start; node = node.parent!) {
      store.read(node);
      this.#spans.push({ start: node.start, length: node.length, value: node.value === null ? null : store.ops.retain(node.value) });
    }
    this.#spans.reverse();
    store.touch(last);
  }

  get spans(): readonly MatchSpan<V>[] {
    return this.#spans;
  }

  skip(from: number, to: number): void {
    const stretch = this.#stretch(from, to);
    if (stretch === null) return;
    for (let node = stretch.last; endOf(node) > stretch.start; node = node.parent!) {
      if (this.#skips(node.start)) continue;
      node.skips++;
      this.#store.unread(node);
      if (node.leases === 0) this.#store.rerank(node, RANK.unread);
      this.#store.settle(node);
    }
    this.#dropValues(stretch.start, endOf(stretch.last));
    this.#skipped.push([stretch.start, endOf(stretch.last)]);
  }

  rank(from: number, to: number, rank: number): void {
    const stretch = this.#stretch(from, to);
    if (stretch === null) return;
    for (let node = stretch.last; endOf(node) > stretch.start; node = node.parent!) this.#store.rerank(node, rank);
  }

  pin(from: number, to: number, options: PinOptions): Pin {
    const stretch = this.#stretch(from, to);
    return this.#pins.add(stretch, options);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    const store = this.#store;
    store.leases--;
    const last = this.#last;
    if (last === null) return;
    this.#last = null;
    for (let node = last; endOf(node) > this.start; node = node.parent!) {
      if (this.#skips(node.start)) node.skips--;
      else store.unread(node);
    }
    store.touch(last);
    store.prune(last);
    for (const span of this.#spans) if (span.value !== null) store.ops.release(span.value);
    this.#spans = [];
  }

  #skips(cell: number): boolean {
    return this.#skipped.some(([from, to]) => from <= cell && cell < to);
  }

  /** The nodes of [from, to), after splits at its ends. Null: none. */
  #stretch(from: number, to: number): Stretch<V> | null {
    if (this.#released) throw new RadixError("lease_released", "this lease was released");
    if (!Number.isInteger(from) || !Number.isInteger(to) || from < this.start || from > to || to > this.length) {
      throw new RadixError("path_invalid", `[${from}, ${to}) is no part of the leased cells [${this.start}, ${this.length})`, "from");
    }
    return this.#last === null || from === to ? null : this.#store.stretch(this.#last, from, to);
  }

  /** Gives back what this lease holds of [from, to), at whose ends nodes end, but not necessarily spans: nodes were split since. */
  #dropValues(from: number, to: number): void {
    const { ops } = this.#store;
    const kept: MatchSpan<V>[] = [];
    for (const { start, length, value } of this.#spans) {
      const end = start + length;
      const cuts = [start, Math.min(Math.max(from, start), end), Math.min(Math.max(to, start), end), end];
      let rest = value;
      for (let i = 0; i < 3; i++) {
        const [first, last] = [cuts[i]!, cuts[i + 1]!];
        if (first === last) continue;
        let part = rest;
        if (rest !== null && last < end) [part, rest] = ops.split(rest, last - first);
        if (i === 1 && part !== null) {
          ops.release(part);
          part = null;
        }
        kept.push({ start: first, length: last - first, value: part });
      }
    }
    this.#spans = kept;
  }
}
