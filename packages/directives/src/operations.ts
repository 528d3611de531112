import type { Range } from "./types.ts";

/**
 * What verbs lower to, and nothing else. `at` is the boundary: the log token that the operation stands before. Ranges are log tokens
 * in ascending order without overlap; each lies wholly before its boundary.
 */
export type Operation = HideOperation | ReplaceOperation | CompactOperation | RetainOperation | EditOperation;

/** Queries from the boundary on do not see the cells of the ranges. */
export interface HideOperation {
  kind: "hide";
  at: number;
  ranges: readonly Range[];
}

/**
 * Hide, insert and shift in one: the tokens take the target's place and see only the visible cells before it; what follows moves up.
 * By how much can only be read from the positions at the boundary, so no verb can say it. `refresh` > 0: that many visible cells
 * behind the target are then computed again.
 */
export interface ReplaceOperation {
  kind: "replace";
  at: number;
  /** Empty: a pure insertion. */
  target: Range;
  tokens: Int32Array;
  refresh: number;
}

/** The visible cells take positions 0…n−1 in order, the counter becomes n. */
export interface CompactOperation {
  kind: "compact";
  at: number;
  /** Whether an empty visible set is an error (AKV) instead of counter 0. */
  refuseEmpty?: boolean | undefined;
}

/** Order of eviction. Above the ordinary priority it reaches the cells that stay visible, below it those that were. */
export interface RetainOperation {
  kind: "retain";
  at: number;
  ranges: readonly Range[];
  /** 0…100; ordinary is 35. */
  priority: number;
  seconds: number | null;
}

/** The text itself is edited before it is folded: the answer of the log in which the target never stood. */
export interface EditOperation {
  kind: "edit";
  at: number;
  target: Range;
  tokens: Int32Array;
  /** Whether every trace of the target must go; false where the text is only edited because that is cheaper. */
  erases: boolean;
}

/** Priority of cells that nobody spoke of. */
export const ORDINARY_PRIORITY = 35;

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
