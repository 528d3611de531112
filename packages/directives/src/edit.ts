import type { Operation } from "./operations.ts";
import type { Log, Origin, Range } from "./types.ts";

/** An operation and the directive that it came from. */
export interface Task<O extends Operation = Operation> {
  index: number;
  operation: O;
  /** Boundary in the request's own log. Forgets may join boundaries; this one tells earlier from later all the same. */
  origin: number;
  /** Start of its target in the request's own log, which tells left from right all the same. */
  left: number;
}

export function taskOf(index: number, operation: Operation): Task {
  const left = operation.kind === "replace" || operation.kind === "edit" ? operation.target[0] : 0;
  return { index, operation, origin: operation.at, left };
}

/** A log after its forgets, and the other operations in its coordinates. */
export interface Edited {
  tokens: Int32Array;
  origins: Origin[] | null;
  forgotten: number;
  tasks: Task[];
  /** What each forget did, in the order in which they went. */
  edits: { index: number; removed: number; inserted: number; behind: number }[];
  /** Directives that lost every token that they named. */
  lost: Set<number>;
}

/** A range of an operation in current coordinates, with the tokens that take its place (for those that replace). */
interface Part {
  start: number;
  end: number;
  tokens: Int32Array | null;
}

interface Work {
  index: number;
  operation: Operation;
  /** Current boundary; the operation itself keeps the one of the request's log. */
  at: number;
  parts: Part[];
  /** Named tokens in the beginning, so that losing all of them leaves nothing to do. */
  named: boolean;
  /** Done or lost. */
  gone: boolean;
}

interface Piece {
  raw: number;
  length: number;
  tokens: Int32Array;
}

const NOTHING = new Int32Array(0);

/**
 * Takes the targets of all forgets out of the log's text, in the order of boundary, then start, and carries all other operations
 * over:
 *
 *     boundary or place x      x ≤ s stays     s < x < e goes behind R     x ≥ e moves with the text
 *     ranges                   lose [s, e); R belongs to those of a later boundary with start ≤ s < end
 *     replacements             of the same or an earlier boundary with their place in [s, e) never stand
 */
export function editLog(log: Log, tasks: readonly Task[]): Edited {
  if (!tasks.some(({ operation }) => operation.kind === "edit")) return { tokens: log.tokens, origins: null, forgotten: 0, tasks: [...tasks], edits: [], lost: new Set() };
  let works = tasks.map(workOf);
  const order = works
    .filter(({ operation }) => operation.kind === "edit")
    .toSorted((a, b) => a.operation.at - b.operation.at || a.parts[0]!.start - b.parts[0]!.start);
  const pieces: Piece[] = [{ raw: 0, length: log.tokens.length, tokens: log.tokens }];
  const done: Edited["edits"] = [];
  const lost = new Set<number>();
  for (let i = 0; i < order.length; i++) {
    const edit = order[i]!;
    if (edit.gone) continue;
    edit.gone = true;
    const [{ start, end, tokens }, ...rest] = edit.parts as [Part, ...Part[]];
    // An insertion at the place of its target has parted the replacement from it: the rest goes as an edit of its own.
    const others = rest.map((part): Work => Object.assign({}, edit, { parts: [part], gone: false }));
    order.splice(i + 1, 0, ...others);
    works.push(...others);
    cutPieces(pieces, start, end, tokens!);
    done.push({ index: edit.index, removed: end - start, inserted: tokens!.length, behind: Math.max(0, edit.at - end) });
    if (carryAll(works, edit, start, end, tokens!.length, lost)) works = works.filter(({ gone }) => !gone);
  }
  return { ...join(pieces, log), tasks: works.flatMap(tasksOf), edits: done, lost };
}

/** Carries all operations over one edit. True where some were lost. */
function carryAll(works: readonly Work[], edit: Work, start: number, end: number, inserted: number, lost: Set<number>): boolean {
  const gone: Work[] = [];
  for (const work of works) {
    if (work.gone || carry(work, edit, start, end, inserted)) continue;
    work.gone = true;
    gone.push(work);
  }
  if (gone.length === 0) return false;
  // A directive is lost when none of its operations names anything any more; those without a target go with it.
  const naming = new Set<number>();
  for (const work of works) if (!work.gone && work.parts.length > 0) naming.add(work.index);
  for (const { index } of gone) if (!naming.has(index)) lost.add(index);
  for (const work of works) if (lost.has(work.index)) work.gone = true;
  return true;
}

function workOf({ index, operation }: Task): Work {
  const parts = partsOf(operation);
  return { index, operation, at: operation.at, parts, named: parts.some(({ start, end }) => end > start), gone: false };
}

function partsOf(operation: Operation): Part[] {
  switch (operation.kind) {
    case "compact":
      return [];
    case "hide":
    case "retain":
      return operation.ranges.map(([start, end]) => ({ start, end, tokens: null }));
    case "replace":
    case "edit":
      return [{ start: operation.target[0], end: operation.target[1], tokens: operation.tokens }];
  }
}

