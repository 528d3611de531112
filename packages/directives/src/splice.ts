import { type Cells, cutAt, positionAfter, type Segment, slice } from "./cells.ts";
import type { Range } from "./types.ts";

/** What one replacement did to the cells, before the boundary's drops leave their places. */
export interface Replaced {
  /** Position of the first inserted cell. */
  position: number;
  hidden: number;
  /** Visible cells behind it that moved, and by how much. */
  shifted: number;
  delta: number;
}

/**
 * Puts `count` new cells, numbered from `cell`, in the place of [start, end). Their segment and what follows:
 *
 *     before   … | gap | first at or behind start … | first at or behind end …
 *                       ^ p_start                     ^ p_end
 *     after    … | gap | count new cells | first at or behind end …        moved by count − (p_end − p_start)
 */
export function replace(cells: Cells, [start, end]: Range, cell: number, count: number): Replaced {
  const first = cutAt(cells, start);
  const behind = end > start ? cutAt(cells, end) : first;
  const { segments } = cells;
  const gapAt = (index: number) => segments[index]?.gap ?? cells.tail;
  const gap = gapAt(first);
  const position = positionAfter(segments, first) + gap;
  const delta = count - (positionAfter(segments, behind) + gapAt(behind) - position);
  const inserted: Segment[] = count === 0 ? [] : [{ cell, length: count, birth: position, gap, place: start, step: 0, ghost: false }];
  const hidden = visibleIn(segments, first, behind);
  const shifted = delta === 0 ? 0 : visibleIn(segments, behind, segments.length);
  const gapBehind = count === 0 ? gap : 0;
  const next = segments[behind];
  if (next) segments.splice(first, behind - first + 1, ...inserted, next.gap === gapBehind ? next : { ...next, gap: gapBehind });
  else {
    segments.splice(first, behind - first, ...inserted);
    cells.tail = gapBehind;
  }
  return { position, hidden, shifted, delta: delta === 0 ? 0 : delta };
}

function visibleIn(segments: readonly Segment[], from: number, to: number): number {
  let visible = 0;
  for (let i = from; i < to; i++) if (!segments[i]!.ghost) visible += segments[i]!.length;
  return visible;
}

/** Cells that a refresh computes again: consecutive in position, so one stretch of births. */
export interface RefreshedStretch {
  /** Number of the first new cell. */
  cell: number;
  position: number;
  length: number;
  /** Segments before it in the list; its view. */
  index: number;
  /** What stood there: tokens are read from it. */
  old: Segment[];
}

/**
 * Replaces up to `count` visible cells from segment `first` on by cells born where they stand, numbered from `cell`. They keep token
 * and place. The list is a new one, so that the views of earlier births stay as they are.
 */
export function refresh(cells: Cells, first: number, count: number, cell: number): RefreshedStretch[] {
  const segments = cells.segments.slice(0, first);
  const stretches: RefreshedStretch[] = [];
  let position = positionAfter(segments, first);
  let left = count;
  let next = cell;
  let index = first;
  for (; index < cells.segments.length && left > 0; index++) {
    const segment = cells.segments[index]!;
    const length = Math.min(left, segment.length);
    position += segment.gap;
    const last = stretches[stretches.length - 1];
    const old = slice(segment, 0, length);
    if (last && segment.gap === 0) {
      last.length += length;
      last.old.push(old);
    } else stretches.push({ cell: next, position, length, index: segments.length, old: [old] });
    segments.push({ ...old, cell: next, birth: position });
    if (length < segment.length) segments.push(slice(segment, length, segment.length));
    position += length;
    next += length;
    left -= length;
  }
  cells.segments = segments.concat(cells.segments.slice(index));
  return stretches;
}
