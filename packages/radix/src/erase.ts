import { childrenOf, type Node } from "./node.ts";
import { advance, firstErased, NOT_BEGUN, sharedCells, type OwnedCells, type Progress } from "./pattern.ts";
import type { NodeStore, Waiting } from "./store.ts";
import type { ErasePattern, Erasure, Path } from "./types.ts";
import { walk } from "./walk.ts";

/**
 * One erasure: takes the values of all cells that a pattern is about, whatever events their paths have, and the nodes with them. Leases
 * keep what they read until they are released; the erasure is complete then.
 */
export class EraseRun<V> implements Waiting {
  readonly #store: NodeStore<V>;
  readonly #pattern: ErasePattern;
  readonly #ownedCells: OwnedCells;
  readonly #complete: Promise<void>;
  #done: () => void = () => {};
  #cells = 0;
  #nodes = 0;
  #readers = 0;
  /** Readers that have not left, and 1 for the run itself. */
  #waiting = 1;

  constructor(store: NodeStore<V>, pattern: ErasePattern, ownedCells: OwnedCells) {
    this.#store = store;
    this.#pattern = pattern;
    this.#ownedCells = ownedCells;
    this.#complete = new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  readerFound(): void {
    this.#waiting++;
    this.#readers++;
  }

  readerLeft(): void {
    if (--this.#waiting === 0) this.#done();
  }

  /** Searches one namespace. What holds cells of the text goes, also on a way that leaves the text or ends before its end. */
  search(root: Node<V>): void {
    const spared = this.#spare(root);
    const open: { node: Node<V>; progress: Progress }[] = [];
    const found: { node: Node<V>; progress: Progress }[] = [];
    for (const node of childrenOf(root)) open.push({ node, progress: NOT_BEGUN });
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { node } = next;
      const { event, block, offset, length, start } = node;
      const progress = advance(next.progress, this.#pattern, { event, tokens: block.tokens, offset, length, start }, this.#ownedCells);
      if (progress.first >= 0) found.push({ node, progress });
      if (progress.broken >= 0 || progress.matched === this.#pattern.tokens.length) continue;
      for (const child of childrenOf(node)) open.push({ node: child, progress });
    }
    // Deepest first, so that what is left without children goes at once.
    for (const { node, progress } of found.toReversed()) this.#remove(node, progress, spared);
  }

  /** All namespaces were searched. */
  finish(epoch: number): Erasure {
    this.readerLeft();
    return { cells: this.#cells, nodes: this.#nodes, readers: this.#readers, epoch, complete: this.#complete };
  }

  /** The nodes of the path that stays. */
  #spare(root: Node<V>): Set<Node<V>> {
    const spared = new Set<Node<V>>();
    const { except } = this.#pattern;
    if (except === undefined) return spared;
    const { node, within } = walk(root, except, except.tokens.length);
    let last = within < node.length ? this.#store.split(node, within) : node;
    for (; last.parent !== null; last = last.parent) spared.add(last);
    return spared;
  }

  /**
   * Empties what `node` has of the text, and where the text is complete everything behind that.
   *
   *     node  [ in front | text … | behind, or what differs )
   *                      ^ first  ^ broken
   */
  #remove(node: Node<V>, { first, broken, matched }: Progress, spared: Set<Node<V>>): void {
    // A hole may have gone already, with the last of what was below it.
    if (broken === node.start || node.parent === null) return;
    const text = broken >= 0 ? this.#store.split(node, broken - node.start) : node;
    if (broken >= 0 && spared.has(node)) spared.add(text);
    if (text.start < first) this.#store.split(text, first - text.start);
    const doomed = [text];
    if (matched === this.#pattern.tokens.length) for (let i = 0; i < doomed.length; i++) doomed.push(...childrenOf(doomed[i]!));
    for (const at of doomed.toReversed()) if (!spared.has(at)) this.#empty(at);
  }

  #empty(node: Node<V>): void {
    const isRead = node.leases > 0;
    if (isRead) this.#store.awaitReaders(node, this);
    if (node.value === null) return;
    const { ops } = this.#store;
    this.#cells += node.length;
    this.#nodes++;
    const value = this.#store.empty(node);
    if (ops.erase === undefined) ops.release(value);
    else ops.erase(value, isRead);
  }
}

/**
 * Erasures that are remembered, so that what was being computed when they came is not brought back by a later insertion. The oldest are
 * forgotten; what started before those is refused altogether.
 */
export class Fences {
  readonly #max: number;
  readonly #ownedCells: OwnedCells;
  readonly #fences: { epoch: number; covers: (namespace: string) => boolean; pattern: ErasePattern }[] = [];
  #epoch = 0;
  /** Nothing is known of erasures up to this one. */
  #forgotten = 0;

  constructor(max: number, ownedCells: OwnedCells) {
    this.#max = max;
    this.#ownedCells = ownedCells;
  }

  get epoch(): number {
    return this.#epoch;
  }

  add(covers: (namespace: string) => boolean, pattern: ErasePattern): number {
    const copy: ErasePattern = { ...pattern, tokens: pattern.tokens.slice() };
    if (pattern.except !== undefined) copy.except = { tokens: pattern.except.tokens.slice(), events: [...pattern.except.events] };
    this.#fences.push({ epoch: ++this.#epoch, covers, pattern: copy });
    if (this.#fences.length > this.#max) this.#forgotten = this.#fences.shift()!.epoch;
    return this.#epoch;
  }

  /** Whether cells of [0, to) of `path`, computed by what started at epoch `since`, were erased meanwhile. */
  refuse(namespace: string, path: Path, to: number, since: number): boolean {
    if (since < this.#forgotten) return true;
    return this.#fences.some(({ epoch, covers, pattern }) => {
      if (epoch <= since || !covers(namespace)) return false;
      if (firstErased(path, pattern, this.#ownedCells) >= to) return false;
      return pattern.except === undefined || sharedCells(path, pattern.except) < to;
    });
  }
}
