import { EngineError } from "../errors.ts";
import { LETTER, NUMBER, PUNCTUATION, SPACE, classesOf, unitsAt } from "./characters.ts";

/** A text with the class of each of its units. */
interface Classified {
  text: string;
  classes: Uint8Array;
}

/**
 * Cuts the stretch [start, end) into words and adds the end of each to `ends`. Nothing outside the stretch is looked at: a
 * stage of a pre-tokenizer sees what the stage before it cut as texts of their own.
 */
type Splitter = (input: Classified, start: number, end: number, ends: number[]) => void;

/** How a model's text is cut into words before merging. */
export interface PreTokenizer {
  /** Stages: each cuts what the one before left. */
  readonly stages: readonly Splitter[];
  /** A word that is a token as it stands is that token, whatever its merges would give. */
  readonly wholeWords: boolean;
}

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;
const BLANK = 0x20;
const APOSTROPHE = 0x27;

const isDigit = (text: string, unit: number) => text.charCodeAt(unit) >= 0x30 && text.charCodeAt(unit) <= 0x39;
const isLineEnd = (code: number) => code === LINE_FEED || code === CARRIAGE_RETURN;

/** End of the run of `kind` from `at` on. */
function endOfRun(classes: Uint8Array, kind: number, at: number, end: number): number {
  let unit = at;
  while (unit < end && classes[unit] === kind) unit += 1;
  return unit;
}

/** End of the run of units that are neither letter nor number nor white space. */
function endOfSymbols(classes: Uint8Array, at: number, end: number): number {
  let unit = at;
  while (unit < end && classes[unit] !== LETTER && classes[unit] !== NUMBER && classes[unit] !== SPACE) unit += 1;
  return unit;
}

/** Length of 's, 't, 'm, 'd, 're, 've or 'll at `at`, or 0. */
function contractionAt(text: string, at: number, end: number, anyCase: boolean): number {
  if (text.charCodeAt(at) !== APOSTROPHE) return 0;
  const tail = text.slice(at + 1, Math.min(at + 3, end));
  const letters = anyCase ? tail.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) : tail;
  if (letters !== "" && "stmd".includes(letters.charAt(0))) return 2;
  return letters === "re" || letters === "ve" || letters === "ll" ? 3 : 0;
}

/** `\s+(?!\S)|\s+`: white space up to the end, or all of a run but its last character, which belongs to the word after it. */
function endOfSpaces(classes: Uint8Array, at: number, end: number): number {
  const stop = endOfRun(classes, SPACE, at, end);
  return stop < end && stop - at > 1 ? stop - 1 : stop;
}

/** GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
const splitGpt2: Splitter = ({ text, classes }, start, end, ends) => {
  for (let at = start; at < end; ) {
    const contraction = contractionAt(text, at, end, false);
    const body = text.charCodeAt(at) === BLANK && at + 1 < end ? at + 1 : at;
    const kind = classes[body] as number;
    if (contraction > 0) at += contraction;
    else if (kind === LETTER || kind === NUMBER) at = endOfRun(classes, kind, body, end);
    else if (kind === SPACE) at = endOfSpaces(classes, at, end);
    else at = endOfSymbols(classes, body, end);
    ends.push(at);
  }
};

/**
 * Llama 3 and Qwen 2, which differ only in how many digits make a word: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
 * `\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
 */
const splitLlama3 =
  (digits: number): Splitter =>
  (input, start, end, ends) => {
    for (let at = start; at < end; ) {
      at = endOfLlama3Word(input, at, end, digits);
      ends.push(at);
    }
  };

function endOfLlama3Word({ text, classes }: Classified, at: number, end: number, digits: number): number {
  const contraction = contractionAt(text, at, end, true);
  if (contraction > 0) return at + contraction;

  const code = text.charCodeAt(at);
  const kind = classes[at] as number;
  const next = at + unitsAt(text, at);
  if (kind === LETTER) return endOfRun(classes, LETTER, at, end);
  if (kind === NUMBER) {
    let unit = next;
    for (let count = 1; count < digits && unit < end && classes[unit] === NUMBER; count += 1) unit += unitsAt(text, unit);
    return unit;
  }
  if (!isLineEnd(code) && next < end && classes[next] === LETTER) return endOfRun(classes, LETTER, next, end);

  const body = code === BLANK && next < end ? next : at;
  const symbols = endOfSymbols(classes, body, end);
  if (symbols > body) {
    let unit = symbols;
    while (unit < end && isLineEnd(text.charCodeAt(unit))) unit += 1;
    return unit;
  }

  const stop = endOfRun(classes, SPACE, at, end);
  let lines = stop;
  while (lines > at && !isLineEnd(text.charCodeAt(lines - 1))) lines -= 1;
  return lines > at ? lines : endOfSpaces(classes, at, end);
}

