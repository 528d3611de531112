import type { TokenizerData } from "@palimpsest/kernels-cuda";
import { endOfBlock } from "./blocks.ts";
import { BytePairMerger, type MergedWord } from "./byte-pairs.ts";
import { Merges } from "./merges.ts";
import { type PreTokenizer, preTokenizer, wordEnds } from "./pre-tokenizers.ts";
import { type SpecialFilter, SpecialTokens } from "./special-tokens.ts";
import { Slices, runAtOnce } from "./slices.ts";
import { TokenBytes } from "./token-bytes.ts";
import { TOKEN_CONTROL, TOKEN_UNKNOWN, byteLevelText, checkTokenizerData, endsOf, idsByText } from "./vocabulary.ts";
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
  /** The unit after the character that holds a token's last byte; the same as its start for BOS. */
  ends: Int32Array;
}

/** Tokens of a word: one id, or ids with the units they begin and end at. */
export type WordTokens = number | { ids: readonly number[]; starts: readonly number[]; ends: readonly number[] };

/** Words between two chances to pause. */
const WORDS_PER_PAUSE = 4_096;
/** Longer words are merged with chances to pause. */
const LONG_WORD_UNITS = 4_096;

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
  /** Made when first asked for: counting tokens does not need it. */
  #tokenBytes: TokenBytes | undefined;

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

  encodeWithOffsets(text: string, options: EncodeOptions): Encoding {
    return runAtOnce(this.#encode(text, options));
  }

  /** The same, a few milliseconds at a time: a text of megabytes keeps nobody else from the event loop. */
  encodeInSlices(text: string, options: EncodeOptions, slices = new Slices()): Promise<Encoding> {
    return slices.run(this.#encode(text, options));
  }

  /**
   * Fewer tokens than this no text can have: none stands for more bytes than the longest. Bytes that may be lost, since the
   * vocabulary has no token for them, count nothing.
   */
  fewestTokens(text: string): number {
    this.#tokenBytes ??= new TokenBytes(this.#tokens, this.#types);
    const { longest, single } = this.#tokenBytes;
    // A merge that makes no token falls apart into single characters, of which only the ASCII ones are sure to be tokens.
    const isSure = (byte: number) => single[byte] === 1 && (byte < 0x80 || this.#merges.allAreTokens);
    if (single.every((_, byte) => isSure(byte))) return Math.ceil(Buffer.byteLength(text) / longest);
    const sure = Uint8Array.from(single, (_, byte) => (isSure(byte) ? 1 : 0));
    let bytes = 0;
    for (const byte of Buffer.from(text)) bytes += sure[byte] as number;
    return Math.ceil(bytes / longest);
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

  /**
   * Bytes a token stands for; none for ids that the vocabulary does not use, since a model may be wider than its vocabulary. A view:
   * not to be changed.
   *
   * @throws EngineError `token_invalid` for what is no natural number
   */
  tokenBytes(id: number): Uint8Array {
    this.#tokenBytes ??= new TokenBytes(this.#tokens, this.#types);
    return this.#tokenBytes.of(id);
  }

  decodeBytes(ids: Iterable<number>, { special = true }: DecodeOptions = {}): Uint8Array {
    const shown = Array.from(ids);
    const pieces = (special ? shown : shown.filter((id) => !this.isControl(id))).map((id) => this.tokenBytes(id));
    const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }

  /** Text of tokens; bytes that are no UTF-8 become U+FFFD. For text that arrives token by token use `Utf8Stream`. */
  decode(ids: Iterable<number>, options: DecodeOptions = {}): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.decodeBytes(ids, options));
  }

  *#encode(text: string, { special, bos = false }: EncodeOptions): Generator<void, Encoding> {
    const accepts = special === true ? acceptAll : special === false ? acceptUserDefined : special;
    const out = new EncodingBuilder();
    if (bos && this.addBos && this.bos !== null) out.push(this.bos, 0, 0);
    let from = 0;
    for (const match of this.specialTokens.find(text, accepts)) {
      if (match === null) {
        yield;
        continue;
      }
      yield* this.#encodeText(text, from, match.start, out);
      out.push(match.token.id, match.start, match.end);
      from = match.end;
    }
    yield* this.#encodeText(text, from, text.length, out);
    return out.take();
  }

  /** The stretch [from, to) of a text, in which nothing is special. */
  *#encodeText(text: string, from: number, to: number, out: EncodingBuilder): Generator<void> {
    for (let start = from; start < to; ) {
      const end = yield* endOfBlock(text, start, to);
      yield* this.#encodeBlock(text.slice(start, end), start, out);
      if (end < to) yield;
      start = end;
    }
  }

  *#encodeBlock(block: string, base: number, out: EncodingBuilder): Generator<void> {
    let from = 0;
    let words = 0;
    for (const end of wordEnds(block, this.#pre)) {
      words += 1;
      if (words % WORDS_PER_PAUSE === 0) yield;
      const word = block.slice(from, end);
      let tokens = this.#words.get(word);
      if (tokens === undefined) {
        tokens = word.length > LONG_WORD_UNITS ? yield* this.#encodeLongWord(word) : this.#encodeWord(word);
        this.#words.set(word, tokens);
      }
      if (typeof tokens === "number") {
        out.push(tokens, base + from, base + end);
      } else {
        const { ids, starts, ends } = tokens;
        for (let index = 0; index < ids.length; index += 1) {
          out.push(ids[index] as number, base + from + (starts[index] as number), base + from + (ends[index] as number));
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
    return this.#tokensOf(word, bytes, this.#merger.merge(bytes));
  }

  /** A word that is longer than any token. */
  *#encodeLongWord(word: string): Generator<void, WordTokens> {
    const bytes = Buffer.from(word);
    const merged = yield* this.#merger.mergeInSteps(bytes);
    return this.#tokensOf(word, bytes, merged);
  }

  #tokensOf(word: string, bytes: Uint8Array, { symbols, starts: symbolStarts }: MergedWord): WordTokens {
    const isAscii = bytes.length === word.length;
    const units = isAscii ? null : unitsOfBytes(word, bytes.length);
    const ids: number[] = [];
    const starts: number[] = [];
    const ends: number[] = [];
    for (const [index, symbol] of symbols.entries()) {
      const first = symbolStarts[index] as number;
      const last = (symbolStarts[index + 1] ?? bytes.length) - 1;
      for (const id of symbol < this.size ? [symbol] : this.#partsOf(symbol)) {
        ids.push(id);
        starts.push(units === null ? first : (units.start[first] as number));
        ends.push(units === null ? last + 1 : (units.end[last] as number));
      }
    }
    return ids.length === 1 && starts[0] === 0 && ends[0] === word.length ? (ids[0] as number) : { ids, starts, ends };
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

/** For each byte of a word's UTF-8 the units at which its character begins and ends. */
function unitsOfBytes(word: string, bytes: number): { start: Int32Array; end: Int32Array } {
  const start = new Int32Array(bytes);
  const end = new Int32Array(bytes);
  let unit = 0;
  let byte = 0;
  for (const character of word) {
    const next = byte + Buffer.byteLength(character);
    start.fill(unit, byte, next);
    unit += character.length;
    end.fill(unit, byte, next);
    byte = next;
  }
  return { start, end };
}

const CHUNK_TOKENS = 65_536;

/** Tokens of which nobody knows yet how many there will be: chunks, so that none is copied more than once. */
class EncodingBuilder {
  readonly #full: Encoding[] = [];
  #chunk = emptyEncoding(256);
  #length = 0;

  push(id: number, start: number, end: number): void {
    if (this.#length === this.#chunk.ids.length) {
      this.#full.push(this.#chunk);
      this.#chunk = emptyEncoding(CHUNK_TOKENS);
      this.#length = 0;
    }
    this.#chunk.ids[this.#length] = id;
    this.#chunk.starts[this.#length] = start;
    this.#chunk.ends[this.#length] = end;
    this.#length += 1;
  }

  take(): Encoding {
    const count = this.#full.reduce((sum, { ids }) => sum + ids.length, this.#length);
    const whole = emptyEncoding(count);
    let at = 0;
    for (const { ids, starts, ends } of this.#full) {
      whole.ids.set(ids, at);
      whole.starts.set(starts, at);
      whole.ends.set(ends, at);
      at += ids.length;
    }
    for (const name of ["ids", "starts", "ends"] as const) whole[name].set(this.#chunk[name].subarray(0, this.#length), at);
    return whole;
  }
}

const emptyEncoding = (length: number): Encoding => ({ ids: new Int32Array(length), starts: new Int32Array(length), ends: new Int32Array(length) });
