import { type Cells, findChunk, findPlace, positionAfter, type Segment, segmentsOf, slice, visibleOf, withChunks, withGap } from "./cells.ts";
import type { Range } from "./types.ts";

/** What one replacement did to the cells, before the boundary's drops leave their places. */
export interface Replaced {
  cells: Cells;
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
  const from = findChunk(cells.chunks, start);
  const to = Math.min(findChunk(cells.chunks, end) + 1, cells.chunks.length);
  const window = segmentsOf(cells.chunks, from, to).slice();
  const first = cutAt(window, start);
  const behind = end > start ? cutAt(window, end) : first;
  const gap = window[first]?.gap ?? cells.tail;
  const next = window[behind];
  const delta = count - (spanned(window, first, behind) + (next?.gap ?? cells.tail) - gap);
  const hidden = visibleIn(window, first, behind);
  const shifted = delta === 0 ? 0 : visibleIn(window, behind, window.length) + visibleOf(cells, to);
  const gapBehind = count === 0 ? gap : 0;
  if (next) window[behind] = withGap(next, gapBehind);
  if (count === 0) window.splice(first, behind - first);
  else {
    const birth = positionAfter(cells.chunks, from) + spanned(window, 0, first) + gap;
    window.splice(first, behind - first, { cell, length: count, birth, gap, place: start, step: 0, ghost: false });
  }
  return { cells: withChunks(cells, from, to, window, next ? cells.tail : gapBehind), hidden, shifted, delta: delta === 0 ? 0 : delta };
}

/** Cuts the segment that crosses coordinate `place`, and returns the index of the first segment at or behind it. */
function cutAt(segments: Segment[], place: number): number {
  const index = findPlace(segments, place);
  const segment = segments[index];
  if (!segment || segment.step === 0 || segment.place >= place) return index;
  const at = place - segment.place;
  segments.splice(index, 1, slice(segment, 0, at), slice(segment, at, segment.length));
  return index + 1;
}

/** Positions from the end of the segment before `from` to the end of the one before `to`. */
function spanned(segments: readonly Segment[], from: number, to: number): number {
  let positions = 0;
  for (let i = from; i < to; i++) positions += segments[i]!.gap + segments[i]!.length;
  return positions;
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
  /** Segments before it; its view. */
  index: number;
  /** What stood there: tokens are read from it. */
  old: Segment[];
}

/**
 * Replaces up to `count` visible cells behind coordinate `place` by cells born where they stand, numbered from `cell`. They keep token
 * and place. The first `skip` cells that stand there are left out.
 */
export function refresh(cells: Cells, place: number, skip: number, count: number, cell: number): { cells: Cells; stretches: RefreshedStretch[] } {
  const from = findChunk(cells.chunks, place);
  const stretches: RefreshedStretch[] = [];
  if (from === cells.chunks.length) return { cells, stretches };
  let [position, index, next, skipped, left] = [positionAfter(cells.chunks, from), segmentCount(cells, from), cell, 0, count];
  const rebuilt: Segment[] = [];
  let to = from;
  let open = -1;
  for (; to < cells.chunks.length && left > 0; to++) {
    const { segments } = cells.chunks[to]!;
    const first = to === from ? findPlace(segments, place) : 0;
    for (const [i, segment] of segments.entries()) {
      position += segment.gap;
      const passed = i < first || skipped < skip || left === 0;
      const length = passed ? 0 : Math.min(left, segment.length);
      if (passed && i >= first && left > 0) skipped += segment.length;
      if (length > 0) {
        const old = slice(segment, 0, length);
        const last = stretches[stretches.length - 1];
        if (last && segment.gap === 0 && open === index) {
          last.length += length;
          last.old.push(old);
        } else stretches.push({ cell: next, position, length, index, old: [old] });
        rebuilt.push({ ...old, cell: next, birth: position });
        [next, left, open] = [next + length, left - length, index + 1];
        index++;
      }
      if (length < segment.length) {
        rebuilt.push(slice(segment, length, segment.length));
        index++;
      }
      position += segment.length;
    }
  }
  return { cells: withChunks(cells, from, to, rebuilt), stretches };
}

function segmentCount({ chunks }: Cells, count: number): number {
  let segments = 0;
  for (let c = 0; c < count; c++) segments += chunks[c]!.segments.length;
  return segments;
}
