import type { WordTokens } from "./tokenizer.ts";

/** Limits of the cache of words: its memory is at most twice WORDS_MAX entries. */
export const WORD_CACHE_LIMITS = { WORDS_MAX: 32_768, WORD_UNITS_MAX: 64 } as const;

/**
 * Tokens of words seen before. Two generations: when the younger is full it becomes the older, and what was in the older and not
 * asked for since is gone. That is nearly LRU at the price of a Map lookup.
 */
export class WordCache {
  #young = new Map<string, WordTokens>();
  #old = new Map<string, WordTokens>();

  get(word: string): WordTokens | undefined {
    if (word.length > WORD_CACHE_LIMITS.WORD_UNITS_MAX) return undefined;
    const young = this.#young.get(word);
    if (young !== undefined) return young;
    const old = this.#old.get(word);
    if (old !== undefined) this.#add(word, old);
    return old;
  }

  set(word: string, tokens: WordTokens): void {
    if (word.length <= WORD_CACHE_LIMITS.WORD_UNITS_MAX) this.#add(word, tokens);
  }

  /** Words held in both generations. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }

  #add(word: string, tokens: WordTokens): void {
    if (this.#young.size >= WORD_CACHE_LIMITS.WORDS_MAX) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    // A slice would keep the whole text it was cut from alive: the copy is flat.
    this.#young.set(flat(word), tokens);
  }
}

/** A copy that holds no other string. */
function flat(word: string): string {
  return Buffer.from(word, "utf16le").toString("utf16le");
}
