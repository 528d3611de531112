import type { Node } from "./node.ts";
import type { NodeStore } from "./store.ts";
import type { Difference, MatchEnd, MatchLease, MatchSpan } from "./types.ts";

/** A lease on the cells [start, length) of a path. It knows only its deepest node: the others are its ancestors, also after a split. */
export class PathLease<V> implements MatchLease<V> {
  readonly start: number;
  readonly length: number;
  readonly spans: readonly MatchSpan<V>[];
  readonly end: MatchEnd;
  readonly difference: Difference | null;
  readonly #store: NodeStore<V>;
  #last: Node<V> | null;

  /** `last` is null where nothing matched; otherwise its end is the lease's. */
  constructor(store: NodeStore<V>, last: Node<V> | null, start: number, end: MatchEnd, difference: Difference | null) {
    this.#store = store;
    this.#last = last;
    this.start = start;
    this.length = last === null ? start : last.start + last.length;
    this.end = end;
    this.difference = difference;
    const spans: MatchSpan<V>[] = [];
    if (last !== null) {
      store.pin(last, start);
      for (let node = last; node.length > 0 && node.start >= start; node = node.parent!) {
        spans.push({ start: node.start, length: node.length, value: node.value === null ? null : store.ops.retain(node.value) });
      }
    }
    this.spans = spans.reverse();
  }

  release(): void {
    const last = this.#last;
    if (last === null) return;
    this.#last = null;
    this.#store.unpin(last, this.start);
    for (const span of this.spans) if (span.value !== null) this.#store.ops.release(span.value);
  }
}
