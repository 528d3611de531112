import { Candidates } from "./candidates.ts";
import { RadixError } from "./errors.ts";
import { addChild, isLive, Node, removeChild, replaceChild } from "./node.ts";
import type { TreeLimits, TreeStats, ValueOps } from "./types.ts";

/** The order of eviction. */
export interface EvictionPolicy {
  /** The least goes first; among equals the deeper node. Asked again whenever something that the node shows has changed. */
  priority(node: Candidate): number;
}

/** What a policy may know of a node: a stretch of cells that has a value and that no lease holds. */
export interface Candidate {
  /** Cells in front of the node, counted from the root. */
  readonly start: number;
  readonly length: number;
  /** Children that hold values or have values below them. */
  readonly residentChildren: number;
  /** Tick of the last lease on the node or on anything below it. */
  readonly lastUse: number;
}

/** The least recently used cells go first, of one path the deepest: leaves before what leads to them. */
export const leastRecentlyUsed: EvictionPolicy = { priority: (node) => node.lastUse };

/**
 * The nodes of all namespaces and what follows from them: counts, and the candidates for eviction. Each operation leaves everything
 * consistent; which operations make a match or an insertion is the tree's business.
 */
export class NodeStore<V> {
  readonly ops: ValueOps<V>;
  readonly limits: TreeLimits;
  readonly roots = new Map<string, Node<V>>();
  readonly candidates = new Candidates<V>();
  readonly #policy: EvictionPolicy;
  /** Counts leases taken and given back: the clock of "recently". */
  tick = 0;
  nodes = 0;
  leases = 0;
  #holes = 0;
  #cells = 0;
  #holeCells = 0;

  constructor(ops: ValueOps<V>, limits: TreeLimits, policy: EvictionPolicy) {
    this.ops = ops;
    this.limits = limits;
    this.#policy = policy;
  }

  /** The root of a namespace, made when it is not there. A root has no cells and is in no count. */
  root(namespace: string): Node<V> {
    let root = this.roots.get(namespace);
    if (root === undefined) {
      if (this.roots.size >= this.limits.namespacesMax) {
        throw new RadixError("namespaces_exceeded", `the tree holds ${this.limits.namespacesMax} namespaces already`, "namespace");
      }
      root = new Node<V>(null, namespace, new Int32Array(0), 0, 0, 0);
      this.roots.set(namespace, root);
    }
    return root;
  }

  /** A new hole below `parent`. */
  add(parent: Node<V>, event: string | null, buffer: Int32Array, offset: number, length: number): Node<V> {
    const node = new Node<V>(parent, event, buffer, offset, length, parent.start + parent.length);
    addChild(parent, node);
    this.nodes++;
    this.#holes++;
    this.#holeCells += length;
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
    const upper = new Node<V>(parent, node.event, node.buffer, node.offset, at, node.start);
    this.candidates.remove(node);
    replaceChild(parent, node, upper);
    node.parent = upper;
    node.event = null;
    node.offset += at;
    node.length -= at;
    node.start += at;
    upper.children = node;
    upper.recent = node;
    upper.leases = node.leases;
    upper.lastUse = node.lastUse;
    if (node.value !== null) [upper.value, node.value] = this.ops.split(node.value, at);
    else this.#holes++;
    upper.residentChildren = isLive(node) ? 1 : 0;
    this.nodes++;
    this.reconsider(node);
    this.reconsider(upper);
    return upper;
  }

  /** Gives a hole its value. */
  fill(node: Node<V>, value: V): void {
    const wasLive = isLive(node);
    node.value = value;
    this.#holes--;
    this.#holeCells -= node.length;
    this.#cells += node.length;
    if (!wasLive) this.#raise(node);
    this.reconsider(node);
  }

  /** Takes a node's value away: it becomes a hole, and goes when nothing needs it. */
  empty(node: Node<V>): void {
    const value = node.value!;
    node.value = null;
    this.#holes++;
    this.#holeCells += node.length;
    this.#cells -= node.length;
    this.candidates.remove(node);
    if (!isLive(node)) this.#lower(node);
    this.prune(node);
    this.ops.release(value);
  }

  /** Removes `node` and then its ancestors as long as they are holes without children that no lease holds. */
  prune(node: Node<V>): void {
    let at = node;
    while (at.parent !== null && at.value === null && at.children === null && at.leases === 0) {
      const parent = at.parent;
      removeChild(parent, at);
      at.parent = null;
      this.nodes--;
      this.#holes--;
      this.#holeCells -= at.length;
      at = parent;
    }
    if (at.parent === null && at.children === null && this.roots.get(at.event!) === at) this.roots.delete(at.event!);
  }

  /** One more lease on the cells [start, end of `last`): on `last` and its ancestors down to `start`. */
  pin(last: Node<V>, start: number): void {
    this.leases++;
    for (let node = last; node.start + node.length > start; node = node.parent!) node.leases++;
    this.#touch(last);
  }

  /** The inverse of `pin`, from the same node: splits in between have put their upper parts on the way. */
  unpin(last: Node<V>, start: number): void {
    this.leases--;
    for (let node = last; node.start + node.length > start; node = node.parent!) node.leases--;
    this.#touch(last);
    this.prune(last);
  }

  /** Makes the node a candidate, or none, as it now is. */
  reconsider(node: Node<V>): void {
    if (node.value !== null && node.leases === 0) this.candidates.put(node, this.#policy.priority(node));
    else this.candidates.remove(node);
  }

  stats(): TreeStats {
    return {
      namespaces: this.roots.size,
      nodes: this.nodes,
      holes: this.#holes,
      cells: this.#cells,
      holeCells: this.#holeCells,
      leases: this.leases,
      candidates: this.candidates.size,
    };
  }

  /** A node is never older than what lies below it, so that the least recently used cells of a path are its deepest. */
  #touch(last: Node<V>): void {
    this.tick++;
    for (let node = last; node.parent !== null; node = node.parent) {
      node.lastUse = this.tick;
      node.parent.recent = node;
      this.reconsider(node);
    }
  }

  /** `node` has become live: tells its ancestors until one was live already. */
  #raise(node: Node<V>): void {
    for (let parent = node.parent; parent !== null; parent = parent.parent) {
      const wasLive = isLive(parent);
      parent.residentChildren++;
      this.reconsider(parent);
      if (wasLive) return;
    }
  }

  /** `node` is live no more. */
  #lower(node: Node<V>): void {
    for (let parent = node.parent; parent !== null; parent = parent.parent) {
      parent.residentChildren--;
      this.reconsider(parent);
      if (isLive(parent)) return;
    }
  }
}
