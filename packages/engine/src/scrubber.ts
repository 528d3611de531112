import type { CellLease, PagePool } from "@palimpsest/kvstore";
import type { Device } from "./cache.ts";

/**
 * Overwrites cells of the device that nobody is to find. Whole pages need no care: a free page is known as one that holds something, and
 * is zeroed before it is used, or at the next erasure. What cells leave behind in a page that goes on with others nobody would zero.
 *
 * Runtimes without access to single cells (scripted models) have nothing to overwrite.
 */
export class Scrubber {
  readonly #pool: PagePool;
  readonly #device: Device;
  /** By page: slots to overwrite once no transfer reads the page. */
  readonly #pending = new Map<number, number[]>();

  constructor(pool: PagePool, device: Device) {
    this.#pool = pool;
    this.#device = device;
  }

  /** Overwrites slots before what is sent to the device from now on; resolves when that is done. */
  async wipe(slots: Int32Array): Promise<void> {
    if (slots.length > 0) await this.#device.cells?.clear(slots);
  }

  /** The same for leases, which are given back at once: whoever gets their pages next writes behind it. */
  wipeAll(leases: readonly CellLease[]): Promise<void> {
    const wiped = this.wipe(slotsOf(leases));
    for (const lease of leases) lease.release();
    return wiped;
  }

  /** These cells are given up by their last owner, who releases them in the same turn. */
  give(slots: Iterable<number>): void {
    if (this.#device.cells === undefined) return;
    for (const slot of slots) {
      const page = Math.floor(slot / this.#pool.pageSize);
      const here = this.#pending.get(page);
      if (here === undefined) this.#pending.set(page, [slot]);
      else here.push(slot);
    }
  }

  /** The same for the cells of a lease that lie in a page which has others as well: those at its ends. */
  giveEdges(lease: CellLease): void {
    if (this.#device.cells === undefined) return;
    const { pageSize } = this.#pool;
    const head = lease.offset === 0 ? 0 : Math.min(lease.length, pageSize - lease.offset);
    const tail = Math.max(head, lease.length - ((lease.offset + lease.length) % pageSize));
    for (let i = 0; i < head; i++) this.give([lease.slot(i)]);
    for (let i = tail; i < lease.length; i++) this.give([lease.slot(i)]);
  }

  /** Overwrites what may be overwritten now. To be called before pages are allocated: a page that is free here may be another's afterwards. */
  flush(): void {
    if (this.#pending.size === 0) return;
    const slots: number[] = [];
    for (const [page, here] of this.#pending) {
      const holder = this.#pool.holderOf(page);
      // A copy may be reading it.
      if (holder === "held") continue;
      if (holder !== null) for (const slot of here) slots.push(slot);
      this.#pending.delete(page);
    }
    if (slots.length > 0) void this.wipe(Int32Array.from(slots)).catch(() => undefined);
  }
}

function slotsOf(leases: readonly CellLease[]): Int32Array {
  const slots = new Int32Array(leases.reduce((sum, lease) => sum + lease.length, 0));
  let at = 0;
  for (const lease of leases) {
    lease.slots(slots, at);
    at += lease.length;
  }
  return slots;
}
