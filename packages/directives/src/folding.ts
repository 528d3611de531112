import { append, type Cells, cellsIn, chunkOf, compact, counterOf, NO_CELLS, positionAfter, type Segment, viewOf, visibleFrom, visibleOf } from "./cells.ts";
import type { Task } from "./edit.ts";
import { DirectiveError } from "./errors.ts";
import { type BornStretch, canonicalEvent } from "./event.ts";
import type { Group } from "./groups.ts";
import { hide, settleGhosts } from "./hide.ts";
import { type CompactOperation, ORDINARY_PRIORITY, type ReplaceOperation, type RetainOperation } from "./operations.ts";
import { mergeRanges } from "./ranges.ts";
import { refresh, type RefreshedStretch, replace } from "./splice.ts";
import type { Birth, CanonicalEvent, Range, Span } from "./types.ts";

/** What one task did. Sums of these become the outcome of its directive. */
export interface Counts {
  hidden?: number;
  inserted?: number;
  shifted?: number;
  delta?: number;
  recomputed?: number;
  retained?: readonly Range[];
  /** Visible cells behind the edit: what an edit of the text would prefill again. */
  behind?: number;
}

/** The fold right behind an event, and what the tasks of its boundary did: a later fold may begin there. */
export interface Checkpoint {
  group: Group;
  /** By the order of `tasksOf(group)`. */
  counts: readonly Counts[];
  /** Null where the boundary changed nothing. */
  event: { canonical: CanonicalEvent; births: readonly Birth[]; made: readonly Made[]; open: OpenStage } | null;
}

/** Tokens of cells that were born in events. */
export interface Made {
  cell: number;
  tokens: Int32Array;
}

interface OpenStage {
  cell: number;
  length: number;
  position: number;
  token: number;
  /** What its rows see, besides one another. */
  cells: Cells;
}

export interface FoldingOptions {
  tokens: Int32Array;
  contextLength: number;
  /** Leave the counter where it is when the survivors of a reposition are compact. */
  keepTailGap: boolean;
  /** Names the field of a task in errors. */
  param: (task: Task, field?: string) => string;
}

/** Walks a log from boundary to boundary. */
export class Folding {
  readonly events: CanonicalEvent[] = [];
  readonly births: Birth[] = [];
  readonly made: Made[] = [];
  readonly #options: FoldingOptions;
  #open: OpenStage = { cell: 0, length: 0, position: 0, token: 0, cells: NO_CELLS };
  #cells: Cells = NO_CELLS;

  constructor(options: FoldingOptions) {
    this.#options = options;
  }

  /** Takes over what an earlier fold found at the same boundary of the same log. */
  resume({ event }: Checkpoint): void {
    if (!event) return;
    this.events.push(event.canonical);
    this.births.push(...event.births);
    this.made.push(...event.made);
    this.#open = event.open;
    this.#cells = event.open.cells;
  }

