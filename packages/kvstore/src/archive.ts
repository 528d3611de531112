import { ARCHIVE_LIMITS, ArchiveState, type ArchiveCounters, type ArchiveLimits } from "./archive-state.ts";
import type { PathAddresses } from "./address.ts";
import { decodeMeta, type BlockMeta, type Entry } from "./block-index.ts";
import type { Budgets } from "./budget.ts";
import { systemClock, within, type Clock } from "./clock.ts";
import { Demotion, type Block } from "./demotion.ts";
import { checkPattern, findErased, patternHash, type ErasePattern, type Receipt } from "./erase.ts";
import { KvstoreError } from "./errors.ts";
import type { CellLease } from "./lease.ts";
import { Mover } from "./mover.ts";
import { Promotion, type Promoted, type PromoteOptions } from "./promotion.ts";
import type { CellPort, Tier } from "./tier.ts";

export interface ArchiveOptions {
  /** The engine's cells. */
  port: CellPort;
  /** Fastest first: what has no room in one moves to the next. */
  tiers: readonly Tier[];
  /** Cells of a block. Default 16. */
  blockCells?: number;
  limits?: Partial<ArchiveLimits>;
  /** Bytes that an account may have in each tier. */
  budgets?: Budgets;
  /** Whose budget the cells of a namespace count against. Default: one account for all. */
  accountOf?: (namespace: string) => string;
  /** How many cells behind an event are the event's own and no tokens of the log. Needed by `erase`. Default: none. */
  ownedCells?: (eventKey: string) => number;
  /** Blocks that earlier receipts name as unreachable, by tier: they are removed and never served. */
  refused?: Receipt["unreachable"];
  /** Told of errors of tiers and port, which cost cells and nothing else. */
  onError?: (error: unknown) => void;
  clock?: Clock;
  /** Milliseconds since 1970, for receipts. */
  wallClock?: () => number;
}

/** Cells of a history, as `follow` meets them. Fits `Cells` of @palimpsest/radix by its shape. */
export interface FollowedCells {
  event: string | null;
  tokens: Int32Array;
  offset: number;
  length: number;
  /** Cells in front of them. */
  start: number;
}

export interface ArchiveStats extends ArchiveCounters {
  /** Blocks that are known, with and without cells. */
  known: number;
  demotingBytes: number;
  promotingBytes: number;
  tiers: { name: string; blocks: number; bytes: number; bytesMax: number; readBytesPerSecond: number; writeBytesPerSecond: number }[];
}

/**
 * Cells outside the device, by address: what leaves the device is copied to the tiers, beside everything else, and found again by the
 * path that leads to it. Nothing here is ever waited for by a step: what cannot be copied now is lost, and computed again when wanted.
 */
export class CellArchive {
  readonly blockCells: number;
  readonly #state: ArchiveState;
  readonly #mover: Mover;
  readonly #demotion: Demotion;
  readonly #promotion: Promotion;
  readonly #ownedCells: (eventKey: string) => number;
  readonly #wallClock: () => number;
  #closed = false;

  private constructor(state: ArchiveState, options: ArchiveOptions) {
    this.blockCells = state.blockCells;
    this.#state = state;
    this.#mover = new Mover(state);
    this.#demotion = new Demotion(state, this.#mover);
    this.#promotion = new Promotion(state, this.#mover);
    this.#ownedCells = options.ownedCells ?? (() => 0);
    this.#wallClock = options.wallClock ?? Date.now;
  }

  /** Reads what the tiers hold already. */
  static async open(options: ArchiveOptions): Promise<CellArchive> {
    const { port, tiers, blockCells = 16 } = options;
    const limits = { ...ARCHIVE_LIMITS, ...options.limits };
    for (const [name, value] of Object.entries({ blockCells, cellBytes: port.cellBytes, ...limits })) {
      if (!(value >= 1)) throw new KvstoreError("argument_invalid", `${name} must be at least 1, not ${value}`, name);
    }
    if (tiers.length > 30) throw new KvstoreError("argument_invalid", `an archive has at most 30 tiers, not ${tiers.length}`, "tiers");
    const state = new ArchiveState({
      port,
      tiers,
      blockCells,
      limits,
      budgets: options.budgets ?? {},
      clock: options.clock ?? systemClock,
      accountOf: options.accountOf ?? (() => ""),
      onError: options.onError ?? (() => {}),
    });
    await restore(state, options.refused ?? []);
    return new CellArchive(state, options);
  }

