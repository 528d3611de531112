import { RadixError } from "./errors.ts";
import { checkIntegrity } from "./integrity.ts";
import { PathLease } from "./lease.ts";
import { findChild, type Node } from "./node.ts";
import { leastRecentlyUsed, NodeStore, type EvictionPolicy } from "./store.ts";
import type { Difference, MatchEnd, MatchLease, Path, TreeLimits, TreeStats, ValueOps } from "./types.ts";
import { checkPath, commonLength, explain, walk, type Place } from "./walk.ts";

export const TREE_LIMITS: TreeLimits = {
  nodesMax: 1 << 20,
  namespacesMax: 1 << 16,
  pathCellsMax: 1 << 24,
  eventKeyLengthMax: 1 << 20,
};

export interface TreeOptions {
  limits?: Partial<TreeLimits>;
  policy?: EvictionPolicy;
}

/** What a probe found: a match that took no lease and changed nothing. */
export interface Probe {
  /** Cells of the path that the tree knows. */
  length: number;
  /** Cells among them that have a value. */
  resident: number;
  end: MatchEnd;
  difference: Difference | null;
}

/**
 * A prefix tree over cells and the events between them. Two paths share a node exactly as far as their tokens and events agree.
 * Every match is a lease; only what no lease holds is evicted; an evicted middle part stays as a hole and is filled again by the next
 * insertion of its cells.
 */
export class RadixTree<V> {
  readonly limits: TreeLimits;
  readonly #store: NodeStore<V>;

  constructor(ops: ValueOps<V>, options: TreeOptions = {}) {
    this.limits = { ...TREE_LIMITS, ...options.limits };
    for (const [name, value] of Object.entries(this.limits)) {
      if (!(value >= 1)) throw new RadixError("limit_invalid", `${name} must be at least 1, not ${value}`, `limits.${name}`);
    }
    this.#store = new NodeStore(ops, this.limits, options.policy ?? leastRecentlyUsed);
  }

