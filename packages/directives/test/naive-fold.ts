import type { Boundary, Directive, Log, Range, Target } from "../src/types.ts";

/**
 * What a log and its directives come to, computed cell by cell from the words of the documentation. It shares no code with `fold`
 * and is slow on purpose. A replay that knows neither runs nor shifts can run it as it is.
 */
export interface NaiveProgram {
  /** Token of each cell, in order of birth. */
  tokens: number[];
  /** Position at which each cell is computed. */
  birthPositions: number[];
  /** Naive stage in which each cell is computed. Cells that are computed inside an event have stages of their own. */
  stageOf: number[];
  /** stages × cells: where each cell stands in each stage; −1 where it is hidden or not born yet. */
  stagePositions: number[][];
  /** cells × cells: which cells each one reads, itself included. */
  mask: boolean[][];
  /** Visible cells in the end, in order of position, and where they stand. */
  visible: { cell: number; position: number }[];
  nextPosition: number;
  /** For each boundary with directives, ascending: the log token it stands before, the first cell born after it, and whether it changed anything. */
  boundaries: { at: number; cell: number; effective: boolean }[];
  /** Cell of the last log token. */
  lastCell: number;
}

interface Item {
  cell: number;
  token: number;
  /** Log token that the item is, or stands before. */
  place: number;
  birth: number;
  position: number;
  hidden: boolean;
}

interface Resolved {
  directive: Directive;
  at: number;
  ranges: Range[];
}

export function naiveFold(log: Log, directives: readonly Directive[]): NaiveProgram {
  const run = new NaiveRun(log);
  const resolved = directives.map((directive) => resolve(log, directive));
  for (let token = 0; token <= log.tokens.length; token++) {
    const here = resolved.filter(({ at }) => at === token);
    if (here.length > 0) run.boundary(token, here);
    if (token < log.tokens.length) run.compute(token);
  }
  return run.finish();
}

class NaiveRun {
  readonly #log: Log;
  /** All cells, hidden ones too, in the order of the text. */
  readonly #items: Item[] = [];
  readonly #born: Item[] = [];
  readonly #mask: boolean[][] = [];
  readonly #stageOf: number[] = [];
  readonly #stages: Map<number, number>[] = [];
  readonly #boundaries: NaiveProgram["boundaries"] = [];
  #counter = 0;
  #newStage = true;
  #lastCell = -1;

  constructor(log: Log) {
    this.#log = log;
  }

  compute(token: number): void {
    this.#lastCell = this.#born.length;
    this.#bear(this.#items.length, this.#log.tokens[token]!, token, this.#counter++);
  }

  boundary(at: number, here: readonly Resolved[]): void {
    const before = this.#fingerprint();
    const cell = this.#born.length;
    for (const { directive, ranges } of here) {
      if (directive.op !== "drop") continue;
      for (const item of this.#items) if (ranges.some(([start, end]) => start <= item.place && item.place < end)) item.hidden = true;
    }
    if (here.some(({ directive }) => directive.op === "reposition")) {
      this.#counter = 0;
      for (const item of this.#items) if (!item.hidden) item.position = this.#counter++;
    }
    this.#newStage = true;
    this.#boundaries.push({ at, cell, effective: this.#fingerprint() !== before });
  }

  finish(): NaiveProgram {
    const cells = this.#born.length;
    return {
      tokens: this.#born.map(({ token }) => token),
      birthPositions: this.#born.map(({ birth }) => birth),
      stageOf: this.#stageOf,
      stagePositions: this.#stages.map((stage) => Array.from({ length: cells }, (_, cell) => stage.get(cell) ?? -1)),
      mask: this.#mask.map((row) => Array.from({ length: cells }, (_, cell) => row[cell] ?? false)),
      visible: this.#items.filter(({ hidden }) => !hidden).map(({ cell, position }) => ({ cell, position })),
      nextPosition: this.#counter,
      boundaries: this.#boundaries,
      lastCell: this.#lastCell,
    };
  }

  /** Computes one cell in front of items[index]: it reads the visible items before that place, and itself. */
  #bear(index: number, token: number, place: number, position: number): void {
    const cell = this.#born.length;
    const item: Item = { cell, token, place, birth: position, position, hidden: false };
    if (this.#newStage) this.#stages.push(new Map(this.#items.filter(({ hidden }) => !hidden).map((other) => [other.cell, other.position])));
    this.#newStage = false;
    this.#stages[this.#stages.length - 1]!.set(cell, position);
    this.#stageOf.push(this.#stages.length - 1);
    const row: boolean[] = [];
    for (const other of this.#items.slice(0, index)) row[other.cell] = !other.hidden;
    row[cell] = true;
    this.#mask.push(row);
    this.#items.splice(index, 0, item);
    this.#born.push(item);
  }

  #fingerprint(): string {
    return JSON.stringify([this.#counter, this.#born.length, this.#items.filter(({ hidden }) => !hidden).map(({ cell, position }) => [cell, position])]);
  }
}

function resolve(log: Log, directive: Directive): Resolved {
  return { directive, at: boundaryOf(log, directive.at), ranges: directive.target ? rangesOf(log, directive.target) : [] };
}

function boundaryOf(log: Log, at: Boundary | undefined): number {
  if (at === undefined) return log.header;
  if ("token" in at) return at.token;
  const first = log.chat!.owners.findIndex((owner) => owner > at.message);
  return first < 0 ? log.tokens.length : first;
}

function rangesOf(log: Log, target: Target): Range[] {
  if ("tokens" in target) return [target.tokens];
  const chat = log.chat!;
  if ("text" in target) return [...(chat.text!(target.text.message, target.text.exact, target.text.occurrence ?? 1) ?? [])];
  const { part } = target;
  if (part) return target.messages.flatMap((message) => [...chat.part!(message, part)]);
  const ranges: Range[] = [];
  chat.owners.forEach((owner, token) => {
    if (target.messages.includes(owner)) ranges.push([token, token + 1]);
  });
  return ranges;
}
