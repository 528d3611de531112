import { TokenArena, type Block } from "./arena.ts";
import { Heap } from "./heap.ts";
import type { ContentIndex } from "./content.ts";
import { RadixError } from "./errors.ts";
import { addChild, endOf, isIdle, Node, removeChild, replaceChild } from "./node.ts";
import type { EvictionPolicy } from "./policy.ts";
import type { TreeLimits, TreeStats, ValueOps } from "./types.ts";

/** Nodes whose tokens are looked at, and moved together where needed, with each node added or removed. */
const CARE_NODES = 16;

const EMPTY: Block = { tokens: new Int32Array(0), live: 0 };

/** Nodes one after another: `last` and its ancestors down to the one that begins at cell `start`. */
export interface Stretch<V> {
  last: Node<V>;
  start: number;
}

/** Whoever waits for the readers of erased nodes. */
export interface Waiting {
  readerFound(): void;
  readerLeft(): void;
}

/** The order of eviction: by rank, then by priority, then the deeper node. */
function goesBefore<V>(one: Node<V>, other: Node<V>): boolean {
  if (one.rank !== other.rank) return one.rank < other.rank;
  return one.priority !== other.priority ? one.priority < other.priority : one.start > other.start;
}

/**
 * The nodes of all namespaces and what follows from them: counts, the candidates for eviction, the memory of their tokens. Each
 * operation leaves everything consistent; which operations make a match or an insertion is the tree's business.
 */
export class NodeStore<V> {
  readonly ops: ValueOps<V>;
  readonly limits: TreeLimits;
  readonly policy: EvictionPolicy;
  readonly roots = new Map<string, Node<V>>();
  /** What an eviction may take, and what it may take only when it revokes pins. */
  readonly candidates = new Heap<Node<V>>(goesBefore);
  readonly pinned = new Heap<Node<V>>(goesBefore);
  readonly arena = new TokenArena();
  /** In no order. */
  readonly all: Node<V>[] = [];
  /** Erased nodes that leases still read. */
  readonly erasures = new Map<Node<V>, readonly Waiting[]>();
  leases = 0;
  /** Counts leases taken and given back: the clock of "recently". */
  #tick = 0;
  #holes = 0;
  #cells = 0;
  #holeCells = 0;
  #cared = 0;

  readonly content: ContentIndex<V> | null;

  constructor(ops: ValueOps<V>, limits: TreeLimits, policy: EvictionPolicy, content: ContentIndex<V> | null) {
    this.ops = ops;
    this.limits = limits;
    this.policy = policy;
    this.content = content;
  }

  /** The root of a namespace, made when it is not there. A root has no cells and is in no count. */
  root(namespace: string): Node<V> {
    let root = this.roots.get(namespace);
    if (root === undefined) {
      if (this.roots.size >= this.limits.namespacesMax) {
        throw new RadixError("namespaces_exceeded", `the tree holds ${this.limits.namespacesMax} namespaces already`, "namespace");
      }
      root = new Node<V>(null, namespace, EMPTY, 0, 0, 0);
      this.roots.set(namespace, root);
    }
    return root;
  }

  /** A new hole below `parent`. */
  add(parent: Node<V>, event: string | null, block: Block, offset: number, length: number): Node<V> {
    const node = new Node<V>(parent, event, block, offset, length, endOf(parent));
    this.arena.take(block, length);
    addChild(parent, node);
    this.#enlist(node);
    this.#holes++;
    this.#holeCells += length;
    this.#care();
    return node;
  }

  /**
   * Cuts a node in two and returns the upper part, which is new; `node` stays the lower one.
   *
   *     parent ── [ event | 0 … length ) ── children
   *     parent ── [ event | 0 … at ) ── [ at … length ) ── children
   */
  split(node: Node<V>, at: number): Node<V> {
    const parent = node.parent!;
    const upper = new Node<V>(parent, node.event, node.block, node.offset, at, node.start);
    replaceChild(parent, node, upper);
    node.parent = upper;
    node.event = null;
    node.offset += at;
    node.length -= at;
    node.start += at;
    upper.children = node;
    upper.recent = node;
    upper.leases = node.leases;
    upper.skips = node.skips;
    upper.pins = node.pins;
    upper.lastUse = node.lastUse;
    upper.uses = node.uses;
    upper.rank = node.rank;
    upper.priority = node.priority;
    if (node.value === null) this.#holes++;
    else [upper.value, node.value] = this.ops.split(node.value, at);
    this.#enlist(upper);
    if (upper.value !== null) this.content?.add(upper, node);
    const heap = this.#heapOf(node);
    heap?.put(node);
    heap?.put(upper);
    for (const erasure of this.erasures.get(node) ?? []) this.awaitReaders(upper, erasure);
    return upper;
  }

