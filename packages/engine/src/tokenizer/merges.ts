import { EngineError } from "../errors.ts";
import { CHARACTER_OF_BYTE } from "./vocabulary.ts";

/**
 * Merges of a byte-level BPE by pairs of symbols. A symbol is a token id, or, for a text that merges go through but the vocabulary
 * lacks, a number from `tokens` on. Looked up for every pair of neighbours in a word that is not cached, so it is a hash table over
 * typed arrays and not a Map over strings.
 */
export class Merges {
  /** Symbol of each byte. */
  readonly symbolOfByte: Int32Array;
  /** Symbol that a merge makes, by rank. */
  readonly result: Int32Array;
  readonly #lefts: Int32Array;
  readonly #rights: Int32Array;
  /** Rank + 1 in an open-addressed table; 0 is free. */
  readonly #slots: Int32Array;
  readonly #tokens: number;
  readonly #extraTexts: string[] = [];

  /**
   * @param merges "left right" by rank, in the byte-level alphabet. Of two equal merges the first counts.
   * @param idOf ids by text
   * @param tokens number of tokens
   * @throws EngineError `tokenizer_damaged` for a merge that is not two texts
   */
  constructor(merges: readonly string[], idOf: ReadonlyMap<string, number>, tokens: number) {
    this.#tokens = tokens;
    const extra = new Map<string, number>();
    const symbolOf = (text: string): number => {
      const known = idOf.get(text) ?? extra.get(text);
      if (known !== undefined) return known;
      const symbol = tokens + this.#extraTexts.length;
      extra.set(text, symbol);
      this.#extraTexts.push(text);
      return symbol;
    };
    this.symbolOfByte = Int32Array.from(CHARACTER_OF_BYTE, symbolOf);
    this.result = new Int32Array(merges.length);
    this.#lefts = new Int32Array(merges.length);
    this.#rights = new Int32Array(merges.length);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(merges.length * 2 + 2)));
    for (const [rank, merge] of merges.entries()) {
      const blank = merge.indexOf(" ", 1);
      if (blank < 0 || blank === merge.length - 1) {
        throw new EngineError("tokenizer_damaged", `merge ${rank} of the file is not two texts: ${JSON.stringify(merge)}`);
      }
      const left = merge.slice(0, blank);
      const right = merge.slice(blank + 1);
      this.#lefts[rank] = symbolOf(left);
      this.#rights[rank] = symbolOf(right);
      this.result[rank] = symbolOf(left + right);
      const slot = this.#find(this.#lefts[rank] as number, this.#rights[rank] as number);
      if (this.#slots[slot] === 0) this.#slots[slot] = rank + 1;
    }
  }

  /** Rank of the merge of two symbols, or −1. */
  rank(left: number, right: number): number {
    return (this.#slots[this.#find(left, right)] as number) - 1;
  }

  /** Whether every merge makes a token. Single bytes do not count: they are lost alone. */
  get allAreTokens(): boolean {
    return this.#extraTexts.every((text) => text.length === 1);
  }

  /** Text of a symbol that is no token, in the byte-level alphabet. */
  extraText(symbol: number): string {
    return this.#extraTexts[symbol - this.#tokens] as string;
  }

  /** The slot of a pair, or the free one where it would stand. */
  #find(left: number, right: number): number {
    const mask = this.#slots.length - 1;
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & mask;
    for (;;) {
      const rank = (this.#slots[slot] as number) - 1;
      if (rank < 0 || (this.#lefts[rank] === left && this.#rights[rank] === right)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}