  /**
   * The longest known beginning of `path`, of at most `limit` cells, with a lease on it that was taken in this call. The node in which
   * the match ends is split there; where the tree has no room for one more node the match ends in front of that one.
   */
  match(namespace: string, path: Path, limit = path.tokens.length): MatchLease<V> {
    const cells = this.#check(path, limit);
    const root = this.#store.roots.get(namespace);
    if (root === undefined) return new PathLease(this.#store, null, 0, cells === 0 ? "whole" : "unknown", null);
    const place = walk(root, path, cells);
    const { end, difference } = explain(place, path, cells);
    const full = this.#store.nodes >= this.limits.nodesMax && place.within < place.node.length;
    const last = full ? place.node.parent! : this.#cut(place);
    return new PathLease(this.#store, last === root ? null : last, 0, end, difference);
  }

  /** What `match` would find. */
  probe(namespace: string, path: Path, limit = path.tokens.length): Probe {
    const cells = this.#check(path, limit);
    const root = this.#store.roots.get(namespace);
    if (root === undefined) return { length: 0, resident: 0, end: cells === 0 ? "whole" : "unknown", difference: null };
    const place = walk(root, path, cells);
    let resident = place.node.value === null ? 0 : place.within;
    for (let node = place.node.parent; node !== null; node = node.parent) if (node.value !== null) resident += node.length;
    return { length: place.cell, resident, ...explain(place, path, cells) };
  }

  /**
   * The cells [from, to) of `path` exist now and `value` stands for them. What the tree lacks, new cells and holes, takes its part of
   * the value; parts that it has already are released. `value` is used up, unless the call throws. The path's first `from` cells must
   * be known to the tree, resident or not. The lease that comes back holds the tree's own values for [from, to): whoever computed the
   * same cells a second time goes on with these, and gives its own copies back only then.
   */
  insert(namespace: string, path: Path, from: number, to: number, value: V): MatchLease<V> {
    this.#check(path, to);
    if (!Number.isInteger(from) || from < 0 || from >= to || to > path.tokens.length) {
      throw new RadixError("path_invalid", `an insertion is of cells of its path, at least one, not of [${from}, ${to})`, "from");
    }
    const root = this.#store.root(namespace);
    const place = walk(root, path, from);
    try {
      if (place.cell !== from) {
        const message = `the tree knows ${place.cell} cells of this path, not the ${from} in front of the insertion`;
        throw new RadixError("path_unknown", message, "from");
      }
      this.#reserve(path, place.nextEvent, to);
    } catch (error) {
      this.#store.prune(root);
      throw error;
    }
    const last = this.#extend(this.#cut(place), path, place, to, value);
    return new PathLease(this.#store, last, from, "whole", null);
  }

  /** Evicts at least `cells` cells, node by node, least valuable first. Returns how many went: fewer where the rest is leased. */
  evict(cells: number): number {
    let evicted = 0;
    if (cells > 0) this.evictUntil((length) => (evicted += length) >= cells);
    return evicted;
  }

  /** Evicts node after node until `done`, asked after each with the node's cells, says so. False: nothing is left to evict. */
  evictUntil(done: (length: number) => boolean): boolean {
    const { candidates } = this.#store;
    for (let node = candidates.first(); node !== null; node = candidates.first()) {
      this.#store.empty(node);
      if (done(node.length)) return true;
    }
    return false;
  }

  stats(): TreeStats {
    return this.#store.stats();
  }

  /** Throws `tree_damaged` when anything that must hold does not. Walks the whole tree: for tests. */
  checkIntegrity(): void {
    checkIntegrity(this.#store);
  }

  #check(path: Path, limit: number): number {
    checkPath(path, this.limits);
    if (!Number.isInteger(limit) || limit < 0) throw new RadixError("path_invalid", `a number of cells was expected, not ${limit}`, "limit");
    return Math.min(limit, path.tokens.length);
  }

  /** The node that ends where `place` is. */
  #cut(place: Place<V>): Node<V> {
    return place.within < place.node.length ? this.#store.split(place.node, place.within) : place.node;
  }

  /** An insertion cuts at its ends and where it leaves a known branch, and adds a node behind each event. */
  #reserve(path: Path, nextEvent: number, to: number): void {
    let needed = 4;
    for (let i = nextEvent; i < path.events.length && path.events[i]!.at < to; i++) needed++;
    if (this.#store.nodes + needed > this.limits.nodesMax) {
      throw new RadixError("nodes_exceeded", `the tree holds ${this.#store.nodes} of at most ${this.limits.nodesMax} nodes: evict first`);
    }
  }

  /** Follows the path from the end of `node` to `to`, adds what is not there, and returns the node that ends at `to`. */
  #extend(node: Node<V>, path: Path, place: Place<V>, to: number, value: V): Node<V> {
    const store = this.#store;
    const { tokens, events } = path;
    let { cell, nextEvent } = place;
    let last = node;
    let rest = value;
    let fresh: Int32Array | null = null;
    let freshFrom = 0;
    while (cell < to) {
      const event = events[nextEvent]?.at === cell ? events[nextEvent]!.key : null;
      if (event !== null) nextEvent++;
      const stretch = Math.min(to, events[nextEvent]?.at ?? to) - cell;
      const child = findChild(last, event, tokens[cell]!);
      if (child !== null) {
        const common = commonLength(child.buffer, child.offset, tokens, cell, Math.min(child.length, stretch));
        last = common < child.length ? store.split(child, common) : child;
      } else {
        if (fresh === null) {
          fresh = tokens.slice(cell, to);
          freshFrom = cell;
        }
        last = store.add(last, event, fresh, cell - freshFrom, stretch);
      }
      cell += last.length;
      let part = rest;
      if (cell < to) [part, rest] = store.ops.split(rest, last.length);
      if (last.value === null) store.fill(last, part);
      else store.ops.release(part);
    }
    return last;
  }
}
