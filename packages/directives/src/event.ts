import { type Cells, type Chunk, chunkOf, counterOf, positionAfter, type Segment, segmentsOf } from "./cells.ts";
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
  if (before === after && born.length === 0) return null;
  const { hidden, shifts } = difference(before, after, firstCell);
  if (born.length > 0) hidden.push(...hiddenBorn(after, firstCell, born));
  const counter = counterBeyondCells(transition, shifts[shifts.length - 1]?.delta ?? 0);
  if (hidden.length === 0 && shifts.length === 0 && counter === 0 && born.length === 0) return null;
  const merged = hidden.length > 1 ? mergeRanges(hidden) : hidden;
  return {
    at,
    cell: firstCell,
    key: keyOf(transition, merged, shifts, counter),
    hidden: merged,
    counter,
    inserted: born.map(({ cell, length, before: place }) => ({ cells: [cell, cell + length], before: place })),
    get shifted() {
      return shiftedCells(after, shifts);
    },
  };
}

function keyOf(transition: Transition, hidden: readonly Range[], shifts: readonly Shift[], counter: number): string {
  let key = "";
  for (const { length, position, before } of transition.born) key += ` i${length}@${position}<${before}`;
  for (const [start, end] of hidden) key += ` h${start}-${end}`;
  for (const { cell, delta } of shifts) key += ` s${cell}:${delta}`;
  if (counter !== 0) key += ` c${counter}`;
  for (const { cell, delta } of shiftsSeen(transition)) key += ` v${cell}:${delta}`;
  return key.slice(1);
}

/** What the counter moved more than the last visible cell did; what it stands behind a born one. */
function counterBeyondCells({ firstCell, before, after }: Transition, lastShift: number): number {
  const last = after.chunks[after.chunks.length - 1]?.segments.at(-1);
  return last && last.cell >= firstCell ? after.tail : counterOf(after) - counterOf(before) - lastShift;
}

/** Cells that an event's key says were born in it: they follow the event on the path. */
export function bornCellsOf(key: string): number {
  let cells = 0;
  for (const word of key.split(" ")) if (word.startsWith("i")) cells += Number.parseInt(word.slice(1), 10);
  return cells;
}

/**
 * Cells of `before` that are gone from `after`, and the places at which the movement of what stays changes. Chunks that both states
 * share in front did not move, those that they share behind moved as one; only what lies between is looked at.
 */
function difference(before: Cells, after: Cells, firstCell: number): { hidden: [number, number][]; shifts: Shift[] } {
  const [front, back] = sharedChunks(before.chunks, after.chunks);
  const old = segmentsOf(before.chunks, front, before.chunks.length - back);
  const walk = new Walk(old, positionAfter(after.chunks, front));
  for (const segment of segmentsOf(after.chunks, front, after.chunks.length - back)) walk.visit(segment, firstCell);
  walk.end();
  const rest = after.chunks[after.chunks.length - back];
  if (rest) walk.shift(rest.segments[0]!.cell, walk.drift);
  return walk;
}

/** Walks two lists of segments side by side. */
class Walk {
  readonly hidden: [number, number][] = [];
  readonly shifts: Shift[] = [];
  readonly #old: readonly Segment[];
  #index = 0;
  /** First cell of the old segment at hand that was not met yet. */
  #met: number;
  /** Positions behind what was passed of the old list, and of the new one. */
  #oldPosition: number;
  #newPosition: number;
  #delta = 0;

  constructor(old: readonly Segment[], position: number) {
    this.#old = old;
    this.#met = old[0]?.cell ?? 0;
    this.#oldPosition = position;
    this.#newPosition = position;
  }

