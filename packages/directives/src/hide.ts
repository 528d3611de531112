import { type Cells, type Chunk, findChunk, pushChunks, type Segment, slice, withGap } from "./cells.ts";
import type { Range } from "./types.ts";

/** Makes ghosts of the cells in the ranges (ascending, disjoint), and tells how many were visible. */
export function hide(cells: Cells, ranges: readonly Range[]): { cells: Cells; hidden: number } {
  if (ranges.length === 0) return { cells, hidden: 0 };
  const first = findChunk(cells.chunks, ranges[0]![0]);
  const chunks: Chunk[] = cells.chunks.slice(0, first);
  let next = 0;
  let hidden = 0;
  let c = first;
  for (; c < cells.chunks.length && next < ranges.length; c++) {
    const chunk = cells.chunks[c]!;
    if (!reaches(chunk, ranges[next]!)) {
      chunks.push(chunk);
      continue;
    }
    const rebuilt: Segment[] = [];
    for (const segment of chunk.segments) next = hideIn(segment, ranges, next, rebuilt);
    hidden += chunk.visible - visibleIn(rebuilt);
    pushChunks(chunks, rebuilt);
  }
  return { cells: { chunks: chunks.concat(cells.chunks.slice(c)), tail: cells.tail }, hidden };
}

function visibleIn(segments: readonly Segment[]): number {
  let visible = 0;
  for (const { ghost, length } of segments) if (!ghost) visible += length;
  return visible;
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
  const first = cells.chunks.findIndex(({ ghosts }) => ghosts);
  if (first < 0) return cells;
  const last = cells.chunks.findLastIndex(({ ghosts }) => ghosts);
  const chunks: Chunk[] = cells.chunks.slice(0, first);
  let gap = 0;
  let c = first;
  // The last gap may be followed by the first segment of another chunk.
  for (; c < cells.chunks.length && (c <= last || gap > 0); c++) {
    const kept: Segment[] = [];
    for (const segment of cells.chunks[c]!.segments) {
      if (segment.ghost) gap += segment.gap + segment.length;
      else {
        kept.push(gap === 0 ? segment : withGap(segment, segment.gap + gap));
        gap = 0;
      }
    }
    pushChunks(chunks, kept);
  }
  return { chunks: chunks.concat(cells.chunks.slice(c)), tail: cells.tail + gap };
}
