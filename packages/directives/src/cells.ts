import { mergeRanges } from "./ranges.ts";
import type { Range, Span } from "./types.ts";

/**
 * A stretch of cells that are consecutive in number, in birth position and in current position. Segments are never changed, only
 * replaced, so that a stage's list can be kept as its view while the next stage goes on.
 *
 *     position of a segment = sum of (gap + length) of all before it + its own gap
 *
 * A hidden stretch becomes the gap of what follows, a compaction sets gaps to 0: both touch only the segments beside an edit.
 */
export interface Segment {
  cell: number;
  length: number;
  /** Rotary position at which the first cell was computed. */
  birth: number;
  /** Unused positions between the segment before and this one. */
  gap: number;
  /** Log token (coordinate) of the first cell. */
  place: number;
  /** 1: cell i stands at place + i. 0: a replacement, all of it has the coordinate `place`. */
  step: 0 | 1;
  /** Hidden by a drop of the boundary in progress: still holds its positions, which the boundary's splices read. */
  ghost: boolean;
}

/** The visible cells of a log at one moment, in rising position, and the counter. `tail` is the gap between the last cell and the counter. */
export interface Cells {
  segments: Segment[];
  tail: number;
}

/** Position of the next token. */
export function counterOf({ segments, tail }: Cells): number {
  return positionAfter(segments, segments.length) + tail;
}

/** Position right behind the first `count` segments. */
export function positionAfter(segments: readonly Segment[], count: number): number {
  let position = 0;
  for (let i = 0; i < count; i++) position += segments[i]!.gap + segments[i]!.length;
  return position;
}

export function visibleOf(cells: Cells): number {
  let visible = 0;
  for (const segment of cells.segments) visible += segment.length;
  return visible;
}

/** The view of a row that is born behind the first `count` segments. Ghosts are not seen. */
export function viewOf(segments: readonly Segment[], count: number): Span[] {
  const view: Span[] = [];
  let position = 0;
  let last: Span | undefined;
  for (let i = 0; i < count; i++) {
    const { cell, length, birth, gap, ghost } = segments[i]!;
    const shift = position + gap - birth;
    position += gap + length;
    if (ghost) continue;
    if (last && last.cell + last.length === cell && last.birth + last.length === birth && last.shift === shift) last.length += length;
    else view.push((last = { cell, length, birth, shift }));
  }
  return view;
}

/** Adds freshly computed log tokens [place, place + length) at the counter. */
export function append(cells: Cells, cell: number, place: number, length: number, birth: number): void {
  if (length === 0) return;
  const last = cells.segments[cells.segments.length - 1];
  const joins = last && last.step === 1 && cells.tail === 0 && last.cell + last.length === cell && last.birth + last.length === birth && last.place + last.length === place;
  if (joins) cells.segments[cells.segments.length - 1] = { ...last, length: last.length + length };
  else cells.segments.push({ cell, length, birth, gap: cells.tail, place, step: 1, ghost: false });
  cells.tail = 0;
}