/** Carries an operation over one edit. False where nothing of it is left. */
function carry(work: Work, edit: Work, start: number, end: number, inserted: number): boolean {
  const later = work.operation.at > edit.operation.at;
  work.at = moved(work.at, start, end, inserted);
  if (work.parts.length === 0 || carryInPlace(work.parts, start, end, inserted)) return true;
  const parts: Part[] = [];
  for (const part of work.parts) {
    if (endsBefore(part, start)) parts.push(part);
    else carryPart(part, later, start, end, inserted, parts);
  }
  work.parts = joinParts(parts);
  return work.named ? work.parts.some((part) => part.end > part.start) : work.parts.length > 0;
}

/** The common case: no part meets the edit. Those behind it move. */
function carryInPlace(parts: Part[], start: number, end: number, inserted: number): boolean {
  for (const part of parts) if (!endsBefore(part, start) && !beginsBehind(part, start, end)) return false;
  const delta = inserted - (end - start);
  for (const part of parts) {
    if (endsBefore(part, start)) continue;
    part.start += delta;
    part.end += delta;
  }
  return true;
}

function endsBefore(part: Part, start: number): boolean {
  return part.end <= start && part.start < start;
}

function beginsBehind(part: Part, start: number, end: number): boolean {
  return part.start >= end && part.start > start;
}

/** Where a boundary or place goes. */
function moved(place: number, start: number, end: number, inserted: number): number {
  if (place <= start) return place;
  return place < end ? start + inserted : place + inserted - (end - start);
}

function carryPart(part: Part, later: boolean, start: number, end: number, inserted: number, out: Part[]): void {
  const fallen = !later && start <= part.start && part.start < end;
  let tokens = part.tokens && fallen ? NOTHING : part.tokens;
  const place = moved(part.start, start, end, inserted);
  const ranges = remaining(part, later, start, end, inserted);
  if (tokens && tokens.length > 0 && ranges[0]?.[0] !== place) {
    out.push({ start: place, end: place, tokens });
    tokens = NOTHING;
  }
  for (const [from, to] of ranges) {
    out.push({ start: from, end: to, tokens });
    tokens = tokens && NOTHING;
  }
}

/** What is left of a range, in new coordinates. */
function remaining(part: Part, later: boolean, start: number, end: number, inserted: number): Range[] {
  const delta = inserted - (end - start);
  const ranges: Range[] = [];
  if (part.start < Math.min(part.end, start)) ranges.push([part.start, Math.min(part.end, start)]);
  if (later && part.start <= start && start < part.end && inserted > 0) ranges.push([start, start + inserted]);
  if (Math.max(part.start, end) < part.end) ranges.push([Math.max(part.start, end) + delta, part.end + delta]);
  return ranges;
}

/** Parts that touch become one, unless the second brings tokens of its own. */
function joinParts(parts: readonly Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined[joined.length - 1];
    if (last && last.end === part.start && (part.tokens === null || part.tokens.length === 0)) joined[joined.length - 1] = { ...last, end: part.end };
    else joined.push(part);
  }
  return joined;
}

function tasksOf({ index, operation, at, parts, gone }: Work): Task[] {
  if (gone) return [];
  return carried(operation, at, parts).map((current): Task => Object.assign(taskOf(index, operation), { operation: current }));
}

function carried(operation: Operation, at: number, parts: readonly Part[]): Operation[] {
  switch (operation.kind) {
    case "compact":
      return [{ ...operation, at }];
    case "hide":
    case "retain":
      return [{ ...operation, at, ranges: parts.map(({ start, end }): Range => [start, end]) }];
    case "replace":
      return parts.map(({ start, end, tokens }): Operation => ({ kind: "replace", at, target: [start, end], tokens: tokens!, refresh: operation.refresh }));
    case "edit":
      return [];
  }
}

/** Replaces [start, end) of the text that the pieces make up. */
function cutPieces(pieces: Piece[], start: number, end: number, tokens: Int32Array): void {
  const first = splitPieces(pieces, start);
  const behind = splitPieces(pieces, end);
  pieces.splice(first, behind - first, ...(tokens.length > 0 ? [{ raw: -1, length: tokens.length, tokens }] : []));
}

/** Index of the piece that begins at text place `at`, cut if need be. */
function splitPieces(pieces: Piece[], at: number): number {
  let place = 0;
  for (let i = 0; i < pieces.length; i++) {
    const { raw, length, tokens } = pieces[i]!;
    if (place === at) return i;
    if (at < place + length) {
      const head = at - place;
      pieces.splice(
        i,
        1,
        { raw, length: head, tokens: tokens.subarray(0, head) },
        { raw: raw < 0 ? -1 : raw + head, length: length - head, tokens: tokens.subarray(head) },
      );
      return i + 1;
    }
    place += length;
  }
  return pieces.length;
}

function join(pieces: readonly Piece[], log: Log): Pick<Edited, "tokens" | "origins" | "forgotten"> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const tokens = new Int32Array(length);
  const origins: Origin[] = [];
  let token = 0;
  let kept = 0;
  for (const piece of pieces) {
    tokens.set(piece.tokens, token);
    origins.push({ token, length: piece.length, raw: piece.raw });
    token += piece.length;
    if (piece.raw >= 0) kept += piece.length;
  }
  return { tokens, origins, forgotten: log.tokens.length - kept };
}
