/** Half-open, [start, end). */
export type Range = readonly [start: number, end: number];

/** A boundary of the log: after message i, or before token n. Absent in a directive: the end of the log. */
export type Boundary = { message: number } | { token: number };

export type Part = "content" | "thinking" | "tool_calls" | "tool_result";

export type Target =
  | { messages: number[]; part?: Part | undefined }
  | { tokens: [number, number] }
  | { text: TextTarget };

/** An exact text inside a message. `part` is never read from a request: dialects set it to count occurrences in one part alone. */
export interface TextTarget {
  message: number;
  exact: string;
  occurrence?: number | undefined;
  part?: Part | undefined;
}

/**
 * One directive as the grammar's tree holds it: the JSON object of the request. Which further fields there are is the verb's own
 * business. `source` and `param` are never read from a request: a dialect sets them, so that report and errors name the field that
 * the client wrote.
 */
export interface Directive {
  op: string;
  at?: Boundary | undefined;
  target?: Target | undefined;
  source?: string | undefined;
  param?: string | undefined;
  [field: string]: unknown;
}

/** The log of one request, as far as directives need to know it. Token numbers count from 0. */
export interface Log {
  tokens: Int32Array;
  /** First token of the generation header; `tokens.length` where there is none (completions). */
  header: number;
  /** Present in chat: what messages there are and which tokens they own. */
  chat?: ChatLog | undefined;
  /** Birth, intermediate and final positions must lie below it. */
  contextLength: number;
  /** Tokens of a replacement that was given as text: alone, without BOS, control tokens as text. */
  tokenize?: ((text: string) => ArrayLike<number>) | undefined;
  /** Ids of a replacement must lie below it. */
  vocabulary?: number | undefined;
}

export interface ChatLog {
  messages: number;
  /** Message of each token, never falling; the generation header belongs to `messages`. */
  owners: Int32Array;
  /** Role of each message; verbs that count turns need it. */
  roles?: readonly string[] | undefined;
  /** Token ranges that lie wholly inside a part of a message; empty where it has none. */
  part?: ((message: number, part: Part) => readonly Range[]) | undefined;
  /** Token ranges that lie wholly inside the n-th occurrence (from 1) of a text in a message, or in one part of it; null where it does not occur. */
  text?: ((message: number, exact: string, occurrence: number, part?: Part) => readonly Range[] | null) | undefined;
}

/**
 * Cells are named by their order of birth on the path: cell numbers, "cells" below. Without inserted cells, cell i is token i.
 *
 * A span is a stretch of visible cells that are consecutive in birth and in birth position and have one shift:
 * cell + i was born at birth + i and stands at birth + i + shift.
 */
export interface Span {
  cell: number;
  length: number;
  birth: number;
  shift: number;
}

/**
 * A stretch of cells that are born with one view: a stage of the log, or the cells that an event inserts. Cell `cell + i` is born at
 * `position + i`; it reads the view, then the cells of its own stretch up to itself (shift 0).
 */
export interface Birth {
  cell: number;
  length: number;
  position: number;
  /** In strictly increasing current position. */
  view: readonly Span[];
  /** Token of the (edited) log of the first cell; −1 for cells that an event inserted. */
  token: number;
  /** Tokens of the log, a replacement, or tokens of the log that a refresh computes again. */
  kind: "log" | "inserted" | "recomputed";
}

/** What all directives of one boundary come to, by effect. Two events are the same exactly if their keys are equal. */
export interface CanonicalEvent {
  /** Log token that the event stands before. */
  at: number;
  /** First cell born after it: an inserted cell, or the cell of token `at`. */
  cell: number;
  /** Canonical encoding of the effect. The tokens of inserted cells are not in it: they follow it on the path. */
  key: string;
  /** Cells newly hidden. */
  hidden: readonly Range[];
  /** Visible cells whose shift changes. */
  shifted: readonly { cells: Range; delta: number }[];
  /** Change of the position counter beyond that of its cells. */
  counter: number;
  /** Cells born in the event: in front of which visible cell they stand (−1: behind all). */
  inserted: readonly { cells: Range; before: number }[];
}

/** The fold of a log: everything that the engine needs, computed by intervals and never token by token. */
export interface Fold {
  /** C: token of each cell, in order of birth. The log's own array when nothing is inserted. */
  tokens: Int32Array;
  /** Ascending in `at`; none without effect. */
  events: readonly CanonicalEvent[];
  /** Ascending in `cell`, together all cells. The last one is open: generated tokens are born in it (its length may be 0). */
  births: readonly Birth[];
  /** Position of the next token. */
  nextPosition: number;
  visible: number;
  /** Stages of the log: 1 + boundaries that carry an event. */
  stages: number;
  /** Cell of the last log token, as first computed: its row gives the first generated token where no header follows. −1: empty log. */
  lastCell: number;
  /** One for each directive, in the order given. */
  outcomes: readonly Outcome[];
  /** Log tokens that `forget` took out of the text before it was folded. */
  forgotten: number;
  /** The edited log in pieces of the request's own one; null where nothing was edited. Births count tokens of the edited log. */
  origins: readonly Origin[] | null;
  /** Order of eviction, by cells. Never a part of an event's key. */
  retention: readonly Retention[];
  /** For each directive, the visible cells behind its edit at its boundary: what an edit of the text would prefill again. */
  behind: readonly number[];
  /** What every tier must lose, one for each `forget` with a target. */
  erase: readonly EraseSet[];
}

/** A piece of the edited log: `length` tokens from `token` on are the request's tokens from `raw` on, or (−1) a replacement. */
export interface Origin {
  token: number;
  length: number;
  raw: number;
}

/** Cells that are worth more (or less) than the ordinary `35`. A hint: budgeted, revocable, expiring. */
export interface Retention {
  cells: Range;
  /** 0 = first to go … 100 = last. */
  priority: number;
  /** Time to live from now; null: as long as requests say it again. */
  seconds: number | null;
  /** The directive that asked. */
  directive: number;
}

/**
 * Every history that a `forget` reaches: raw tokens (inserted cells left out) that begin with the choices of `path` one after another,
 * whatever the events between them. Cells from `from` raw tokens into the last choice on, and all cells behind them, must go,
 * the path of the edited log itself excepted.
 */
export interface EraseSet {
  directive: number;
  path: readonly (readonly EraseChoice[])[];
  /**
   * The same for whoever carries out all sets of a log: of other forgets in front only those choices in which all that erase were
   * applied. In any other history one of their texts stands in front of this one, and is erased with all that is behind it.
   */
  together: EraseSet["path"];
}

/** One of the texts that may stand at a place of the log: other forgets of the request may have been applied to a history or not. */
export interface EraseChoice {
  tokens: Int32Array;
  /** Tokens before the forgotten ones; only in the last step of a path, 0 elsewhere. */
  from: number;
}

/** What one directive came to: an entry of the report's `directives`, WIRE 4. */
export interface Outcome {
  index: number;
  op: string;
  source?: string | undefined;
  at_token: number;
  ranges?: readonly Range[] | undefined;
  status: "applied" | "no_effect" | "recomputed";
  reason?: string | undefined;
  hidden?: number | undefined;
  inserted?: number | undefined;
  shifted?: number | undefined;
  delta?: number | undefined;
  /** Cells that a refresh computed again. */
  recomputed?: number | undefined;
  /** Set where the text itself was edited: nothing of the target is left. */
  forgets?: true | undefined;
}
