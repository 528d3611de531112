import type { Boundary, Directive, Log, Range, Target } from "../src/types.ts";
import { forgetNaively, type NaiveText } from "./naive-forget.ts";

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
  kinds: ("log" | "inserted" | "recomputed")[];
  /** Visible cells in the end, in order of position, and where they stand. */
  visible: { cell: number; position: number }[];
  nextPosition: number;
  /** For each boundary with directives, ascending: the token of the edited log it stands before, the first cell born after it, and whether it changed anything. */
  boundaries: { at: number; cell: number; effective: boolean }[];
  /** Cell of the last log token, as first computed. */
  lastCell: number;
  /** Tokens of the request's log that were forgotten. */
  forgotten: number;
  /** Request's token for each token of the edited log; −1 for the replacement of a forget. */
  raw: number[];
}

/** One act at one boundary. */
export interface Act {
  kind: "drop" | "splice" | "reposition" | "forget";
  /** Number of the directive. */
  index: number;
  /** Boundary in the request's log, for what is earlier and what is later. */
  origin: number;
  /** Start of the target in the request's log, for what is left and what is right. */
  left: number;
  at: number;
  ranges: Range[];
  tokens: number[];
  refresh: number;
}

interface Item {
  cell: number;
  token: number;
  /** Log token that the item is, or stands before. */
  place: number;
  birth: number;
  position: number;
  hidden: boolean;
  /** Hidden by a drop of the boundary in progress: splices still read its position. */
  dropping: boolean;
  /** The splice that brought it; −1 for the log's own. */
  splice: number;
}

export function naiveFold(log: Log, directives: readonly Directive[]): NaiveProgram {
  const acts = directives.flatMap((directive, index) => actsOf(log, directive, index));
  const text: NaiveText = { tokens: [...log.tokens], raw: Array.from(log.tokens, (_, i) => i) };
  const edited = forgetNaively(text, acts);
  const run = new NaiveRun();
  for (let token = 0; token <= edited.text.tokens.length; token++) {
    const here = edited.acts.filter(({ at }) => at === token);
    if (here.length > 0) run.boundary(token, here);
    if (token < edited.text.tokens.length) run.compute(token, edited.text.tokens[token]!);
  }
  const kept = edited.text.raw.filter((raw) => raw >= 0).length;
  return { ...run.finish(), forgotten: log.tokens.length - kept, raw: edited.text.raw };
}

class NaiveRun {
  /** All cells, hidden ones too, in the order of the text. */
  #items: Item[] = [];
  readonly #born: Item[] = [];
  readonly #kinds: NaiveProgram["kinds"] = [];
  readonly #mask: boolean[][] = [];
  readonly #stageOf: number[] = [];
  readonly #stages: Map<number, number>[] = [];
  readonly #boundaries: NaiveProgram["boundaries"] = [];
  #counter = 0;
  #newStage = true;
  #lastCell = -1;
  #splices = 0;

