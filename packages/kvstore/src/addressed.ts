import type { PathAddresses } from "./address.ts";
import type { Block } from "./demotion.ts";
import { KvstoreError } from "./errors.ts";
import type { CellLease } from "./lease.ts";

/**
 * A value for a prefix tree whose cells move on to an archive when they are evicted: a lease, and the addresses of the path that it is a
 * part of. All parts of one path share the addresses.
 */
export class AddressedCells {
  readonly lease: CellLease;
  readonly addresses: PathAddresses;
  /** Cells of the path in front of it. */
  readonly start: number;

  constructor(lease: CellLease, addresses: PathAddresses, start: number) {
    this.lease = lease;
    this.addresses = addresses;
    this.start = start;
  }

  get length(): number {
    return this.lease.length;
  }
}

/**
 * What a prefix tree needs to know of such values: fits `ValueOps` of @palimpsest/radix by its shape. `erased` is given the leases of
 * cells that must not be found anywhere: hold them until nobody reads them any more (`isRead`: somebody does now), overwrite them,
 * release them (`wipe`).
 */
export function addressedOps(erased?: (lease: CellLease, isRead: boolean) => void) {
  return {
    split(value: AddressedCells, at: number): [AddressedCells, AddressedCells] {
      const [head, tail] = value.lease.split(at);
      return [new AddressedCells(head, value.addresses, value.start), new AddressedCells(tail, value.addresses, value.start + at)];
    },
    retain: (value: AddressedCells): AddressedCells => new AddressedCells(value.lease.retain("leased"), value.addresses, value.start),
    release: (value: AddressedCells): void => value.lease.release(),
    erase(value: AddressedCells, isRead = true): void {
      if (erased === undefined) value.lease.release();
      else erased(value.lease.move("held"), isRead);
    },
  };
}

/** What a prefix tree tells of an eviction: fits `Evicted` of @palimpsest/radix by its shape. */
export interface EvictedCells {
  start: number;
  length: number;
  value: AddressedCells;
  before(cells: number): readonly { start: number; length: number; value: AddressedCells | null }[];
}

/** The numbers [from, to) of the whole blocks that end in what is evicted. */
export function blockNumbersOf({ start, length, value: { addresses } }: EvictedCells): { from: number; to: number } {
  const { blockCells } = addresses;
  return { from: Math.floor(start / blockCells), to: Math.min(addresses.blocks, Math.floor((start + length) / blockCells)) };
}

/**
 * The whole blocks that end in what is evicted, ready to be demoted: with leases of their own, also on the cells in front of it that the
 * first of them needs. A block of which a part is gone, one that is not `wanted`, and the cells behind the last whole block, are left out.
 */
export function blocksOf(evicted: EvictedCells, wanted: (addresses: PathAddresses, number: number) => boolean = () => true): Block[] {
  const { value, start } = evicted;
  const { addresses } = value;
  const { blockCells } = addresses;
  const end = start + evicted.length;
  if (value.start !== start || value.length !== evicted.length) {
    throw new KvstoreError("argument_invalid", `a value of [${value.start}, ${value.start + value.length}) for the cells [${start}, ${end})`, "evicted");
  }
  const parts = [...(start % blockCells === 0 ? [] : evicted.before(start % blockCells)), evicted];
  const blocks: Block[] = [];
  const numbers = blockNumbersOf(evicted);
  for (let number = numbers.from; number < numbers.to; number++) {
    if (!wanted(addresses, number)) continue;
    const [from, to] = [number * blockCells, (number + 1) * blockCells];
    const here = parts.filter((part) => part.start < to && part.start + part.length > from);
    if (here.some((part) => part.value === null) || here[0]!.start > from) continue;
    const cells = here.map((part) => part.value!.lease.slice(Math.max(from - part.start, 0), Math.min(to - part.start, part.length), "held"));
    blocks.push({ addresses, number, cells });
  }
  return blocks;
}
