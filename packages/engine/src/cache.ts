import { bornCellsOf, type EraseSet } from "@palimpsest/directives";
import type { KernelLevel, ModelInfo, Runtime } from "@palimpsest/kernels-cuda";
import { addressedOps, blockNumbersOf, blocksOf, PagePool, PathAddresses, type AddressedCells, type CellArchive, type CellLease, type EvictedCells, type Receipt } from "@palimpsest/kvstore";
import { namespaceKey, RadixTree, type Erasure, type MatchLease, type MatchSpan, type Path } from "@palimpsest/radix";
import { textsToErase } from "./erasure.ts";
import { EngineError } from "./errors.ts";
import type { EngineLimits } from "./limits.ts";
import { Scrubber } from "./scrubber.ts";

/** What the cache needs of a runtime. */
export type Device = Pick<Runtime, "pages" | "pageSize" | "cacheDtype" | "clearPages"> & { info: ModelInfo; level: KernelLevel; cells?: Runtime["cells"] };

export interface CacheOptions {
  device: Device;
  limits: EngineLimits;
  /** What names the weights beside what the model says of itself. */
  modelId?: string | undefined;
  /** Where cells go that leave the device. */
  archive?: CellArchive | undefined;
  clock?: (() => number) | undefined;
  /** A transfer has ended: what waited for its pages may have them now. */
  onUnheld?: (() => void) | undefined;
}

/** What an erasure did on the device and, once it has resolved, in the tiers. */
export interface Erasing {
  erasure: Erasure;
  /** Resolves when no reader is left and the cells are overwritten; with what the tiers had, where there are any. */
  complete: Promise<Receipt | null>;
}

/** Why the tree may not take cells, which is no fault of theirs. */
const REFUSALS: ReadonlySet<unknown> = new Set(["nodes_exceeded", "namespaces_exceeded", "path_unknown", "path_erased"]);

/**
 * The pages of the pool, the tree that says which cells they hold, and what is promised of them. Binds the tree's opaque values to the
 * store's leases. A promise is a number of pages that a running request may still take: `available` never counts them, so whoever was
 * admitted gets its pages, and nobody waits while holding some.
 *
 * Where there is an archive, cells are copied to it as soon as they are published, beside everything else: by the time they are evicted
 * their pages are free at once. What could not be copied by then is lost, and computed again.
 */
export class Cache {
  readonly pool: PagePool;
  readonly tree: RadixTree<AddressedCells>;
  readonly archive: CellArchive | null;
  readonly #options: CacheOptions;
  readonly #device: Device;
  readonly #scrubber: Scrubber;
  /** Of paths whose cells go nowhere. */
  readonly #noAddresses = new PathAddresses("");
  /** What the erasure that is going on took out of the tree. */
  #erased: { lease: CellLease; isRead: boolean }[] = [];
  /** Pages that are held until the readers of erased cells have left: at least as many as there are. */
  #erasedPages = 0;
  #promised = 0;

