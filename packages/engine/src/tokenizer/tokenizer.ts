import type { TokenizerData } from "@palimpsest/kernels-cuda";
import { EngineError } from "../errors.ts";
import { BytePairMerger } from "./byte-pairs.ts";
import { Merges } from "./merges.ts";
import { type PreTokenizer, preTokenizer, wordEnds } from "./pre-tokenizers.ts";
import { type SpecialFilter, SpecialTokens } from "./special-tokens.ts";
import {
  TOKEN_BYTE, TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_USER_DEFINED, byteLevelText, bytesOfByteLevelText, checkTokenizerData, endsOf, idsByText,
} from "./vocabulary.ts";
import { WordCache } from "./word-cache.ts";

export interface EncodeOptions {
  /**
   * true: control tokens that the text spells become those tokens. false: they are text, always; only the model's user-defined
   * tokens (mark-up that controls nothing, such as `<tool_call>`) are still found, as every tokenizer of this format does. A
   * function decides for each place.
   */
  special: boolean | SpecialFilter;
  /** Begin with BOS where the model wants one. Default false. */
  bos?: boolean;
}

export interface DecodeOptions {
  /** Write control tokens as their text. Default true; false leaves them out. */
  special?: boolean;
}

/** Tokens of a text and where each begins. */
export interface Encoding {
  ids: Int32Array;
  /**
   * The UTF-16 unit at which the character that holds a token's first byte begins. Rising, but several tokens of one character
   * have one start.
   */
  starts: Int32Array;
}

/** Tokens of a word: one id, or ids with the units they begin at. */
export type WordTokens = number | { ids: readonly number[]; starts: readonly number[] };

const NO_BYTES = new Uint8Array(0);
const acceptAll: SpecialFilter = () => true;
const acceptUserDefined: SpecialFilter = ({ token }) => !token.control;

/**
 * Byte-level BPE as model files of the GGUF kind "gpt2" describe it. Ids equal llama.cpp's for the same file.
 *
 * A lone surrogate is encoded as U+FFFD. A byte that the vocabulary has no token for (SmolLM2 lacks some that only unassigned
 * code points need) gives no token, as in llama.cpp.
 */
export class Tokenizer {
  /** Number of tokens; the model's logits may be wider. */
  readonly size: number;
  readonly bos: number | null;
  readonly eos: number | null;
  readonly eot: number | null;
  readonly addBos: boolean;
  readonly specialTokens: SpecialTokens;
  /** Ids that end an answer: the file's EOS and end of turn, and tokens known by their text to end a turn or a file. */
  readonly endTokens: readonly number[];
  readonly #tokens: readonly string[];
  readonly #types: Int32Array;
  readonly #idOf: ReadonlyMap<string, number>;
  readonly #pre: PreTokenizer;
  readonly #merges: Merges;
  readonly #merger: BytePairMerger;
  readonly #words = new WordCache();

  /** @throws EngineError `tokenizer_unsupported`, `pre_tokenizer_unsupported`, `tokenizer_damaged` */
  constructor(data: TokenizerData) {
    checkTokenizerData(data);
    this.#tokens = data.tokens;
    this.#pre = preTokenizer(data.pre);
    this.#idOf = idsByText(data.tokens);
    this.#merges = new Merges(data.merges, this.#idOf, data.tokens.length);
    this.#merger = new BytePairMerger(this.#merges);
    const { types, endTokens } = endsOf(data, this.#idOf);
    this.#types = types;
    this.endTokens = endTokens;
    this.specialTokens = new SpecialTokens(data.tokens, types);
    this.size = data.tokens.length;
    this.bos = data.bos;
    this.eos = data.eos;
    this.eot = data.eot;
    this.addBos = data.addBos;
  }

  encode(text: string, options: EncodeOptions): Int32Array {
    return this.encodeWithOffsets(text, options).ids;
  }

  encodeWithOffsets(text: string, { special, bos = false }: EncodeOptions): Encoding {
    const accepts = special === true ? acceptAll : special === false ? acceptUserDefined : special;
    const ids = new IntegerList();
    const starts = new IntegerList();
    if (bos && this.addBos && this.bos !== null) {
      ids.push(this.bos);
      starts.push(0);
    }
    let from = 0;
    for (const { start, end, token } of this.specialTokens.find(text, accepts)) {
      this.#encodeText(text.slice(from, start), from, ids, starts);
      ids.push(token.id);
      starts.push(start);
      from = end;
    }
    this.#encodeText(text.slice(from), from, ids, starts);
    return { ids: ids.take(), starts: starts.take() };
  }

  /** Id of the token with exactly this text in the vocabulary (byte-level for normal tokens), or null. */
  idOfText(text: string): number | null {
    return this.#idOf.get(text) ?? null;
  }

  /** Whether a token steers the model rather than standing for text. */
  isControl(id: number): boolean {
    const type = this.#types[id];
    return type === TOKEN_CONTROL || type === TOKEN_UNKNOWN;
  }

  /** Bytes a token stands for; none for ids that the vocabulary does not use, since a model may be wider than its vocabulary. */
  tokenBytes(id: number): Uint8Array {
    if (!Number.isInteger(id) || id < 0) throw new EngineError("token_invalid", `a token id must be a natural number, got ${id}`);
    const text = this.#tokens[id];
    if (text === undefined) return NO_BYTES;
    switch (this.#types[id]) {
      case TOKEN_NORMAL:
        return bytesOfByteLevelText(text);
      case TOKEN_CONTROL:
      case TOKEN_UNKNOWN:
      case TOKEN_USER_DEFINED:
        return new Uint8Array(Buffer.from(text));
      case TOKEN_BYTE:
        return bytesOfByteToken(text);
      default:
        return NO_BYTES;
    }
  }

  decodeBytes(ids: Iterable<number>, { special = true }: DecodeOptions = {}): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (const id of ids) if (special || !this.isControl(id)) pieces.push(this.tokenBytes(id));
    return new Uint8Array(Buffer.concat(pieces));
  }

