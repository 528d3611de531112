import type { Block } from "./arena.ts";
import { ContentIndex, type ContentOptions } from "./content.ts";
import { contentMatches } from "./content-match.ts";
import { EraseRun, Fences } from "./erase.ts";
import { RadixError } from "./errors.ts";
import { checkIntegrity } from "./integrity.ts";
import { PathLease } from "./lease.ts";
import { childrenOf, findChild, type Node } from "./node.ts";
import type { Cells, OwnedCells } from "./pattern.ts";
import { PinBook } from "./pins.ts";
import { leastRecentlyUsed, type EvictionPolicy } from "./policy.ts";
import { evictedNode } from "./evicted.ts";
import { NodeStore } from "./store.ts";
import type { ContentMatch, ContentQuery, Difference, ErasePattern, Erasure, Evicted, MatchEnd, MatchLease, Path, TreeLimits, TreeStats, ValueOps } from "./types.ts";
import { checkPath, commonLength, explain, walk, type Place } from "./walk.ts";

export const TREE_LIMITS: TreeLimits = {
  nodesMax: 1 << 20,
  namespacesMax: 1 << 16,
  pathCellsMax: 1 << 24,
  eventKeyLengthMax: 1 << 20,
  pinsMax: 1 << 16,
  pinnedCellsMax: 1 << 20,
  erasuresMax: 1 << 8,
};

export interface TreeOptions<V> {
  limits?: Partial<TreeLimits>;
  /** The order of eviction. Default: `leastRecentlyUsed`. */
  policy?: EvictionPolicy;
  /**
   * An eviction takes at most so many cells of a leaf at a time, from its end. Default 256: a long leaf is not lost for the sake of one
   * page.
   */
  evictionCells?: number;
  /** Told of each eviction before the value is released. It must not call the tree. */
  onEvict?: (evicted: Evicted<V>) => void;
  /** Keeps an index of texts by content, for `findContent`. Default: none. */
  content?: ContentOptions;
  /** How many cells behind an event are the event's own and no tokens of the log. Needed by `erase`. Default: none. */
  ownedCells?: OwnedCells;
  /** Milliseconds, for the end of pins. Default: `Date.now`. */
  clock?: () => number;
}

export interface EvictOptions {
  /** Goes on to pinned cells when nothing else is left. */
  revokePins?: boolean;
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
  readonly #pins: PinBook<V>;
  readonly #fences: Fences;
  readonly #ownedCells: OwnedCells;
  readonly #evictionCells: number;
  readonly #onEvict: ((evicted: Evicted<V>) => void) | undefined;

