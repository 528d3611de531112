/** Random cells and views for the attention face. */

import { type CellDtype, type CellPages, type CellsOptions, type Compute, openCells, segmentAttention, type Segments } from "../src/index.ts";
import { type AttentionTwin, attendTwin, fromHalf, type Random, rotateTwin, toHalf, type TwinCell } from "./twins.ts";

/** A stretch of cells that are consecutive in birth and stand with one shift. `first`: number of the cell = its birth position. */
export interface Stretch {
  first: number;
  length: number;
  shift: number;
}

export interface Row {
  /** Number of the cell = its birth position. */
  cell: number;
}

export interface Segment {
  view: Stretch[];
  rows: Row[];
}

export interface Case {
  shape: AttentionTwin;
  dtype: CellDtype;
  contextLength: number;
  /** Cell i is born at position i; keys are raw: `[cell][kvHead][headSize]`. */
  cells: number;
  keys: Float32Array;
  values: Float32Array;
  segments: Segment[];
  /** `[row][head][headSize]` */
  queries: Float32Array;
}

/** Where cells lie: page size, and the page of each page's worth of cells. */
export interface Placement {
  pageSize: number;
  order: number[];
  /** Slots that are left free in front. */
  skip: number;
}

export function placement(random: Random, cells: number, pageSize: number): Placement {
  const skip = random.below(pageSize);
  return { pageSize, skip, order: random.shuffled(Math.ceil((cells + skip) / pageSize) + 2) };
}

export function slotOf({ pageSize, order, skip }: Placement, cell: number): number {
  const at = cell + skip;
  return (order[Math.floor(at / pageSize)] as number) * pageSize + (at % pageSize);
}

export interface Limits {
  headSizes: readonly number[];
  cellsMax: number;
  dtypes: readonly CellDtype[];
}

/** A history with holes and shifts, then segments of rows behind it. With a window positions rise along each view. */
export function randomCase(random: Random, { headSizes, cellsMax, dtypes }: Limits): Case {
  const headSize = random.pick(headSizes);
  const kvHeads = random.between(1, 3);
  const heads = kvHeads * random.between(1, 4);
  const dimensions = random.chance(0.5) ? headSize : 2 * random.between(1, headSize / 2);
  const history = random.below(cellsMax);
  const rowsOf = Array.from({ length: random.between(1, 3) }, () => random.between(1, 5));
  const rows = rowsOf.reduce((sum, count) => sum + count, 0);
  const cells = history + rows;
  const contextLength = 2 * cells + 64;
  const window = random.chance(0.35) ? random.between(1, Math.max(2, history)) : undefined;
  const softCap = random.chance(0.2) ? random.pick([2, 30]) : undefined;
  let next = history;
  const segments = rowsOf.map((count): Segment => {
    const own = Array.from({ length: count }, () => ({ cell: next++ }));
    return { view: randomView(random, history, own[0]?.cell ?? 0, contextLength, window !== undefined), rows: own };
  });
  return {
    shape: {
      heads,
      kvHeads,
      headSize,
      rotary: { dimensions, pairing: random.pick(["interleaved", "half-split"]), base: random.pick([100, 10_000, 1e6]) },
      scale: random.chance(0.5) ? 1 / Math.sqrt(headSize) : 0.3,
      ...(softCap !== undefined && { softCap }),
      ...(window !== undefined && { window }),
      ...(random.chance(0.3) && { sinks: random.floats(heads, 6) }),
    },
    dtype: random.pick(dtypes),
    contextLength,
    cells,
    keys: random.floats(cells * kvHeads * headSize),
    values: random.floats(cells * kvHeads * headSize),
    segments,
    queries: random.floats(rows * heads * headSize, 2),
  };
}

/** Parts of the history, some dropped, some moved; before position `end` where positions must rise. */
function randomView(random: Random, history: number, end: number, contextLength: number, rising: boolean): Stretch[] {
  const view: Stretch[] = [];
  let [first, counter] = [0, 0];
  while (first < history) {
    const length = Math.min(history - first, random.pick([1, 2, 7, 40, 300]));
    if (random.chance(0.75)) {
      const start = rising ? counter + (random.chance(0.3) ? random.below(Math.max(1, first - counter + 1)) : 0) : random.below(contextLength - length);
      const shift = random.chance(0.3) && start <= first ? 0 : start - first;
      view.push({ first, length, shift });
      counter = first + length + shift;
    }
    first += length;
  }
  return rising ? view.filter((stretch) => stretch.first + stretch.shift + stretch.length <= end) : view;
}

