import type { ErasePattern, Path } from "./types.ts";
import { commonLength } from "./walk.ts";

/** Cells that belong to an event, right behind it: they are no tokens of the log. */
export type OwnedCells = (eventKey: string) => number;

/** How far a way through cells and events has come in the text of a pattern. */
export interface Progress {
  /** Tokens of the pattern that were met. */
  matched: number;
  /** Cells to come that an event owns. */
  owned: number;
  /** The first cell of the text that must go; −1: not reached. */
  first: number;
  /** The first cell that is not as in the pattern, −1: none so far. */
  broken: number;
}

export const NOT_BEGUN: Progress = { matched: 0, owned: 0, first: -1, broken: -1 };

/** Some cells behind one another, with an event in front of them or none. */
export interface Cells {
  event: string | null;
  tokens: Int32Array;
  offset: number;
  length: number;
  /** Cells in front of them. */
  start: number;
}

/**
 * Goes over `cells`. Once all tokens of the pattern were met, or one was not, what follows does not matter.
 *
 *     event | owned … | tokens of the log …
 *                      ^ compared with pattern.tokens from `matched` on
 */
export function advance(progress: Progress, pattern: ErasePattern, cells: Cells, ownedCells: OwnedCells): Progress {
  const owned = progress.owned + (cells.event === null ? 0 : ownedCells(cells.event));
  const skipped = Math.min(owned, cells.length);
  const compared = Math.min(cells.length - skipped, pattern.tokens.length - progress.matched);
  if (compared === 0) return { ...progress, owned: owned - skipped };
  const at = cells.offset + skipped;
  const common = commonLength(cells.tokens, at, pattern.tokens, progress.matched, compared);
  const matched = progress.matched + common;
  const reached = progress.first < 0 && matched > pattern.from;
  const first = reached ? cells.start + skipped + pattern.from - progress.matched : progress.first;
  return { matched, owned: owned - skipped, first, broken: common < compared ? cells.start + skipped + common : -1 };
}

/** The first cell of the text where `path` has all of it; `Infinity` where it has not. */
export function firstErased(path: Path, pattern: ErasePattern, ownedCells: OwnedCells): number {
  const { tokens, events } = path;
  let progress = NOT_BEGUN;
  let start = 0;
  for (let i = 0; start < tokens.length && progress.broken < 0 && progress.matched < pattern.tokens.length; ) {
    const event = events[i]?.at === start ? events[i++]!.key : null;
    const end = Math.min(events[i]?.at ?? tokens.length, tokens.length);
    progress = advance(progress, pattern, { event, tokens, offset: start, length: end - start, start }, ownedCells);
    start = end;
  }
  return progress.matched === pattern.tokens.length ? progress.first : Infinity;
}

/** Cells at the beginning of both paths that are the same. */
export function sharedCells(a: Path, b: Path): number {
  const length = Math.min(a.tokens.length, b.tokens.length);
  const shared = commonLength(a.tokens, 0, b.tokens, 0, length);
  for (let i = 0; ; i++) {
    const [one, other] = [a.events[i], b.events[i]];
    if (one?.at === other?.at && one?.key === other?.key) {
      if (one === undefined || one.at >= shared) return shared;
      continue;
    }
    return Math.min(shared, one?.at ?? Infinity, other?.at ?? Infinity);
  }
}
