import type { CellPort, LogPath } from "../src/index.ts";

/** A small generator with a seed, so that a failure can be run again: mulberry32. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** 0 … below − 1. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(items.length)]!;
  }
}

/** As `expect(one).toEqual(other)`, fast enough for a million times. */
export function same(one: unknown, other: unknown, what: string): void {
  const [a, b] = [JSON.stringify(one), JSON.stringify(other)];
  if (a !== b) throw new Error(`${what}: ${a} is not ${b}`);
}

export function must(condition: boolean, message: () => string): void {
  if (!condition) throw new Error(message());
}

/** Cells in an array. */
export class ArrayPort implements CellPort {
  readonly cellBytes: number;
  readonly bytes: Uint8Array;

  constructor(slots: number, cellBytes: number) {
    this.cellBytes = cellBytes;
    this.bytes = new Uint8Array(slots * cellBytes);
  }

  async read(slots: Int32Array, into: Uint8Array): Promise<void> {
    slots.forEach((slot, i) => into.set(this.cell(slot), i * this.cellBytes));
  }

  async write(slots: Int32Array, from: Uint8Array): Promise<void> {
    slots.forEach((slot, i) => this.cell(slot).set(from.subarray(i * this.cellBytes, (i + 1) * this.cellBytes)));
  }

  async clear(slots: Int32Array): Promise<void> {
    for (const slot of slots) this.cell(slot).fill(0);
  }

  cell(slot: number): Uint8Array {
    return this.bytes.subarray(slot * this.cellBytes, (slot + 1) * this.cellBytes);
  }
}

/** Fills a cell with what only cell `cell` of log `log` has: no copy of it is anywhere else. */
export function fillCell(into: Uint8Array, log: number, cell: number): void {
  let state = (Math.imul(log + 1, 0x9e3779b1) ^ Math.imul(cell + 1, 0x85ebca6b)) >>> 0;
  for (let i = 0; i < into.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    into[i] = state >>> 24;
  }
}

export function isCell(bytes: Uint8Array, log: number, cell: number): boolean {
  const wanted = new Uint8Array(bytes.length);
  fillCell(wanted, log, cell);
  const equal = Buffer.compare(bytes, wanted) === 0;
  wanted.fill(0);
  return equal;
}

/** A log of its own for each number: the first tokens are the same for all, so that the tree of blocks has a trunk. */
export function logOf(log: number, cells: number, shared: number): LogPath {
  return { tokens: Int32Array.from({ length: cells }, (_, i) => (i < shared ? i : 1_000 * (log + 1) + i)), events: [] };
}