  /** Text of tokens; bytes that are no UTF-8 become U+FFFD. For text that arrives token by token use `Utf8Stream`. */
  decode(ids: Iterable<number>, options: DecodeOptions = {}): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.decodeBytes(ids, options));
  }

  #encodeText(text: string, base: number, ids: IntegerList, starts: IntegerList): void {
    let from = 0;
    for (const end of wordEnds(text, this.#pre)) {
      const word = text.slice(from, end);
      let tokens = this.#words.get(word);
      if (tokens === undefined) {
        tokens = this.#encodeWord(word);
        this.#words.set(word, tokens);
      }
      if (typeof tokens === "number") {
        ids.push(tokens);
        starts.push(base + from);
      } else {
        for (let index = 0; index < tokens.ids.length; index += 1) {
          ids.push(tokens.ids[index] as number);
          starts.push(base + from + (tokens.starts[index] as number));
        }
      }
      from = end;
    }
  }

  #encodeWord(word: string): WordTokens {
    const bytes = Buffer.from(word);
    if (this.#pre.wholeWords) {
      const id = this.#idOf.get(byteLevelText(bytes));
      if (id !== undefined) return id;
    }
    const merged = this.#merger.merge(bytes);
    const ids: number[] = [];
    const starts: number[] = [];
    for (let index = 0; index < merged.symbols.length; index += 1) {
      const symbol = merged.symbols[index] as number;
      const parts = symbol < this.size ? [symbol] : this.#partsOf(symbol);
      for (const id of parts) {
        ids.push(id);
        starts.push(merged.starts[index] as number);
      }
    }
    if (ids.length === 1) return ids[0] as number;
    return { ids, starts: bytes.length === word.length ? starts : unitsOfBytes(word, starts) };
  }

  /** Tokens of a symbol that the vocabulary lacks: those of its single characters, where there are such tokens. */
  #partsOf(symbol: number): number[] {
    const parts: number[] = [];
    for (const character of this.#merges.extraText(symbol)) {
      const id = character < "\x80" ? this.#idOf.get(character) : undefined;
      if (id !== undefined) parts.push(id);
    }
    return parts;
  }
}

/** `<0xE4>` */
function bytesOfByteToken(text: string): Uint8Array {
  const digits = /^<0x([0-9A-Fa-f]{2})>$/.exec(text)?.[1];
  return digits === undefined ? bytesOfByteLevelText(text) : Uint8Array.of(Number.parseInt(digits, 16));
}

/** For each (rising) byte of a word's UTF-8 the unit at which its character begins. */
function unitsOfBytes(word: string, bytes: readonly number[]): number[] {
  const units: number[] = [];
  let unit = 0;
  let byte = 0;
  for (const character of word) {
    byte += Buffer.byteLength(character);
    while (units.length < bytes.length && (bytes[units.length] as number) < byte) units.push(unit);
    unit += character.length;
  }
  return units;
}

/** Integers of which nobody knows yet how many there will be. */
class IntegerList {
  #values = new Int32Array(64);
  #length = 0;

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const wider = new Int32Array(this.#length * 2);
      wider.set(this.#values);
      this.#values = wider;
    }
    this.#values[this.#length] = value;
    this.#length += 1;
  }

  take(): Int32Array {
    return this.#values.slice(0, this.#length);
  }
}
