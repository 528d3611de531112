import { LETTER, NUMBER, classAt } from "./characters.ts";

/** Units after which a block ends at the next place where it may. About 3 ms of work. */
const BLOCK_UNITS = 8_192;
/** Units looked at between two chances to pause. */
const UNITS_PER_PAUSE = 65_536;

/**
 * The end of a block of text that begins at `from`: cut into words alone, blocks give the words of the whole. Behind a run of letters or
 * of numbers a word ends in every pre-tokenizer, and what comes next does not depend on what came before. A text without such a place
 * (one word of a megabyte) is one block.
 */
export function* endOfBlock(text: string, from: number, to: number, unitsMin = BLOCK_UNITS): Generator<void, number> {
  let before = from + unitsMin < to ? classAt(text, from + unitsMin - 1) : 0;
  for (let at = from + unitsMin; at < to; at += 1) {
    const kind = classAt(text, at);
    if (kind !== before && (before === LETTER || before === NUMBER)) return at;
    before = kind;
    if (at % UNITS_PER_PAUSE === 0) yield;
  }
  return to;
}