/** The arrays of the call. `cut`: whether a run ends after this cell although the next one goes on. */
export function segmentsOf(test: Case, place: Placement, cut: (cell: number) => boolean = () => false): Segments {
  const { pageSize } = place;
  const out = { position: [], cell: [], rowOf: [0], viewOf: [0], runPage: [], runFirst: [], runLength: [], runBirth: [], runShift: [], pages: [] } as Record<keyof Segments, number[]>;
  for (const { view, rows } of test.segments) {
    for (const { first, length, shift } of view) {
      for (let cell = first; cell < first + length; cell++) {
        const slot = slotOf(place, cell);
        const fresh = cell === first || cut(cell - 1);
        if (fresh) {
          out.runPage.push(out.pages.length);
          out.runFirst.push(slot % pageSize);
          out.runLength.push(0);
          out.runBirth.push(cell);
          out.runShift.push(shift);
        }
        if (fresh || slot % pageSize === 0) out.pages.push(Math.floor(slot / pageSize));
        out.runLength[out.runLength.length - 1] = (out.runLength.at(-1) ?? 0) + 1;
      }
    }
    out.viewOf.push(out.runPage.length);
    for (const { cell } of rows) {
      out.position.push(cell);
      out.cell.push(slotOf(place, cell));
    }
    out.rowOf.push(out.position.length);
  }
  return Object.fromEntries(Object.entries(out).map(([name, numbers]) => [name, Int32Array.from(numbers)])) as unknown as Segments;
}

export function cellsOptions(test: Case, place: Placement): CellsOptions {
  const { heads, kvHeads, headSize, rotary, scale, softCap, window } = test.shape;
  return {
    pages: place.order.length,
    pageSize: place.pageSize,
    heads,
    kvHeads,
    headSize,
    rotary,
    scale,
    dtype: test.dtype,
    contextLength: test.contextLength,
    ...(softCap !== undefined && { softCap }),
    ...(window !== undefined && { window }),
  };
}

/** Pages with the case's cells in them. */
export async function laid(compute: Compute, test: Case, place: Placement, changes: Partial<CellsOptions> = {}): Promise<CellPages> {
  const pages = openCells(compute, { ...cellsOptions(test, place), ...changes });
  const numbers = Array.from({ length: test.cells }, (_, cell) => cell);
  await pages.store({
    slots: Int32Array.from(numbers, (cell) => slotOf(place, cell)),
    positions: Int32Array.from(numbers),
    keys: test.keys,
    values: test.values,
  });
  return pages;
}

/** The call. `cut` as in `segmentsOf`. */
export async function ask(pages: CellPages, test: Case, place: Placement, cut?: (cell: number) => boolean): Promise<Float32Array> {
  const { sinks } = test.shape;
  return segmentAttention(pages, segmentsOf(test, place, cut), test.queries, sinks && { sinks });
}

/** What the twin makes of the case, row after row. */
export function expected(test: Case): number[] {
  const { heads, kvHeads, headSize, rotary } = test.shape;
  const width = kvHeads * headSize;
  const rounded = (number: number) => (test.dtype === "f16" ? fromHalf(toHalf(Math.fround(number))) : Math.fround(number));
  const stored = Array.from({ length: test.cells }, (_, cell) => {
    const keys: number[] = [];
    for (let head = 0; head < kvHeads; head++) {
      const at = cell * width + head * headSize;
      keys.push(...rotateTwin(test.keys.subarray(at, at + headSize), rotary, cell).map(rounded));
    }
    return { birth: cell, keys, values: Array.from(test.values.subarray(cell * width, (cell + 1) * width), rounded) };
  });
  const at = (cell: number, position: number): TwinCell => ({ ...(stored[cell] as Omit<TwinCell, "position">), position });
  const out: number[] = [];
  let row = 0;
  for (const { view, rows } of test.segments) {
    const read = view.flatMap(({ first, length, shift }) => Array.from({ length }, (_, i) => at(first + i, first + i + shift)));
    for (const { cell } of rows) {
      read.push(at(cell, cell));
      const query = test.queries.subarray(row * heads * headSize, (row + 1) * heads * headSize);
      out.push(...attendTwin(test.shape, cell, query, read));
      row++;
    }
  }
  return out;
}

export function largestDifference(ours: ArrayLike<number>, theirs: ArrayLike<number>): number {
  if (ours.length !== theirs.length) return Infinity;
  let largest = 0;
  for (let i = 0; i < ours.length; i++) {
    const difference = Math.abs((ours[i] as number) - (theirs[i] as number));
    // A number that is none is the largest difference of all.
    if (!(difference <= largest)) largest = Number.isNaN(difference) ? Infinity : difference;
  }
  return largest;
}