  apply(group: Group): Checkpoint {
    this.#bear(group.at);
    const [birthsBefore, madeBefore] = [this.births.length, this.made.length];
    const before = this.#cells;
    const firstCell = this.#open.cell + this.#open.length;
    const boundary = new BoundaryFolding(before, firstCell, this.#options, this.made);
    const { counts, seen } = boundary.run(group, before);
    const after = boundary.cells;
    const canonical = canonicalEvent(group.at, { firstCell, before, seen, after, born: boundary.stretches });
    if (!canonical) return { group, counts, event: null };
    this.events.push(canonical);
    this.#close();
    this.births.push(...boundary.births);
    this.#cells = after;
    this.#open = { cell: boundary.nextCell, length: 0, position: counterOf(after), token: group.at, cells: after };
    const event = { canonical, births: this.births.slice(birthsBefore), made: this.made.slice(madeBefore), open: this.#open };
    return { group, counts, event };
  }

  /** The rest of the log. Returns what is visible behind it. */
  finish(): { nextPosition: number; visible: number; cells: number } {
    this.#bear(this.#options.tokens.length);
    this.#close();
    return { nextPosition: counterOf(this.#cells), visible: visibleOf(this.#cells), cells: this.#open.cell + this.#open.length };
  }

  /** Tokens of all cells. */
  tokens(cells: number): Int32Array {
    const { tokens } = this.#options;
    if (this.made.length === 0) return tokens;
    const all = new Int32Array(cells);
    for (const { cell, length, token } of this.births) if (token >= 0) all.set(tokens.subarray(token, token + length), cell);
    for (const made of this.made) all.set(made.tokens, made.cell);
    return all;
  }

  /** Computes the log's tokens up to `token` in the stage that is open. */
  #bear(token: number): void {
    const open = this.#open;
    const born = open.token + open.length;
    this.#cells = append(this.#cells, open.cell + open.length, born, token - born, open.position + open.length);
    this.#open = { ...open, length: token - open.token };
    const { contextLength } = this.#options;
    if (token > open.token && open.position + token - open.token > contextLength) {
      throw new DirectiveError(
        "context_length_exceeded",
        `The log reaches position ${open.position + token - open.token - 1}, but the model's context has ${contextLength} positions; shorten it, or drop and reposition earlier.`,
      );
    }
  }

  #close(): void {
    const { cell, length, position, token, cells } = this.#open;
    this.births.push(new LazyBirth("log", cell, length, position, token, cells, Infinity));
  }
}

/** The steps of one boundary. */
class BoundaryFolding {
  cells: Cells;
  readonly births: Birth[] = [];
  readonly stretches: BornStretch[] = [];
  nextCell: number;
  readonly #firstCell: number;
  readonly #options: FoldingOptions;
  readonly #made: Made[];

  constructor(cells: Cells, firstCell: number, options: FoldingOptions, made: Made[]) {
    this.cells = cells;
    this.nextCell = firstCell;
    this.#firstCell = firstCell;
    this.#options = options;
    this.#made = made;
  }

  run(group: Group, before: Cells): { counts: Counts[]; seen: Cells } {
    const counts = group.hides.map(({ operation }) => this.#hide(operation.ranges));
    const splices = this.#replaceAll(group.replaces);
    for (const i of group.refreshes) splices[i]!.recomputed = this.#refresh(group.replaces, splices, i);
    counts.push(...splices);
    const seen = this.cells;
    group.compacts.forEach((task, i) => counts.push(i === 0 ? this.#compact(task) : { shifted: 0, delta: 0 }));
    for (const { operation } of group.retains) counts.push(this.#retain(operation, before));
    return { counts, seen };
  }

  #hide(ranges: readonly Range[]): Counts {
    const { cells, hidden } = hide(this.cells, ranges);
    this.cells = cells;
    return { hidden, behind: hidden === 0 ? 0 : visibleFrom(cells, ranges[0]![0]) };
  }

  /** Puts all replacements in their places, takes out what the drops left, and then computes the replacements' cells. */
  #replaceAll(tasks: readonly Task<ReplaceOperation>[]): Counts[] {
    let provisional = this.#firstCell;
    const cellOf = tasks.map(({ operation }) => (provisional += operation.tokens.length) - operation.tokens.length);
    const counts = tasks.map(({ operation }, i): Counts => {
      const { cells, hidden, shifted, delta } = replace(this.cells, operation.target, cellOf[i]!, operation.tokens.length);
      this.cells = cells;
      return { hidden, inserted: 0, shifted, delta, behind: visibleFrom(cells, operation.target[1]) };
    });
    this.cells = settleGhosts(this.cells);
    if (tasks.length > 0) this.#checkReach(tasks);
    if (provisional > this.#firstCell) this.#bearReplacements(tasks, cellOf, counts);
    return counts;
  }

  #checkReach(tasks: readonly Task<ReplaceOperation>[]): void {
    const { contextLength } = this.#options;
    const reach = positionAfter(this.cells.chunks);
    if (reach <= contextLength) return;
    const task = tasks.reduce((longest, other) => (other.operation.tokens.length > longest.operation.tokens.length ? other : longest));
    throw new DirectiveError(
      "context_length_exceeded",
      `With this replacement the visible cells reach position ${reach - 1}, but the model's context has ${contextLength} positions; shorten it, or drop more.`,
      this.#options.param(task, "with"),
    );
  }

  /** Numbers the replacements that stand, from left to right. (One may have been covered by another where a forget joined two boundaries.) */
  #bearReplacements(tasks: readonly Task<ReplaceOperation>[], cellOf: readonly number[], counts: Counts[]): void {
    const standing: { cell: number; length: number; position: number; index: number }[] = [];
    let [position, index] = [0, 0];
    for (let c = 0; c < this.cells.chunks.length; c++) {
      const { segments, span, newest } = this.cells.chunks[c]!;
      let at = position;
      for (let i = 0; newest >= this.#firstCell && i < segments.length; i++) {
        const segment = segments[i]!;
        at += segment.gap + segment.length;
        if (segment.cell < this.#firstCell) continue;
        const task = lastUpTo(cellOf, segment.cell);
        const { tokens } = tasks[task]!.operation;
        counts[task]!.inserted = tokens.length;
        const born = { cell: this.nextCell, length: segment.length, position: at - segment.length, index: index + i };
        this.#made.push({ cell: born.cell, tokens });
        this.nextCell += tokens.length;
        standing.push(born);
        if (segment.cell !== born.cell || segment.birth !== born.position) this.#renumber(c, i, born.cell, born.position);
      }
      position += span;
      index += segments.length;
    }
    for (const { cell, length, position: at, index: place } of standing) this.#bear("inserted", cell, length, at, place, place + 1);
  }

  #renumber(chunk: number, index: number, cell: number, birth: number): void {
    const segments = this.cells.chunks[chunk]!.segments.slice();
    segments[index] = { ...segments[index]!, cell, birth };
    this.cells = withChunk(this.cells, chunk, segments);
  }

  /** The cells behind a splice's target, its own replacement left out, computed again. Returns how many. */
  #refresh(tasks: readonly Task<ReplaceOperation>[], counts: readonly Counts[], i: number): number {
    const { target, refresh: most } = tasks[i]!.operation;
    const [start, end] = target;
    let own = 0;
    if (start === end && counts[i]!.inserted! > 0) {
      // Its own replacement, and those put in front of it at this place, stand before what follows.
      for (let j = i; j < tasks.length; j++) if (tasks[j]!.operation.target[0] === start) own += counts[j]!.inserted!;
    }
    const { cells, stretches } = refresh(this.cells, end, own, most, this.nextCell);
    this.cells = cells;
    for (const stretch of stretches) this.#bearAgain(stretch);
    return stretches.reduce((sum, { length }) => sum + length, 0);
  }

  #bearAgain({ cell, length, position, index, old }: RefreshedStretch): void {
    const tokens = new Int32Array(length);
    let at = 0;
    for (const segment of old) {
      tokens.set(this.#tokensOf(segment), at);
      at += segment.length;
    }
    this.#made.push({ cell, tokens });
    this.nextCell = cell + length;
    this.#bear("recomputed", cell, length, position, index, index + old.length);
  }

  #tokensOf({ cell, place, step, length }: Segment): Int32Array {
    if (step === 1) return this.#options.tokens.subarray(place, place + length);
    const made = this.#made.findLast((entry) => entry.cell <= cell)!;
    return made.tokens.subarray(cell - made.cell, cell - made.cell + length);
  }

  /** Records the birth of a stretch that is the segments [index, behind); the segments before it are its view. */
  #bear(kind: Birth["kind"], cell: number, length: number, position: number, index: number, behind: number): void {
    this.births.push(new LazyBirth(kind, cell, length, position, -1, this.cells, index));
    const before = segmentAt(this.cells, behind)?.cell ?? -1;
    const last = this.stretches[this.stretches.length - 1];
    const left = segmentAt(this.cells, index - 1);
    const follows = last && left && left.cell + left.length === cell && last.cell + last.length === cell && last.position + last.length === position;
    if (follows) Object.assign(last, { length: last.length + length, before });
    else this.stretches.push({ cell, length, position, before });
  }

