import { RadixError } from "./errors.ts";
import { findChild, type Node } from "./node.ts";
import type { Difference, MatchEnd, Path, TreeLimits } from "./types.ts";

/** The deepest place of a path that the tree knows. */
export interface Place<V> {
  node: Node<V>;
  /** Cells of `node` that agree. */
  within: number;
  /** Cells of the path that agree: `node.start + within`. */
  cell: number;
  /** The first event of the path at or after `cell`. */
  nextEvent: number;
}

export function checkPath(path: Path, limits: TreeLimits): void {
  const length = path.tokens.length;
  if (length > limits.pathCellsMax) {
    throw new RadixError("path_too_long", `a path has at most ${limits.pathCellsMax} cells, this one has ${length}`, "path.tokens");
  }
  let previous = -1;
  for (let i = 0; i < path.events.length; i++) {
    const { at, key } = path.events[i]!;
    if (!Number.isInteger(at) || at <= previous || at > length) {
      throw new RadixError("path_invalid", `events must rise and lie in 0…${length}; event ${i} is at ${at}, after ${previous}`, `path.events[${i}].at`);
    }
    if (key.length > limits.eventKeyLengthMax) {
      const message = `an event key has at most ${limits.eventKeyLengthMax} characters, event ${i} has ${key.length}`;
      throw new RadixError("path_too_long", message, `path.events[${i}].key`);
    }
    previous = at;
  }
}

/** Cells that agree from `aOffset` and `bOffset` on, at most `length`. Eight at a time: a match of a long log is little else. */
export function commonLength(a: Int32Array, aOffset: number, b: Int32Array, bOffset: number, length: number): number {
  let i = 0;
  for (let p = aOffset, q = bOffset; i + 8 <= length; i += 8, p += 8, q += 8) {
    const head = (a[p]! ^ b[q]!) | (a[p + 1]! ^ b[q + 1]!) | (a[p + 2]! ^ b[q + 2]!) | (a[p + 3]! ^ b[q + 3]!);
    const tail = (a[p + 4]! ^ b[q + 4]!) | (a[p + 5]! ^ b[q + 5]!) | (a[p + 6]! ^ b[q + 6]!) | (a[p + 7]! ^ b[q + 7]!);
    if ((head | tail) !== 0) break;
  }
  while (i < length && a[aOffset + i] === b[bOffset + i]) i++;
  return i;
}

/** Follows `path` from `root` for at most `limit` cells. Changes nothing. */
export function walk<V>(root: Node<V>, path: Path, limit: number): Place<V> {
  const { tokens, events } = path;
  let node = root;
  let within = 0;
  let cell = 0;
  let nextEvent = 0;
  while (cell < limit) {
    const event = events[nextEvent]?.at === cell ? events[nextEvent]!.key : null;
    const child = findChild(node, event, tokens[cell]!);
    if (child === null) break;
    if (event !== null) nextEvent++;
    node = child;
    const stretch = Math.min(limit, events[nextEvent]?.at ?? limit) - cell;
    within = commonLength(node.block.tokens, node.offset, tokens, cell, Math.min(node.length, stretch));
    cell += within;
    if (within < node.length) break;
  }
  return { node, within, cell, nextEvent };
}

/** Why a walk that stopped at `place` went no further. */
export function explain<V>(place: Place<V>, path: Path, limit: number): { end: MatchEnd; difference: Difference | null } {
  const { node, within, cell, nextEvent } = place;
  if (cell === limit) return { end: "whole", difference: null };
  const inside = within < node.length;
  const next = inside ? node : node.recent;
  if (next === null) return { end: "unknown", difference: null };
  const known = { event: inside ? null : next.event, token: next.block.tokens[next.offset + (inside ? within : 0)]! };
  const event = path.events[nextEvent];
  const asked = { event: event?.at === cell ? event.key : null, token: path.tokens[cell]! };
  return { end: known.event === asked.event ? "token_differs" : "event_differs", difference: { cell, known, asked } };
}
