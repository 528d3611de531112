import { CHARACTER_RUNS } from "./character-runs.ts";

/** What a pre-tokenizer asks of a code point: `\p{L}`, `\p{N}`, `\p{P}`, `\s`, or none of them. */
export const OTHER = 0;
export const LETTER = 1;
export const NUMBER = 2;
export const PUNCTUATION = 3;
export const SPACE = 4;

const CLASS_OF_LETTER: Readonly<Record<string, number>> = { L: LETTER, N: NUMBER, P: PUNCTUATION, S: SPACE };

/** Class of each code point up to the last one that has a class. */
function expandRuns(runs: string): Uint8Array {
  const stretches: [start: number, end: number, kind: number][] = [];
  let last = 0;
  for (const run of runs.split(" ")) {
    const [gap, length] = run.slice(1).split(".");
    const start = last + Number.parseInt(gap ?? "", 36);
    last = start + (length === undefined ? 1 : Number.parseInt(length, 36));
    stretches.push([start, last, CLASS_OF_LETTER[run.charAt(0)] ?? OTHER]);
  }
  const table = new Uint8Array(last);
  for (const [start, end, kind] of stretches) table.fill(kind, start, end);
  return table;
}

const TABLE = expandRuns(CHARACTER_RUNS);

/**
 * The class of each UTF-16 unit of a text. Both halves of a surrogate pair have the class of their code point, so that a run of one
 * class is a run of units; a lone surrogate has none.
 */
export function classesOf(text: string): Uint8Array {
  const classes = new Uint8Array(text.length);
  for (let unit = 0; unit < text.length; unit += 1) {
    const code = text.codePointAt(unit) as number;
    const kind = code < TABLE.length ? (TABLE[code] as number) : OTHER;
    classes[unit] = kind;
    if (code > 0xffff) {
      unit += 1;
      classes[unit] = kind;
    }
  }
  return classes;
}

/** The class of one unit, as `classesOf` gives it. */
export function classAt(text: string, unit: number): number {
  let code = text.codePointAt(unit) as number;
  if (code >= 0xdc00 && code <= 0xdfff && unit > 0) {
    const pair = text.codePointAt(unit - 1) as number;
    if (pair > 0xffff) code = pair;
  }
  return code < TABLE.length ? (TABLE[code] as number) : OTHER;
}

/** Units of the character at `unit`: 2 for a surrogate pair, otherwise 1. */
export function unitsAt(text: string, unit: number): number {
  return (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
}
