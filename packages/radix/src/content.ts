import { endOf, findChild, type Node } from "./node.ts";
import { commonLength } from "./walk.ts";

export interface ContentOptions {
  /** Cells that are hashed together: shorter segments are never found. Default 32. */
  windowCells?: number;
  /** Segments shorter than this are not offered. Default 64. */
  cellsMin?: number;
}

/** Where a window lies: it ends in `node`, and begins at cell `start`, perhaps in an ancestor. */
interface Place<V> {
  node: Node<V>;
  start: number;
}

/** A stretch of the asked tokens that the tree has elsewhere. */
export interface Found<V> {
  /** First cell in the path that was asked for. */
  at: number;
  length: number;
  /** The node in which the last cell lies. */
  node: Node<V>;
  /** First cell on the way to that node. */
  start: number;
}

/** Of so many windows in a row at least one is remembered, the same one wherever the text stands. */
const GROUP = 8;
const FACTOR = 0x01000193;

/**
 * Finds stretches of tokens wherever they stand in the tree. Windows of tokens are hashed as they roll along (Rabin and Karp, 1987); the
 * least hash of each group of windows is remembered with the place where it was seen last (winnowing; Schleimer, Wilkerson and Aiken,
 * 2003), so that a text is found after whatever it comes: any stretch of windowCells + 7 cells shares a remembered window with its like.
 * What is found is compared token by token.
 */
export class ContentIndex<V> {
  readonly cellsMin: number;
  readonly #window: number;
  /** FACTOR to the power of the window's length: what a token is worth when it leaves. */
  readonly #leaving: number;
  readonly #places = new Map<Node<V>, Map<number, Place<V>>>();