  /**
   * The nodes of the cells [from, to) on the way from `last` to its root, after splits at both ends. Where the tree is full, only the
   * nodes that lie wholly inside; null: none.
   */
  stretch(last: Node<V>, from: number, to: number): Stretch<V> | null {
    const full = this.all.length + 2 > this.limits.nodesMax;
    let lower = last;
    while (full ? endOf(lower) > to : lower.start >= to) lower = lower.parent!;
    if (endOf(lower) > to) lower = this.split(lower, to - lower.start);
    let upper = lower;
    while (upper.start > from) upper = upper.parent!;
    if (upper.start === from) return { last: lower, start: from };
    if (!full) {
      this.split(upper, from - upper.start);
      return { last: lower, start: from };
    }
    return endOf(upper) >= endOf(lower) ? null : { last: lower, start: endOf(upper) };
  }

  /** Gives a hole its value. */
  fill(node: Node<V>, value: V): void {
    node.value = value;
    this.#holes--;
    this.#holeCells -= node.length;
    this.#cells += node.length;
    this.content?.add(node);
    this.settle(node, true);
  }

  /** Takes a node's value away: it becomes a hole, and goes when nothing needs it. The value is the caller's. */
  empty(node: Node<V>): V {
    const value = node.value!;
    this.content?.remove(node);
    this.candidates.remove(node);
    this.pinned.remove(node);
    node.value = null;
    this.#holes++;
    this.#holeCells += node.length;
    this.#cells -= node.length;
    this.prune(node);
    return value;
  }

  /** Removes `node` and then its ancestors as long as they are holes without children whose place nobody holds. */
  prune(node: Node<V>): void {
    let at = node;
    while (at.parent !== null && at.value === null && at.children === null && isIdle(at)) {
      const parent = at.parent;
      removeChild(parent, at);
      at.parent = null;
      this.#delist(at);
      this.arena.drop(at.block, at.length);
      this.#holes--;
      this.#holeCells -= at.length;
      at = parent;
    }
    if (at.parent === null && at.children === null && this.roots.get(at.event!) === at) this.roots.delete(at.event!);
    this.#care();
  }

  /** A lease begins to read the node: that is worth more than whatever was said of it before. */
  read(node: Node<V>): void {
    // Out of its heap first: what decides its place there is about to change.
    this.#heapOf(node)?.remove(node);
    node.leases++;
    node.uses++;
    node.rank = 0;
  }

  /** A lease no longer reads the node. */
  unread(node: Node<V>): void {
    node.leases--;
    const erasures = node.leases === 0 ? this.erasures.get(node) : undefined;
    if (erasures === undefined) return;
    this.erasures.delete(node);
    for (const erasure of erasures) erasure.readerLeft();
  }

  /** The erasure is complete only when no lease reads `node` any more. */
  awaitReaders(node: Node<V>, erasure: Waiting): void {
    this.erasures.set(node, [...(this.erasures.get(node) ?? []), erasure]);
    erasure.readerFound();
  }

  /** A node is never older than what lies below it, so that the least recently used cells of a path are its deepest. */
  touch(last: Node<V>): void {
    this.#tick++;
    for (let node = last; node.parent !== null; node = node.parent) {
      node.lastUse = this.#tick;
      node.parent.recent = node;
      this.settle(node, true);
    }
  }

  /** Makes the node a candidate, or none, as it now is. `used`: its priority is asked for anew. */
  settle(node: Node<V>, used = false): void {
    const heap = node.value === null || node.leases > 0 ? null : node.pins > 0 ? this.pinned : this.candidates;
    const before = this.#heapOf(node);
    if (before !== heap) before?.remove(node);
    else if (!used) return;
    if (heap === null) return;
    node.priority = this.policy.priority(node);
    heap.put(node);
  }

  /** Sets the worth of the node for all policies. */
  rerank(node: Node<V>, rank: number): void {
    if (node.rank === rank) return;
    node.rank = rank;
    this.#heapOf(node)?.put(node);
  }

  stats(): Omit<TreeStats, "pinnedCells"> {
    return {
      namespaces: this.roots.size,
      nodes: this.all.length,
      holes: this.#holes,
      cells: this.#cells,
      holeCells: this.#holeCells,
      leases: this.leases,
      candidates: this.candidates.size,
      tokensHeld: this.arena.capacity,
    };
  }

  #heapOf(node: Node<V>): Heap<Node<V>> | null {
    if (this.candidates.holds(node)) return this.candidates;
    return this.pinned.holds(node) ? this.pinned : null;
  }

  #enlist(node: Node<V>): void {
    node.index = this.all.length;
    this.all.push(node);
  }

  #delist(node: Node<V>): void {
    const last = this.all.pop()!;
    if (last !== node) {
      this.all[node.index] = last;
      last.index = node.index;
    }
    node.index = -1;
  }

  /** Moves the tokens of a few nodes, round and round through all of them, while too much of the arena is dead. */
  #care(): void {
    for (let i = 0; i < CARE_NODES && this.arena.needsCare && this.all.length > 0; i++) {
      this.#cared = (this.#cared + 1) % this.all.length;
      this.arena.care(this.all[this.#cared]!);
    }
  }
}