  constructor(ops: ValueOps<V>, options: TreeOptions<V> = {}) {
    this.limits = { ...TREE_LIMITS, ...options.limits };
    for (const [name, value] of Object.entries(this.limits)) {
      if (!(value >= 1)) throw new RadixError("limit_invalid", `${name} must be at least 1, not ${value}`, `limits.${name}`);
    }
    const content = options.content === undefined ? null : new ContentIndex<V>(options.content);
    this.#store = new NodeStore(ops, this.limits, options.policy ?? leastRecentlyUsed, content);
    this.#pins = new PinBook(this.#store, options.clock ?? Date.now);
    this.#ownedCells = options.ownedCells ?? (() => 0);
    this.#fences = new Fences(this.limits.erasuresMax, this.#ownedCells);
    this.#evictionCells = options.evictionCells ?? 256;
    this.#onEvict = options.onEvict;
    if (!(this.#evictionCells >= 1)) throw new RadixError("limit_invalid", `evictionCells must be at least 1, not ${this.#evictionCells}`, "evictionCells");
  }

  /**
   * The longest known beginning of `path`, of at most `limit` cells, with a lease on it that was taken in this call. The node in which
   * the match ends is split there; where the tree has no room for one more node the match ends in front of that one.
   */
  match(namespace: string, path: Path, limit = path.tokens.length): MatchLease<V> {
    const cells = this.#check(path, limit);
    const root = this.#store.roots.get(namespace);
    if (root === undefined) return this.#lease(null, 0, cells === 0 ? "whole" : "unknown", null);
    const place = walk(root, path, cells);
    const { end, difference } = explain(place, path, cells);
    const full = this.#store.all.length >= this.limits.nodesMax && place.within < place.node.length;
    const last = full ? place.node.parent! : this.#cut(place);
    return this.#lease(last === root ? null : last, 0, end, difference);
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
   *
   * `since` is the `epoch` at which the computation of these cells began: when they were erased since, the insertion is refused with
   * `path_erased`. `path` is the whole log as far as it is known, also beyond `to`.
   */
  insert(namespace: string, path: Path, from: number, to: number, value: V, since = this.epoch): MatchLease<V> {
    this.#check(path, to);
    if (!Number.isInteger(from) || from < 0 || from >= to || to > path.tokens.length) {
      throw new RadixError("path_invalid", `an insertion is of cells of its path, at least one, not of [${from}, ${to})`, "from");
    }
    if (since < this.epoch && this.#fences.refuse(namespace, path, to, since)) {
      throw new RadixError("path_erased", `cells of [${from}, ${to}) of this path were erased while they were computed`);
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
    return this.#lease(last, from, "whole", null);
  }

  /**
   * Makes the first `to` cells of a path known, as holes where nothing is, so that cells behind them can be inserted whose predecessors
   * nobody reads: cells that come back from elsewhere. The lease holds their place.
   */
  outline(namespace: string, path: Path, to: number): MatchLease<V> {
    this.#check(path, to);
    if (!Number.isInteger(to) || to < 1 || to > path.tokens.length) {
      throw new RadixError("path_invalid", `a path of ${path.tokens.length} cells has no first ${to} cells`, "to");
    }
    const root = this.#store.root(namespace);
    const place = walk(root, path, to);
    try {
      this.#reserve(path, place.nextEvent, to);
    } catch (error) {
      this.#store.prune(root);
      throw error;
    }
    return this.#lease(this.#extend(this.#cut(place), path, place, to, null), 0, "whole", null);
  }

  /**
   * Stretches of `path` from cell `from` on that the tree holds elsewhere, behind other cells: a message that was moved, a file that was
   * read again. Nothing is offered but what `query` says is the same, or is asked for as an approximation. `content_disabled` unless the
   * tree was made with `content`.
   */
  findContent(namespace: string, path: Path, from: number, query: ContentQuery = {}): ContentMatch<V>[] {
    this.#check(path, from);
    if (this.#store.content === null) throw new RadixError("content_disabled", "this tree keeps no index of contents: make it with `content`");
    const root = this.#store.roots.get(namespace);
    const lease = (last: Node<V>, start: number) => this.#lease(last, start, "whole", null);
    return root === undefined ? [] : contentMatches(this.#store, this.#store.content, root, path, from, query, lease);
  }

  /** Evicts at least `cells` cells, the least valuable first. Returns how many went: fewer where the rest is leased or pinned. */
  evict(cells: number, options: EvictOptions = {}): number {
    let evicted = 0;
    if (cells > 0) this.evictUntil((length) => (evicted += length) >= cells, options);
    return evicted;
  }

  /** Evicts piece after piece until `done`, asked after each with its cells, says so. False: nothing is left that may go. */
  evictUntil(done: (cells: number) => boolean, options: EvictOptions = {}): boolean {
    this.#pins.expire();
    const { candidates, pinned } = this.#store;
    while (true) {
      const node = candidates.first() ?? (options.revokePins === true ? pinned.first() : null);
      if (node === null) return false;
      this.#evictNode(node);
      if (done(node.length)) return true;
    }
  }

  /** Counts erasures. Who starts to compute cells remembers it, for `insert`. */
  get epoch(): number {
    return this.#fences.epoch;
  }

  /**
   * Removes, in every namespace that `covers` says yes to, what the pattern is about: the text, and all cells that were computed after
   * it, in the histories of all logs that have it, whatever their events. No match finds them from now on. What leases read stays with
   * them until they are released; insertions that name an earlier epoch as `since` do not bring it back.
   */
  erase(covers: (namespace: string) => boolean, pattern: ErasePattern): Erasure {
    const { tokens, from } = pattern;
    if (!Number.isInteger(from) || from < 0 || from >= tokens.length) {
      throw new RadixError("path_invalid", `[${from}, ${tokens.length}) is no text to erase`, "pattern.from");
    }
    if (pattern.except !== undefined) checkPath(pattern.except, this.limits);
    const epoch = this.#fences.add(covers, pattern);
    const run = new EraseRun(this.#store, pattern, this.#ownedCells);
    for (const [namespace, root] of this.#store.roots) if (covers(namespace)) run.search(root);
    return run.finish(epoch);
  }

  /**
   * Goes over the paths of a namespace from their beginnings, for texts that no pattern can say. `step` gets what it made of the cells in
   * front and the cells of one node, with the event before them; null ends the way. Changes nothing.
   */
  follow<S>(namespace: string, begin: S, step: (state: S, cells: Cells) => S | null): void {
    const root = this.#store.roots.get(namespace);
    const open = root === undefined ? [] : childrenOf(root).map((node) => ({ node, state: begin }));
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { event, block, offset, length, start } = next.node;
      const state = step(next.state, { event, tokens: block.tokens, offset, length, start });
      if (state !== null) for (const node of childrenOf(next.node)) open.push({ node, state });
    }
  }

  /** Pinned cells of an account, each as often as it is pinned. */
  pinnedCells(account: string): number {
    return this.#pins.cellsOf(account);
  }

  stats(): TreeStats {
    return { ...this.#store.stats(), pinnedCells: this.#pins.cells };
  }

  /** Throws `tree_damaged` when anything that must hold does not. Walks the whole tree: for tests. */
  checkIntegrity(): void {
    checkIntegrity(this.#store, this.#pins);
  }

  #lease(last: Node<V> | null, start: number, end: MatchEnd, difference: Difference | null): MatchLease<V> {
    return new PathLease(this.#store, this.#pins, last, start, end, difference);
  }

  /** A leaf gives its last cells first, as long as there is room for one more node. */
  #evictNode(node: Node<V>): void {
    const store = this.#store;
    const spare = node.length - this.#evictionCells;
    if (node.children === null && spare > 0 && store.all.length < this.limits.nodesMax) store.split(node, spare);
    store.policy.evicted?.(node, node.priority);
    this.#onEvict?.(evictedNode(node));
    store.ops.release(store.empty(node));
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
    if (this.#store.all.length + needed > this.limits.nodesMax) {
      throw new RadixError("nodes_exceeded", `the tree holds ${this.#store.all.length} of at most ${this.limits.nodesMax} nodes: evict first`);
    }
  }

  /** Follows the path from the end of `node` to `to`, adds what is not there, and returns the node that ends at `to`. Null: only holes. */
  #extend(node: Node<V>, path: Path, place: Place<V>, to: number, value: V | null): Node<V> {
    const store = this.#store;
    const { tokens, events } = path;
    let { cell, nextEvent } = place;
    let last = node;
    let rest: V | null = value;
    let fresh: { block: Block; offset: number } | null = null;
    let freshFrom = 0;
    while (cell < to) {
      const event = events[nextEvent]?.at === cell ? events[nextEvent]!.key : null;
      if (event !== null) nextEvent++;
      const stretch = Math.min(to, events[nextEvent]?.at ?? to) - cell;
      const child = findChild(last, event, tokens[cell]!);
      if (child !== null) {
        const common = commonLength(child.block.tokens, child.offset, tokens, cell, Math.min(child.length, stretch));
        last = common < child.length ? store.split(child, common) : child;
      } else {
        if (fresh === null) {
          fresh = store.arena.store(tokens, cell, to);
          freshFrom = cell;
        }
        last = store.add(last, event, fresh.block, fresh.offset + cell - freshFrom, stretch);
      }
      cell += last.length;
      if (rest === null) continue;
      let part: V = rest;
      if (cell < to) [part, rest] = store.ops.split(rest, last.length);
      if (last.value === null) store.fill(last, part);
      else store.ops.release(part);
    }
    return last;
  }
}
