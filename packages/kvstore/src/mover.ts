import { crc32 } from "node:zlib";
import type { ArchiveState } from "./archive-state.ts";
import type { Entry } from "./block-index.ts";

export interface LoadedBlock {
  entry: Entry;
  bytes: Uint8Array;
}

/** From the device's side down: puts blocks into tiers, and what must make room for them into the next tier. */
export class Mover {
  readonly #state: ArchiveState;

  constructor(state: ArchiveState) {
    this.#state = state;
  }

  /** Puts blocks into tier t; those that have no place there go further down; those that have none anywhere are lost. */
  async store(t: number, blocks: readonly LoadedBlock[]): Promise<void> {
    const shelf = this.#state.shelves[t];
    const alive = blocks.filter(({ entry }) => entry.known);
    if (shelf === undefined || alive.length === 0) {
      this.#state.counters.lost += alive.length;
      return;
    }
    await this.#makeRoom(t, alive.filter(({ entry }) => shelf.fits(entry.account)));
    const coming: LoadedBlock[] = [];
    const further: LoadedBlock[] = [];
    for (const block of alive) {
      if (!block.entry.known || shelf.has(block.entry)) continue;
      if (shelf.reserve(block.entry.account)) coming.push(block);
      else further.push(block);
    }
    if (coming.length > 0 && !(await this.#put(t, coming))) further.push(...coming);
    if (further.length > 0) await this.store(t + 1, further);
  }

  /** Moves what was used least recently out of tier t, when it is nearly full, before somebody waits for the room. */
  async spill(t: number, above: number, downTo: number): Promise<void> {
    const { shelves, batchBlocks } = this.#state;
    const shelf = shelves[t]!;
    if (t + 1 >= shelves.length || shelf.bytes <= above * shelf.bytesMax) return;
    for (let left = Infinity; ; ) {
      const surplus = shelf.surplus(downTo, batchBlocks);
      if (surplus.length === 0 || shelf.bytes >= left) return;
      left = shelf.bytes;
      await this.#evict(t, surplus);
    }
  }

  /** Copies blocks of tier t to the tier `to`. Returns how many are there afterwards. */
  async copy(t: number, to: number, entries: readonly Entry[]): Promise<number> {
    const { lanes, limits } = this.#state;
    const here = entries.filter((entry) => entry.known && (entry.tiers & (1 << t)) !== 0);
    for (const entry of here) entry.moving++;
    try {
      const found = await lanes[t]!.get(here.map(({ key }) => key), limits.deadlineMs);
      await this.store(to, await this.sound(t, here, found));
      for (const bytes of found) bytes?.fill(0);
    } catch (error) {
      this.#state.failed(error);
    } finally {
      for (const entry of here) entry.moving--;
    }
    await Promise.all(here.filter((entry) => entry.known && entry.tiers === 0).map((entry) => this.#state.prune(entry)));
    return here.filter((entry) => entry.known && (entry.tiers & (1 << to)) !== 0).length;
  }

  async #makeRoom(t: number, blocks: readonly LoadedBlock[]): Promise<void> {
    const wanted = new Map<string, number>();
    for (const { entry } of blocks) wanted.set(entry.account, (wanted.get(entry.account) ?? 0) + 1);
    for (const [account, count] of wanted) {
      const victims = this.#state.shelves[t]!.victims(account, count);
      for (let i = 0; i < victims.length; i += this.#state.batchBlocks) await this.#evict(t, victims.slice(i, i + this.#state.batchBlocks));
    }
  }

  /** Takes blocks out of tier t, after a copy to the next one where that has none. */
  async #evict(t: number, victims: readonly Entry[]): Promise<void> {
    const { lanes, limits, counters } = this.#state;
    const next = t + 1;
    const here = victims.filter((entry) => entry.known && (entry.tiers & (1 << t)) !== 0);
    const move = next < lanes.length ? here.filter((entry) => (entry.tiers & (1 << next)) === 0) : [];
    for (const entry of here) entry.moving++;
    try {
      if (move.length > 0) {
        const found = await lanes[t]!.get(move.map(({ key }) => key), limits.deadlineMs);
        await this.store(next, await this.sound(t, move, found));
        for (const bytes of found) bytes?.fill(0);
      }
    } catch (error) {
      this.#state.failed(error);
      counters.lost += move.length;
    } finally {
      for (const entry of here) entry.moving--;
    }
    const still = here.filter((entry) => entry.known && (entry.tiers & (1 << t)) !== 0);
    if (next >= lanes.length) counters.evicted += still.length;
    // What turned out to be damaged has left the tier while it was moving.
    const lost = here.filter((entry) => entry.known && entry.tiers === 0);
    await Promise.all([this.#state.drop(still, t), ...lost.map((entry) => this.#state.prune(entry))]);
  }

  /** What tier t gave for these entries, where it is what was once stored; what is not leaves the tier. */
  async sound(t: number, entries: readonly Entry[], found: readonly (Uint8Array | null)[]): Promise<LoadedBlock[]> {
    const sound: LoadedBlock[] = [];
    const damaged: Entry[] = [];
    entries.forEach((entry, i) => {
      const bytes = found[i] ?? null;
      // Removed or erased while it was read: nobody may use it.
      if (!entry.known || (entry.tiers & (1 << t)) === 0) return bytes?.fill(0);
      if (bytes !== null && bytes.length === this.#state.blockBytes && crc32(bytes) === entry.checksum) sound.push({ entry, bytes });
      else damaged.push(entry);
    });
    this.#state.counters.damaged += damaged.length;
    if (damaged.length > 0) await this.#state.drop(damaged, t);
    return sound;
  }

  /** False: nothing was put. */
  async #put(t: number, blocks: readonly LoadedBlock[]): Promise<boolean> {
    const state = this.#state;
    const shelf = state.shelves[t]!;
    const records = state.records(t, blocks);
    const gone: string[] = [];
    const stored = () => {
      for (const { key } of records) {
        const entry = state.index.get(key);
        if (entry === undefined) gone.push(key);
        else entry.given |= 1 << t;
      }
      for (const { entry } of blocks) {
        if (!entry.known) shelf.cancel(entry.account);
        else {
          shelf.arrive(entry);
          entry.tiers |= 1 << t;
        }
      }
    };
    try {
      await state.lanes[t]!.put(records, stored);
      // Erased meanwhile, or in front of what was.
      await state.lanes[t]!.forget(gone);
      return true;
    } catch (error) {
      for (const { entry } of blocks) shelf.cancel(entry.account);
      state.failed(error);
      return false;
    }
  }
}