/** Index of the first segment that reaches coordinate `place` or stands behind it. */
export function findPlace(segments: readonly Segment[], place: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { place: first, step, length } = segments[middle]!;
    const last = step === 1 ? first + length - 1 : first;
    if (last >= place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The part [from, to) of a segment; a part that does not begin it has no gap. */
export function slice(segment: Segment, from: number, to: number, ghost = segment.ghost): Segment {
  if (from === 0 && to === segment.length && ghost === segment.ghost) return segment;
  return {
    cell: segment.cell + from,
    length: to - from,
    birth: segment.birth + from,
    gap: from === 0 ? segment.gap : 0,
    place: segment.place + from * segment.step,
    step: segment.step,
    ghost,
  };
}

/** Cuts the segment that crosses coordinate `place`, and returns the index of the first segment at or behind it. */
export function cutAt(cells: Cells, place: number): number {
  const index = findPlace(cells.segments, place);
  const segment = cells.segments[index];
  if (!segment || segment.step === 0 || segment.place >= place) return index;
  const at = place - segment.place;
  cells.segments.splice(index, 1, slice(segment, 0, at), slice(segment, at, segment.length));
  return index + 1;
}

/** Makes ghosts of the cells in the ranges (ascending, disjoint) and returns how many were visible. */
export function hide(cells: Cells, ranges: readonly Range[]): number {
  if (ranges.length === 0) return 0;
  const { segments } = cells;
  const from = findPlace(segments, ranges[0]![0]);
  const rebuilt: Segment[] = segments.slice(0, from);
  let hidden = 0;
  let next = 0;
  let index = from;
  for (; index < segments.length && next < ranges.length; index++) {
    const segment = segments[index]!;
    next = hideIn(segment, ranges, next, rebuilt);
  }
  for (let i = from; i < rebuilt.length; i++) hidden += rebuilt[i]!.ghost ? rebuilt[i]!.length : 0;
  for (let i = from; i < index; i++) hidden -= segments[i]!.ghost ? segments[i]!.length : 0;
  cells.segments = index < segments.length ? rebuilt.concat(segments.slice(index)) : rebuilt;
  return hidden;
}

/** Appends a segment to `out`, cut where ranges begin and end; returns the first range that may touch what follows. */
function hideIn(segment: Segment, ranges: readonly Range[], first: number, out: Segment[]): number {
  if (segment.step === 0) return hideReplacement(segment, ranges, first, out);
  const end = segment.place + segment.length;
  let done = segment.place;
  let next = first;
  for (; next < ranges.length; next++) {
    const [rangeStart, rangeEnd] = ranges[next]!;
    if (rangeStart >= end) break;
    if (rangeEnd <= done) continue;
    const start = Math.max(rangeStart, done);
    const stop = Math.min(rangeEnd, end);
    if (start > done) out.push(slice(segment, done - segment.place, start - segment.place));
    out.push(slice(segment, start - segment.place, stop - segment.place, true));
    done = stop;
    if (rangeEnd > end) break;
  }
  if (done < end) out.push(slice(segment, done - segment.place, end - segment.place));
  return next;
}

/** A replacement is covered whole or not at all: exactly if its coordinate lies in a range. */
function hideReplacement(segment: Segment, ranges: readonly Range[], first: number, out: Segment[]): number {
  let next = first;
  while (next < ranges.length && ranges[next]![1] <= segment.place) next++;
  const covered = next < ranges.length && ranges[next]![0] <= segment.place;
  out.push(covered ? slice(segment, 0, segment.length, true) : segment);
  return next;
}

/** Takes the ghosts out: their positions become gaps. */
export function settleGhosts(cells: Cells): void {
  if (!cells.segments.some((segment) => segment.ghost)) return;
  const kept: Segment[] = [];
  let gap = 0;
  for (const segment of cells.segments) {
    if (segment.ghost) gap += segment.gap + segment.length;
    else {
      kept.push(gap === 0 ? segment : { ...segment, gap: segment.gap + gap });
      gap = 0;
    }
  }
  cells.segments = kept;
  cells.tail += gap;
}

/** Positions 0…n−1 in order, in a new list. Returns how many cells moved and by how much the counter did. */
export function compact(cells: Cells): { shifted: number; delta: number } {
  const segments = (cells.segments = cells.segments.slice());
  let removed = 0;
  let shifted = 0;
  for (let i = 0; i < segments.length; i++) {
    const segment = segments[i]!;
    if (segment.gap !== 0) {
      removed += segment.gap;
      segments[i] = { ...segment, gap: 0 };
    }
    if (removed !== 0) shifted += segment.length;
  }
  const delta = -(removed + cells.tail);
  cells.tail = 0;
  return { shifted, delta: delta === 0 ? 0 : delta };
}

/** Numbers of the visible cells that lie in the ranges (ascending, disjoint), ascending and merged. */
export function cellsIn(cells: Cells, ranges: readonly Range[]): Range[] {
  const found: Range[] = [];
  for (const [start, end] of ranges) {
    for (let i = findPlace(cells.segments, start); i < cells.segments.length; i++) {
      const { cell, length, place, step } = cells.segments[i]!;
      if (place >= end) break;
      const from = step === 0 ? 0 : Math.max(0, start - place);
      const to = step === 0 ? length : Math.min(length, end - place);
      found.push([cell + from, cell + to]);
    }
  }
  return mergeRanges(found);
}
