/** A buffer of tokens that nodes share. */
export interface Block {
  readonly tokens: Int32Array;
  /** Tokens of it that nodes still use. */
  live: number;
}

/** What the arena keeps track of: a window into a block. */
export interface Window {
  block: Block;
  offset: number;
  readonly length: number;
}

/** Tokens of a shared block: 16 KiB. Longer paths get a block of their own. */
const BLOCK_TOKENS = 4096;
const OWN_BLOCK_TOKENS = BLOCK_TOKENS / 4;
/** Waste that is not worth any work. */
const SLACK_TOKENS = 4 * BLOCK_TOKENS;

/**
 * Where the tokens of all nodes lie: few large blocks instead of an array for each node. Each insertion copies its new tokens once; a
 * split copies nothing. A block goes when no node uses it; since one short node can keep a long block, windows of mostly dead blocks
 * are copied out, a few with each insertion or removal (`needsCare`, `care`).
 */
export class TokenArena {
  #open: Block = { tokens: new Int32Array(0), live: 0 };
  #used = 0;
  #capacity = 0;
  #live = 0;

  /** Tokens that nodes use. */
  get live(): number {
    return this.#live;
  }

  /** Tokens that are held in memory. */
  get capacity(): number {
    return this.#capacity;
  }

  /** More than half of the memory is dead. */
  get needsCare(): boolean {
    return this.#capacity > 2 * this.#live + SLACK_TOKENS;
  }

  /** Copies tokens[from … to) and returns where they lie now. They count as live from `take` on. */
  store(tokens: Int32Array, from: number, to: number): { block: Block; offset: number } {
    const length = to - from;
    if (length >= OWN_BLOCK_TOKENS) {
      this.#capacity += length;
      return { block: { tokens: tokens.slice(from, to), live: 0 }, offset: 0 };
    }
    if (this.#used + length > this.#open.tokens.length) {
      const full = this.#open;
      this.#open = { tokens: new Int32Array(BLOCK_TOKENS), live: 0 };
      this.#used = 0;
      this.#capacity += BLOCK_TOKENS;
      this.#dropIfDead(full);
    }
    const offset = this.#used;
    this.#open.tokens.set(tokens.subarray(from, to), offset);
    this.#used += length;
    return { block: this.#open, offset };
  }

  /** A node begins to use `length` tokens of a block. */
  take(block: Block, length: number): void {
    block.live += length;
    this.#live += length;
  }

  /** A node no longer uses them. */
  drop(block: Block, length: number): void {
    block.live -= length;
    this.#live -= length;
    this.#dropIfDead(block);
  }

  /** Moves a window out of a block that is mostly dead. */
  care(window: Window): void {
    const { block, offset, length } = window;
    if (block === this.#open || 2 * block.live >= block.tokens.length) return;
    const moved = this.store(block.tokens, offset, offset + length);
    this.take(moved.block, length);
    window.block = moved.block;
    window.offset = moved.offset;
    this.drop(block, length);
  }

  #dropIfDead(block: Block): void {
    if (block.live === 0 && block !== this.#open) this.#capacity -= block.tokens.length;
  }
}
