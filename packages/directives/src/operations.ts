import type { Range } from "./types.ts";

/**
 * What verbs lower to, and nothing else. `at` is the boundary: the log token that the operation stands before. Ranges are log tokens
 * in ascending order without overlap.
 */
export type Operation = HideOperation | CompactOperation;

/** Queries from the boundary on do not see the cells of the ranges. */
export interface HideOperation {
  kind: "hide";
  at: number;
  ranges: readonly Range[];
}

/** The visible cells take positions 0…n−1 in order, the counter becomes n. */
export interface CompactOperation {
  kind: "compact";
  at: number;
  /** Whether an empty visible set is an error (AKV) instead of counter 0. */
  refuseEmpty?: boolean | undefined;
}

/** What a directive came to before any cell is looked at. */
export interface Lowered {
  /** The directive's own boundary, as the report names it. */
  at: number;
  /** What the target resolved to; absent for verbs without one. */
  ranges?: readonly Range[] | undefined;
  operations: readonly Operation[];
  /** Why there is nothing to do, where `operations` is empty. */
  reason?: string | undefined;
}