  constructor(options: ContentOptions) {
    this.#window = options.windowCells ?? 32;
    this.cellsMin = options.cellsMin ?? 64;
    let power = 1;
    for (let i = 0; i < this.#window; i++) power = Math.imul(power, FACTOR);
    this.#leaving = power;
  }

  /** Windows that are remembered of nodes without cells, for integrity checks. */
  stale(): number {
    const all = [...this.#places.values()].flatMap((places) => Array.from(places.values()));
    return all.filter(({ node }) => node.index < 0 || node.value === null).length;
  }

  /** Remembers the windows that end in `node`; also those that were remembered of `lower`, when `node` was cut from that. */
  add(node: Node<V>, lower: Node<V> | null = null): void {
    const root = rootOf(node);
    let places = this.#places.get(root);
    if (places === undefined) this.#places.set(root, (places = new Map()));
    this.#eachWindow(node, (hash, start) => {
      // One that ends in front of the node was chosen beside windows that reach into it.
      const known = places.get(hash);
      if (start + this.#window > node.start || known === undefined || known.node === lower) places.set(hash, { node, start });
    });
  }

  /** Forgets what it remembers of `node`, which is about to lose its cells. */
  remove(node: Node<V>): void {
    const root = rootOf(node);
    const places = this.#places.get(root);
    if (places === undefined) return;
    this.#eachWindow(node, (hash) => {
      if (places.get(hash)?.node === node) places.delete(hash);
    });
    if (places.size === 0) this.#places.delete(root);
  }

  /** Stretches of tokens[from …) that the tree has, as long as they go, in order, none overlapping and none across a cut. */
  *find(root: Node<V>, tokens: Int32Array, from: number, cuts: readonly number[]): Generator<Found<V>> {
    const places = this.#places.get(root);
    if (places === undefined) return;
    const edges = [from, ...cuts.filter((cut) => cut > from && cut < tokens.length), tokens.length];
    for (let i = 0; i + 1 < edges.length; i++) {
      let first = edges[i]!;
      for (const { hash, at } of this.#windows(tokens, first, edges[i + 1]!)) {
        const place = at < first ? undefined : places.get(hash);
        if (place === undefined) continue;
        const found = this.#extend(place, tokens, at, first, edges[i + 1]!);
        if (found.length < this.cellsMin) continue;
        yield found;
        first = found.at + found.length;
      }
    }
  }

  /** The windows of tokens[from … to) that are the least of some GROUP windows in a row; of equals the last. */
  *#windows(tokens: Int32Array, from: number, to: number): Generator<{ hash: number; at: number }> {
    const group = new Uint32Array(GROUP);
    let rolling = 0;
    let chosen = -1;
    for (let i = from; i < to; i++) {
      rolling = this.#roll(rolling, tokens[i]!, i - from >= this.#window ? tokens[i - this.#window]! : null);
      const at = i + 1 - this.#window;
      if (at < from) continue;
      group[at % GROUP] = mix(rolling);
      if (at - from + 1 < GROUP) continue;
      let least = at;
      for (let back = at - 1; back > at - GROUP; back--) if (group[back % GROUP]! < group[least % GROUP]!) least = back;
      if (least === chosen) continue;
      chosen = least;
      yield { hash: group[least % GROUP]!, at: least };
    }
  }

  /** Windows of groups that end in `node`, and begin behind the last event on the way to it. */
  #eachWindow(node: Node<V>, act: (hash: number, start: number) => void): void {
    const most = this.#window - 1 + GROUP - 1;
    let first = node.start;
    for (let at = node; node.start - first < most && at.event === null && at.parent!.parent !== null; ) {
      at = at.parent!;
      first = Math.max(at.start, node.start - most);
    }
    const tokens = new Int32Array(endOf(node) - first);
    for (let at = node; ; at = at.parent!) {
      const from = Math.max(first, at.start);
      tokens.set(at.block.tokens.subarray(at.offset + from - at.start, at.offset + at.length), from - first);
      if (at.start <= first) break;
    }
    for (const { hash, at } of this.#windows(tokens, 0, tokens.length)) act(hash, first + at);
  }

  #roll(hash: number, entering: number, leaving: number | null): number {
    // A token counts as token + 1, so that runs of token 0 differ in length.
    const rolled = (Math.imul(hash, FACTOR) + entering + 1) | 0;
    return leaving === null ? rolled : (rolled - Math.imul(leaving + 1, this.#leaving)) | 0;
  }

  /** From a window that hashes like the tokens at `at`: as far as both ways agree within [from, to) of the tokens. */
  #extend(place: Place<V>, tokens: Int32Array, at: number, from: number, to: number): Found<V> {
    const down: Node<V>[] = [place.node];
    while (down[0]!.start > place.start) down.unshift(down[0]!.parent!);
    let node = down[0]!;
    let last = at + agreeing(node, place.start, tokens, at, to);
    // On along the remembered way, and then along whatever child goes on without an event.
    for (let i = 1; last < to && place.start + last - at === endOf(node); i++) {
      const next = down[i] ?? findChild(node, null, tokens[last]!);
      if (next === null || next.event !== null) break;
      const agree = agreeing(next, next.start, tokens, last, to);
      if (agree === 0) break;
      node = next;
      last += agree;
    }
    let first = at;
    let start = place.start;
    for (let up = down[0]!; first > from; ) {
      if (start > up.start) {
        if (tokenAt(up, start - 1) !== tokens[first - 1]) break;
        start--;
        first--;
      } else if (up.event === null && up.parent!.parent !== null) up = up.parent!;
      else break;
    }
    return { at: first, length: last - first, node, start };
  }
}

/** Spreads neighbouring hashes over all 32 bits (finaliser of MurmurHash3). */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function rootOf<V>(node: Node<V>): Node<V> {
  let root = node;
  while (root.parent !== null) root = root.parent;
  return root;
}

function tokenAt<V>(node: Node<V>, cell: number): number {
  return node.block.tokens[node.offset + cell - node.start]!;
}

/** Cells of `node` from `cell` on that are the tokens from `at` on. */
function agreeing<V>(node: Node<V>, cell: number, tokens: Int32Array, at: number, to: number): number {
  return commonLength(node.block.tokens, node.offset + cell - node.start, tokens, at, Math.min(endOf(node) - cell, to - at));
}