  compute(place: number, token: number): void {
    this.#lastCell = this.#born.length;
    const item = { ...blank(place, token), position: this.#counter };
    this.#counter++;
    this.#items.push(item);
    this.#bear(item, "log");
  }

  boundary(at: number, here: readonly Act[]): void {
    const before = this.#fingerprint();
    const cell = this.#born.length;
    for (const item of this.#items) {
      item.dropping = !item.hidden && here.some(({ kind, ranges }) => kind === "drop" && ranges.some((range) => inside(item.place, range)));
    }
    // Where forgets made targets meet: earlier boundaries first, and of one boundary the right one first, so that the left one stands in front.
    const start = (act: Act) => act.ranges[0]![0];
    const splices = here.filter(({ kind }) => kind === "splice").toSorted((a, b) => a.origin - b.origin || start(a) - start(b) || b.left - a.left);
    const numbers = new Map(splices.map((act) => [act, this.#splice(act)]));
    for (const item of this.#items) if (item.dropping) Object.assign(item, { hidden: true, dropping: false });
    this.#newStage = true;
    // What a later boundary's target covers before it was computed never stands.
    this.#items = this.#items.filter(({ cell: known, hidden }) => known >= 0 || !hidden);
    for (const item of this.#items) if (item.cell < 0) this.#bear(item, "inserted");
    const refreshing = splices.toSorted((a, b) => start(a) - start(b) || a.left - b.left || a.origin - b.origin);
    for (const act of refreshing) this.#refresh(act, numbers.get(act)!);
    if (here.some(({ kind }) => kind === "reposition")) {
      this.#counter = 0;
      for (const item of this.#items) if (!item.hidden) item.position = this.#counter++;
    }
    this.#newStage = true;
    this.#boundaries.push({ at, cell, effective: this.#fingerprint() !== before });
  }

  finish(): Omit<NaiveProgram, "forgotten" | "raw"> {
    const cells = this.#born.length;
    return {
      tokens: this.#born.map(({ token }) => token),
      birthPositions: this.#born.map(({ birth }) => birth),
      kinds: this.#kinds,
      stageOf: this.#stageOf,
      stagePositions: this.#stages.map((stage) => Array.from({ length: cells }, (_, cell) => stage.get(cell) ?? -1)),
      mask: this.#mask.map((row) => Array.from({ length: cells }, (_, cell) => row[cell] ?? false)),
      visible: this.#items.filter(({ hidden }) => !hidden).map(({ cell, position }) => ({ cell, position })),
      nextPosition: this.#counter,
      boundaries: this.#boundaries,
      lastCell: this.#lastCell,
    };
  }

  /** Hides the target and puts the replacement in its place, not yet computed. Returns the number of the splice. */
  #splice({ ranges: [range], tokens }: Act): number {
    const [start, end] = range!;
    const positionFrom = (place: number) => this.#items.find((item) => !item.hidden && item.place >= place)?.position ?? this.#counter;
    const [first, behind] = [positionFrom(start), positionFrom(end)];
    const delta = tokens.length - (behind - first);
    for (const item of this.#items) {
      if (item.place >= end && !item.hidden) item.position += delta;
      else if (item.place >= start && item.place < end) Object.assign(item, { hidden: true, dropping: false });
    }
    this.#counter += delta;
    const splice = this.#splices++;
    const replacement = tokens.map((token, i): Item => ({ ...blank(start, token), position: first + i, splice }));
    const index = this.#items.findIndex(({ place }) => place >= start);
    this.#items.splice(index < 0 ? this.#items.length : index, 0, ...replacement);
    return splice;
  }

  /** The first visible items behind the target, its own replacement left out, are computed again where they stand. */
  #refresh({ ranges: [range], refresh }: Act, splice: number): void {
    if (refresh === 0) return;
    const own = this.#items.findLastIndex((item) => item.splice === splice);
    const start = Math.max(own + 1, this.#items.findIndex(({ place }) => place >= range![1]));
    if (!this.#items.some(({ place }) => place >= range![1])) return;
    const zone = this.#items.filter((item, i) => i >= start && !item.hidden).slice(0, refresh);
    for (const old of zone) {
      const item: Item = { ...old, cell: -1 };
      this.#items.splice(this.#items.indexOf(old), 0, item);
      this.#bear(item, "recomputed");
      old.hidden = true;
    }
  }

  /** Computes an item of the list: it reads the visible items before it, and itself. */
  #bear(item: Item, kind: NaiveProgram["kinds"][number]): void {
    item.cell = this.#born.length;
    item.birth = item.position;
    if (this.#newStage) this.#stages.push(new Map());
    this.#newStage = false;
    const stage = this.#stages[this.#stages.length - 1]!;
    const row: boolean[] = [];
    for (const other of this.#items.slice(0, this.#items.indexOf(item) + 1)) {
      if (other.hidden) continue;
      row[other.cell] = true;
      stage.set(other.cell, other.position);
    }
    this.#stageOf.push(this.#stages.length - 1);
    this.#mask.push(row);
    this.#kinds.push(kind);
    this.#born.push(item);
  }

  #fingerprint(): string {
    return JSON.stringify([this.#counter, this.#born.length, this.#items.filter(({ hidden }) => !hidden).map(({ cell, position }) => [cell, position])]);
  }
}

function blank(place: number, token: number): Item {
  return { cell: -1, token, place, birth: 0, position: 0, hidden: false, dropping: false, splice: -1 };
}

function inside(place: number, [start, end]: Range): boolean {
  return start <= place && place < end;
}

/** What a directive does, in the coordinates of the request's log. */
function actsOf(log: Log, directive: Directive, index: number): Act[] {
  const at = boundaryOf(log, directive.at);
  const ranges = directive.target ? rangesOf(log, directive.target) : [];
  const act = (kind: Act["kind"], more: Partial<Act> = {}): Act => ({ kind, index, origin: more.at ?? at, left: ranges[0]?.[0] ?? 0, at, ranges, tokens: [], refresh: 0, ...more });
  if (directive.target && ranges.length === 0) return [];
  switch (directive.op) {
    case "drop":
      return [act("drop")];
    case "reposition":
      return [act("reposition")];
    case "splice": {
      const tokens = [...(directive.with as number[])];
      const span = ["tokens" in directive.target! ? directive.target.tokens : spanOf(ranges)];
      if (directive.mode === "forget") return [act("forget", { tokens, ranges: span })];
      return [act("splice", { tokens, ranges: span, refresh: directive.mode === "refresh" ? ((directive.refresh_tokens as number | undefined) ?? 16) : 0 })];
    }
    case "scratch": {
      const end = directive.at === undefined ? Math.max(...ranges.map((range) => range[1])) : at;
      return [act("drop", { at: end, origin: end }), act("reposition", { at: end, origin: end })];
    }
    case "decay": {
      const turns = turnsAfter(log, at);
      const end = turns[(directive.turns as number) - 1];
      return end === undefined ? [] : [act("drop", { at: end, origin: end })];
    }
    default:
      return [];
  }
}

function spanOf(ranges: Range[]): Range {
  return [ranges[0]![0], ranges[ranges.length - 1]![1]];
}

/** Ends of the assistant messages whose tokens all stand behind the boundary. */
function turnsAfter(log: Log, at: number): number[] {
  const ends: number[] = [];
  for (let message = 0; message < log.chat!.messages; message++) {
    const tokens = [...log.chat!.owners.keys()].filter((token) => log.chat!.owners[token] === message);
    if (log.chat!.roles![message] === "assistant" && tokens.length > 0 && tokens[0]! >= at) ends.push(tokens[tokens.length - 1]! + 1);
  }
  return ends;
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
