import type { Part } from "@palimpsest/directives";
import { type FunctionLike, type TextValue, type Value, isList, isText, values } from "./jinja.ts";

/** Where a stretch of rendered text comes from. */
export interface Origin {
  /**
   * true: the text came with the request. false: it stands in the template. Only template text may produce control tokens, so whatever
   * is not known to be the template's counts as data.
   */
  readonly data: boolean;
  /** Message it belongs to; the number of messages for the generation header; −1 while nobody knows. */
  readonly owner: number;
  readonly part: Part | null;
}

export interface Piece {
  readonly text: string;
  readonly origin: Origin;
}

/** Text of the template itself. */
export const SCAFFOLD: Origin = { data: false, owner: -1, part: null };
/** Text of the request that is of no message: a tool's schema, a key of an object. */
export const UNKNOWN_DATA: Origin = { data: true, owner: -1, part: null };

export const textOf = (pieces: readonly Piece[]) => pieces.map((piece) => piece.text).join("");

/** The pieces of [start, end), in UTF-16 units. */
export function slicePieces(pieces: readonly Piece[], start: number, end: number): Piece[] {
  const sliced: Piece[] = [];
  let at = 0;
  for (const { text, origin } of pieces) {
    const from = Math.max(start - at, 0);
    const to = Math.min(end - at, text.length);
    if (from < to) sliced.push({ text: text.slice(from, to), origin });
    at += text.length;
  }
  return sliced;
}

/** Joins neighbours of one origin and leaves empty pieces out. */
export function compactPieces(pieces: readonly Piece[]): Piece[] {
  const compact: Piece[] = [];
  for (const piece of pieces) {
    if (piece.text === "") continue;
    const last = compact.at(-1);
    if (last !== undefined && sameOrigin(last.origin, piece.origin)) {
      compact[compact.length - 1] = { text: last.text + piece.text, origin: last.origin };
    } else {
      compact.push(piece);
    }
  }
  return compact;
}

export const sameOrigin = (left: Origin, right: Origin) =>
  left === right || (left.data === right.data && left.owner === right.owner && left.part === right.part);

/** What text made out of several pieces by rewriting comes from: data if any is, and the first message and part among them. */
export function mergedOrigin(origins: readonly Origin[]): Origin {
  const known = origins.find((origin) => origin.owner >= 0 && origin.part !== null) ?? origins.find((origin) => origin.owner >= 0);
  return { data: origins.some((origin) => origin.data), owner: known?.owner ?? -1, part: known?.part ?? null };
}

/** A text value that knows where each of its stretches comes from, through the operations that templates do on texts. */
export class TracedText extends values.text {
  readonly pieces: readonly Piece[];
  #builtins: Map<string, Value> | undefined;

  constructor(pieces: readonly Piece[]) {
    super(textOf(pieces));
    this.pieces = pieces;
  }

  static of(text: string, origin: Origin): TracedText {
    return new TracedText([{ text, origin }]);
  }

  /** The library's methods, with those that answer texts answering traced ones. */
  override get builtins(): Map<string, Value> {
    if (this.#builtins !== undefined) return this.#builtins;
    const builtins = new Map<string, Value>(super.builtins);
    for (const [name, builtin] of builtins) {
      if (!(builtin instanceof values.function)) continue;
      const plain = (builtin as FunctionLike).value;
      builtins.set(name, new values.function((args, scope) => traceResult(this, name, args, plain(args, scope))));
    }
    this.#builtins = builtins;
    return builtins;
  }
}

/** Pieces of any text value. */
export const piecesOf = (value: TextValue): readonly Piece[] =>
  value instanceof TracedText ? value.pieces : [{ text: value.value, origin: UNKNOWN_DATA }];

/**
 * Gives the result of a method or filter on a traced text its origins. What only cuts keeps them by place; what rewrites letter by
 * letter too; anything else has one origin for the whole.
 */
export function traceResult(subject: TracedText, name: string, args: readonly Value[], result: Value): Value {
  if (isList(result)) return new values.list(traceCuts(subject, args, result.value));
  if (!isText(result) || result instanceof TracedText) return result;
  const text = result.value;
  const source = subject.value;
  switch (name) {
    case "strip":
    case "trim":
    case "lstrip": {
      const start = source.length - source.trimStart().length;
      return new TracedText(slicePieces(subject.pieces, start, start + text.length));
    }
    case "rstrip":
      return new TracedText(slicePieces(subject.pieces, 0, text.length));
    case "upper":
    case "lower":
    case "title":
    case "capitalize":
      if (text.length === source.length) return recut(subject.pieces, text);
      break;
    case "replace": {
      const [wanted, replacement] = args;
      const pieces = wanted && replacement && isText(wanted) && isText(replacement) && replaceAll(subject, wanted.value, replacement, text);
      if (pieces) return pieces;
      break;
    }
    default:
  }
  return TracedText.of(text, mergedOrigin([...subject.pieces.map((piece) => piece.origin), ...originsOfTexts(args)]));
}

function originsOfTexts(args: readonly Value[]): Origin[] {
  return args.flatMap((value) => (isText(value) ? piecesOf(value).map((piece) => piece.origin) : []));
}

/** The texts that `split` made, found again in their order. */
function traceCuts(subject: TracedText, args: readonly Value[], parts: readonly Value[]): Value[] {
  const separator = args[0] !== undefined && isText(args[0]) ? args[0].value : "";
  let from = 0;
  return parts.map((part) => {
    if (!isText(part)) return part;
    const start = subject.value.indexOf(part.value, from);
    if (start < 0) return TracedText.of(part.value, mergedOrigin(subject.pieces.map((piece) => piece.origin)));
    from = start + part.value.length + separator.length;
    return new TracedText(slicePieces(subject.pieces, start, start + part.value.length));
  });
}

/** The same cuts on a text of the same length. */
function recut(pieces: readonly Piece[], text: string): TracedText {
  let at = 0;
  return new TracedText(
    pieces.map((piece) => {
      at += piece.text.length;
      return { text: text.slice(at - piece.text.length, at), origin: piece.origin };
    }),
  );
}

/** Replaces every occurrence; null where the result is not that (a limit was given, or the text to replace is empty). */
function replaceAll(subject: TracedText, wanted: string, replacement: TextValue, result: string): TracedText | null {
  if (wanted === "") return null;
  const pieces: Piece[] = [];
  let from = 0;
  for (let at = subject.value.indexOf(wanted); at >= 0; at = subject.value.indexOf(wanted, from)) {
    pieces.push(...slicePieces(subject.pieces, from, at), ...piecesOf(replacement));
    from = at + wanted.length;
  }
  pieces.push(...slicePieces(subject.pieces, from, subject.value.length));
  const traced = new TracedText(pieces);
  return traced.value === result ? traced : null;
}
