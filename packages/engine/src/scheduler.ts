import type { AddressedCells } from "@palimpsest/kvstore";
import type { MatchLease } from "@palimpsest/radix";
import type { Cache } from "./cache.ts";
import { EngineError } from "./errors.ts";
import { Holding } from "./holding.ts";
import type { EngineLimits } from "./limits.ts";
import { cellsRead, planWork, rowsOf, type Wish, type Work } from "./planner.ts";
import { RangeSet } from "./ranges.ts";
import type { Found } from "./report.ts";
import type { Restorer } from "./restorer.ts";
import type { Sequence } from "./sequence.ts";
import { WaitingLine } from "./waiting.ts";

/** Rows of one sequence in one step. */
export interface Entry {
  sequence: Sequence;
  work: Work;
  /** A row of the answer, not of the prompt. */
  decode: boolean;
}

/**
 * Who runs, who waits, and which rows the next step has. A request is admitted when its worst case in pages can be promised beside
 * what runs, so nobody who runs ever waits for pages.
 */
export class Scheduler {
  readonly waiting = new WaitingLine();
  readonly running: Sequence[] = [];
  readonly #cache: Cache;
  readonly #limits: EngineLimits;
  readonly #restorer: Restorer | null;
  readonly #onChange: () => void;
  /**
   * A request that runs by itself, without a promise: its prompt has more cells than there are pages, but what it hides on the way makes
   * room again. Nobody else is admitted until its prompt is through.
   */
  #alone: Sequence | null = null;
  /** Nothing that was refused before can be admitted until pages or places came back, or somebody joined the line. */
  #worthTrying = false;
  /** The request that runs alone waits for pages that a transfer holds. */
  #isStalled = false;

  /** `onChange`: something that was waited for has come, outside of any call. */
  constructor(cache: Cache, limits: EngineLimits, restorer: Restorer | null = null, onChange: () => void = () => {}) {
    this.#cache = cache;
    this.#limits = limits;
    this.#restorer = restorer;
    this.#onChange = onChange;
  }

  /** Nothing can be run or admitted until somebody comes or goes, or `retry` is called. */
  get isIdle(): boolean {
    return this.#isStalled || (this.running.length === 0 && (this.waiting.length === 0 || !this.#worthTrying));
  }

  /** Pages or cells have come that somebody waits for. */
  retry(): void {
    this.#worthTrying = true;
    this.#isStalled = false;
    this.#onChange();
  }

  enqueue(sequence: Sequence, nowMs: number): void {
    if (this.waiting.length >= this.#limits.waitingMax) {
      throw new EngineError("queue_full", `${this.waiting.length} requests are waiting already; retry later`);
    }
    this.requireFits(sequence);
    this.waiting.push(sequence, nowMs);
    this.#worthTrying = true;
  }

  /** Throws `pages_exceeded` for what could not be held even with nobody beside it. */
  requireFits(sequence: Sequence): void {
    const { pageSize, pages } = this.#cache.pool;
    const least = Math.ceil((sequence.fold.visible + sequence.openCellsMax) / pageSize);
    if (least > pages) {
      const message = `what the request sees in the end, and its answer, need ${least} pages of ${pageSize} cells; the cache has ${pages}: shorten it or allow fewer tokens`;
      throw new EngineError("pages_exceeded", message);
    }
  }

  /** Takes a sequence out of line or batch, and gives back all that it holds. */
  leave(sequence: Sequence): void {
    const at = this.running.indexOf(sequence);
    if (sequence === this.#alone) {
      this.#alone = null;
      this.#isStalled = false;
    }
    if (at >= 0) this.running.splice(at, 1);
    else this.waiting.drop((waiter) => waiter === sequence);
    sequence.admission?.holding.release();
    sequence.admission = null;
    this.#worthTrying = true;
  }

