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
  /**
   * As `release`, of cells that must not be found anywhere afterwards (see `RadixTree.erase`). `isRead`: leases still read them, until
   * the erasure is complete. Absent: `release`.
   */
  erase?(value: V, isRead: boolean): void;
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
  /**
   * The holder reads none of the cells [from, to) and will not: it keeps their place and gives their values back now. What no other
   * lease reads has the lowest rank from then on (`RANK.unread`), until a match reads it again. Where the tree has no room to split
   * the nodes at the ends, they stay as they are.
   */
  skip(from: number, to: number): void;
  /** Says what the cells [from, to) are worth compared with all others: of lower rank goes first. A later match says 0 again. */
  rank(from: number, to: number, rank: number): void;
  /** Keeps the cells [from, to) longer than anything that is not pinned, within the account's budget (`pins_exceeded`). */
  pin(from: number, to: number, pin: PinOptions): Pin;
  /** Idempotent. */
  release(): void;
}

export interface PinOptions {
  /** Whose budget it is, for instance the tenant. */
  account: string;
  /** When it ends by itself, by the clock of the tree; `Infinity`: with `release` only. */
  until: number;
}

/** Cells that are evicted only when an eviction revokes pins, and then by the same order as others. */
export interface Pin {
  readonly cells: number;
  readonly account: string;
  readonly until: number;
  /** False once it was released or has expired. */
  readonly active: boolean;
  /** Idempotent. */
  release(): void;
}

/** What an eviction took, told before its value is released. */
export interface Evicted<V> {
  readonly namespace: string;
  /** First cell, counted from the root. */
  readonly start: number;
  readonly length: number;
  readonly value: V;
  /** What stands in front of it, as far up as to cover `cells` cells, nearest last. Nothing is leased: use it in this call only. */
  before(cells: number): readonly MatchSpan<V>[];
  /** Tokens and events of the whole path up to the end of what was evicted. Takes time proportional to its length. */
  path(): Path;
}

export interface ContentQuery {
  /**
   * Offer segments that were computed behind other cells than they would stand behind here. Reusing one changes the answer; whoever asks
   * for it says so. Default: no.
   */
  approximate?: boolean;
  /**
   * Whether cells at `sourceAt` of a path that the tree holds saw, and will see, the same as at `at` of the path asked for: the same
   * visible cells at the same distances. Only the caller can know, who knows what events mean. Default: never.
   */
  sameContext?: (source: Path, sourceAt: number, path: Path, at: number, length: number) => boolean;
  /** Segments at most. Default 64. */
  matchesMax?: number;
}

/** A stretch of a path that stands elsewhere in the tree, with cells. */
export interface ContentMatch<V> {
  /** First cell of the path that was asked for. */
  readonly at: number;
  readonly length: number;
  /** First cell on the path on which it was found, counted from the root. */
  readonly sourceAt: number;
  /** The path on which it was found, up to its end. */
  readonly source: Path;
  /** Reusing it gives the cells that computing would; otherwise it is a candidate for whoever accepts others. */
  readonly exact: boolean;
  /** Taken in the same call; release it. Its cells are the segment's. */
  readonly lease: MatchLease<V>;
}

/** Which cells an erasure is about: those of logs that have a certain text at a certain place, and all that was computed after it. */
export interface ErasePattern {
  /** Tokens of the log without any that events own, up to the end of the text that must go. */
  tokens: Int32Array;
  /** First token of that text. */
  from: number;
  /** A path whose own cells stay: that of the log as it is without the text. */
  except?: Path;
}

/** What an erasure did. */
export interface Erasure {
  /** Cells that lost their value. */
  readonly cells: number;
  readonly nodes: number;
  /** Pass it as `since` to later insertions of sequences that started before: they are refused if they would bring the cells back. */
  readonly epoch: number;
  /** Nodes that leases of others still read. */
  readonly readers: number;
  /** Resolves when no lease reads erased cells any more; at once when none did. */
  readonly complete: Promise<void>;
}

/** What the tree holds now. Cells of a hole have no value. */
export interface TreeStats {
  namespaces: number;
  nodes: number;
  holes: number;
  cells: number;
  holeCells: number;
  leases: number;
  /** Nodes that could be evicted now without revoking a pin. */
  candidates: number;
  pinnedCells: number;
  /** Tokens that are held in memory for the nodes' keys; about the nodes' own, at most about twice that. */
  tokensHeld: number;
}

/** Bounds of a tree. Reaching one is an error of kind `capacity`. */
export interface TreeLimits {
  nodesMax: number;
  namespacesMax: number;
  /** Cells of one path. */
  pathCellsMax: number;
  /** UTF-16 units of one event key. */
  eventKeyLengthMax: number;
  /** Pins at a time, of all accounts. */
  pinsMax: number;
  /** Pinned cells of one account. */
  pinnedCellsMax: number;
  /** Erasures that are remembered against insertions that started before them. */
  erasuresMax: number;
}