  #compact(task: Task<CompactOperation>): Counts {
    const visible = visibleOf(this.cells);
    if (task.operation.refuseEmpty && visible === 0) {
      throw new DirectiveError("akv_invalid", "Nothing is visible at this reposition; expected at least one message that is not dropped.", this.#options.param(task));
    }
    if (this.#options.keepTailGap && positionAfter(this.cells.chunks) === visible) return { shifted: 0, delta: 0 };
    const { cells, shifted, delta } = compact(this.cells);
    this.cells = cells;
    return { shifted, delta };
  }

  #retain({ priority, ranges }: RetainOperation, before: Cells): Counts {
    return { retained: mergeRanges(cellsIn(priority > ORDINARY_PRIORITY ? this.cells : before, ranges)) };
  }
}

/** The same chunks, one of them with other segments. */
function withChunk(cells: Cells, index: number, segments: readonly Segment[]): Cells {
  const chunks = cells.chunks.slice();
  chunks[index] = chunkOf(segments);
  return { chunks, tail: cells.tail };
}

function segmentAt({ chunks }: Cells, index: number): Segment | undefined {
  let left = index;
  for (const { segments } of chunks) {
    if (left < segments.length) return segments[left];
    left -= segments.length;
  }
  return undefined;
}

/** Index of the last of some ascending numbers that is not above a cell. (No closure: this runs in the loop over segments.) */
function lastUpTo(cells: readonly number[], cell: number): number {
  let low = 0;
  let high = cells.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (cells[middle]! <= cell) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** A birth whose view is spelled out when somebody looks at it: most are never computed again. */
class LazyBirth implements Birth {
  readonly cell: number;
  readonly length: number;
  readonly position: number;
  readonly token: number;
  readonly kind: Birth["kind"];
  readonly #cells: Cells;
  readonly #count: number;
  #view: Span[] | undefined;

  /** The view is the first `count` segments of the cells. */
  constructor(kind: Birth["kind"], cell: number, length: number, position: number, token: number, cells: Cells, count: number) {
    this.cell = cell;
    this.length = length;
    this.position = position;
    this.token = token;
    this.kind = kind;
    this.#cells = cells;
    this.#count = count;
  }

  get view(): readonly Span[] {
    return (this.#view ??= viewOf(this.#cells, this.#count));
  }
}