  constructor(options: CacheOptions) {
    const { device, limits, archive, clock, onUnheld } = options;
    this.#options = options;
    this.#device = device;
    this.archive = archive ?? null;
    this.pool = new PagePool({ pages: device.pages, pageSize: device.pageSize, ...(onUnheld === undefined ? {} : { onUnheld }) });
    this.#scrubber = new Scrubber(this.pool, device);
    const pinnedCellsMax = Math.max(1, Math.floor((device.pages * device.pageSize) / 4));
    this.tree = new RadixTree<AddressedCells>(addressedOps((lease, isRead) => this.#erased.push({ lease, isRead })), {
      limits: { nodesMax: limits.treeNodesMax, pinnedCellsMax },
      ownedCells: bornCellsOf,
      onEvict: (evicted) => this.#evicting(evicted),
      ...(clock === undefined ? {} : { clock }),
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

  /** Pages are on their way to or from a tier: they come back without anybody's doing. */
  get isTransferring(): boolean {
    return this.pool.audit().held > this.#erasedPages;
  }

  /** The root key under which cells of a tenant are kept: everything that a cell's bytes depend on is in it. */
  namespace(tenant: string): string {
    const { modelId } = this.#options;
    const { info, cacheDtype, level } = this.#device;
    return namespaceKey({
      model: `${info.architecture}/${info.name}/${info.quantization}/${info.parameters}${modelId === undefined ? "" : `/${modelId}`}`,
      layout: `${info.layers}x${info.kvHeads}x${info.headSize}/${level}`,
      dtype: cacheDtype,
      rotary: "model",
      tenant,
    });
  }

  match(namespace: string, path: Path): MatchLease<AddressedCells> {
    return this.tree.match(namespace, path);
  }

  /** Addresses for a path, as far as those that it shares cells with have them. */
  addresses(namespace: string, spans: readonly MatchSpan<AddressedCells>[]): PathAddresses {
    if (this.archive === null) return this.#noAddresses;
    const last = spans.findLast(({ value }) => value !== null);
    if (last === undefined) return new PathAddresses(namespace, this.archive.blockCells);
    const { addresses } = last.value!;
    return addresses.fork(Math.min(addresses.blocks, Math.floor((last.start + last.length) / addresses.blockCells)));
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

  /** Takes pages that were promised, evicting what is least valuable where none is free. They are zeroed before anything that is sent from now on. */
  take(pages: number, holder: "leased" | "held" = "leased"): CellLease {
    this.unpromise(pages);
    this.evictUntilFree(pages);
    this.#scrubber.flush();
    const lease = this.pool.allocate(pages, holder);
    const stale = this.pool.takeStale();
    if (stale.length > 0) this.#device.clearPages(stale);
    return lease;
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
  publish(namespace: string, path: Path, from: number, to: number, value: AddressedCells, epoch: number): MatchLease<AddressedCells> | null {
    try {
      return this.tree.insert(namespace, path, from, to, value, epoch);
    } catch (error) {
      value.lease.release();
      const code = (error as { code?: unknown }).code;
      if (REFUSALS.has(code)) return null;
      throw error;
    }
  }

  /** Copies cells of a lease to the archive, if it has not got them and has room for more; returns at once. */
  keep(cells: EvictedCells): void {
    const { archive } = this;
    if (archive !== null) archive.demote(blocksOf(cells, (addresses, number) => !archive.use(addresses, number)));
  }

  /** Overwrites cells that nobody will read any more before what is sent from now on. */
  wipe(slots: Int32Array): void {
    void this.#scrubber.wipe(slots).catch(() => undefined);
  }

  /** The same, of cells that may lie in pages which go on: at the next occasion. */
  scrub(slots: Int32Array): void {
    this.#scrubber.give(slots);
  }

  /**
   * Removes a text, and all that was computed after it, from every history of a namespace and from every tier. What a running request
   * reads stays with it until it leaves, and is matched no more.
   */
  erase(namespace: string, tokens: Int32Array, from: number, except?: Path): Erasing {
    const pattern = { tokens, from, ...(except === undefined ? {} : { except }) };
    const erasure = this.tree.erase((name) => name === namespace, pattern);
    const receipt = this.archive?.erase((name) => name === namespace, pattern) ?? Promise.resolve(null);
    const [read, unread] = [true, false].map((isRead) => this.#erased.filter((one) => one.isRead === isRead).map(({ lease }) => lease));
    this.#erased = [];
    const wiped = this.#scrubber.wipeAll(unread!);
    const readPages = read!.reduce((sum, { pageCount }) => sum + pageCount, 0);
    this.#erasedPages += readPages;
    const complete = async () => {
      await erasure.complete;
      this.#erasedPages -= readPages;
      await Promise.all([this.#scrubber.wipeAll(read!), wiped]);
      return receipt;
    };
    return { erasure, complete: complete() };
  }

  /** Carries out what the forgets of a log ask for, also in what `running` paths compute now. The path of the edited log itself stays. */
  eraseSets(namespace: string, sets: readonly EraseSet[], except: Path, running: readonly Path[]): Erasing[] {
    const histories = this.archive === null ? [this.tree] : [this.tree, this.archive];
    return sets.flatMap((set) => textsToErase(set, histories, namespace, running).map(({ tokens, from }) => this.erase(namespace, tokens, from, except)));
  }

  /** Zeroes all free pages: older copies of anything may lie there. */
  clearFree(): void {
    const pages = this.pool.takeDirty();
    if (pages.length > 0) this.#device.clearPages(pages);
  }

  /** Throws unless pool, tree and archive are consistent in themselves. For tests: walks everything. */
  checkIntegrity(): void {
    this.pool.checkIntegrity();
    this.tree.checkIntegrity();
    this.archive?.checkIntegrity();
    const { total, free, cached, leased, held } = this.pool.audit();
    if (free + cached + leased + held !== total) throw new EngineError("engine_damaged", `${free} + ${cached} + ${leased} + ${held} pages are not ${total}`);
    if (this.available < 0) throw new EngineError("engine_damaged", `${-this.available} more pages are promised than can be had`);
  }

  /** Blocks that the archive has are marked as used there. For others it is too late: their pages are wanted now. */
  #evicting(evicted: EvictedCells): void {
    this.#scrubber.giveEdges(evicted.value.lease);
    if (this.archive === null || this.archive.isEmpty) return;
    const { from, to } = blockNumbersOf(evicted);
    for (let number = from; number < to; number++) this.archive.use(evicted.value.addresses, number);
  }
}
