import type { Range, Span } from "./types.ts";

/**
 * A stretch of cells that are consecutive in number, in birth position and in current position.
 *
 *     position of a segment = sum of (gap + length) of all before it + its own gap
 *
 * A hidden stretch becomes the gap of what follows, a compaction sets gaps to 0: both touch only the segments beside an edit.
 */
export interface Segment {
  readonly cell: number;
  readonly length: number;
  /** Rotary position at which the first cell was computed. */
  readonly birth: number;
  /** Unused positions between the segment before and this one. */
  readonly gap: number;
  /** Log token (coordinate) of the first cell. */
  readonly place: number;
  /** 1: cell i stands at place + i. 0: a replacement, all of it has the coordinate `place`. */
  readonly step: 0 | 1;
  /** Hidden by a drop of the boundary in progress: still holds its positions, which the boundary's splices read. */
  readonly ghost: boolean;
}

/** Some segments behind one another, and sums over them. */
export interface Chunk {
  readonly segments: readonly Segment[];
  /** Positions from the end of the chunk before to the end of this one. */
  readonly span: number;
  readonly gap: number;
  /** Cells that are no ghosts. */
  readonly visible: number;
  readonly ghosts: boolean;
  /** Greatest cell number. */
  readonly newest: number;
}

/**
 * The visible cells of a log at one moment, in rising position. `tail` is the gap between the last cell and the counter. A value that
 * never changes: an edit makes a new list of chunks and new chunks where it touches some. So the view of every stage can be kept, and
 * two states are compared by what they do not share.
 */
export interface Cells {
  readonly chunks: readonly Chunk[];
  readonly tail: number;
}

export const NO_CELLS: Cells = { chunks: [], tail: 0 };

/** Segments of a chunk: small enough to copy, large enough that there are few. */
const FULL = 64;

export function chunkOf(segments: readonly Segment[]): Chunk {
  let [span, gap, visible, newest, ghosts] = [0, 0, 0, -1, false];
  for (const segment of segments) {
    span += segment.gap + segment.length;
    gap += segment.gap;
    if (segment.ghost) ghosts = true;
    else visible += segment.length;
    newest = Math.max(newest, segment.cell + segment.length - 1);
  }
  return { segments, span, gap, visible, ghosts, newest };
}

/** Segments as chunks of fair size. Few of them join the chunk before, which then is to be replaced too. */
export function pushChunks(chunks: Chunk[], segments: readonly Segment[]): void {
  if (segments.length === 0) return;
  const last = chunks[chunks.length - 1];
  if (last && segments.length < FULL / 4 && last.segments.length + segments.length <= FULL) {
    chunks[chunks.length - 1] = chunkOf(last.segments.concat(segments));
  } else if (segments.length <= FULL) chunks.push(chunkOf(segments));
  else for (let i = 0; i < segments.length; i += FULL / 2) chunks.push(chunkOf(segments.slice(i, i + FULL / 2)));
}

/** The cells with chunks [from, to) made of other segments. */
export function withChunks({ chunks, tail }: Cells, from: number, to: number, segments: readonly Segment[], newTail = tail): Cells {
  const first = Math.max(0, from - 1);
  const middle = chunks.slice(first, from);
  pushChunks(middle, segments);
  return { chunks: chunks.toSpliced(first, to - first, ...middle), tail: newTail };
}

/** The segments of chunks [from, to). */
export function segmentsOf(chunks: readonly Chunk[], from: number, to: number): readonly Segment[] {
  if (to - from === 1) return chunks[from]!.segments;
  let all: readonly Segment[] = [];
  for (let c = from; c < to; c++) all = all.concat(chunks[c]!.segments);
  return all;
}

/** Position right behind the first `count` chunks. */
export function positionAfter(chunks: readonly Chunk[], count = chunks.length): number {
  let position = 0;
  for (let i = 0; i < count; i++) position += chunks[i]!.span;
  return position;
}

/** Position of the next token. */
export function counterOf({ chunks, tail }: Cells): number {
  return positionAfter(chunks) + tail;
}

export function visibleOf({ chunks }: Cells, from = 0): number {
  let visible = 0;
  for (let i = from; i < chunks.length; i++) visible += chunks[i]!.visible;
  return visible;
}

