import { endOf, type Node } from "./node.ts";
import type { Evicted, MatchSpan, Path, PathEvent } from "./types.ts";

/** What is told of a node before it is evicted. */
export function evictedNode<V>(node: Node<V>): Evicted<V> {
  let root = node;
  while (root.parent !== null) root = root.parent;
  return {
    namespace: root.event!,
    start: node.start,
    length: node.length,
    value: node.value!,
    before: (cells) => spansBefore(node, cells),
    path: () => pathTo(node),
  };
}

function spansBefore<V>(node: Node<V>, cells: number): MatchSpan<V>[] {
  const spans: MatchSpan<V>[] = [];
  for (let at = node.parent!; at.parent !== null && endOf(at) > node.start - cells; at = at.parent) {
    spans.push({ start: at.start, length: at.length, value: at.value });
  }
  return spans.toReversed();
}

/** Tokens and events from the root to the end of `node`. */
export function pathTo<V>(node: Node<V>): Path {
  const tokens = new Int32Array(endOf(node));
  const events: PathEvent[] = [];
  for (let at = node; at.parent !== null; at = at.parent) {
    tokens.set(at.block.tokens.subarray(at.offset, at.offset + at.length), at.start);
    if (at.event !== null) events.push({ at: at.start, key: at.event });
  }
  return { tokens, events: events.toReversed() };
}
