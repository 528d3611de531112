/**
 * A path through the tree: the cells of a log in order of birth, and the events between them. Cell i is token `tokens[i]`; an event
 * stands immediately before cell `at`. Cells that an event owns (replacements) simply follow it. An event at `at = tokens.length`
 * has no cell behind it yet and is no part of a match.
 */
export interface Path {
  tokens: Int32Array;
  /** Ascending and unique in `at`. */
  events: readonly PathEvent[];
}

export interface PathEvent {
  at: number;
  /** Opaque; two events are the same exactly if their keys are equal. */
  key: string;
}

/**
 * What the tree needs to know of the values that its nodes hold: nothing but these. A value stands for the cells of its node, one
 * after another. The tree owns one handle to each value that it holds.
 */
export interface ValueOps<V> {
  /** Two handles for the cells [0, at) and [at, length); the one given is used up. */
  split(value: V, at: number): [V, V];
  /** A new handle to the same cells, for a lease. */
  retain(value: V): V;
  /** Gives a handle back, of a lease or of the tree. */
  release(value: V): void;
}

/** A part of a matched path that is one node's. `value` is null where the cells were evicted (a hole). */
export interface MatchSpan<V> {
  /** First cell, counted from the root. */
  start: number;
  length: number;
  value: V | null;
}

/**
 * A match. It was taken together with a lease on all of it: neither its nodes nor its values go away until `release`.
 * Its handles in `spans` belong to the lease; do not release them one by one.
 */
export interface MatchLease<V> {
  /** Cells of the path that the tree knows (holes included). */
  readonly length: number;
  readonly spans: readonly MatchSpan<V>[];
  /** Why the match ended where it did: the whole path was found, or what differed there, or nothing is known behind it. */
  readonly end: "whole" | "token_differs" | "event_differs" | "unknown";
  /** Idempotent. */
  release(): void;
}
