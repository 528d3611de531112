import { type Cells, type Chunk, findChunk, pushChunks, type Segment, slice, visibleOf, withGap } from "./cells.ts";
import type { Range } from "./types.ts";

/** Makes ghosts of the cells in the ranges (ascending, disjoint), and tells how many were visible. */
export function hide(cells: Cells, ranges: readonly Range[]): { cells: Cells; hidden: number } {
  if (ranges.length === 0) return { cells, hidden: 0 };
  const first = findChunk(cells.chunks, ranges[0]![0]);
  const chunks: Chunk[] = cells.chunks.slice(0, first);
  let next = 0;
  for (let c = first; c < cells.chunks.length; c++) {
    const chunk = cells.chunks[c]!;
    if (next === ranges.length || !reaches(chunk, ranges[next]!)) {
      chunks.push(chunk);
      continue;
    }
    const rebuilt: Segment[] = [];
    for (const segment of chunk.segments) next = hideIn(segment, ranges, next, rebuilt);
    pushChunks(chunks, rebuilt);
  }
  const hidden: Cells = { chunks, tail: cells.tail };
  return { cells: hidden, hidden: visibleOf(cells) - visibleOf(hidden) };
}

/** Whether a range begins before the chunk ends. */
function reaches({ segments }: Chunk, [start]: Range): boolean {
  const { place, step, length } = segments[segments.length - 1]!;
  return start < place + (step === 1 ? length : 1);
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
export function settleGhosts(cells: Cells): Cells {
  if (!cells.chunks.some(({ ghosts }) => ghosts)) return cells;
  const chunks: Chunk[] = [];
  let gap = 0;
  for (const chunk of cells.chunks) {
    if (gap === 0 && !chunk.ghosts) {
      chunks.push(chunk);
      continue;
    }
    const kept: Segment[] = [];
    for (const segment of chunk.segments) {
      if (segment.ghost) gap += segment.gap + segment.length;
      else {
        kept.push(gap === 0 ? segment : withGap(segment, segment.gap + gap));
        gap = 0;
      }
    }
    pushChunks(chunks, kept);
  }
  return { chunks, tail: cells.tail + gap };
}
