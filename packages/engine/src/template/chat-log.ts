import type { ChatLog, Part, Range } from "@palimpsest/directives";
import type { Encoding } from "../tokenizer/index.ts";
import type { Piece } from "./traced-text.ts";

/** A stretch of the rendered text, in UTF-16 units. */
interface Stretch {
  start: number;
  end: number;
}

/** Stretches of each part of a message, in order. */
type Parts = Map<Part, Stretch[]>;

/** Which tokens of a rendered chat belong to which message and part. */
export function chatLog(pieces: readonly Piece[], text: string, encoding: Encoding, roles: readonly string[]): ChatLog {
  const parts = partsOfMessages(pieces, roles.length);
  const within = (stretch: Stretch) => tokensWithin(encoding, stretch);
  return {
    messages: roles.length,
    roles,
    owners: ownersOfTokens(pieces, encoding),
    part: (message, part) => (parts[message]?.get(part) ?? []).map(within).filter(isFilled),
    text: (message, exact, occurrence, part) => {
      const stretches = part === undefined ? [...(parts[message]?.values() ?? [])].flat() : (parts[message]?.get(part) ?? []);
      const stretch = findOccurrence(text, stretches, exact, occurrence);
      return stretch === null ? null : [within(stretch)].filter(isFilled);
    },
  };
}

const isFilled = ([start, end]: Range) => start < end;

/** A token belongs to the message of the character that holds its first byte. */
function ownersOfTokens(pieces: readonly Piece[], { starts }: Encoding): Int32Array {
  const owners = new Int32Array(starts.length);
  let piece = 0;
  let end = pieces[0]?.text.length ?? 0;
  for (const [token, start] of starts.entries()) {
    while (start >= end && piece + 1 < pieces.length) {
      piece += 1;
      end += (pieces[piece] as Piece).text.length;
    }
    owners[token] = pieces[piece]?.origin.owner ?? 0;
  }
  return owners;
}

function partsOfMessages(pieces: readonly Piece[], count: number): Parts[] {
  const messages: Parts[] = Array.from({ length: count }, () => new Map());
  let at = 0;
  for (const { text, origin } of pieces) {
    const stretch = { start: at, end: at + text.length };
    at = stretch.end;
    const parts = messages[origin.owner];
    if (parts === undefined || origin.part === null) continue;
    const stretches = parts.get(origin.part) ?? [];
    parts.set(origin.part, stretches);
    const last = stretches.at(-1);
    // Template text and data of one part side by side are one stretch.
    if (last?.end === stretch.start) last.end = stretch.end;
    else stretches.push(stretch);
  }
  return messages;
}

/** The tokens whose every byte lies in a stretch. */
function tokensWithin({ starts, ends }: Encoding, stretch: Stretch): Range {
  let first = firstIndex(starts, (start) => start >= stretch.start);
  const last = firstIndex(ends, (end) => end > stretch.end);
  // BOS stands for no character.
  if (first < last && starts[first] === ends[first]) first += 1;
  return [first, Math.max(first, last)];
}

/** The first index whose value holds; values that hold come after those that do not. */
function firstIndex(values: Int32Array, holds: (value: number) => boolean): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(values[middle] as number)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The n-th occurrence (from 1) of a text inside the parts of a message; occurrences may overlap, none spans two parts. */
function findOccurrence(text: string, stretches: readonly Stretch[], exact: string, occurrence: number): Stretch | null {
  if (exact === "") return null;
  let left = occurrence;
  for (const { start, end } of stretches.toSorted((one, other) => one.start - other.start)) {
    for (let at = text.indexOf(exact, start); at >= 0 && at + exact.length <= end; at = text.indexOf(exact, at + 1)) {
      left -= 1;
      if (left === 0) return { start: at, end: at + exact.length };
    }
  }
  return null;
}
