import { createHash } from "node:crypto";
import { KvstoreError } from "./errors.ts";

/** Changes whenever the bytes that are hashed, or the layout of a record, change: cells of another version are never found. */
export const ADDRESS_VERSION = 1;

/** 16 of the 32 bytes of SHA-256: half of them are as hard to collide as anybody needs, by chance or on purpose. */
const DIGEST_BYTES = 16;

/** A log as a prefix tree sees it: token of each cell, and events in front of cells. Fits `Path` of @palimpsest/radix by its shape. */
export interface LogPath {
  tokens: Int32Array;
  events: readonly { at: number; key: string }[];
}

/** What a block is known by, and what it is made of. */
export interface BlockAddress {
  /** 32 hexadecimal digits: the hash of namespace, tokens and events from the root to the end of the block. */
  key: string;
  namespace: string;
  /** Blocks in front of it. */
  number: number;
  tokens: Int32Array;
  /** Events in front of its cells; `at` counts from the first cell of the block. */
  events: readonly { at: number; key: string }[];
}

/**
 * Addresses of the whole blocks of a path. A block is `blockCells` cells that begin at a multiple of it; its address is a hash of
 * everything that led to it, so equal addresses mean equal cells, in this process, in another one and on another machine:
 *
 *     address 0 = H(H("palimpsest cells", version, blockCells, namespace), block 0)
 *     address n = H(address n−1, block n)
 *     block     = tokens (int32, little endian), then each event: place in the block (uint32), length of its key (uint32), key (UTF-8)
 */
export class PathAddresses {
  readonly namespace: string;
  readonly blockCells: number;
  /** What other paths began, in order; each part ends before the next one begins. */
  readonly #shared: readonly { part: Part; end: number }[];
  readonly #own: Part;

  constructor(namespace: string, blockCells = 16, shared: readonly { part: Part; end: number }[] = []) {
    if (!Number.isInteger(blockCells) || blockCells < 1) {
      throw new KvstoreError("argument_invalid", `a block has at least one cell, not ${blockCells}`, "blockCells");
    }
    this.namespace = namespace;
    this.blockCells = blockCells;
    this.#shared = shared;
    const last = shared.at(-1);
    const root = () => digest(new TextEncoder().encode(JSON.stringify(["palimpsest cells", ADDRESS_VERSION, blockCells, namespace])));
    this.#own = new Part(last?.end ?? 0, last === undefined ? root() : last.part.digest(last.end - 1), blockCells);
  }

  /** Whole blocks that are known. */
  get blocks(): number {
    return this.#own.end;
  }

  /** Another path that has the first `blocks` blocks of this one. They are shared and not hashed again. */
  fork(blocks: number): PathAddresses {
    if (!(Number.isInteger(blocks) && blocks >= 0 && blocks <= this.blocks)) {
      throw new KvstoreError("argument_invalid", `block ${blocks} of ${this.blocks}`, "blocks");
    }
    const parts = [...this.#shared, { part: this.#own, end: this.#own.end }].filter(({ part }) => part.first < blocks);
    return new PathAddresses(this.namespace, this.blockCells, parts.map(({ part, end }) => ({ part, end: Math.min(end, blocks) })));
  }

  /** Goes on to the whole blocks of the first `cells` cells of `path`, which begins with what was given before. */
  extend(path: LogPath, cells = path.tokens.length): void {
    const { blockCells } = this;
    const blocks = Math.floor(Math.min(cells, path.tokens.length) / blockCells);
    if (blocks <= this.blocks) return;
    this.#own.reserve(blocks);
    let next = path.events.findIndex((event) => event.at >= this.blocks * blockCells);
    if (next < 0) next = path.events.length;
    for (let number = this.blocks; number < blocks; number++) {
      const first = number * blockCells;
      const events: { at: number; key: string }[] = [];
      for (; next < path.events.length && path.events[next]!.at < first + blockCells; next++) {
        events.push({ at: path.events[next]!.at - first, key: path.events[next]!.key });
      }
      this.#own.push(path.tokens.subarray(first, first + blockCells), events);
    }
  }

  key(number: number): string {
    return Buffer.from(this.#partOf(number).digest(number)).toString("hex");
  }

  at(number: number): BlockAddress {
    const { tokens, events } = this.#partOf(number).block(number);
    return { key: this.key(number), namespace: this.namespace, number, tokens, events };
  }

  #partOf(number: number): Part {
    if (!(number >= 0 && number < this.blocks)) throw new KvstoreError("argument_invalid", `block ${number} of ${this.blocks}`, "number");
    if (number >= this.#own.first) return this.#own;
    let [low, high] = [0, this.#shared.length - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#shared[middle]!.end > number) high = middle;
      else low = middle + 1;
    }
    return this.#shared[low]!.part;
  }
}

/** The blocks of one path from `first` on. Only the path that made it adds to it; forks read what was there. */
class Part {
  readonly first: number;
  readonly #blockCells: number;
  /** Of the block in front of the first. */
  readonly #parent: Uint8Array;
  #digests = new Uint8Array(0);
  #tokens = new Int32Array(0);
  readonly #events: { at: number; key: string }[][] = [];

  constructor(first: number, parent: Uint8Array, blockCells: number) {
    this.first = first;
    this.#parent = parent;
    this.#blockCells = blockCells;
  }

  get end(): number {
    return this.first + this.#events.length;
  }

  digest(number: number): Uint8Array {
    const at = (number - this.first) * DIGEST_BYTES;
    return this.#digests.subarray(at, at + DIGEST_BYTES);
  }

  block(number: number): { tokens: Int32Array; events: readonly { at: number; key: string }[] } {
    const at = number - this.first;
    return { tokens: this.#tokens.slice(at * this.#blockCells, (at + 1) * this.#blockCells), events: this.#events[at]! };
  }

  push(tokens: Int32Array, events: { at: number; key: string }[]): void {
    const at = this.#events.length;
    const parent = at === 0 ? this.#parent : this.digest(this.end - 1);
    this.#tokens.set(tokens, at * this.#blockCells);
    this.#digests.set(digest(encodeBlock(parent, tokens, events)), at * DIGEST_BYTES);
    this.#events.push(events);
  }

  /** Makes room up to block `end`. */
  reserve(end: number): void {
    const room = this.#digests.length / DIGEST_BYTES;
    const wanted = end - this.first;
    if (wanted <= room) return;
    const size = Math.max(wanted, Math.ceil(1.5 * room));
    const digests = new Uint8Array(size * DIGEST_BYTES);
    digests.set(this.#digests);
    this.#digests = digests;
    const tokens = new Int32Array(size * this.#blockCells);
    tokens.set(this.#tokens);
    this.#tokens = tokens;
  }
}

function digest(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest().subarray(0, DIGEST_BYTES);
}

function encodeBlock(parent: Uint8Array, tokens: Int32Array, events: readonly { at: number; key: string }[]): Uint8Array {
  const keys = events.map((event) => new TextEncoder().encode(event.key));
  const size = parent.length + tokens.length * 4 + keys.reduce((sum, key) => sum + 8 + key.length, 0);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  bytes.set(parent);
  let at = parent.length;
  for (const token of tokens) {
    view.setInt32(at, token, true);
    at += 4;
  }
  events.forEach((event, i) => {
    view.setUint32(at, event.at, true);
    view.setUint32(at + 4, keys[i]!.length, true);
    bytes.set(keys[i]!, at + 8);
    at += 8 + keys[i]!.length;
  });
  return bytes;
}
