import type { Fold, Outcome } from "@palimpsest/directives";
import type { Difference, MatchEnd, PathUnit } from "@palimpsest/radix";
import type { Work } from "./planner.ts";
import { RangeSet } from "./ranges.ts";
import type { Sequence } from "./sequence.ts";
import type { Miss, Report } from "./types.ts";

/** What the cache had when a request was admitted. */
export interface Found {
  /** Cells of the path that the tree knew, evicted ones included. */
  known: number;
  end: MatchEnd;
  difference: Difference | null;
}

/** What the rows of one request did: kept per birth while it runs, counted cell by cell once it ends. Generated cells are in no count. */
export class Reads {
  readonly #fold: Fold;
  /** By birth: end of the rows that ran, 0 where none did. */
  readonly #rowsEnd: Int32Array;
  readonly #computed = new RangeSet();
  #open = false;
  /** Cells computed for the first time, by kind of their birth. */
  readonly #fresh = { log: 0, inserted: 0, recomputed: 0 };
  #recovered = 0;

  constructor(fold: Fold) {
    this.#fold = fold;
    this.#rowsEnd = new Int32Array(fold.births.length);
  }

  /** Rows of the prompt ran. `known`: cells that the tree knew beforehand. */
  ran({ birth, from, to, store }: Work, known: number): void {
    this.#rowsEnd[birth] = Math.max(this.#rowsEnd[birth]!, to);
    this.#computed.add(from, to);
    if (!store) return;
    const recovered = Math.max(0, Math.min(to, known) - from);
    this.#recovered += recovered;
    this.#fresh[this.#fold.births[birth]!.kind] += to - from - recovered;
  }

  /** A row of the answer ran: it reads the open birth whole. */
  ranOpen(): void {
    this.#open = true;
  }

  /** Every cell of the fold counts once: computed, else read with a shift, else read where it was born, else skipped. */
  counts() {
    const { births, tokens } = this.#fold;
    const shifted = new RangeSet();
    const read = new RangeSet();
    births.forEach((birth, index) => {
      const isOpen = this.#open && index === births.length - 1;
      const end = isOpen ? birth.cell + birth.length : this.#rowsEnd[index]!;
      if (end === 0 && !isOpen) return;
      for (const { cell, length, shift } of birth.view) (shift === 0 ? read : shifted).add(cell, cell + length);
      read.add(birth.cell, end);
    });
    const computed = this.#computed.total;
    const repositioned = shifted.total - shifted.countShared(this.#computed);
    shifted.addAll(this.#computed);
    const cached = read.total - read.countShared(shifted);
    return {
      cached_tokens: cached,
      repositioned_tokens: repositioned,
      computed_tokens: computed,
      skipped_tokens: tokens.length - computed - repositioned - cached,
      inserted_tokens: this.#fresh.inserted,
      recomputed_tokens: this.#fresh.recomputed,
      recovered_tokens: this.#recovered,
    };
  }
}

/** The report of a request, WIRE 4. `refused`: pins for which the tenant's budget has no room. They are hints: the answer is the same. */
export function reportOf({ fold, request, reads }: Pick<Sequence, "fold" | "request" | "reads">, promptSteps: number, miss: Miss | null, refused: ReadonlySet<number>): Report {
  return {
    prompt_tokens: request.promptTokens,
    visible_tokens: fold.visible,
    next_position: fold.nextPosition,
    stages: fold.stages,
    forgotten_tokens: fold.forgotten,
    ...reads.counts(),
    forward_steps: promptSteps,
    bytes_moved: 0,
    directives: fold.outcomes.map((outcome): Outcome => (refused.has(outcome.index) ? { ...outcome, status: "no_effect", reason: "over_budget" } : outcome)),
    miss,
  };
}

/** Where a prompt left what was cached, and why; null where all of it that was needed was there. */
export function missOf(fold: Fold, found: Found, work: readonly Work[]): Miss | null {
  const recovered = work.filter(({ store, from }) => store && from < found.known);
  if (recovered.length > 0) {
    const cells = recovered.reduce((sum, { from, to }) => sum + Math.min(to, found.known) - from, 0);
    const at = tokenOf(fold, recovered[0]!.from);
    return { at_token: at, reason: "evicted", detail: `from token ${at} on, ${cells} cells that were computed before had been evicted and are read` };
  }
  if (found.known >= fold.tokens.length) return null;
  const at = tokenOf(fold, found.known);
  return { at_token: at, ...reasonOf(found, at) };
}

function reasonOf({ end, difference }: Found, at: number): { reason: Miss["reason"]; detail: string } {
  if (difference === null || end === "unknown" || end === "whole") return { reason: "new", detail: `nothing that begins like this log goes on behind token ${at}` };
  const { known, asked } = difference;
  if (end === "token_differs") {
    return { reason: "token_differs", detail: `token ${at} has id ${asked.token}; the log that shares the beginning has ${known.token} there` };
  }
  return { reason: "event_differs", detail: `in front of token ${at} this log has ${eventOf(asked)}; the log that shares the beginning has ${eventOf(known)}` };
}

function eventOf({ event }: PathUnit): string {
  return event === null ? "no edit" : `the edit ${event.length > 80 ? `${event.slice(0, 80)}…` : event}`;
}

/** Token of the request's log that a cell stands for, or stands in front of where an event or a forget brought it. */
export function tokenOf(fold: Fold, cell: number): number {
  let low = 0;
  let high = fold.births.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (fold.births[middle]!.cell <= cell) low = middle;
    else high = middle - 1;
  }
  // Births without cells share their first cell with the one behind them.
  for (let index = low; index < fold.births.length; index++) {
    const { token, cell: first, kind } = fold.births[index]!;
    if (kind === "log") return rawToken(fold, token + Math.max(0, cell - first));
  }
  return rawToken(fold, fold.tokens.length);
}

/** Token of the request's log for one of the log that was folded; of a forget's replacement, the one behind it. */
function rawToken({ origins }: Fold, token: number): number {
  if (origins === null) return token;
  let end = 0;
  for (const { token: first, length, raw } of origins) {
    if (raw < 0) continue;
    if (token < first) return raw;
    if (token < first + length) return raw + token - first;
    end = raw + length;
  }
  return end;
}
