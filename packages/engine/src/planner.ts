import type { Birth, Fold } from "@palimpsest/directives";
import { RangeSet } from "./ranges.ts";

/** Rows to run: the cells [from, to) of one birth. `store`: they are missing and will be computed; otherwise resident, only asked. */
export interface Work {
  birth: number;
  from: number;
  to: number;
  store: boolean;
}

export interface Wish {
  /** Every row of the prompt is run, resident or not. */
  echo: boolean;
  /** The row of the last log token is run, for the first generated token. */
  ask: boolean;
  /** Generated tokens are run, so that the open birth's view is read. */
  open: boolean;
  /** Cells from here on were never computed, and are run in any case: whoever shares the log up to an edit shares these cells. */
  known: number;
}

/** A missing stretch of one birth; [from, needed) of it is read by somebody. */
interface Missing {
  birth: number;
  from: number;
  to: number;
  needed: number;
}

/**
 * What must run for a fold whose `resident` cells are at hand: new cells, the rows that are wished for, and by reverse closure every missing cell
 * that one of them reads, directly or through other missing cells. Ascending in cells, which is an order in which they can be computed:
 * a cell reads only cells born before it. An evicted cell that nobody reads is in no work.
 *
 * Cells of one birth are causal, so its highest row reads all below it: per stretch one number says what is needed.
 */
export function planWork(fold: Fold, resident: RangeSet, wish: Wish): Work[] {
  if (wish.echo) return everything(fold, resident);
  const missing = missingStretches(fold.births, resident);
  for (const stretch of missing) if (stretch.to > wish.known) need(stretch, stretch.to);
  const asked = wish.ask && resident.has(fold.lastCell);
  let piece = missing.length - 1;
  for (let index = fold.births.length - 1; index >= 0; index--) {
    const birth = fold.births[index]!;
    let first = piece + 1;
    while (first > 0 && missing[first - 1]!.birth === index) first--;
    const rowsEnd = queriedEnd(birth, index === fold.births.length - 1, fold.lastCell, wish, missing, first, piece);
    if (rowsEnd >= 0) {
      for (let i = first; i <= piece; i++) need(missing[i]!, rowsEnd);
      if (first > 0) for (const span of birth.view) needRange(missing, first, span.cell, span.cell + span.length);
    }
    piece = first - 1;
  }
  const work = missing.filter(({ from, needed }) => needed > from).map(({ birth, from, needed }) => ({ birth, from, to: needed, store: true }));
  if (asked) insertAsked(work, fold);
  return work;
}

/** The cells that the rows of `work` read, and those that the open birth's rows read if there will be any. */
export function cellsRead({ births }: Fold, work: readonly Work[], open: boolean): RangeSet {
  const read = new RangeSet();
  let last = -1;
  for (const { birth: index, to } of work) {
    const birth = births[index]!;
    if (index !== last) for (const { cell, length } of birth.view) read.add(cell, cell + length);
    read.add(birth.cell, to);
    last = index;
  }
  if (!open) return read;
  const birth = births.at(-1)!;
  for (const { cell, length } of birth.view) read.add(cell, cell + length);
  read.add(birth.cell, birth.cell + birth.length);
  return read;
}

/** Rows of `work` in all. */
export function rowsOf(work: readonly Work[]): number {
  return work.reduce((rows, { from, to }) => rows + to - from, 0);
}

/** End of the rows of a birth that are run; −1: none is, and its view is not read. */
function queriedEnd(birth: Birth, isOpen: boolean, lastCell: number, wish: Wish, missing: readonly Missing[], first: number, last: number): number {
  let end = -1;
  if (isOpen && wish.open) end = birth.cell + birth.length;
  if (wish.ask && lastCell >= birth.cell && lastCell < birth.cell + birth.length) end = Math.max(end, lastCell + 1);
  for (let i = last; i >= first; i--) {
    const { from, needed } = missing[i]!;
    if (needed > from) return Math.max(end, needed);
  }
  return end;
}

function need(missing: Missing, end: number): void {
  missing.needed = Math.max(missing.needed, Math.min(end, missing.to));
}

/** The cells [start, end) are read; only the first `count` stretches can have some of them. */
function needRange(missing: readonly Missing[], count: number, start: number, end: number): void {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (missing[middle]!.to > start) high = middle;
    else low = middle + 1;
  }
  for (let i = low; i < count && missing[i]!.from < end; i++) need(missing[i]!, end);
}

function missingStretches(births: readonly Birth[], resident: RangeSet): Missing[] {
  return births.flatMap(({ cell, length }, birth) => [...resident.gaps(cell, cell + length)].map(([from, to]) => ({ birth, from, to, needed: from })));
}

function everything(fold: Fold, resident: RangeSet): Work[] {
  return fold.births.flatMap(({ cell, length }, birth) => {
    const work: Work[] = [];
    let at = cell;
    for (const [from, to] of resident.gaps(cell, cell + length)) {
      if (from > at) work.push({ birth, from: at, to: from, store: false });
      work.push({ birth, from, to, store: true });
      at = to;
    }
    if (at < cell + length) work.push({ birth, from: at, to: cell + length, store: false });
    return work;
  });
}

/** The last log token's row, resident, in front of the work on cells behind it. */
function insertAsked(work: Work[], { births, lastCell }: Fold): void {
  const birth = births.findLastIndex(({ cell, length }) => lastCell >= cell && lastCell < cell + length);
  const at = work.findIndex(({ from }) => from > lastCell);
  work.splice(at < 0 ? work.length : at, 0, { birth, from: lastCell, to: lastCell + 1, store: false });
}
