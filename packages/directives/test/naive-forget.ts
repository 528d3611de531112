import type { Range } from "../src/types.ts";
import type { Act } from "./naive-fold.ts";

export interface NaiveText {
  tokens: number[];
  /** Request's token of each one; −1 for a replacement. */
  raw: number[];
}

/** A token of the text, by identity, so that a target can be the set of tokens that it names. */
interface Letter {
  token: number;
  raw: number;
}

interface Carried {
  act: Act;
  at: number;
  /** Where the target begins. */
  place: number;
  /** Tokens that the target still names. */
  letters: Set<Letter>;
  /** Replacement; null once it can never stand. */
  tokens: number[] | null;
  named: boolean;
}

/** Takes the forgets out of the text, one after another, and carries everything else along, token by token. */
export function forgetNaively({ tokens, raw }: NaiveText, acts: readonly Act[]): { text: NaiveText; acts: Act[] } {
  let text: Letter[] = tokens.map((token, i) => ({ token, raw: raw[i]! }));
  let carried = acts.map((act): Carried => {
    const letters = new Set(act.ranges.flatMap(([start, end]) => text.slice(start, end)));
    return { act, at: act.at, place: act.ranges[0]?.[0] ?? act.at, letters, tokens: act.tokens, named: letters.size > 0 };
  });
  const forgets = carried.filter(({ act }) => act.kind === "forget").toSorted((a, b) => a.act.origin - b.act.origin || a.act.ranges[0]![0] - b.act.ranges[0]![0]);
  for (const forget of forgets) {
    if (!carried.includes(forget)) continue;
    carried = carried.filter((other) => other !== forget);
    const first = text.findIndex((letter) => forget.letters.has(letter));
    // The replacement stands at the place of the target, which may have stayed behind when an insertion moved the target's text.
    if (first >= 0 && first !== forget.place && forget.tokens!.length > 0) {
      [text, carried] = edit(text, carried, forget, forget.place, forget.place, forget.tokens!);
      forget.tokens = [];
    }
    const start = first < 0 ? forget.place : text.findIndex((letter) => forget.letters.has(letter));
    [text, carried] = edit(text, carried, forget, start, start + forget.letters.size, forget.tokens!);
  }
  return {
    text: { tokens: text.map(({ token }) => token), raw: text.map(({ raw: from }) => from) },
    acts: carried.flatMap((item) => actsIn(text, item)),
  };
}

/** Replaces [start, end) of the text and takes everything else along. */
function edit(text: Letter[], carried: Carried[], forget: Carried, start: number, end: number, tokens: number[]): [Letter[], Carried[]] {
  const replacement = tokens.map((token): Letter => ({ token, raw: -1 }));
  const gone = new Set(text.slice(start, end));
  const moved = (x: number) => (x <= start ? x : x < end ? start + replacement.length : x + replacement.length - (end - start));
  for (const other of carried) carryOver(other, forget, text, start, end, replacement, gone, moved);
  return [[...text.slice(0, start), ...replacement, ...text.slice(end)], carried.filter((other) => !nothingLeft(other, carried))];
}

function carryOver(other: Carried, forget: Carried, text: Letter[], start: number, end: number, replacement: Letter[], gone: Set<Letter>, moved: (x: number) => number): void {
  const later = other.act.origin > forget.act.origin;
  const takesReplacement = later && other.named && reachesOver(other, text, start);
  if (!later && start <= other.place && other.place < end && (other.act.kind === "splice" || other.act.kind === "forget")) other.tokens = null;
  for (const letter of gone) other.letters.delete(letter);
  if (takesReplacement) for (const letter of replacement) other.letters.add(letter);
  other.at = moved(other.at);
  other.place = moved(other.place);
}

/** Whether one of the target's unbroken ranges has start ≤ place < end. */
function reachesOver(other: Carried, text: Letter[], place: number): boolean {
  return place < text.length && other.letters.has(text[place]!);
}

/** A directive of which no target names a token any more, or whose insertion can never stand, comes to nothing as a whole. */
function nothingLeft(item: Carried, all: Carried[]): boolean {
  const same = all.filter(({ act }) => act.index === item.act.index && act.kind !== "reposition");
  const alive = same.some(({ named, letters, tokens }) => (named ? letters.size > 0 : tokens !== null && tokens.length > 0));
  return same.length > 0 && !alive;
}

/** Its acts in the edited text: one for each unbroken range, the replacement with the first, or in front of all where it stays behind. */
function actsIn(text: Letter[], { act, at, place, letters, tokens }: Carried): Act[] {
  const ranges: Range[] = [];
  text.forEach((letter, i) => {
    if (!letters.has(letter)) return;
    const last = ranges[ranges.length - 1];
    if (last && last[1] === i) ranges[ranges.length - 1] = [last[0], i + 1];
    else ranges.push([i, i + 1]);
  });
  if (act.kind !== "splice") return [{ ...act, at, ranges }];
  const parts = ranges.map((range) => ({ range, tokens: [] as number[] }));
  if (tokens && tokens.length > 0) {
    if (parts[0]?.range[0] === place) parts[0].tokens = tokens;
    else parts.unshift({ range: [place, place], tokens });
  }
  return parts.map(({ range, tokens: replacement }): Act => Object.assign({}, act, { at, ranges: [range], tokens: replacement }));
}
