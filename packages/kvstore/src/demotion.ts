import { crc32 } from "node:zlib";
import type { PathAddresses } from "./address.ts";
import type { ArchiveState } from "./archive-state.ts";
import type { Entry } from "./block-index.ts";
import { within } from "./clock.ts";
import type { CellLease } from "./lease.ts";
import type { Mover } from "./mover.ts";
import { Staging } from "./staging.ts";

/** A whole block of a path, and the cells that it is made of. */
export interface Block {
  addresses: PathAddresses;
  /** Blocks in front of it. */
  number: number;
  /** Its cells, in order, in as many leases as they happen to lie in. */
  cells: readonly CellLease[];
}

interface Job {
  entry: Entry;
  cells: readonly CellLease[];
}

/** Share of a tier that is in use when blocks begin to move on by themselves, and when they stop. */
const SPILL_ABOVE = 0.95;
const SPILL_DOWN_TO = 0.85;

/** Batches on their way at a time: while the disk writes one, the next is read, checked and encrypted. */
const COPIES = 2;

/** Copies blocks that leave the device into the first tier, batch by batch, beside whatever else happens. */
export class Demotion {
  readonly #state: ArchiveState;
  readonly #mover: Mover;
  readonly #staging: Staging;
  #queue: Job[] = [];
  #bytes = 0;
  #running: Promise<void> | null = null;

  constructor(state: ArchiveState, mover: Mover) {
    this.#state = state;
    this.#mover = mover;
    this.#staging = new Staging(state.batchBlocks * state.blockBytes, COPIES);
  }

  /** Bytes that are waiting or being copied. */
  get bytes(): number {
    return this.#bytes;
  }

  get running(): Promise<void> | null {
    return this.#running;
  }

  /** Takes blocks over, with their leases, or not (`refused`); returns at once. */
  offer(blocks: readonly Block[]): number {
    let taken = 0;
    for (const block of blocks) if (this.#offer(block)) taken++;
    if (this.#queue.length > 0) this.#running ??= this.#run();
    return taken;
  }

  /** Gives up what nobody has begun to copy, for the sake of its pages. */
  cancel(): number {
    const jobs = this.#queue;
    this.#queue = [];
    this.#state.counters.lost += jobs.length;
    for (const job of jobs) this.#end(job);
    return jobs.length;
  }

  /** Lets go of what was erased while it waited. */
  sweep(): void {
    const erased = this.#queue.filter(({ entry }) => !entry.known);
    this.#queue = this.#queue.filter(({ entry }) => entry.known);
    for (const job of erased) this.#end(job);
  }

  #offer({ addresses, number, cells }: Block): boolean {
    const state = this.#state;
    const known = state.index.get(addresses.key(number));
    if (known !== undefined && (known.tiers !== 0 || known.moving > 0)) {
      state.touch(known);
      for (const lease of cells) lease.release();
      return true;
    }
    const full = this.#bytes + state.blockBytes > state.limits.demotingBytesMax;
    const account = state.accountOf(addresses.namespace);
    if (full || !state.shelves.some((shelf) => shelf.fits(account))) {
      state.counters.refused++;
      for (const lease of cells) lease.release();
      return false;
    }
    const entry = state.ensure(addresses, number);
    entry.moving++;
    this.#bytes += state.blockBytes;
    this.#queue.push({ entry, cells: cells.map((lease) => lease.move("held")) });
    return true;
  }

  async #run(): Promise<void> {
    // Whoever offers several times in one turn gets one batch.
    await Promise.resolve();
    try {
      while (this.#queue.length > 0) {
        await Promise.all(Array.from({ length: COPIES }, () => this.#copyAll()));
        for (let t = 0; t < this.#state.shelves.length; t++) await this.#mover.spill(t, SPILL_ABOVE, SPILL_DOWN_TO);
      }
    } finally {
      this.#running = null;
    }
  }

  async #copyAll(): Promise<void> {
    while (this.#queue.length > 0) await this.#copy(this.#queue.splice(0, this.#state.batchBlocks));
  }

  async #copy(jobs: readonly Job[]): Promise<void> {
    const { blockCells, blockBytes, counters } = this.#state;
    const alive = jobs.filter(({ entry }) => entry.known);
    const slots = new Int32Array(alive.length * blockCells);
    alive.forEach(({ cells }, i) => {
      let at = i * blockCells;
      for (const lease of cells) {
        lease.slots(slots, at);
        at += lease.length;
      }
    });
    const staging = this.#staging.take();
    const copied = await this.#read(slots, staging);
    for (const { cells } of jobs) for (const lease of cells) lease.release();
    if (copied) {
      const blocks = alive.map(({ entry }, i) => ({ entry, bytes: staging.subarray(i * blockBytes, (i + 1) * blockBytes) }));
      for (const { entry, bytes } of blocks) entry.checksum = crc32(bytes);
      const errors = counters.errors;
      await this.#mover.store(0, blocks);
      counters.demoted += blocks.filter(({ entry }) => entry.tiers !== 0).length;
      // A write that failed for being late may still read it.
      if (counters.errors === errors) this.#staging.give(staging);
      else staging.fill(0);
    } else {
      counters.lost += alive.length;
    }
    for (const job of jobs) this.#end(job);
  }

  /** The pages are free again in any case: what a late copy brings is wiped, and nobody looks at it. */
  async #read(slots: Int32Array, staging: Uint8Array): Promise<boolean> {
    const { port, clock, limits } = this.#state;
    if (slots.length === 0) return true;
    const into = staging.subarray(0, slots.length * port.cellBytes);
    try {
      await within(clock, limits.deadlineMs, "reading cells of the device", port.read(slots, into), () => staging.fill(0));
      return true;
    } catch (error) {
      this.#state.failed(error);
      return false;
    }
  }

  #end({ entry, cells }: Job): void {
    for (const lease of cells) lease.release();
    this.#bytes -= this.#state.blockBytes;
    entry.moving--;
    if (entry.known) void this.#state.prune(entry);
  }
}