/** Visible cells at or behind a place of the text. */
export function visibleFrom(cells: Cells, place: number): number {
  const first = findChunk(cells.chunks, place);
  const chunk = cells.chunks[first];
  if (!chunk) return 0;
  let visible = visibleOf(cells, first + 1);
  for (const segment of chunk.segments) {
    if (segment.ghost || lastPlace(segment) < place) continue;
    visible += segment.length - segment.step * Math.max(0, place - segment.place);
  }
  return visible;
}

/** The view of a row that is born behind the first `count` segments. */
export function viewOf({ chunks }: Cells, count = Infinity): Span[] {
  const view: Span[] = [];
  let position = 0;
  let left = count;
  let last: Span | undefined;
  for (let c = 0; c < chunks.length && left > 0; c++) {
    for (const { cell, length, birth, gap } of chunks[c]!.segments) {
      if (left-- <= 0) break;
      const shift = position + gap - birth;
      position += gap + length;
      if (last && last.cell + last.length === cell && last.birth + last.length === birth && last.shift === shift) last.length += length;
      else view.push((last = { cell, length, birth, shift }));
    }
  }
  return view;
}

/** Adds freshly computed log tokens [place, place + length), born at the counter. */
export function append(cells: Cells, cell: number, place: number, length: number, birth: number): Cells {
  if (length === 0) return cells;
  const chunk = cells.chunks[cells.chunks.length - 1];
  const last = chunk?.segments[chunk.segments.length - 1];
  const joins =
    last && last.step === 1 && cells.tail === 0 && last.cell + last.length === cell && last.birth + last.length === birth && last.place + last.length === place;
  if (!joins) return withChunks(cells, cells.chunks.length, cells.chunks.length, [{ cell, length, birth, gap: cells.tail, place, step: 1, ghost: false }], 0);
  const segments = chunk!.segments.slice();
  segments[segments.length - 1] = { ...last, length: last.length + length };
  return withChunks(cells, cells.chunks.length - 1, cells.chunks.length, segments);
}

function lastPlace({ place, step, length }: Segment): number {
  return step === 1 ? place + length - 1 : place;
}

/** The first of some segments in the order of the text that reaches `place` or stands behind it. */
export function findPlace(segments: readonly Segment[], place: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lastPlace(segments[middle]!) >= place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The first chunk that reaches `place` or stands behind it. */
export function findChunk(chunks: readonly Chunk[], place: number): number {
  let low = 0;
  let high = chunks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { segments } = chunks[middle]!;
    if (lastPlace(segments[segments.length - 1]!) >= place) high = middle;
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

/** Positions 0…n−1 in order. Tells how many cells moved and by how much the counter did. */
export function compact(cells: Cells): { cells: Cells; shifted: number; delta: number } {
  let removed = 0;
  let shifted = 0;
  const chunks = cells.chunks.map((chunk) => {
    if (chunk.gap === 0) {
      shifted += removed === 0 ? 0 : chunk.visible;
      return chunk;
    }
    return chunkOf(
      chunk.segments.map((segment) => {
        removed += segment.gap;
        shifted += removed === 0 ? 0 : segment.length;
        return segment.gap === 0 ? segment : withGap(segment, 0);
      }),
    );
  });
  removed += cells.tail;
  return { cells: { chunks, tail: 0 }, shifted, delta: removed === 0 ? 0 : -removed };
}

export function withGap({ cell, length, birth, place, step, ghost }: Segment, gap: number): Segment {
  return { cell, length, birth, gap, place, step, ghost };
}

/** Numbers of the cells that lie in the ranges (ascending, disjoint), in the order of the text. */
export function cellsIn({ chunks }: Cells, ranges: readonly Range[]): Range[] {
  const found: Range[] = [];
  for (const [start, end] of ranges) {
    for (let c = findChunk(chunks, start); c < chunks.length && chunks[c]!.segments[0]!.place < end; c++) {
      const { segments } = chunks[c]!;
      for (let i = findPlace(segments, start); i < segments.length && segments[i]!.place < end; i++) {
        const { cell, length, place, step } = segments[i]!;
        const from = step === 0 ? 0 : Math.max(0, start - place);
        const to = step === 0 ? length : Math.min(length, end - place);
        found.push([cell + from, cell + to]);
      }
    }
  }
  return found;
}