  /**
   * Takes over blocks that are about to leave the device, with their leases, and copies them. Returns at once with how many it took; the
   * others, beyond `limits.demotingBytesMax`, are let go. Blocks that a tier has already are only marked as used.
   */
  demote(blocks: readonly Block[]): number {
    this.#check();
    return this.#demotion.offer(blocks);
  }

  /** Gives up copies that have not begun, when their pages are needed now. Returns how many. */
  cancelDemotion(): number {
    return this.#demotion.cancel();
  }

  /** Nothing is kept anywhere: nothing can be found. */
  get isEmpty(): boolean {
    return this.#state.index.size === 0;
  }

  /** Which of the blocks [from, to) of a path some tier has. */
  find(addresses: PathAddresses, from = 0, to = addresses.blocks): boolean[] {
    return Array.from({ length: to - from }, (_, i) => (this.#state.index.get(addresses.key(from + i))?.tiers ?? 0) !== 0);
  }

  /** Whether some tier has a block, or will: it counts as used now. */
  use(addresses: PathAddresses, number: number): boolean {
    const entry = this.#state.index.get(addresses.key(number));
    if (entry === undefined || (entry.tiers === 0 && entry.moving === 0)) return false;
    this.#state.touch(entry);
    return true;
  }

  /** How long it would take to bring these blocks, at the rates that were measured, behind what is on its way already. */
  estimateMs(addresses: PathAddresses, numbers: readonly number[]): number {
    const { lanes, index, blockBytes } = this.#state;
    const bytes = lanes.map(() => 0);
    for (const number of numbers) {
      const tiers = index.get(addresses.key(number))?.tiers ?? 0;
      if (tiers !== 0) bytes[31 - Math.clz32(tiers & -tiers)]! += blockBytes;
    }
    const slowest = bytes.findLastIndex((count) => count > 0);
    const waiting = slowest < 0 ? 0 : lanes[slowest]!.reads.msFor(this.#promotion.bytes);
    return bytes.reduce((sum, count, t) => sum + lanes[t]!.reads.msFor(count), waiting);
  }

  /**
   * Whether bringing these blocks is expected to take less time than computing their cells: `computeMs` says how long that takes, for a
   * number of cells, at the rate that the engine measures (see `RateMeter`).
   */
  worthPromoting(addresses: PathAddresses, numbers: readonly number[], computeMs: (cells: number) => number): boolean {
    return this.estimateMs(addresses, numbers) < computeMs(numbers.length * this.blockCells);
  }

  /**
   * Brings blocks to where their leases say, and tells of each what became of it. Only what `arrived` may be used; everything else is to
   * be computed. The leases stay the caller's. Pages that are being written stay held until the write has answered, also when the caller
   * no longer waits.
   */
  promote(blocks: readonly Block[], options: PromoteOptions = {}): Promise<Promoted[]> {
    this.#check();
    return this.#promotion.run(blocks, options);
  }

  /**
   * Removes the text of a pattern and all that was computed after it, in every namespace that `covers` says yes to, from every tier, and
   * from what is on its way. Blocks are found by nobody from the first moment; the promise waits for reads and writes that had begun.
   */
  async erase(covers: (namespace: string) => boolean, pattern: ErasePattern): Promise<Receipt> {
    this.#check();
    checkPattern(pattern);
    const { index, lanes, shelves, limits, clock } = this.#state;
    const doomed = findErased(index, this.blockCells, covers, pattern, this.#ownedCells);
    const cells: Record<string, number> = {};
    lanes.forEach((lane, t) => {
      const here = [...doomed].filter((entry) => (entry.tiers & (1 << t)) !== 0);
      cells[lane.tier.name] = (cells[lane.tier.name] ?? 0) + here.length * this.blockCells;
      for (const entry of here) shelves[t]!.remove(entry);
    });
    for (const entry of doomed) entry.tiers = 0;
    const parents = index.cut(doomed);
    this.#demotion.sweep();
    const keys = [...doomed].map(({ key }) => key);
    // What earlier failures left behind is in no index: nobody can say whether it has the text, so all of it counts.
    await Promise.all([...lanes.map((lane) => lane.forget([...keys, ...lane.leftovers])), this.#state.forget(parents)]);
    // Also what an earlier erasure has found and not removed yet.
    await Promise.all(lanes.map((lane) => lane.settled()));
    const busy = [...this.#promotion.writesOf(doomed), this.#demotion.running ?? Promise.resolve()];
    await within(clock, limits.deadlineMs, "waiting for transfers", Promise.allSettled(busy)).catch((error: unknown) => this.#state.failed(error));
    return { time: new Date(this.#wallClock()).toISOString(), path: patternHash(pattern), cells, unreachable: this.unreachable() };
  }

  /**
   * Goes through the blocks of all histories of a namespace, from their first cells on: `step` makes of a way and the cells that follow,
   * in front of which `event` stands, the way behind them; null: nothing behind is looked at. As `RadixTree.follow` of @palimpsest/radix.
   */
  follow<T>(namespace: string, begin: T, step: (way: T, cells: FollowedCells) => T | null): void {
    const open = [...this.#state.index.roots(namespace)].map((entry) => ({ entry, way: begin }));
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { entry } = next;
      const { tokens, events } = entry;
      let way: T | null = next.way;
      let i = 0;
      for (let offset = 0; way !== null && offset < tokens.length; ) {
        const event = events[i]?.at === offset ? events[i++]!.key : null;
        const end = events[i]?.at ?? tokens.length;
        way = step(way, { event, tokens, offset, length: end - offset, start: entry.number * this.blockCells + offset });
        offset = end;
      }
      if (way !== null) for (const child of entry.children ?? []) open.push({ entry: child, way });
    }
  }

  /**
   * Overwrites cells of the device that must not be found there, and gives their leases back: once no sequence reads them any more
   * (`Erasure.complete` of @palimpsest/radix). The pages behind `PagePool.takeDirty` may hold older copies: `port.clear` them as well.
   */
  async wipe(leases: readonly CellLease[]): Promise<number> {
    const slots = new Int32Array(leases.reduce((sum, lease) => sum + lease.length, 0));
    let at = 0;
    for (const lease of leases) {
      lease.slots(slots, at);
      at += lease.length;
    }
    await this.#state.port.clear(slots);
    for (const lease of leases) lease.release();
    return at;
  }

  /** What tiers have and should not, and could not be made to remove so far: see `Receipt.unreachable`. */
  unreachable(): Receipt["unreachable"] {
    const left = this.#state.lanes.map(({ tier, leftovers }) => ({ tier: tier.name, keys: [...leftovers] }));
    return left.filter(({ keys }) => keys.length > 0);
  }

  /** Waits until nothing is on its way. */
  async idle(): Promise<void> {
    while (this.#demotion.running !== null || this.#state.lanes.some((lane) => !lane.idle)) {
      await this.#demotion.running;
      await Promise.all(this.#state.lanes.map((lane) => lane.answered()));
    }
  }

  /**
   * Before a restart: copies what only tiers hold that lose it to the first one that keeps it, the most recently used first, as much as
   * fits there, for at most so long. Returns the blocks that it copied.
   */
  async persist(msMax: number): Promise<number> {
    this.#check();
    const { lanes, shelves, batchBlocks, blockBytes, clock } = this.#state;
    const durable = lanes.findIndex(({ tier }) => tier.durable);
    if (durable < 0) return 0;
    const until = clock.now() + msMax;
    const kept = (entry: Entry) => lanes.some(({ tier }, t) => tier.durable && (entry.tiers & (1 << t)) !== 0);
    let room = Math.floor(shelves[durable]!.bytesMax / blockBytes);
    let copied = 0;
    for (let t = 0; t < durable; t++) {
      const entries = [...shelves[t]!.entries()].toReversed().filter((entry) => !kept(entry)).slice(0, room);
      room -= entries.length;
      for (let i = 0; i < entries.length && clock.now() < until; i += batchBlocks) {
        copied += await this.#mover.copy(t, durable, entries.slice(i, i + batchBlocks));
      }
    }
    return copied;
  }

  /** Tries once more to remove what earlier failures left behind; every write does. False: not all of it could be removed. */
  async tidy(): Promise<boolean> {
    const done = await Promise.all(this.#state.lanes.map((lane) => lane.forget([...lane.leftovers])));
    return done.every(Boolean);
  }

  /** Ends what is on its way, and closes the tiers. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#demotion.cancel();
    await this.idle();
    await Promise.all(this.#state.lanes.map((lane) => lane.tier.close()));
  }

  usage(tier: string, account: string): { bytes: number; bytesMax: number } {
    const t = this.#state.lanes.findIndex((lane) => lane.tier.name === tier);
    if (t < 0) throw new KvstoreError("argument_invalid", `there is no tier ${tier}`, "tier");
    return this.#state.shelves[t]!.usage(account);
  }

  stats(): ArchiveStats {
    const { lanes, shelves, counters, index } = this.#state;
    const tiers = lanes.map(({ tier, reads, writes }, t) => ({
      name: tier.name,
      blocks: shelves[t]!.blocks,
      bytes: shelves[t]!.bytes,
      bytesMax: tier.bytesMax,
      readBytesPerSecond: reads.perSecond,
      writeBytesPerSecond: writes.perSecond,
    }));
    return { ...counters, known: index.size, demotingBytes: this.#demotion.bytes, promotingBytes: this.#promotion.bytes, tiers };
  }

  /** Throws `archive_damaged` unless all that is kept agrees with itself. Looks at every block: for tests. */
  checkIntegrity(): void {
    const { index, shelves } = this.#state;
    const counts = shelves.map(() => 0);
    for (const entry of index.values()) {
      must(entry.known && index.get(entry.key) === entry, `block ${entry.key} is not found under its key`);
      must(entry.parent === null ? entry.number === 0 : entry.parent.known && entry.parent.children!.has(entry), `block ${entry.key} hangs in the air`);
      must(entry.tiers !== 0 || entry.moving > 0 || entry.children !== null, `nothing needs block ${entry.key}`);
      shelves.forEach((shelf, t) => {
        const here = (entry.tiers & (1 << t)) !== 0;
        must(shelf.has(entry) === here, `block ${entry.key} and shelf ${t} do not agree`);
        if (here) counts[t]!++;
      });
    }
    shelves.forEach((shelf, t) => {
      must(shelf.blocks === counts[t], `shelf ${t} has ${shelf.blocks} blocks, the index ${counts[t]}`);
      must(shelf.bytes <= shelf.bytesMax, `shelf ${t} has ${shelf.bytes} of ${shelf.bytesMax} bytes`);
    });
  }

  #check(): void {
    if (this.#closed) throw new KvstoreError("archive_closed", "the archive is closed");
  }
}

function must(condition: boolean, message: string): void {
  if (!condition) throw new KvstoreError("archive_damaged", message);
}

/** Builds the index from what the tiers hold; what does not hang together, is refused, or has no room is removed. */
async function restore(state: ArchiveState, refused: Receipt["unreachable"]): Promise<void> {
  const found = await Promise.all(state.lanes.map(({ tier }) => tier.load()));
  const metas: { meta: BlockMeta; t: number; cells: boolean; order: number }[] = [];
  const unwanted: string[][] = state.lanes.map(() => []);
  found.forEach((entries, t) => {
    const { name } = state.lanes[t]!.tier;
    const out = new Set(refused.filter(({ tier }) => tier === name).flatMap(({ keys }) => keys));
    entries.forEach(({ key, meta, bytes }, order) => {
      const decoded = out.has(key) ? null : decodeMeta(key, meta);
      const fits = decoded !== null && decoded.tokens.length === state.blockCells;
      if (fits && (bytes === -1 || bytes === state.blockBytes)) metas.push({ meta: decoded, t, cells: bytes !== -1, order });
      else unwanted[t]!.push(key);
    });
  });
  const held: { entry: Entry; t: number; order: number }[] = [];
  for (const { meta, t, cells, order } of metas.toSorted((one, other) => one.meta.number - other.meta.number)) {
    const parent = meta.parentKey === null ? null : state.index.get(meta.parentKey);
    const root = meta.parentKey === null && meta.number === 0;
    if (!root && (parent === undefined || parent === null || parent.number !== meta.number - 1)) {
      unwanted[t]!.push(meta.key);
      continue;
    }
    const { key, namespace, number, tokens, events } = meta;
    const entry = state.index.get(key) ?? state.index.add({ key, namespace, number, tokens, events }, parent!, state.accountOf(namespace));
    entry.given |= 1 << t;
    if (!cells) continue;
    entry.checksum = meta.checksum;
    held.push({ entry, t, order });
  }
  // The newest first: what has no room any more is what was written first.
  for (const { entry, t } of held.toSorted((one, other) => other.order - one.order)) if (state.shelves[t]!.restore(entry)) entry.tiers |= 1 << t;
  for (const { entry } of held.toSorted((one, other) => one.order - other.order)) state.touch(entry);
  await state.forget(held.map(({ entry }) => entry));
  for (const entry of state.index.values()) if (entry.known) await state.prune(entry);
  await Promise.all(state.lanes.map((lane, t) => lane.forget(unwanted[t]!)));
}