  /** Admits from the line as many as fit. Returns those that do not, even alone: nothing is left to evict, and still no room. */
  admit(): Sequence[] {
    const alone = this.#alone;
    if (alone !== null && !this.#goesOn(alone)) {
      this.#isStalled = this.#cache.isTransferring;
      return this.#isStalled ? [] : [alone];
    }
    if (!this.#worthTrying || this.#alone !== null) return [];
    this.#worthTrying = false;
    let firstBlocked = -1;
    for (let index = 0; this.#alone === null && this.running.length < this.#limits.runningMax && index < this.#limits.lookaheadMax; ) {
      const sequence = this.waiting.at(index);
      if (sequence === undefined) break;
      if (firstBlocked >= 0 && this.waiting.bypasses(firstBlocked) >= this.#limits.bypassesMax) break;
      const tried = this.#tryAdmit(sequence);
      if (tried === "admitted") this.waiting.admit(index);
      else index++;
      if (tried === "blocked" && firstBlocked < 0) firstBlocked = index - 1;
      // What it waits for comes with the next step.
      if (tried === "shared") this.#worthTrying = true;
    }
    return [];
  }

  /** The rows of the next step, at most one sequence's worth each; prompts come in cell order. */
  batch(step: number): Entry[] {
    const entries: Entry[] = [];
    if (this.#isStalled) return entries;
    for (const [sequence, rows] of this.#grants()) {
      sequence.servedAt = step;
      if (sequence.isPrefilling) takeWork(sequence, rows, entries);
      else entries.push({ sequence, work: { birth: sequence.fold.births.length - 1, from: sequence.length - 1, to: sequence.length, store: true }, decode: true });
    }
    return entries;
  }

  /**
   * Match and promise in one go; on refusal the match is given back at once. "shared": somebody who runs is about to compute a good
   * part of the prompt, which is worth waiting for without holding anything. "transfer": cells are on their way from a tier, or pages are
   * held by a transfer; `retry` is called when it has ended.
   */
  #tryAdmit(sequence: Sequence): "admitted" | "blocked" | "shared" | "transfer" {
    const { pageSize } = this.#cache.pool;
    if (sequence.isRestoring) return "transfer";
    for (let canEvict = true; ; ) {
      const match = this.#cache.match(sequence.namespace, sequence.path());
      if (this.#isBeingComputed(sequence, match.length)) {
        match.release();
        return "shared";
      }
      if (!sequence.restored && this.#restore(sequence, match)) {
        match.release();
        return "transfer";
      }
      const { work, found } = planFor(sequence, match);
      const pages = pagesFor(work, sequence.openCellsMax, pageSize);
      if (this.#cache.promise(pages)) {
        const holding = new Holding(this.#cache, sequence.namespace, match, pages);
        sequence.begin({ holding, work, found });
        this.running.push(sequence);
        return "admitted";
      }
      if (this.running.length === 0 && !canEvict && this.#cache.isTransferring) {
        match.release();
        return "transfer";
      }
      if (this.running.length === 0 && !canEvict) {
        sequence.begin({ holding: new Holding(this.#cache, sequence.namespace, match, 0), work, found });
        this.running.push(sequence);
        this.#alone = sequence;
        return "admitted";
      }
      match.release();
      if (this.running.length > 0) return "blocked";
      // A match may pin more pages than its cells fill, other branches' cells beside them. Alone, the request makes room for itself.
      const { free, pages: total } = this.#cache.pool;
      canEvict = free < total && this.#cache.evictUntilFree(Math.min(total, free + Math.max(1, pages - this.#cache.available)));
    }
  }

  /** Whether cells that the request needs are on their way from a tier now. */
  #restore(sequence: Sequence, match: MatchLease<AddressedCells>): boolean {
    const coming = this.#restorer?.begin(sequence, match) ?? null;
    if (coming === null) return false;
    sequence.isRestoring = true;
    void coming.finally(() => {
      sequence.isRestoring = false;
      this.retry();
    });
    return true;
  }

  /** Whether the request that runs alone has room for another row; once its prompt is through, whether its answer can be promised. */
  #goesOn(sequence: Sequence): boolean {
    if (sequence.isPrefilling) return this.#room(sequence) > 0;
    if (!sequence.admission!.holding.promise(Math.ceil(sequence.openCellsMax / this.#cache.pool.pageSize))) return false;
    this.#alone = null;
    this.#worthTrying = true;
    return true;
  }

  /** New cells that the request that runs alone can take now. */
  #room(sequence: Sequence): number {
    return sequence.admission!.holding.room + this.#cache.available * this.#cache.pool.pageSize;
  }

  /** Whether a running prompt goes on together with this one behind the `known` cells that the tree has. */
  #isBeingComputed(sequence: Sequence, known: number): boolean {
    const enough = known + (sequence.waitsForShared ? 1 : this.#limits.shareCellsMin);
    if (enough > sequence.length) return false;
    sequence.waitsForShared = this.running.some((other) => other.isPrefilling && other.namespace === sequence.namespace && agree(sequence, other, enough));
    return sequence.waitsForShared;
  }

  /**
   * Rows for each sequence: one for each while there are rows, those first that were served longest ago; what is left goes to the
   * prompts in equal parts, and what a short one does not need to the longer ones.
   */
  #grants(): Map<Sequence, number> {
    const { rowsPerStepMax, rowsBesideDecodeMax, outputsPerStepMax } = this.#limits;
    const decodes = this.running.some((sequence) => !sequence.isPrefilling);
    let rows = decodes ? Math.min(rowsBesideDecodeMax, rowsPerStepMax) : rowsPerStepMax;
    let outputs = outputsPerStepMax;
    const grants = new Map<Sequence, number>();
    for (const sequence of this.running.toSorted((a, b) => a.servedAt - b.servedAt || a.id - b.id)) {
      if (rows === 0 || outputs === 0) break;
      grants.set(sequence, 1);
      rows--;
      outputs--;
    }
    const prompts = [...grants.keys()].filter((sequence) => sequence.isPrefilling).toSorted((a, b) => a.rowsLeft - b.rowsLeft);
    prompts.forEach((sequence, index) => {
      const sharers = prompts.length - index;
      let more = Math.min(sequence.rowsLeft - 1, Math.ceil(rows / sharers));
      if (sequence === this.#alone) more = Math.min(more, this.#room(sequence) - 1);
      if (sequence.request.echo) {
        more = Math.min(more, Math.ceil(outputs / sharers));
        outputs -= more;
      }
      rows -= more;
      grants.set(sequence, 1 + more);
    });
    return grants;
  }
}

/** Gives back what a match holds and nobody reads. Of a hole there is nothing to hold: whoever fills it shall be able to lose it again. */
function narrow(match: MatchLease<AddressedCells>, read: RangeSet): void {
  for (const [from, to] of read.gaps(0, match.length)) match.skip(from, to);
  for (const { start, length, value } of match.spans) if (value === null) match.skip(start, start + length);
}

/** Whether the first `cells` cells of two paths are the same, with the same edits in front of them. */
function agree(one: Sequence, other: Sequence, cells: number): boolean {
  if (other.fold.tokens.length < cells) return false;
  for (let cell = 0; cell < cells; cell++) if (one.tokens[cell] !== other.tokens[cell]) return false;
  for (let i = 0; ; i++) {
    const [mine, theirs] = [one.events[i], other.events[i]];
    const [myEnd, theirEnd] = [mine === undefined || mine.at >= cells, theirs === undefined || theirs.at >= cells];
    if (myEnd || theirEnd) return myEnd && theirEnd;
    if (mine!.at !== theirs!.at || mine!.key !== theirs!.key) return false;
  }
}

/** What a sequence has to run beside what a match found. From then on the match holds only what will be read. */
export function planFor(sequence: Sequence, match: MatchLease<AddressedCells>): { work: Work[]; found: Found } {
  const resident = new RangeSet();
  for (const { start, length, value } of match.spans) if (value !== null) resident.add(start, start + length);
  const work = planWork(sequence.fold, resident, wishOf(sequence, match.length));
  narrow(match, cellsRead(sequence.fold, work, sequence.readsOpen));
  return { work, found: { known: match.length, end: match.end, difference: match.difference } };
}

function wishOf({ request, readsOpen }: Sequence, known: number): Wish {
  return { echo: request.echo, ask: true, open: readsOpen, known };
}

function pagesFor(work: readonly Work[], openCells: number, pageSize: number): number {
  return Math.ceil((rowsOf(work.filter(({ store }) => store)) + openCells) / pageSize);
}

/** Cuts the next `rows` rows from a prompt's work. */
function takeWork(sequence: Sequence, rows: number, entries: Entry[]): void {
  const { work } = sequence.admission!;
  let left = rows;
  while (left > 0 && sequence.workIndex < work.length) {
    const { birth, to, store } = work[sequence.workIndex]!;
    const from = sequence.workFrom;
    const end = Math.min(to, from + left);
    entries.push({ sequence, work: { birth, from, to: end, store }, decode: false });
    left -= end - from;
    sequence.advance(end);
  }
}
