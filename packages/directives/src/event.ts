import { type Cells, counterOf } from "./cells.ts";
import { mergeRanges } from "./ranges.ts";
import type { CanonicalEvent, Range } from "./types.ts";

/** Cells that an event bears: one stretch, where it is born, and the visible cell that it stands before then (−1: behind all). */
export interface BornStretch {
  cell: number;
  length: number;
  position: number;
  before: number;
}

/** The visible cells around one boundary. Born cells have numbers from `firstCell` on. */
export interface Transition {
  firstCell: number;
  before: Cells;
  /** What the born cells were computed in. */
  seen: Cells;
  after: Cells;
  born: readonly BornStretch[];
}

/** From this visible cell on, in their order, cells move by `delta`, until the next entry. */
interface Shift {
  cell: number;
  delta: number;
}

/**
 * The canonical event of a transition at boundary `at`, or null where nothing changed. Equal keys at one place of equal paths mean:
 * the same cells hidden, born and moved, and the same sight of the born ones. The key's words:
 *
 *     i4@20<33   4 cells born at position 20 in front of cell 33      h3-7   cells 3…6 hidden
 *     s12:-4     cells from 12 on moved by −4 (born ones: since birth)  c-3    the counter moved by −3 more than the last cell
 *     v12:2      the born cells saw the cells from 12 on at +2, before a compaction moved them on
 */
export function canonicalEvent(at: number, transition: Transition): CanonicalEvent | null {
  const { firstCell, before, after, born } = transition;
  const hidden: [number, number][] = [];
  const shifts = shiftsOf(before, after, firstCell, hidden);
  hidden.push(...hiddenBorn(after, firstCell, born));
  const counter = counterBeyondCells(transition, shifts[shifts.length - 1]?.delta ?? 0);
  if (hidden.length === 0 && shifts.length === 0 && counter === 0 && born.length === 0) return null;
  const joined = mergeRanges(hidden);
  const words = born.map(({ length, position, before: cell }) => `i${length}@${position}<${cell}`);
  for (const [start, end] of joined) words.push(`h${start}-${end}`);
  for (const { cell, delta } of shifts) words.push(`s${cell}:${delta}`);
  if (counter !== 0) words.push(`c${counter}`);
  for (const { cell, delta } of shiftsSeen(transition)) words.push(`v${cell}:${delta}`);
  return {
    at,
    cell: firstCell,
    key: words.join(" "),
    hidden: joined,
    counter,
    inserted: born.map(({ cell, length, before: place }) => ({ cells: [cell, cell + length], before: place })),
    get shifted() {
      return shiftedCells(transition);
    },
  };
}

/** What the counter moved more than the last visible cell did; what it stands behind a born one. */
function counterBeyondCells({ firstCell, before, after }: Transition, lastShift: number): number {
  const last = after.segments[after.segments.length - 1];
  return last && last.cell >= firstCell ? after.tail : counterOf(after) - counterOf(before) - lastShift;
}

/** Cells that an event's key says were born in it: they follow the event on the path. */
export function bornCellsOf(key: string): number {
  let cells = 0;
  for (const word of key.split(" ")) if (word.startsWith("i")) cells += Number.parseInt(word.slice(1), 10);
  return cells;
}

/**
 * Walks two states side by side. Segments that no edit touched are the same objects in both, so this costs a comparison each.
 * Visits every visible cell of `after` with its movement, and every cell of `before` that is gone.
 */
function walk(
  before: Cells,
  after: Cells,
  firstCell: number,
  visit: (cell: number, length: number, delta: number) => void,
  gone: (start: number, end: number) => void,
): void {
  const old = before.segments;
  let index = 0;
  /** First cell of old[index] that was not met yet. */
  let met = old[0]?.cell ?? 0;
  /** Position behind the segments before old[index]. */
  let oldPosition = 0;
  let newPosition = 0;
  const leave = () => {
    const { cell, length, gap } = old[index]!;
    if (met < cell + length) gone(met, cell + length);
    oldPosition += gap + length;
    met = old[++index]?.cell ?? 0;
  };
  for (const { cell, length, gap, birth } of after.segments) {
    const position = newPosition + gap;
    newPosition = position + length;
    if (cell >= firstCell) {
      visit(cell, length, position - birth);
      continue;
    }
    while (cell < old[index]!.cell || cell >= old[index]!.cell + old[index]!.length) leave();
    if (met < cell) gone(met, cell);
    visit(cell, length, position - (oldPosition + old[index]!.gap + cell - old[index]!.cell));
    met = cell + length;
  }
  while (index < old.length) leave();
}

function shiftsOf(before: Cells, after: Cells, firstCell: number, hidden: [number, number][]): Shift[] {
  const shifts: Shift[] = [];
  let last = 0;
  const visit = (cell: number, _length: number, delta: number) => {
    if (delta !== last) shifts.push({ cell, delta });
    last = delta;
  };
  walk(before, after, firstCell, visit, (start, end) => hidden.push([start, end]));
  return shifts;
}

/** Movements that the born cells saw, of cells before the last of them, where a compaction made others of them in the end. */
function shiftsSeen({ firstCell, before, seen, after, born }: Transition): Shift[] {
  if (born.length === 0 || seen.segments === after.segments) return [];
  const lastBorn = seen.segments.findLastIndex(({ cell }) => cell >= firstCell);
  const upTo = (cells: Cells): Cells => ({ segments: cells.segments.slice(0, lastBorn), tail: 0 });
  const sight = shiftsOf(before, upTo(seen), firstCell, []);
  const final = shiftsOf(before, upTo(after), firstCell, []);
  const same = sight.length === final.length && sight.every(({ cell, delta }, i) => cell === final[i]!.cell && delta === final[i]!.delta);
  return same ? [] : sight;
}

function shiftedCells({ before, after, firstCell }: Transition): { cells: Range; delta: number }[] {
  const shifted: { cells: [number, number]; delta: number }[] = [];
  const visit = (cell: number, length: number, delta: number) => {
    if (delta === 0) return;
    const last = shifted[shifted.length - 1];
    if (last && last.delta === delta && last.cells[1] === cell) last.cells[1] = cell + length;
    else shifted.push({ cells: [cell, cell + length], delta });
  };
  walk(before, after, firstCell, visit, () => {});
  return shifted;
}

/** Cells that were born in the event and are gone again in its end (refreshed twice). */
function hiddenBorn(after: Cells, firstCell: number, born: readonly BornStretch[]): [number, number][] {
  const last = born[born.length - 1];
  if (!last) return [];
  const kept = after.segments.filter(({ cell }) => cell >= firstCell).toSorted((a, b) => a.cell - b.cell);
  const gone: [number, number][] = [];
  let done = firstCell;
  for (const { cell, length } of kept) {
    if (cell > done) gone.push([done, cell]);
    done = cell + length;
  }
  if (done < last.cell + last.length) gone.push([done, last.cell + last.length]);
  return gone;
}
