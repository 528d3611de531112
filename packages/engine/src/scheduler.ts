import type { CellLease } from "@palimpsest/kvstore";
import type { MatchLease } from "@palimpsest/radix";
import type { Cache } from "./cache.ts";
import { EngineError } from "./errors.ts";
import { Holding } from "./holding.ts";
import type { EngineLimits } from "./limits.ts";
import { cellsRead, planWork, rowsOf, type Wish, type Work } from "./planner.ts";
import { RangeSet } from "./ranges.ts";
import type { Found } from "./report.ts";
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
  /** Nothing that was refused before can be admitted until pages or places came back, or somebody joined the line. */
  #worthTrying = false;

  constructor(cache: Cache, limits: EngineLimits) {
    this.#cache = cache;
    this.#limits = limits;
  }

  enqueue(sequence: Sequence, nowMs: number): void {
    if (this.waiting.length >= this.#limits.waitingMax) {
      throw new EngineError("queue_full", `${this.waiting.length} requests are waiting already; retry later`);
    }
    const worst = pagesFor(planWork(sequence.fold, new RangeSet(), wishOf(sequence, 0)), sequence.openCellsMax, this.#cache.pool.pageSize);
    if (worst > this.#cache.pool.pages) {
      const message = `the request needs up to ${worst} pages of ${this.#cache.pool.pageSize} cells, the cache has ${this.#cache.pool.pages}; shorten it or allow fewer tokens`;
      throw new EngineError("pages_exceeded", message);
    }
    this.waiting.push(sequence, nowMs);
    this.#worthTrying = true;
  }

  /** Takes a sequence out of line or batch, and gives back all that it holds. */
  leave(sequence: Sequence): void {
    const at = this.running.indexOf(sequence);
    if (at >= 0) this.running.splice(at, 1);
    else this.waiting.drop((waiter) => waiter === sequence);
    sequence.admission?.holding.release();
    sequence.admission = null;
    this.#worthTrying = true;
  }

  /** Admits from the line as many as fit. Returns those that never will: nothing runs, nothing is left to evict, and still no room. */
  admit(): Sequence[] {
    if (!this.#worthTrying) return [];
    this.#worthTrying = false;
    let blocked = 0;
    for (let index = 0; this.running.length < this.#limits.runningMax; ) {
      const sequence = this.waiting.at(index);
      if (sequence === undefined) break;
      if (blocked > 0 && (this.waiting.bypasses >= this.#limits.bypassesMax || blocked >= this.#limits.lookaheadMax)) break;
      if (this.#tryAdmit(sequence)) this.waiting.admit(index);
      else {
        blocked++;
        index++;
      }
    }
    if (this.running.length > 0 || this.waiting.length === 0) return [];
    const stuck = this.waiting.at(0)!;
    return this.waiting.drop((sequence) => sequence === stuck);
  }

  /** The rows of the next step, at most one sequence's worth each; prompts come in cell order. */
  batch(step: number): Entry[] {
    const entries: Entry[] = [];
    for (const [sequence, rows] of this.#grants()) {
      sequence.servedAt = step;
      if (sequence.isPrefilling) takeWork(sequence, rows, entries);
      else entries.push({ sequence, work: { birth: sequence.fold.births.length - 1, from: sequence.length - 1, to: sequence.length, store: true }, decode: true });
    }
    return entries;
  }

  /** Match and promise in one go; on refusal the match is given back at once. */
  #tryAdmit(sequence: Sequence): boolean {
    const { pageSize } = this.#cache.pool;
    while (true) {
      const match = this.#cache.match(sequence.namespace, sequence.path());
      const { work, found } = planFor(sequence, match);
      const read = cellsRead(sequence.fold, work, sequence.readsOpen);
      const pages = pagesFor(work, sequence.openCellsMax, pageSize);
      if (this.#cache.promise(pages)) {
        const holding = new Holding(this.#cache, sequence.namespace, match, pages, read);
        sequence.begin({ holding, work, found });
        this.running.push(sequence);
        return true;
      }
      match.release();
      // A match may pin more pages than its cells fill, other branches' cells beside them. Alone, the request makes room for itself.
      if (this.running.length > 0 || this.#cache.pool.audit().cached === 0) return false;
      const { free, pages: total } = this.#cache.pool;
      if (!this.#cache.evictUntilFree(Math.min(total, free + Math.max(1, pages - this.#cache.available)))) return false;
    }
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

/** What a sequence has to run beside what a match found. */
export function planFor(sequence: Sequence, match: MatchLease<CellLease>): { work: Work[]; found: Found } {
  const resident = new RangeSet();
  for (const { start, length, value } of match.spans) if (value !== null) resident.add(start, start + length);
  const work = planWork(sequence.fold, resident, wishOf(sequence, match.length));
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
