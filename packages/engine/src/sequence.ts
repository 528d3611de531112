import type { Birth, Fold } from "@palimpsest/directives";
import type { Sampler } from "@palimpsest/kernels-cuda";
import type { Path, PathEvent } from "@palimpsest/radix";
import type { Answer } from "./answer.ts";
import type { Holding } from "./holding.ts";
import { rowsOf, type Work } from "./planner.ts";
import { Reads, type Found } from "./report.ts";
import type { Erased, GenerateRequest, TokenLogprob } from "./types.ts";

/** What a running request has of the cache and what it still has to run for its prompt. */
export interface Admission {
  holding: Holding;
  work: Work[];
  found: Found;
}

/**
 * One request on its way: its path (the fold's cells, then those of generated tokens), where it stands, and what it has read so far.
 * Cell numbers are orders of birth and never token indices: an event may own cells.
 */
export class Sequence {
  readonly id: number;
  readonly request: GenerateRequest;
  readonly fold: Fold;
  readonly answer: Answer;
  readonly namespace: string;
  readonly events: readonly PathEvent[];
  /** Tokens of the path, with room for the answer. */
  readonly tokens: Int32Array;
  readonly sampler: Sampler;
  /** What was asked, or as many as the context has positions for. */
  readonly maxTokens: number;
  readonly reads: Reads;
  /** Scores of the prompt's tokens, by log token (`echo`). */
  readonly scores: (TokenLogprob | null)[] | null;
  /** Cells of the path so far: the fold's, and one for each generated token that was or will be run. */
  length: number;
  /** Cells of the path that are computed, once the prompt is. */
  ranTo: number;
  /** Of these, the ones that were offered to the tree; those of the prompt are, step by step. */
  publishedTo: number;
  /** Tokens sampled and delivered. */
  generated = 0;
  admission: Admission | null = null;
  /** Index into the admission's work, and the first cell of it that has not been scheduled. */
  workIndex = 0;
  workFrom = 0;
  /** Rows of the prompt that have not been scheduled. */
  rowsLeft = 0;
  /** Number of the last step that had a row of this sequence. */
  servedAt = 0;
  /** Steps that ran rows of the prompt, and the last of them. */
  promptSteps = 0;
  promptStep = 0;
  scoresDelivered = false;
  /** How its answer ended; it goes once the rest of its prompt's cells, which an edit at the end may own, are computed too. */
  outcome: { reason: "stop" | "length"; stopToken?: number } | null;
  /** Once it waits for another's prompt, it waits for all that both have in common. */
  waitsForShared = false;
  /** Cells from a tier are on their way: until then it is not looked at. */
  isRestoring = false;
  /** It has asked the tiers, and does not again. */
  restored = false;
  /** Why it has to leave, if it has. */
  leaving: "cancelled" | "stopped" | null = null;
  cause: unknown = undefined;
  ended = false;
  erased: Erased | null = null;
  #eventsPassed = 0;
  onEnd: (() => void) | null = null;

  constructor(id: number, request: GenerateRequest, namespace: string, maxTokens: number, answer: Answer) {
    const { fold } = request;
    this.id = id;
    this.request = request;
    this.fold = fold;
    this.namespace = namespace;
    this.answer = answer;
    this.maxTokens = maxTokens;
    this.outcome = maxTokens === 0 ? { reason: "length" } : null;
    this.length = fold.tokens.length;
    this.ranTo = fold.tokens.length;
    this.publishedTo = fold.tokens.length;
    this.events = fold.events.map(({ cell, key }) => ({ at: cell, key }));
    this.tokens = new Int32Array(this.length + this.openCellsMax);
    this.tokens.set(fold.tokens);
    this.sampler = { ...request.sampling, draw: 0 };
    this.reads = new Reads(fold);
    this.scores = request.echo ? Array.from({ length: request.promptTokens }, () => null) : null;
  }

  /** The birth in which generated tokens are born. */
  get open(): Birth {
    return this.fold.births.at(-1)!;
  }

  get isPrefilling(): boolean {
    return this.admission !== null && this.workIndex < this.admission.work.length;
  }

  /** Whether the log-probabilities of the prompt's tokens are wanted. */
  get isScored(): boolean {
    return this.scores !== null && this.request.logprobs >= 0;
  }

  /** Token of the request's log that a cell of the log is, in birth `from` or behind it; −1 for what a forget put in its place. */
  rawTokenOf(cell: number, from: number): number {
    const { births, origins } = this.fold;
    let index = from;
    while (cell >= births[index]!.cell + births[index]!.length) index++;
    const token = births[index]!.token + cell - births[index]!.cell;
    if (origins === null) return token;
    const { token: first, raw } = origins.findLast((origin) => origin.token <= token)!;
    return raw < 0 ? -1 : raw + token - first;
  }

  /** With one token to generate the open stage is never run; with none the request warms the cache for what comes next. */
  get readsOpen(): boolean {
    return this.maxTokens !== 1;
  }

  /** First cell of the path that is not scheduled yet; what only rows before it read is read no more once the step has ended. */
  get nextCell(): number {
    return this.isPrefilling ? this.workFrom : this.length;
  }

  /** Cells of generated tokens, at most: the last token sampled is none, since it never runs. */
  get openCellsMax(): number {
    return Math.max(0, this.maxTokens - 1);
  }

  /** Gives back what events in front of the next row hide: nothing hidden is ever seen again. */
  skipHidden(): void {
    for (; this.#eventsPassed < this.fold.events.length; this.#eventsPassed++) {
      const { cell, hidden, inserted } = this.fold.events[this.#eventsPassed]!;
      // What an event brings may read what it hides, and be hidden itself: first all of it must be computed.
      if (this.nextCell < inserted.reduce((end, { cells }) => Math.max(end, cells[1]), cell)) return;
      for (const [from, to] of hidden) this.admission!.holding.skip(from, to);
    }
  }

  begin(admission: Admission): void {
    this.admission = admission;
    this.workIndex = 0;
    this.workFrom = admission.work[0]?.from ?? 0;
    this.rowsLeft = rowsOf(admission.work);
  }

  /** The rows of the current work up to `to` are scheduled. */
  advance(to: number): void {
    const { work } = this.admission!;
    this.rowsLeft -= to - this.workFrom;
    this.workFrom = to;
    if (to < work[this.workIndex]!.to) return;
    this.workIndex++;
    this.workFrom = work[this.workIndex]?.from ?? 0;
  }

  /** One more token, which will be run as the next cell. */
  append(token: number): void {
    this.tokens[this.length++] = token;
  }

  /** The path so far. An event at its end waits for the next token. */
  path(): Path {
    return { tokens: this.tokens.subarray(0, this.length), events: this.events };
  }
}
