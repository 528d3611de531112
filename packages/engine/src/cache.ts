import { bornCellsOf, type EraseSet } from "@palimpsest/directives";
import type { ModelInfo } from "@palimpsest/kernels-cuda";
import { cellOps, PagePool, type CellLease } from "@palimpsest/kvstore";
import { namespaceKey, RadixTree, type Erasure, type MatchLease, type Path } from "@palimpsest/radix";
import { textsToErase } from "./erasure.ts";
import { EngineError } from "./errors.ts";
import type { EngineLimits } from "./limits.ts";

export interface CacheOptions {
  pages: number;
  pageSize: number;
  info: ModelInfo;
  cacheDtype: string;
  limits: EngineLimits;
  clock?: (() => number) | undefined;
}

/** Why the tree may not take cells, which is no fault of theirs. */
const REFUSALS: ReadonlySet<unknown> = new Set(["nodes_exceeded", "namespaces_exceeded", "path_unknown", "path_erased"]);

/**
 * The pages of the pool, the tree that says which cells they hold, and what is promised of them. Binds the tree's opaque values to the
 * store's leases. A promise is a number of pages that a running request may still take: `available` never counts them, so whoever was
 * admitted gets its pages, and nobody waits while holding some.
 */
export class Cache {
  readonly pool: PagePool;
  readonly tree: RadixTree<CellLease>;
  readonly #options: CacheOptions;
  #promised = 0;

  constructor(options: CacheOptions) {
    this.#options = options;
    this.pool = new PagePool({ pages: options.pages, pageSize: options.pageSize });
    const pinnedCellsMax = Math.max(1, Math.floor((options.pages * options.pageSize) / 4));
    this.tree = new RadixTree<CellLease>(cellOps, {
      limits: { nodesMax: options.limits.treeNodesMax, pinnedCellsMax },
      ownedCells: bornCellsOf,
      ...(options.clock === undefined ? {} : { clock: options.clock }),
    });
  }

  get promised(): number {
    return this.#promised;
  }

  /** Pages that can still be promised: free, or cached and nobody's. */
  get available(): number {
    const { free, cached } = this.pool.audit();
    return free + cached - this.#promised;
  }

  /** The root key under which cells of a tenant are kept: everything that a cell's bytes depend on is in it. */
  namespace(tenant: string): string {
    const { info, cacheDtype } = this.#options;
    return namespaceKey({
      model: `${info.architecture}/${info.name}/${info.quantization}/${info.parameters}`,
      layout: `${info.layers}x${info.kvHeads}x${info.headSize}`,
      dtype: cacheDtype,
      rotary: "model",
      tenant,
    });
  }

  match(namespace: string, path: Path): MatchLease<CellLease> {
    return this.tree.match(namespace, path);
  }

  /** False, and nothing promised, where fewer are available. */
  promise(pages: number): boolean {
    if (pages > this.available) return false;
    this.#promised += pages;
    return true;
  }

  unpromise(pages: number): void {
    this.#promised -= pages;
    if (this.#promised < 0) throw new EngineError("engine_damaged", `${-this.#promised} pages were given back that nobody was promised`);
  }

  /** Takes pages that were promised, evicting what is least valuable where none is free. */
  take(pages: number): CellLease {
    this.unpromise(pages);
    this.evictUntilFree(pages);
    return this.pool.allocate(pages, "leased");
  }

  /** Evicts until so many pages are free, pinned cells last. False: nothing is left to evict. */
  evictUntilFree(pages: number): boolean {
    return this.pool.free >= pages || this.tree.evictUntil(() => this.pool.free >= pages, { revokePins: true });
  }

  /**
   * Enters the cells [from, to) of a path, whose computation began at `epoch`; `value` is used up. Null where the tree cannot take them:
   * full, the path in front of them gone, or erased meanwhile. Cells that are not entered are still their owner's, only nobody else finds
   * them.
   */
  publish(namespace: string, path: Path, from: number, to: number, value: CellLease, epoch: number): MatchLease<CellLease> | null {
    try {
      return this.tree.insert(namespace, path, from, to, value, epoch);
    } catch (error) {
      value.release();
      const code = (error as { code?: unknown }).code;
      if (REFUSALS.has(code)) return null;
      throw error;
    }
  }

  /**
   * Removes a text, and all that was computed after it, from every history of a namespace. What a running request reads stays with it
   * until it leaves, and is matched no more.
   */
  erase(namespace: string, tokens: Int32Array, from: number, except?: Path): Erasure {
    return this.tree.erase((name) => name === namespace, { tokens, from, ...(except === undefined ? {} : { except }) });
  }

  /** Carries out what the forgets of a log ask for, also in what `running` paths compute now. The path of the edited log itself stays. */
  eraseSets(namespace: string, sets: readonly EraseSet[], except: Path, running: readonly Path[]): Erasure[] {
    return sets.flatMap((set) => textsToErase(set, this.tree, namespace, running).map(({ tokens, from }) => this.erase(namespace, tokens, from, except)));
  }

  /** Throws unless pool and tree are consistent in themselves. For tests: walks everything. */
  checkIntegrity(): void {
    this.pool.checkIntegrity();
    this.tree.checkIntegrity();
    const { total, free, cached, leased, held } = this.pool.audit();
    if (free + cached + leased + held !== total) throw new EngineError("engine_damaged", `${free} + ${cached} + ${leased} + ${held} pages are not ${total}`);
    if (this.available < 0) throw new EngineError("engine_damaged", `${-this.available} more pages are promised than can be had`);
  }
}
