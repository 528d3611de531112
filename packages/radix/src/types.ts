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

/** The next unit of a path and of the branch that it left: the event in front of a cell (null: none), and the cell's token. */
export interface PathUnit {
  event: string | null;
  token: number;
}

/** Where a path left what the tree knows, and what stood there: for a path that missed, the reason. */
export interface Difference {
  /** The first cell that differs, counted from the root. */
  cell: number;
  /** What the tree has there; of several branches the one that was used last. */
  known: PathUnit;
  /** What the path has there. */
  asked: PathUnit;
}

export type MatchEnd = "whole" | "token_differs" | "event_differs" | "unknown";

/**
 * A match. It was taken together with a lease on all of it: neither its nodes nor its values go away until `release`.
 * Its handles in `spans` belong to the lease; do not release them one by one.
 */
export interface MatchLease<V> {
  /** Cells of the path that the tree knows (holes included), counted from the root. */
  readonly length: number;
  /** The cells [start, length) in order. A match starts at 0, the lease of an insertion where the insertion began. */
  readonly spans: readonly MatchSpan<V>[];
  /** First cell of the lease. */
  readonly start: number;
  /** Why the match ended where it did: the whole path was found, or what differed there, or nothing is known behind it. */
  readonly end: MatchEnd;
  /** Present where a token or an event differed. */
  readonly difference: Difference | null;
  /** Idempotent. */
  release(): void;
}

/** What the tree holds now. Cells of a hole have no value. */
export interface TreeStats {
  namespaces: number;
  nodes: number;
  holes: number;
  cells: number;
  holeCells: number;
  leases: number;
  /** Nodes that could be evicted now. */
  candidates: number;
}

/** Bounds of a tree. Reaching one is an error of kind `capacity`. */
export interface TreeLimits {
  nodesMax: number;
  namespacesMax: number;
  /** Cells of one path. */
  pathCellsMax: number;
  /** UTF-16 units of one event key. */
  eventKeyLengthMax: number;
}