/** Makes words of the characters or runs that `endOfMatch` finds (it answers `at` where nothing matches) and of what lies between. */
const isolate =
  (endOfMatch: (input: Classified, at: number, end: number) => number): Splitter =>
  (input, start, end, ends) => {
    let word = start;
    for (let at = start; at < end; ) {
      const match = endOfMatch(input, at, end);
      if (match === at) {
        at += 1;
        continue;
      }
      if (at > word) ends.push(at);
      ends.push(match);
      at = match;
      word = match;
    }
    if (end > word) ends.push(end);
  };

/** `\p{N}` */
const splitDigits = isolate(({ text, classes }, at) => (classes[at] === NUMBER ? at + unitsAt(text, at) : at));

/** `\p{N}+` */
const splitNumbers = isolate(({ classes }, at, end) => endOfRun(classes, NUMBER, at, end));

/** `[0-9][0-9][0-9]` */
const splitThousands = isolate(({ text }, at, end) => {
  const isThousand = at + 3 <= end && isDigit(text, at) && isDigit(text, at + 1) && isDigit(text, at + 2);
  return isThousand ? at + 3 : at;
});

/** `[\p{P}\$\+<=>\^~\|]+` */
const splitPunctuation = isolate(({ text, classes }, at, end) => {
  let unit = at;
  while (unit < end && (classes[unit] === PUNCTUATION || "$+<=>^~|".includes(text.charAt(unit)))) unit += 1;
  return unit;
});

const gpt2: PreTokenizer = { stages: [splitGpt2], wholeWords: false };
const llama3: PreTokenizer = { stages: [splitLlama3(3)], wholeWords: true };
const qwen2: PreTokenizer = { stages: [splitLlama3(1)], wholeWords: false };
const singleDigits: PreTokenizer = { stages: [splitDigits, splitGpt2], wholeWords: false };

/** By the name that a GGUF file gives in `tokenizer.ggml.pre`. */
const PRE_TOKENIZERS: ReadonlyMap<string, PreTokenizer> = new Map([
  ["default", { stages: [splitPunctuation, splitGpt2, splitNumbers, splitThousands], wholeWords: false }],
  ["gpt-2", gpt2],
  ["mpt", gpt2],
  ["olmo", gpt2],
  ["smollm", singleDigits],
  ["starcoder", singleDigits],
  ["refact", singleDigits],
  ["command-r", singleDigits],
  ["codeshell", singleDigits],
  ["llama-bpe", llama3],
  ["llama3", llama3],
  ["llama-v3", llama3],
  ["falcon3", llama3],
  ["smaug-bpe", { ...llama3, wholeWords: false }],
  ["dbrx", { ...llama3, wholeWords: false }],
  ["qwen2", qwen2],
  ["deepseek-r1-qwen", qwen2],
  ["stablelm2", qwen2],
]);

/** Names this package knows, for messages and documents. */
export const PRE_TOKENIZER_NAMES: readonly string[] = [...PRE_TOKENIZERS.keys()];

/** @throws EngineError `pre_tokenizer_unsupported` that names the pre-tokenizer. */
export function preTokenizer(name: string): PreTokenizer {
  const found = PRE_TOKENIZERS.get(name);
  if (found === undefined) {
    const shown = name === "" ? "no pre-tokenizer (tokenizer.ggml.pre is absent)" : `the pre-tokenizer "${name}"`;
    throw new EngineError("pre_tokenizer_unsupported", `the model names ${shown}; known are ${PRE_TOKENIZER_NAMES.join(", ")}`);
  }
  return found;
}

/** Ends of the words of a text, in order; the last one is the length of the text. */
export function wordEnds(text: string, { stages }: PreTokenizer): number[] {
  const input = { text, classes: classesOf(text) };
  let ends = text.length === 0 ? [] : [text.length];
  for (const split of stages) {
    const finer: number[] = [];
    let start = 0;
    for (const end of ends) {
      split(input, start, end, finer);
      start = end;
    }
    ends = finer;
  }
  return ends;
}