  visit({ cell, length, gap, birth }: Segment, firstCell: number): void {
    const position = this.#newPosition + gap;
    this.#newPosition = position + length;
    if (cell >= firstCell) return this.shift(cell, position - birth);
    let from = this.#old[this.#index]!;
    for (; cell < from.cell || cell >= from.cell + from.length; from = this.#old[this.#index]!) this.#leave();
    if (this.#met < cell) this.hidden.push([this.#met, cell]);
    this.#met = cell + length;
    this.shift(cell, position - (this.#oldPosition + from.gap + cell - from.cell));
  }

  end(): void {
    while (this.#index < this.#old.length) this.#leave();
  }

  /** How much farther the new list has come. */
  get drift(): number {
    return this.#newPosition - this.#oldPosition;
  }

  shift(cell: number, delta: number): void {
    if (delta !== this.#delta) this.shifts.push({ cell, delta });
    this.#delta = delta;
  }

  #leave(): void {
    const { cell, length, gap } = this.#old[this.#index]!;
    if (this.#met < cell + length) this.hidden.push([this.#met, cell + length]);
    this.#oldPosition += gap + length;
    this.#index++;
    this.#met = this.#old[this.#index]?.cell ?? 0;
  }
}

/** How many chunks two lists share in front, and how many of the rest behind. */
function sharedChunks(a: readonly Chunk[], b: readonly Chunk[]): [front: number, back: number] {
  const most = Math.min(a.length, b.length);
  let front = 0;
  while (front < most && a[front] === b[front]) front++;
  let back = 0;
  while (back < most - front && a[a.length - 1 - back] === b[b.length - 1 - back]) back++;
  return [front, back];
}

/** Movements that the born cells saw, of cells before the last of them, where a compaction made others of them in the end. */
function shiftsSeen({ firstCell, before, seen, after, born }: Transition): Shift[] {
  if (born.length === 0 || seen.chunks === after.chunks) return [];
  const chunk = seen.chunks.findLastIndex(({ newest }) => newest >= firstCell);
  const index = seen.chunks[chunk]!.segments.findLastIndex(({ cell }) => cell >= firstCell);
  const sight = difference(before, upTo(seen, chunk, index), firstCell).shifts;
  const final = difference(before, upTo(after, chunk, index), firstCell).shifts;
  const same = sight.length === final.length && sight.every(({ cell, delta }, i) => cell === final[i]!.cell && delta === final[i]!.delta);
  return same ? [] : sight;
}

/** The segments before segment `index` of a chunk. A compaction keeps the chunks of what it compacts. */
function upTo({ chunks }: Cells, chunk: number, index: number): Cells {
  const list = chunks.slice(0, chunk);
  if (index > 0) list.push(chunkOf(chunks[chunk]!.segments.slice(0, index)));
  return { chunks: list, tail: 0 };
}

/** The shifts spelled out by cells. */
function shiftedCells({ chunks }: Cells, shifts: readonly Shift[]): { cells: Range; delta: number }[] {
  const shifted: { cells: [number, number]; delta: number }[] = [];
  let next = 0;
  let delta = 0;
  for (const { cell, length } of chunks.flatMap(({ segments }) => segments)) {
    if (shifts[next]?.cell === cell) delta = shifts[next++]!.delta;
    if (delta === 0) continue;
    const last = shifted[shifted.length - 1];
    if (last && last.delta === delta && last.cells[1] === cell) last.cells[1] = cell + length;
    else shifted.push({ cells: [cell, cell + length], delta });
  }
  return shifted;
}

/** Cells that were born in the event and are gone again in its end (refreshed twice). */
function hiddenBorn({ chunks }: Cells, firstCell: number, born: readonly BornStretch[]): [number, number][] {
  const kept: Segment[] = [];
  for (const { newest, segments } of chunks) if (newest >= firstCell) for (const segment of segments) if (segment.cell >= firstCell) kept.push(segment);
  kept.sort((a, b) => a.cell - b.cell);
  const gone: [number, number][] = [];
  let done = firstCell;
  for (const { cell, length } of kept) {
    if (cell > done) gone.push([done, cell]);
    done = cell + length;
  }
  const last = born[born.length - 1]!;
  if (done < last.cell + last.length) gone.push([done, last.cell + last.length]);
  return gone;
}
