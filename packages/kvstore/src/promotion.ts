import type { ArchiveState } from "./archive-state.ts";
import type { Entry } from "./block-index.ts";
import type { Block } from "./demotion.ts";
import { within } from "./clock.ts";
import { Gate } from "./gate.ts";
import type { CellLease } from "./lease.ts";
import type { LoadedBlock, Mover } from "./mover.ts";

/**
 * What became of a block that was asked for: its cells lie where the leases say, or compute them: no tier has it, what a tier had was
 * damaged, it did not come in time, or the caller gave up.
 */
export type Promoted = "arrived" | "missing" | "damaged" | "late" | "cancelled";

export interface PromoteOptions {
  signal?: AbortSignal | undefined;
  /** When the caller would rather compute. Default: the archive's own deadline. */
  deadlineMs?: number | undefined;
}

interface Wanted {
  cells: readonly CellLease[];
  entry: Entry | undefined;
  result: Promoted | null;
  damaged: boolean;
}

/** Copies blocks from the tiers to the device. */
export class Promotion {
  readonly #state: ArchiveState;
  readonly #mover: Mover;
  readonly #gate: Gate;
  /** Writes to the device that have not answered, by the blocks that they write. */
  readonly #writing = new Map<Promise<void>, readonly Entry[]>();

  constructor(state: ArchiveState, mover: Mover) {
    this.#state = state;
    this.#mover = mover;
    this.#gate = new Gate(state.limits.promotingBytesMax);
  }

  get bytes(): number {
    return this.#gate.used;
  }

  /** Writes of any of these blocks that have begun. */
  writesOf(entries: ReadonlySet<Entry>): Promise<void>[] {
    return [...this.#writing].filter(([, written]) => written.some((entry) => entries.has(entry))).map(([write]) => write);
  }

  async run(blocks: readonly Block[], options: PromoteOptions): Promise<Promoted[]> {
    const { index, clock, limits, batchBlocks, counters } = this.#state;
    const until = clock.now() + (options.deadlineMs ?? limits.deadlineMs);
    const wanted = blocks.map(({ addresses, number, cells }): Wanted => {
      const entry = index.get(addresses.key(number));
      return { cells, entry, result: entry === undefined || entry.tiers === 0 ? "missing" : null, damaged: false };
    });
    const open = wanted.filter(({ result }) => result === null);
    for (const { entry } of open) this.#state.touch(entry!);
    // Also those who wait for others' bytes give up in time.
    const late = new AbortController();
    const stop = clock.after(until - clock.now(), () => late.abort());
    const batches: Promise<void>[] = [];
    for (let i = 0; i < open.length; i += batchBlocks) batches.push(this.#batch(open.slice(i, i + batchBlocks), until, options.signal, late.signal));
    await Promise.all(batches).finally(stop);
    for (const { result } of wanted) {
      if (result === "arrived") counters.promoted++;
      else if (result === "late") counters.late++;
    }
    return wanted.map(({ result }) => result!);
  }

  async #batch(batch: Wanted[], until: number, signal: AbortSignal | undefined, tooLate: AbortSignal): Promise<void> {
    const bytes = batch.length * this.#state.blockBytes;
    const either = signal === undefined ? tooLate : AbortSignal.any([signal, tooLate]);
    if (!(await this.#gate.enter(bytes, either))) return settle(batch, signal?.aborted === true ? "cancelled" : "late");
    try {
      for (let t = 0; t < this.#state.lanes.length; t++) {
        if (signal?.aborted === true) return settle(batch, "cancelled");
        if (this.#state.clock.now() >= until) return settle(batch, "late");
        const here = batch.filter(({ result, entry }) => result === null && (entry!.tiers & (1 << t)) !== 0);
        if (here.length > 0) await this.#from(t, here, until, signal);
      }
      // A timer may fire a fraction before its time.
      const late = tooLate.aborted || this.#state.clock.now() >= until;
      for (const one of batch) one.result ??= one.damaged ? "damaged" : late ? "late" : "missing";
    } finally {
      this.#gate.leave(bytes);
    }
  }

  async #from(t: number, wanted: readonly Wanted[], until: number, signal: AbortSignal | undefined): Promise<void> {
    const { lanes, clock } = this.#state;
    const entries = wanted.map(({ entry }) => entry!);
    let found: (Uint8Array | null)[];
    try {
      found = await lanes[t]!.get(entries.map(({ key }) => key), until - clock.now());
    } catch (error) {
      this.#state.failed(error);
      // Another tier may have them, if there is time left.
      return;
    }
    const sound = new Map((await this.#mover.sound(t, entries, found)).map((block) => [block.entry, block]));
    wanted.forEach((one, i) => {
      if (found[i] !== null && !sound.has(one.entry!)) one.damaged = true;
    });
    if (signal?.aborted !== true && clock.now() < until) {
      await this.#write(wanted.flatMap((one) => (sound.has(one.entry!) ? [{ one, block: sound.get(one.entry!)! }] : [])), until);
    }
    for (const bytes of found) bytes?.fill(0);
  }

  async #write(blocks: readonly { one: Wanted; block: LoadedBlock }[], until: number): Promise<void> {
    const { blockCells, blockBytes, clock } = this.#state;
    const slots = new Int32Array(blocks.length * blockCells);
    const staging = new Uint8Array(blocks.length * blockBytes);
    const held: CellLease[] = [];
    blocks.forEach(({ one, block }, i) => {
      staging.set(block.bytes, i * blockBytes);
      let at = i * blockCells;
      for (const lease of one.cells) {
        lease.slots(slots, at);
        at += lease.length;
        held.push(lease.retain("held"));
      }
    });
    const entries = blocks.map(({ block }) => block.entry);
    // Pages that are being written stay held until the write has answered, however late that is.
    const write = this.#writeUnlessErased(slots, staging, entries).finally(() => {
      staging.fill(0);
      for (const lease of held) lease.release();
      this.#writing.delete(write);
    });
    this.#writing.set(write, entries);
    try {
      await within(clock, Math.max(0, until - clock.now()), "writing cells of the device", write);
      for (const { one } of blocks) one.result = one.entry!.known ? "arrived" : "missing";
    } catch (error) {
      this.#state.failed(error);
      for (const { one } of blocks) one.result = "late";
    }
  }

  /** What was erased while it was being written is overwritten at once. */
  async #writeUnlessErased(slots: Int32Array, staging: Uint8Array, entries: readonly Entry[]): Promise<void> {
    const { port, blockCells } = this.#state;
    await port.write(slots, staging);
    const erased = entries.flatMap((entry, i) => (entry.known ? [] : [...slots.subarray(i * blockCells, (i + 1) * blockCells)]));
    if (erased.length > 0) await port.clear(Int32Array.from(erased));
  }
}

function settle(batch: readonly Wanted[], result: Promoted): void {
  for (const one of batch) one.result ??= result;
}
